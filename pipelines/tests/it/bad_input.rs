//! Every reason to drop a packet has its case: the smallest change to a good frame gives exactly that reason,
//! and the sum in progress comes out right all the same.

mod full;

use pascaline_buffer::HeapBuf;
use pascaline_pipelines::Passing;
use pascaline_pipelines::classify::Objection;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{JOB, Worker, bytes};
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::header::{Element, Flags, Kind};

use crate::common::appliance::{Bench, Plan, assert_results, four, job, single_slot};

/// Offsets in an untagged IPv4 frame.
const IP: usize = 14;
const UDP: usize = 34;
const HEADER: usize = 42;

const PSN: u32 = 100;
const OTHER_JOB: u16 = JOB + 1;

type Make = dyn Fn(&Bench, &Worker) -> HeapBuf;

struct Case {
    reason: DropReason,
    what: &'static str,
    packet: Box<Make>,
    /// The Ack that tells the worker, if it is told.
    told: Option<Objection>,
}

fn packet(bench: &Bench, frame: &[u8]) -> HeapBuf {
    bench.pool.alloc(frame, 2048)
}

/// The good frame with one byte changed.
fn byte(reason: DropReason, what: &'static str, at: usize, change: impl Fn(u8) -> u8 + 'static) -> Case {
    frame(reason, what, move |worker| {
        let mut frame = good(worker);
        frame[at] = change(frame[at]);
        frame
    })
}

fn frame(reason: DropReason, what: &'static str, make: impl Fn(&Worker) -> Vec<u8> + 'static) -> Case {
    Case { reason, what, packet: Box::new(move |bench, worker| packet(bench, &make(worker))), told: None }
}

impl Case {
    fn told(mut self, status: Status, expected: u32, got: u32) -> Self {
        self.told = Some(Objection { status, expected, got });
        self
    }
}

/// The contribution that is missing.
fn good(worker: &Worker) -> Vec<u8> {
    worker.gradient(PSN, &[1000, 2000])
}

fn control(worker: &Worker, body: &[u8]) -> Vec<u8> {
    worker.frame(&worker.header(Kind::Control, 0, 0), body)
}

fn cases() -> Vec<Case> {
    [below_the_header(), in_the_header(), bodies(), of_nobody(), beside_the_others()]
        .into_iter()
        .flatten()
        .collect()
}

fn three_tags(worker: &Worker) -> Vec<u8> {
    [&good(worker)[..12], &[0x81, 0, 0, 1].repeat(3), &good(worker)[12..]].concat()
}

/// Ethernet, IP and UDP, and where a packet goes.
/// Holds R3.3 and R3.4 of protocol.md.
fn below_the_header() -> Vec<Case> {
    use DropReason as R;
    vec![
        frame(R::Truncated, "cut off in the IP header", |w| good(w)[..IP + 19].to_vec()),
        frame(R::Truncated, "cut off in the Ethernet header", |w| good(w)[..13].to_vec()),
        frame(R::VlanDepth, "three tags", three_tags),
        frame(R::VlanDepth, "three tags, to all", |w| [&[0xff; 6], &three_tags(w)[6..]].concat()),
        frame(R::NotForUs, "three tags, to another", |w| [&[0x02; 6], &three_tags(w)[6..]].concat()),
        byte(R::IpHeader, "IP version 5", IP, |_| 0x55),
        byte(R::IpHeader, "a header of 16 bytes", IP, |_| 0x44),
        byte(R::IpOptions, "a header of 24 bytes", IP, |_| 0x46),
        byte(R::IpFragment, "more fragments", IP + 6, |flags| flags | 0x20),
        byte(R::IpFragment, "a fragment offset", IP + 7, |_| 1),
        byte(R::Checksum, "TTL changed on the way", IP + 8, |ttl| ttl ^ 1),
        Case {
            reason: R::Checksum,
            what: "found wrong by the NIC",
            packet: Box::new(|bench, worker| packet(bench, &good(worker)).with_bad_checksum()),
            told: None,
        },
        byte(R::Length, "IP length beyond the frame", IP + 3, |length| length + 1),
        byte(R::Length, "UDP length too large", UDP + 5, |length| length + 1),
        byte(R::Length, "UDP length too small", UDP + 5, |length| length - 1),
        byte(R::NotForUs, "another MAC", 5, |last| last ^ 0x80),
        frame(R::NotForUs, "another EtherType", |w| {
            let mut frame = good(w);
            frame[12..14].copy_from_slice(&[0x88, 0xcc]);
            frame
        }),
        byte(R::NoService, "another UDP port of the appliance", UDP + 3, |port| port ^ 1),
    ]
}

/// Values that mean nothing, or nothing here.
fn in_the_header() -> Vec<Case> {
    use DropReason as R;
    vec![
        byte(R::Version, "version 1", HEADER, |_| 1),
        byte(R::Version, "version 0", HEADER, |_| 0),
        byte(R::Kind, "kind 9", HEADER + 1, |_| 9),
        byte(R::Kind, "kind 0", HEADER + 1, |_| 0),
        byte(R::UnhandledKind, "a partial", HEADER + 1, |_| Kind::Partial as u8),
        byte(R::UnhandledKind, "an update in a synchronous job", HEADER + 1, |_| Kind::Update as u8),
        byte(R::RankSpoofed, "an answer that is not the server's", HEADER + 1, |_| Kind::Ack as u8),
        byte(R::Flags, "a reserved flag", HEADER + 2, |_| 0x40),
        byte(R::DType, "dtype 9", HEADER + 3, |_| 9),
        byte(R::DType, "operation 4", HEADER + 3, |_| 0x42),
        byte(R::Trailer, "the flag without a trailer", HEADER + 2, |_| Flags::TRAILER.bits()),
        byte(R::BadCount, "count 0", HEADER + 15, |_| 0),
        byte(R::BadCount, "count 2", HEADER + 15, |_| 2),
        byte(R::BadCount, "a result of one contribution", HEADER + 1, |_| Kind::Result as u8),
    ]
}

/// What stands behind the header.
fn bodies() -> Vec<Case> {
    use DropReason as R;
    let join = |worker: &Worker| Control { payload: 1024, ..Control::request(Action::Join, worker.session) };
    vec![
        frame(R::PayloadLength, "a byte too few", |w| {
            w.frame(&w.header(Kind::Gradient, PSN, 1), &bytes(&[1000, 2000])[..7])
        }),
        frame(R::OverMtu, "two full packets in one", |w| w.gradient(PSN, &[1; 500])),
        frame(R::OverMtu, "the same, cut to a slot of a ring", |w| {
            w.gradient(PSN, &[1; 500])[..1024].to_vec()
        }),
        frame(R::OverMtu, "the same, in a VLAN", |w| {
            let whole = w.gradient(PSN, &[1; 500]);
            [&whole[..12], &[0x81, 0, 0, 1], &whole[12..1024]].concat()
        }),
        frame(R::PayloadLength, "nothing", |w| w.gradient(PSN, &[])),
        frame(R::PayloadLength, "more than the job's", |w| w.gradient(PSN, &[1; 257])),
        byte(R::PayloadLength, "a reminder that carries something", HEADER + 1, |_| Kind::Reminder as u8),
        frame(R::Truncated, "a control body too short", move |w| control(w, &join(w).to_bytes()[..23])),
        frame(R::Control, "an action that is not defined", move |w| {
            let mut body = join(w).to_bytes();
            body[0] = 11;
            control(w, &body)
        }),
        frame(R::Control, "a byte too many", move |w| control(w, &[&join(w).to_bytes()[..], &[1]].concat())),
        frame(R::Control, "an Ack, which is never answered", move |w| {
            control(w, &Control { action: Action::Ack, ..join(w) }.to_bytes())
        }),
    ]
}

/// Jobs, ranks and generations that are not the sender's.
fn of_nobody() -> Vec<Case> {
    use DropReason as R;
    vec![
        byte(R::UnknownJob, "job 99", HEADER + 5, |_| 99),
        byte(R::NotMember, "a job that the rank has not joined", HEADER + 5, |_| 8),
        byte(R::RankSpoofed, "another's rank", HEADER + 7, |_| 1),
        byte(R::RankSpoofed, "another UDP port", UDP + 1, |port| port ^ 1),
        byte(R::RankOutOfRange, "rank 4 of 4", HEADER + 7, |_| 4),
        byte(R::RankOutOfRange, "rank 65,283", HEADER + 6, |_| 0xff),
        byte(R::WrongEpoch, "the generation before", HEADER + 21, |epoch| epoch - 1).told(
            Status::WrongEpoch,
            5,
            4,
        ),
    ]
}

/// What does not fit what the others of the job have sent.
/// Holds R7.4 and R10.3 of protocol.md.
fn beside_the_others() -> Vec<Case> {
    use DropReason as R;
    vec![
        frame(R::OutsideWindow, "a PSN of which no rank is near", |w| w.gradient(PSN + 100_000, &[1])),
        frame(R::OutsideWindow, "a PSN before the first", |w| w.gradient(u32::MAX, &[1])),
        frame(R::OutsideWindow, "a reminder of such a PSN", |w| {
            w.frame(&w.header(Kind::Reminder, PSN + 100_000, 0), &[])
        }),
        frame(R::OutsideWindow, "a kept result of such a PSN", |w| w.cached_result(PSN + 100_000, &[1])),
        frame(R::FanInMismatch, "a new PSN with fan-in 3", |w| {
            Worker { fan_in: 3, ..*w }.gradient(PSN + 1, &[1, 2])
        })
        .told(Status::FanInMismatch, 4, 3),
        frame(R::FanInMismatch, "a kept result with fan-in 3", |w| {
            Worker { fan_in: 3, ..*w }.cached_result(PSN + 1, &[1, 2])
        })
        .told(Status::FanInMismatch, 4, 3),
        byte(R::FanInChanged, "fan-in 3 in the middle of a PSN", HEADER + 13, |_| 3).told(
            Status::FanInMismatch,
            4,
            3,
        ),
        frame(R::LengthChanged, "an element too few", |w| w.gradient(PSN, &[1000])).told(
            Status::PayloadMismatch,
            0,
            4,
        ),
        frame(R::LengthChanged, "an element too many", |w| w.gradient(PSN, &[1000, 2000, 3000])).told(
            Status::PayloadMismatch,
            0,
            12,
        ),
        byte(R::ElementChanged, "f32 among i32", HEADER + 3, |_| Element::F32_SUM.code()).told(
            Status::ElementMismatch,
            0,
            1,
        ),
        byte(R::ElementChanged, "f16 among i32", HEADER + 3, |_| 3).told(Status::ElementMismatch, 0, 3),
        byte(R::ElementChanged, "a minimum among sums", HEADER + 3, |_| 0x12).told(
            Status::ElementMismatch,
            0,
            0x12,
        ),
        byte(R::ElementChanged, "a mean among sums", HEADER + 3, |_| 0x32).told(
            Status::ElementMismatch,
            0,
            0x32,
        ),
        byte(R::OperationChanged, "the end of an operation that goes on", HEADER + 2, |_| Flags::FIN.bits())
            .told(Status::OperationMismatch, 0, 8),
        Case {
            reason: R::Duplicate,
            what: "the contribution of a rank that is inside",
            packet: Box::new(|bench, _| {
                packet(bench, &Worker { epoch: 5, ..Worker::new(2, 4) }.gradient(PSN, &[9, 9]))
            }),
            told: None,
        },
    ]
}

/// Reasons that take more than one frame: each has its own test here, but for `Contention`, which takes
/// lcores in a race (the mapping from the pool's refusals to reasons is checked beside it, in
/// `src/outcome.rs`).
///
/// Those of policies and of the parameter server are in `policies.rs`, those of updates in
/// `updates/bad_input.rs`.
const NOT_BY_ONE_FRAME: [DropReason; 29] = [
    DropReason::BridgeReserved,
    DropReason::BridgeLocal,
    DropReason::TooOften,
    DropReason::Contention,
    DropReason::Conflict,
    DropReason::ControlFull,
    DropReason::TransmitFull,
    DropReason::Quota,
    DropReason::Stale,
    DropReason::UnknownPsn,
    DropReason::Halted,
    DropReason::ServerFull,
    DropReason::UpdateMissing,
    DropReason::RewardNotFinite,
    DropReason::UpdateNotFinite,
    DropReason::FromTheFuture,
    DropReason::UpdateTooLong,
    DropReason::UpdateQueueFull,
    DropReason::LowReward,
    DropReason::Outdated,
    DropReason::NoRoom,
    DropReason::HandoffFull,
    DropReason::NoServer,
    DropReason::SlotShare,
    DropReason::PacketShare,
    DropReason::ServerShare,
    // Of jobs whose packets are sealed: `sealed.rs`.
    DropReason::Unsealed,
    DropReason::Forged,
    DropReason::Replayed,
];

#[test]
fn no_reason_is_without_a_case() {
    let cases = cases();
    for reason in DropReason::ALL {
        let covered = cases.iter().any(|case| case.reason == *reason);
        assert_ne!(covered, NOT_BY_ONE_FRAME.contains(reason), "{}", reason.name());
    }
}

/// Holds R12.1 of protocol.md.
#[test]
fn each_case_is_counted_under_its_reason_and_disturbs_nothing_else() {
    for case in cases() {
        let what = format!("{}: {}", case.reason.name(), case.what);
        println!("{what}");
        let plan = Plan { jobs: vec![job(JOB, 4), job(OTHER_JOB, 4)], ..Plan::one_armed() };
        let (mut bench, workers) = four(&plan);
        for (worker, value) in workers[..3].iter().zip([1, 10, 100]) {
            bench.feed(0, [&worker.gradient(PSN, &[value, -value])]);
        }
        assert!(bench.heard(0).is_empty());
        bench.clock.advance(2_000_000);
        let before = bench.appliance.reading();

        let bad = (case.packet)(&bench, &workers[3]);
        bench.feed_packet(0, bad);
        let after = bench.appliance.reading();
        for reason in DropReason::ALL {
            let expected = before.dropped(*reason) + u64::from(*reason == case.reason);
            assert_eq!(after.dropped(*reason), expected, "{what}: {}", reason.name());
        }
        for counter in Counter::ALL {
            let told = u64::from(case.told.is_some());
            let more = after.get(*counter) - before.get(*counter);
            match counter {
                Counter::Received => assert_eq!(more, 1, "{what}"),
                Counter::Sent | Counter::RefusalsSent => assert_eq!(more, told, "{what}"),
                Counter::ReceivedBytes | Counter::SentBytes => {}
                Counter::BusyTurns | Counter::IdleTurns | Counter::EmptyPolls => {}
                _ => assert_eq!(more, 0, "{what}: {}", counter.name()),
            }
        }
        let told = bench.heard_by(&workers[3]);
        assert_eq!(told.first().map(pascaline_testkit::Heard::objection), case.told, "{what}");
        if let Some(told) = told.first() {
            assert_eq!((told.header.rank, told.header.psn & !1), (3, PSN), "{what}");
        }

        bench.feed(0, [&good(&workers[3])]);
        assert_results(&mut bench, &workers, PSN, &[1111, 1889]);
        bench.end();
    }
}

#[test]
fn a_refusal_is_sent_once_per_millisecond_and_counted_every_time() {
    let (mut bench, workers) = four(&Plan::one_armed());
    let old = Worker { epoch: workers[0].epoch - 1, ..workers[0] };
    bench.clock.advance(2_000_000);
    for psn in 0..50 {
        bench.feed(0, [&old.gradient(psn, &[1])]);
        bench.clock.advance(19_000);
    }
    assert_eq!(bench.heard(0).len(), 1);
    bench.clock.advance(50_000);
    bench.feed(0, [&old.gradient(50, &[1])]);
    assert_eq!(bench.heard(0).len(), 1);
    assert_eq!(bench.appliance.get(Counter::RefusalsSent), 2);
    assert_eq!(bench.appliance.dropped(DropReason::WrongEpoch), 51);
}

#[test]
fn a_psn_that_finds_its_set_taken_is_a_conflict_and_both_complete_in_the_end() {
    let (mut bench, workers) = four(&Plan { pool: single_slot(), ..Plan::one_armed() });
    bench.feed(0, [&workers[0].gradient(1, &[1]), &workers[0].gradient(2, &[10])]);
    assert_eq!(bench.appliance.dropped(DropReason::Conflict), 1);
    assert!(bench.heard(0).is_empty(), "a conflict is nothing to complain of");
    bench.feed(0, workers[1..].iter().map(|worker| worker.gradient(1, &[1])).collect::<Vec<_>>().iter());
    assert_results(&mut bench, &workers, 1, &[4]);
    bench.feed(0, workers.iter().map(|worker| worker.gradient(2, &[10])).collect::<Vec<_>>().iter());
    assert_results(&mut bench, &workers, 2, &[40]);
    bench.end();
}
