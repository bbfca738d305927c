//! Asynchronous workers: transmission control by its formula, a session against every kind of answer.

mod endings;
mod pauses;

use std::num::NonZeroU16;
use std::time::Duration;

use fastrand::Rng;
use pascaline_wire::control::{APPLIANCE_RANK, Action, Control as Body, SERVER_RANK, Status};
use pascaline_wire::trailer::{QueueState, Update};
use pascaline_wire::{Element, Flags, Header, Kind, Own, Trailer, header, trailer};
use pascaline_worker::asynchronous::{
    AsyncIgnored, AsyncSession, Control, Heard, Initial, JUMBO_MTU, Policy, Push, PushError, Settings, Slope,
    Why, most_floats,
};
use pascaline_worker::udp::ConfigError;
use pascaline_worker::{
    AsyncConfig, AsyncJoinError, AsyncWorker, Identity, JoinError, Membership, Reason, Rejection,
};

use self::endings::control;

const THRESHOLD: Duration = Duration::from_millis(400);

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const fn queue(clusters: u16, capacity: u16) -> QueueState {
    QueueState { clusters, capacity, waiting: 0 }
}

const fn heard(clusters: u16, capacity: u16) -> Heard {
    Heard { queue: queue(clusters, capacity), pause: ms(250) }
}

const fn olaf(slope: Slope) -> Policy {
    Policy::Olaf { slope, threshold: THRESHOLD }
}

#[test]
fn the_probability_is_that_of_the_formula() {
    for (slope, clusters, age, expected) in [
        // Without congestion: at will, however old that is.
        (Slope::Urgency, 8, 0, 1.0),
        (Slope::Fairness, 8, 900, 1.0),
        // Q_max / N while what was heard is not obsolete.
        (Slope::Urgency, 10, 0, 0.8),
        (Slope::Urgency, 16, 400, 0.5),
        (Slope::Fairness, 16, 400, 0.5),
        // v · (Δ − Δ_T) on top: 0.1 s · 2.5 per second, 0.1 s · 0.4 per second.
        (Slope::Urgency, 16, 500, 0.75),
        (Slope::Fairness, 16, 500, 0.54),
        (Slope::Urgency, 16, 700, 1.0),
        (Slope::Fairness, 16, 1650, 1.0),
        (Slope::Fairness, 16, 1649, 0.9996),
    ] {
        let mut control = Control::new(olaf(slope), 1);
        assert!((control.probability(ms(5000)) - 1.0).abs() < 1e-12, "nothing heard, no congestion known");
        control.on_ack(ms(1000), heard(clusters, 8));
        let got = control.probability(ms(1000 + age));
        assert!((got - expected).abs() < 1e-9, "{slope:?}, {clusters} clusters, after {age} ms: {got}");
    }
    let mut control = Control::new(Policy::AtWill, 1);
    control.on_ack(ms(0), heard(1000, 1));
    assert!((control.probability(ms(1)) - 1.0).abs() < 1e-12);
}

#[test]
fn decisions_follow_the_probability_and_the_seed() {
    let decide = |seed| {
        let mut control = Control::new(olaf(Slope::Urgency), seed);
        control.on_ack(ms(0), heard(10, 8));
        (0..10_000).map(|_| control.permits(ms(1))).collect::<Vec<_>>()
    };
    let sent = decide(7).iter().filter(|sent| **sent).count();
    // 8,000 with a standard deviation of 40.
    assert!((7_800..8_200).contains(&sent), "{sent}");
    assert_eq!(decide(7), decide(7));
    assert_ne!(decide(7), decide(8));
}

#[test]
fn a_pause_is_kept_while_the_queue_is_congested() {
    let mut control = Control::new(Policy::Paced, 1);
    assert!(control.permits(ms(0)));
    control.on_ack(ms(1000), heard(10, 8));
    assert!(!control.permits(ms(1000)) && !control.permits(ms(1249)) && control.permits(ms(1250)));
    control.on_ack(ms(2000), heard(8, 8));
    assert!(control.permits(ms(2000)), "there is a place for everybody");
}

const JOB: u16 = 5;
const RANK: u16 = 1;
const EPOCH: u16 = 9;

fn session(policy: Policy, initial: Initial<'_>) -> AsyncSession {
    let identity = Identity { job: JOB, rank: RANK, ranks: 3, payload: 16 };
    let membership = Membership { identity, spread: 1, base: 0, ..crate::datagrams::MEMBERSHIP };
    let settings =
        Settings { floats: 3, outstanding: NonZeroU16::MIN, policy, seed: 1, patience: ms(10_000) };
    let mut session = AsyncSession::new(membership, settings, initial);
    // The first heartbeat.
    let beat = transmit(&mut session, ms(0)).unwrap();
    assert_eq!(Header::parse(&beat).unwrap().0.kind, Kind::Control);
    session
}

fn at_will() -> AsyncSession {
    session(Policy::AtWill, Initial::Nothing)
}

fn transmit(session: &mut AsyncSession, now: Duration) -> Option<Vec<u8>> {
    let mut out = vec![0; session.longest()];
    let length = session.poll_transmit(now, &mut out).unwrap()?;
    out.truncate(length);
    Some(out)
}

/// Pushes at `now`, at which Unix time is 1,000,000 ns later, and takes the datagram.
fn push(session: &mut AsyncSession, now: Duration) -> Push {
    let push = session.push(now, unix(now), &[1.0, 2.0, 3.0], 0.5).unwrap();
    if let Push::Sent(psn) = push {
        let datagram = core::iter::from_fn(|| transmit(session, now)).last().unwrap();
        let (head, body) = Header::parse(&datagram).unwrap();
        assert_eq!((head.kind, head.psn, head.rank, head.job), (Kind::Update, psn, RANK, JOB));
        assert_eq!((head.count, head.fan_in, head.element), (1, 3, Element::F32_SUM));
        let (payload, trailer) = head.payload(body).unwrap();
        assert_eq!(payload, [1.0_f32, 2.0, 3.0].map(f32::to_le_bytes).as_flattened());
        let update = trailer.unwrap().update.unwrap();
        assert_eq!((update.reward, update.generated_ns), (0.5, unix(now)));
    }
    push
}

fn unix(now: Duration) -> u64 {
    1_000_000 + u64::try_from(now.as_nanos()).unwrap()
}

struct Ack {
    rank: u16,
    psn: u32,
    epoch: u16,
    generated: Duration,
    weights: Vec<f32>,
    queue: Option<QueueState>,
    /// Why the update was not taken.
    why: u16,
}

const ACK: Ack =
    Ack { rank: RANK, psn: 0, epoch: EPOCH, generated: ms(0), weights: Vec::new(), queue: None, why: 0 };

impl Ack {
    fn datagram(&self) -> Vec<u8> {
        let header = Header {
            kind: Kind::Ack,
            flags: Flags::TRAILER,
            element: Element::F32_SUM,
            job: JOB,
            rank: self.rank,
            psn: self.psn,
            fan_in: 3,
            count: 1,
            own: Own::sum(self.why, 0),
            epoch: self.epoch,
        };
        let update = Update { reward: 0.5, generated_ns: unix(self.generated) };
        let trailer = Trailer { update: Some(update), queue: self.queue, ..Trailer::default() };
        let mut end = [0; trailer::MAX_LEN];
        let length = trailer.emit(&mut end).unwrap();
        let weights: Vec<u8> = self.weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
        [&header.to_bytes()[..], &weights, &end[..length]].concat()
    }
}

#[test]
fn one_update_is_under_way_until_it_is_acknowledged() {
    let mut session = at_will();
    assert_eq!(push(&mut session, ms(1)), Push::Sent(0));
    assert_eq!(push(&mut session, ms(2)), Push::Busy);
    // Of an earlier update of another worker: this one is still waiting somewhere.
    let other = Ack { rank: 2, psn: 40, generated: ms(0), ..ACK };
    session.handle_datagram(ms(3), &other.datagram());
    assert_eq!(push(&mut session, ms(3)), Push::Busy);
    let own = Ack { generated: ms(1), weights: vec![7.0, 8.0, 9.0], ..ACK };
    session.handle_datagram(ms(4), &own.datagram());
    assert_eq!(session.weights(), (&[7.0, 8.0, 9.0][..], 1));
    assert_eq!(session.round_trip(), Some(ms(3)));
    assert_eq!(push(&mut session, ms(5)), Push::Sent(1));
    let counters = session.counters();
    assert_eq!((counters.pushed, counters.sent, counters.busy, counters.acknowledged), (4, 2, 2, 1));
    assert_eq!((counters.acks_own, counters.acks_cluster, counters.weights), (1, 1, 1));
}

#[test]
fn an_update_that_was_combined_is_acknowledged_in_the_name_of_another_worker() {
    let mut session = at_will();
    assert_eq!(push(&mut session, ms(10)), Push::Sent(0));
    let combined = Ack { rank: 2, psn: 40, generated: ms(11), ..ACK };
    session.handle_datagram(ms(20), &combined.datagram());
    assert_eq!((session.outstanding(), session.counters().acknowledged), (0, 1));
    assert_eq!(session.weights(), (&[0.0; 3][..], 0), "a bare acknowledgement");
    assert_eq!(session.round_trip(), None, "how long another's took says nothing of this one's");
}

/// Holds R15.3 of protocol.md.
#[test]
fn an_update_without_answer_is_given_up_and_the_next_one_is_sent() {
    let mut session = at_will();
    assert_eq!(push(&mut session, ms(0)), Push::Sent(0));
    assert_eq!(push(&mut session, ms(999)), Push::Busy);
    assert_eq!(push(&mut session, ms(1000)), Push::Sent(1), "a second is the patience at first");
    assert_eq!(session.counters().given_up, 1);
    // An answer that comes late still tells the time that it took, and is the end of nothing.
    session.handle_datagram(ms(1200), &Ack { psn: 0, generated: ms(0), ..ACK }.datagram());
    assert_eq!((session.outstanding(), session.round_trip()), (1, Some(ms(1200))));
    session.handle_datagram(ms(1210), &Ack { psn: 1, generated: ms(1000), ..ACK }.datagram());
    // 7/8 of 1200 and 1/8 of 210.
    assert_eq!((session.outstanding(), session.round_trip()), (0, Some(Duration::from_micros(1_076_250))));
    let counters = session.counters();
    assert_eq!((counters.sent, counters.acknowledged, counters.given_up), (2, 1, 1));
}

#[test]
fn more_than_one_may_be_under_way_if_configured_and_an_answer_ends_all_before_it() {
    let identity = Identity { job: JOB, rank: RANK, ranks: 3, payload: 16 };
    let membership = Membership {
        identity,
        flexible: false,
        session: 77,
        requests: 0,
        epoch: EPOCH,
        spread: 1,
        base: 0,
        cookie: 0,
        congestion: None,
        group: None,
        workers: 0,
    };
    let outstanding = NonZeroU16::new(u16::MAX).unwrap();
    let settings = Settings { floats: 3, outstanding, policy: Policy::AtWill, seed: 1, patience: ms(10_000) };
    let mut session = AsyncSession::new(membership, settings, Initial::Nothing);
    for psn in 0..64 {
        assert_eq!(push(&mut session, ms(1)), Push::Sent(psn));
    }
    assert_eq!(push(&mut session, ms(1)), Push::Busy, "there is a bound all the same");
    session.handle_datagram(ms(5), &Ack { psn: 62, ..ACK }.datagram());
    assert_eq!(session.outstanding(), 1);
    for psn in 64..127 {
        assert_eq!(push(&mut session, ms(6)), Push::Sent(psn));
    }
    assert_eq!(session.counters().acknowledged, 63);
}

#[test]
fn congestion_holds_updates_back_and_silence_lets_them_go() {
    let mut session = session(olaf(Slope::Urgency), Initial::Nothing);
    let mut now = ms(0);
    assert_eq!(push(&mut session, now), Push::Sent(0));
    let mut sent = 1;
    for _ in 0..2000 {
        now += ms(1);
        if session.outstanding() > 0 {
            let ack = Ack { psn: sent - 1, generated: now, queue: Some(queue(32, 8)), ..ACK };
            session.handle_datagram(now, &ack.datagram());
        }
        sent += u32::from(push(&mut session, now) != Push::Skipped);
    }
    // A quarter of them.
    assert!((430..580).contains(&sent), "{sent}");
    let counters = *session.counters();
    assert_eq!(counters.pushed, counters.sent + counters.skipped);
    assert_eq!(session.probability(now + ms(2000)).to_bits(), 1.0_f64.to_bits());
}

#[test]
fn initial_weights_are_offered_past_the_queue_until_the_server_answers() {
    let mut session = session(Policy::AtWill, Initial::Weights(&[0.5, 0.25, 0.125]));
    for now in [ms(1), ms(101)] {
        let offers: Vec<_> = core::iter::from_fn(|| transmit(&mut session, now))
            .filter(|datagram| Header::parse(datagram).unwrap().0.kind == Kind::Gradient)
            .collect();
        let [offer] = &offers[..] else { panic!("one offer every 100 ms: {offers:?}") };
        let (head, body) = Header::parse(offer).unwrap();
        assert_eq!((head.flags, head.psn, head.count), (Flags::BYPASS, u32::MAX, 1));
        assert_eq!(body, [0.5_f32, 0.25, 0.125].map(f32::to_le_bytes).as_flattened());
        assert_eq!(push(&mut session, now), Push::Busy);
    }
    // Another worker was first.
    let ack = Ack { psn: u32::MAX, weights: vec![4.0, 5.0, 6.0], ..ACK };
    session.handle_datagram(ms(110), &ack.datagram());
    assert_eq!(session.weights(), (&[4.0, 5.0, 6.0][..], 1));
    assert_eq!(push(&mut session, ms(111)), Push::Sent(0));
    session.handle_datagram(ms(112), &ack.datagram());
    assert_eq!(session.outstanding(), 1, "a second answer to the offer acknowledges no update");
}

#[test]
fn what_cannot_be_sent_is_refused_by_name() {
    let mut session = at_will();
    assert_eq!(session.push(ms(1), 1, &[0.0; 2], 1.0), Err(PushError::Length { expected: 3, got: 2 }));
    for reward in [f32::NAN, f32::INFINITY] {
        assert!(matches!(session.push(ms(1), 1, &[0.0; 3], reward), Err(PushError::Reward(_))));
    }
    assert_eq!(session.counters().pushed, 0);
}

#[test]
fn answers_that_do_not_fit_change_nothing_and_are_counted() {
    let mut session = at_will();
    assert_eq!(push(&mut session, ms(1)), Push::Sent(0));
    let good = Ack { generated: ms(1), weights: vec![1.0; 3], ..ACK };
    let edit = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut datagram = good.datagram();
        change(&mut datagram);
        datagram
    };
    for (datagram, reason) in [
        (edit(&|bytes| bytes[5] = 6), AsyncIgnored::ForeignJob),
        (edit(&|bytes| bytes[21] = 8), AsyncIgnored::WrongEpoch),
        (edit(&|bytes| bytes[7] = 3), AsyncIgnored::NoUpdate),
        (Ack { weights: vec![1.0; 4], ..ACK }.datagram(), AsyncIgnored::WrongModel),
        (edit(&|bytes| bytes[3] = Element::I32_SUM.code()), AsyncIgnored::WrongModel),
        (edit(&|bytes| bytes[1] = Kind::Result as u8), AsyncIgnored::Unexpected),
    ] {
        session.handle_datagram(ms(2), &datagram);
        assert_eq!(
            session.counters().ignored(reason),
            1 + u64::from(reason == AsyncIgnored::WrongModel && datagram[3] == 2)
        );
    }
    assert_eq!((session.outstanding(), session.weights().1), (1, 0));
    let mut random = Rng::with_seed(3);
    for _ in 0..20_000 {
        let mut datagram = good.datagram();
        let at = random.usize(..datagram.len());
        datagram[at] ^= 1 + random.u8(..255);
        datagram.truncate(random.usize(..=datagram.len()));
        session.handle_datagram(ms(3), &datagram);
    }
    let counters = session.counters();
    assert_eq!(counters.received, counters.accounted());
    assert_eq!(counters.sent, counters.acknowledged + counters.given_up + u64::from(session.outstanding()));
}

/// Holds R15.2 of protocol.md.
#[test]
fn a_model_larger_than_one_packet_is_refused_with_the_limit_and_the_way_out() {
    assert_eq!((most_floats(1500, false), most_floats(JUMBO_MTU, false)), (356, 2230));
    assert!(most_floats(JUMBO_MTU, true) >= 2048, "jumbo frames take 2,048 floats, whatever the addresses");
    assert_eq!(most_floats(20, false), 0);
    let longest = header::LEN + 2230 * 4 + 14 + 9 + 2;
    assert!(longest + 28 <= JUMBO_MTU && longest + 8 + 28 > JUMBO_MTU);
    let appliance = "127.0.0.1:9".parse().unwrap();
    let error = AsyncWorker::join(&AsyncConfig::new(appliance, 1, 0, 3, 2231), Initial::Nothing).unwrap_err();
    assert!(matches!(error, AsyncJoinError::ModelTooLarge { floats: 2231, limit: 2230, .. }));
    let told = error.to_string();
    assert!(told.contains("at most 2230") && told.contains("synchronous mode"), "{told}");
    let config = AsyncConfig::new(appliance, 1, 3, 3, 10);
    let error = AsyncWorker::join(&config, Initial::Nothing).unwrap_err();
    let AsyncJoinError::Join(JoinError::Config(error)) = error else { panic!("{error}") };
    assert_eq!(error, ConfigError::Rank { rank: 3, ranks: 3 });
}

#[test]
fn a_threshold_of_0_is_refused_for_it_would_let_everything_pass() {
    let policy = Policy::Olaf { slope: Slope::Urgency, threshold: Duration::ZERO };
    let config = AsyncConfig { policy, ..AsyncConfig::new("127.0.0.1:9".parse().unwrap(), 1, 0, 3, 10) };
    let error = AsyncWorker::join(&config, Initial::Nothing).unwrap_err();
    assert!(matches!(error, AsyncJoinError::Threshold), "{error}");
}

/// What the server has not sent, and what answers nothing of this worker's.
#[test]
fn forged_answers_teach_nothing_and_end_nothing() {
    let mut session = at_will();
    assert_eq!(push(&mut session, ms(1)), Push::Sent(0));
    let mut random = Rng::with_seed(3);
    let forged = (0..2000).map(|at| (at % 3, random.u32(1 << 15..)));
    for (rank, psn) in forged.chain([(RANK, 1), (RANK, u32::MAX)]) {
        let ack = Ack { rank, psn, weights: vec![666.0; 3], generated: ms(1), ..ACK };
        session.handle_datagram(ms(2), &ack.datagram());
    }
    for status in [Status::StaleSession, Status::NotMember, Status::PayloadMismatch, Status::Halted] {
        let mut ack = control(status, None, EPOCH, 0);
        ack[8..12].copy_from_slice(&7u32.to_be_bytes());
        session.handle_datagram(ms(2), &ack);
    }
    assert_eq!(session.counters().ignored(AsyncIgnored::Unsolicited), 2006);
    assert_eq!((session.weights().1, session.outstanding()), (0, 1));
    // A cluster mate's, a little ahead; and its own.
    for (rank, psn) in [(0, 9), (RANK, 0)] {
        let ack = Ack { rank, psn, weights: vec![1.0; 3], generated: ms(1), ..ACK };
        session.handle_datagram(ms(3), &ack.datagram());
    }
    assert_eq!((session.weights(), session.outstanding()), ((&[1.0; 3][..], 2), 0));
}
