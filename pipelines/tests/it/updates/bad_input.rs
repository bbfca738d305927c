//! Updates with which something is wrong: dropped under the right reason, and what waits is as it was.

use core::time::Duration;

use pascaline_buffer::HeapBuf;
use pascaline_pipelines::PortQueue;
use pascaline_pipelines::classify::Objection;
use pascaline_pipelines::updates::Fate;
use pascaline_queue::{Config, UpdateRejection};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::control::{Action, Status};
use pascaline_wire::header::{DType, Element, Flags, Header, Kind, Op};
use pascaline_wire::trailer::{Seal, Trailer, Update};

use super::{RANKS, Rig, emitted, update};
use pascaline_testkit::{JOB, Worker, bytes, received};

const F16: Element = Element { dtype: DType::F16, op: Op::Sum };

type Make = dyn Fn(&Worker, u64) -> Vec<u8>;

struct Case {
    reason: DropReason,
    what: &'static str,
    /// From a worker and the time: a rank 1's update, while one of rank 0 of 16 elements waits.
    frame: Box<Make>,
    refused: Option<UpdateRejection>,
    told: Option<Objection>,
}

fn case(
    reason: DropReason,
    what: &'static str,
    refused: Option<UpdateRejection>,
    frame: impl Fn(&Worker, u64) -> Vec<u8> + 'static,
) -> Case {
    Case { reason, what, frame: Box::new(frame), refused, told: None }
}

impl Case {
    fn told(self, status: Status, expected: u32, got: u32) -> Self {
        Self { told: Some(Objection { status, expected, got }), ..self }
    }
}

/// A packet of rank 1 with another header or trailer.
fn changed(worker: &Worker, change: impl Fn(&mut Header, &mut Trailer), payload: &[u8]) -> Vec<u8> {
    let about = Update { reward: 0.0, generated_ns: 0 };
    let mut trailer = Trailer { update: Some(about), ..Trailer::default() };
    let mut header = Header { flags: Flags::TRAILER, ..worker.header(Kind::Update, 9, 1) };
    change(&mut header, &mut trailer);
    worker.frame(&header, &[payload, &emitted(&trailer)].concat())
}

fn cases() -> Vec<Case> {
    [said_of_updates(), payloads(), senders()].into_iter().flatten().collect()
}

fn good() -> Vec<u8> {
    bytes(&[3; 16])
}

/// Rewards, times and trailers.
fn said_of_updates() -> Vec<Case> {
    use DropReason as R;
    let rewarded = |reward: f32| move |worker: &Worker, now| update(worker, 9, &[3; 16], reward, now);
    vec![
        case(
            R::RewardNotFinite,
            "a reward that is not a number",
            Some(UpdateRejection::RewardNotFinite),
            rewarded(f32::NAN),
        )
        .told(Status::NotFinite, 0, 0),
        case(
            R::RewardNotFinite,
            "an infinite reward",
            Some(UpdateRejection::RewardNotFinite),
            rewarded(f32::NEG_INFINITY),
        )
        .told(Status::NotFinite, 0, 0),
        case(R::LowReward, "a reward below the waiting one's", None, rewarded(-2.5)).told(
            Status::LowReward,
            0,
            0,
        ),
        case(
            R::FromTheFuture,
            "generated later than clocks differ",
            Some(UpdateRejection::FromTheFuture),
            |worker, now| update(worker, 9, &[3; 16], 0.0, now + 1_000_000_001),
        )
        .told(Status::FromTheFuture, 0, 0),
        case(
            R::FromTheFuture,
            "generated at the end of time",
            Some(UpdateRejection::FromTheFuture),
            |worker, _| update(worker, 9, &[3; 16], 0.0, u64::MAX),
        )
        .told(Status::FromTheFuture, 0, 0),
        case(R::UpdateMissing, "no trailer", None, move |worker, _| {
            worker.frame(&worker.header(Kind::Update, 9, 1), &good())
        })
        .told(Status::NoUpdate, 0, 0),
        case(R::UpdateMissing, "a trailer that says something else", None, move |worker, _| {
            changed(
                worker,
                |_, trailer| (trailer.update, trailer.seal) = (None, Some(Seal { counter: 7, tag: 7 })),
                &good(),
            )
        })
        .told(Status::NoUpdate, 0, 0),
        case(R::Trailer, "a trailer cut off", None, move |worker, _| {
            worker.frame(&Header { flags: Flags::TRAILER, ..worker.header(Kind::Update, 9, 1) }, &good())
        }),
    ]
}

/// Lengths, counts and elements.
fn payloads() -> Vec<Case> {
    use DropReason as R;
    vec![
        case(R::UpdateTooLong, "longer than the job's workers have agreed on", None, move |worker, now| {
            update(worker, 9, &[3; 257], 0.0, now)
        })
        .told(Status::PayloadMismatch, 1024, 1028),
        case(R::UpdateTooLong, "longer than a segment", Some(UpdateRejection::TooLong), |worker, now| {
            update(worker, 9, &[3; 200], 0.0, now)
        })
        .told(Status::PayloadMismatch, 0, 800),
        case(R::PayloadLength, "no whole number of elements", None, move |worker, _| {
            changed(worker, |_, _| (), &good()[1..])
        }),
        case(R::PayloadLength, "no elements", None, |worker, _| changed(worker, |_, _| (), &[])),
        case(R::BadCount, "of no update", None, move |worker, _| {
            changed(worker, |header, _| header.count = 0, &good())
        })
        .told(Status::BadCount, 1, 0),
        case(R::BadCount, "that counts as two", None, move |worker, _| {
            changed(worker, |header, _| header.count = 2, &good())
        })
        .told(Status::BadCount, 1, 2),
        case(R::UpdateNotFinite, "a value that is not a number", None, |worker, _| {
            changed(worker, |header, _| header.element = Element::F32_SUM, &f32::NAN.to_le_bytes())
        })
        .told(Status::NotFinite, 0, 0),
        case(R::UpdateNotFinite, "an infinity at the end", None, |worker, _| {
            let values = [[0; 60].to_vec(), f32::NEG_INFINITY.to_le_bytes().to_vec()].concat();
            changed(worker, |header, _| header.element = Element::F32_SUM, &values)
        })
        .told(Status::NotFinite, 0, 0),
        case(
            R::LengthChanged,
            "shorter than the waiting one",
            Some(UpdateRejection::LengthChanged),
            |worker, now| update(worker, 9, &[3; 15], 0.0, now),
        )
        .told(Status::PayloadMismatch, 0, 60),
        case(
            R::ElementChanged,
            "of other elements",
            Some(UpdateRejection::ElementChanged),
            move |worker, _| changed(worker, |header, _| header.element = Element::F32_SUM, &good()),
        )
        .told(Status::ElementMismatch, 0, Element::F32_SUM.code().into()),
        case(R::DType, "a minimum", Some(UpdateRejection::ElementUnsupported), move |worker, _| {
            changed(worker, |header, _| header.element.op = Op::Min, &good())
        })
        .told(Status::ElementMismatch, 0, Element { op: Op::Min, ..Element::I32_SUM }.code().into()),
    ]
}

/// Ranks, jobs and generations that are not the sender's, and what is no update.
fn senders() -> Vec<Case> {
    use DropReason as R;
    vec![
        case(R::FanInMismatch, "of another number of ranks", None, |worker, now| {
            update(&Worker { fan_in: RANKS + 1, ..*worker }, 9, &[3; 16], 0.0, now)
        })
        .told(Status::FanInMismatch, RANKS.into(), (RANKS + 1).into()),
        case(R::RankOutOfRange, "of a rank that the job does not have", None, |worker, now| {
            update(&Worker { rank: RANKS, ..*worker }, 9, &[3; 16], 0.0, now)
        }),
        case(R::RankSpoofed, "in another's name", None, |worker, now| {
            update(&Worker { rank: 2, ..*worker }, 9, &[3; 16], 0.0, now)
        }),
        case(R::UnknownJob, "of a cluster that does not exist", None, |worker, now| {
            update(&Worker { job: 300, ..*worker }, 9, &[3; 16], 0.0, now)
        })
        .told(Status::UnknownJob, 0, 300),
        case(R::WrongEpoch, "of another generation", None, |worker, now| {
            update(&Worker { epoch: worker.epoch - 1, ..*worker }, 9, &[3; 16], 0.0, now)
        })
        .told(Status::WrongEpoch, 5, 4),
        case(R::UnhandledKind, "a gradient, which goes to no pool", None, |worker, _| {
            worker.gradient(9, &[3; 16])
        }),
        case(R::UnhandledKind, "a reminder, where nothing is kept", None, |worker, _| worker.reminder(9)),
        case(R::Control, "a cry for help, which nobody hears", None, |worker, _| {
            worker.about(Action::Help, 9)
        })
        .told(Status::Unsupported, 0, Action::Help as u32),
    ]
}

/// Eight segments of 640 bytes, and rewards within 2.
fn filtered() -> PortQueue {
    let queue = Config { segment_len: 640, reward_threshold: 2.0, ..Config::default() };
    PortQueue { queue, rate: None }
}

#[test]
fn each_case_is_counted_under_its_reason_and_disturbs_nothing() {
    for case in cases() {
        let what = format!("{}: {}", case.reason.name(), case.what);
        println!("{what}");
        let mut rig = Rig::new(filtered());
        rig.plug();
        let waiting = rig.update(&rig.worker(0, 0), 4, &[1; 16]);
        rig.send([waiting]);
        rig.bench.clock.advance(2_000_000);
        let before = rig.bench.appliance.reading();
        let frame = (case.frame)(&rig.worker(0, 1), rig.bench.clock.now());
        rig.send([frame]);
        let after = rig.bench.appliance.reading();
        for reason in DropReason::ALL {
            let expected = before.dropped(*reason) + u64::from(*reason == case.reason);
            assert_eq!(after.dropped(*reason), expected, "{what}: {}", reason.name());
        }
        for counter in [Counter::Absorbed, Counter::Answered, Counter::Forwarded, Counter::Opened] {
            assert_eq!(after.get(counter), before.get(counter), "{what}: {}", counter.name());
        }
        for rejection in UpdateRejection::ALL {
            let expected = u64::from(case.refused == Some(rejection));
            assert_eq!(rig.fate(Fate::Rejected(rejection)), expected, "{what}: {rejection}");
        }
        let told = rig.bench.heard_by(&rig.workers[0][1].clone());
        assert_eq!(told.first().map(pascaline_testkit::Heard::objection), case.told, "{what}");
        let served = rig.unplug();
        let [left] = &served[..] else { panic!("{what}: {served:?}") };
        assert_eq!((left.brief(), &left.values), ((JOB, 0, 4, 1), &vec![1; 16]), "{what}");
        rig.end();
    }
}

/// Those that this table of single frames does not have are tested elsewhere: `HandoffFull` in `lcores.rs`,
/// `NoServer` in `generations.rs`, `Outdated` and `UpdateQueueFull` in `on_the_way.rs`, `NoRoom` below.
#[test]
fn no_reason_of_the_queue_is_without_a_case() {
    let cases = cases();
    for rejection in UpdateRejection::ALL {
        let covered = cases.iter().any(|case| case.refused == Some(rejection));
        let elsewhere = match rejection {
            UpdateRejection::NoRoom => true,
            // A packet of an unknown job is none of the queue's business, and the parser has looked at the
            // length.
            UpdateRejection::ClusterOutOfRange | UpdateRejection::BadLength => true,
            // Nor can a worker's own update count as none or as many.
            UpdateRejection::CountZero | UpdateRejection::CountOverflow => true,
            _ => false,
        };
        assert_ne!(covered, elsewhere, "{rejection}");
    }
}

#[test]
fn a_packet_without_room_for_16_bit_sums() {
    let mut rig = Rig::new(filtered());
    rig.plug();
    let halves = |worker: &Worker| changed(worker, |header, _| header.element = F16, &[0x3c; 256]);
    let tight = |rig: &Rig, frame: &[u8]| -> HeapBuf { rig.bench.pool.alloc(frame, frame.len()) };
    let first = tight(&rig, &halves(&rig.worker(0, 0)));
    rig.bench.feed_packet(0, first);
    let second = received(&rig.bench.pool, &halves(&rig.worker(0, 1)));
    rig.bench.feed_packet(0, second);
    assert_eq!(rig.bench.appliance.dropped(DropReason::NoRoom), 1);
    assert_eq!(rig.fate(Fate::Rejected(UpdateRejection::NoRoom)), 1);
    assert_eq!(rig.unplug().len(), 1);
    rig.end();
}

#[test]
fn a_cluster_beyond_the_queues_table() {
    let mut rig =
        Rig::new(PortQueue { queue: Config { clusters: u32::from(JOB), ..Config::default() }, rate: None });
    let frame = rig.update(&rig.worker(0, 0), 0, &[1]);
    rig.send([frame]);
    assert_eq!(rig.bench.appliance.dropped(DropReason::UnknownJob), 1);
    assert_eq!(rig.fate(Fate::Rejected(UpdateRejection::ClusterOutOfRange)), 1);
    rig.end();
}

#[test]
fn clocks_may_differ_by_a_second() {
    assert_eq!(Config::default().max_lead, Duration::from_secs(1));
    let mut rig = Rig::new(filtered());
    let frame = update(&rig.worker(0, 0), 0, &[1], 0.0, rig.bench.clock.now() + 1_000_000_000);
    rig.send([frame]);
    assert_eq!(rig.served().len(), 1);
    rig.end();
}

#[test]
fn the_lcores_clock_is_not_unix_time() {
    let mut rig = Rig::new(filtered());
    let unix = 1_763_690_000_000_000_000;
    rig.bench.appliance.plane.set_time(rig.bench.clock.now(), unix);
    rig.bench.clock.advance(5_000);
    let frames = [
        update(&rig.worker(0, 0), 0, &[1], 0.0, unix + 1_000_005_000),
        update(&rig.worker(1, 0), 0, &[1], 0.0, unix + 1_000_005_001),
    ];
    rig.send(frames);
    assert_eq!(rig.bench.appliance.dropped(DropReason::FromTheFuture), 1);
    assert_eq!(rig.served().len(), 1);
    rig.end();
}
