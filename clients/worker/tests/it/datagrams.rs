//! Whatever arrives: no panic, nothing changes that should not, everything is counted once.

use std::time::Duration;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::{Element, Flags, Header, Kind, Malformed, Own};
use pascaline_worker::answers::PER_INTERVAL;
use pascaline_worker::{
    Counters, Event, Failure, Identity, Ignored, Join, Membership, Reason, Rejection, Session, StartError,
};
use proptest::prelude::*;

use crate::aggregator::packet;

pub(crate) const JOB: u16 = 3;
pub(crate) const EPOCH: u16 = 9;
pub(crate) const PAYLOAD: u16 = 16;
/// Six PSNs, 4294967294 to 3, the last of 8 bytes.
pub(crate) const BYTES: usize = 88;
pub(crate) const FIRST: u32 = u32::MAX - 1;

pub(crate) const IDENTITY: Identity = Identity { job: JOB, rank: 1, ranks: 4, payload: PAYLOAD };
pub(crate) const MEMBERSHIP: Membership = Membership {
    identity: IDENTITY,
    flexible: false,
    session: 77,
    requests: 0,
    epoch: EPOCH,
    spread: 8,
    base: FIRST,
    cookie: 0,
    congestion: None,
    group: None,
    workers: 0,
};

pub(crate) const RESULT: Header = Header {
    kind: Kind::Result,
    flags: Flags::NONE,
    element: Element::I32_SUM,
    job: JOB,
    rank: 0,
    psn: FIRST,
    fan_in: 4,
    count: 4,
    own: Own::NONE,
    epoch: EPOCH,
};

/// A session whose first allreduce has four packets in flight.
pub(crate) fn running() -> (Session, Vec<u8>) {
    let mut session = Session::new(MEMBERSHIP, 4);
    assert_eq!(session.start(Duration::ZERO, BYTES, Element::I32_SUM, Duration::from_secs(9)), Ok(true));
    while session.poll_transmit(Duration::ZERO).is_some() {}
    assert_eq!(session.in_flight(), 4);
    (session, vec![1; BYTES])
}

pub(crate) fn accounted(counters: &Counters) -> bool {
    counters.received
        == counters.results
            + counters.duplicate_results
            + counters.reminders_received
            + counters.acks
            + counters.rejections
            + counters.without_effect()
}

fn complete(session: &mut Session, tensor: &mut [u8], now: Duration) {
    for offset in 0..6 {
        while session.poll_transmit(now).is_some() {}
        let header = Header { psn: FIRST.wrapping_add(offset), ..RESULT };
        let body = vec![u8::try_from(offset).unwrap(); if offset == 5 { 8 } else { 16 }];
        let event = session.handle_datagram(now, &packet(&header, &body), tensor);
        assert_eq!(event, (offset == 5).then_some(Event::Completed));
    }
}

#[test]
fn results_land_in_their_places() {
    let (mut session, mut tensor) = running();
    complete(&mut session, &mut tensor, Duration::from_millis(2));
    let expected: Vec<u8> = (0..6).flat_map(|i: u8| vec![i; if i == 5 { 8 } else { 16 }]).collect();
    assert_eq!(tensor, expected);
    let report = session.report();
    assert_eq!((report.packets, report.bytes), (6, BYTES));
    assert_eq!(report.elapsed, Duration::from_millis(2));
    assert_eq!(report.counters.retransmissions, 0);
}

/// Holds R10.10 of protocol.md.
#[test]
fn each_defect_is_counted_by_its_reason_and_changes_nothing() {
    let body = [5; 16];
    let defects = [
        (Header { job: 4, ..RESULT }, &body[..], Ignored::ForeignJob),
        (Header { kind: Kind::Control, ..RESULT }, &body, Ignored::ForeignRank),
        (Header { epoch: 8, ..RESULT }, &body, Ignored::WrongEpoch),
        (Header { element: Element::F32_SUM, ..RESULT }, &body, Ignored::WrongElement),
        (RESULT, &body[..12], Ignored::WrongLength),
        (RESULT, &[5; 20], Ignored::WrongLength),
        (RESULT, &[], Ignored::WrongLength),
        (Header { count: 3, ..RESULT }, &body, Ignored::Incomplete),
        (Header { psn: 2, ..RESULT }, &body, Ignored::Unsent),
        (Header { psn: 4, ..RESULT }, &body, Ignored::UnknownPsn),
        (Header { psn: FIRST - 1, ..RESULT }, &body, Ignored::UnknownPsn),
        (Header { kind: Kind::Gradient, ..RESULT }, &body, Ignored::Unexpected),
        (Header { kind: Kind::Reminder, psn: 2, ..RESULT }, &[], Ignored::ReminderUnanswerable),
        (Header { kind: Kind::Reminder, ..RESULT }, &[], Ignored::ReminderLimited),
    ];
    for (header, body, reason) in defects {
        let (mut session, mut tensor) = running();
        let due = session.poll_timeout();
        assert_eq!(
            session.handle_datagram(Duration::from_micros(5), &packet(&header, body), &mut tensor),
            None
        );
        assert_eq!(session.counters().ignored(reason), 1, "{reason:?}");
        assert_eq!(session.counters().without_effect(), 1);
        assert_eq!((session.in_flight(), session.poll_timeout()), (4, due), "{reason:?}");
        assert_eq!(tensor, [1; BYTES]);
    }
    let (mut session, mut tensor) = running();
    let bad_trailer = packet(&Header { flags: Flags::TRAILER, ..RESULT }, &[0xff; 16]);
    assert_eq!(session.handle_datagram(Duration::ZERO, &bad_trailer, &mut tensor), None);
    assert_eq!(session.counters().malformed(Malformed::Trailer), 1);
}

#[test]
fn a_reminder_for_an_outstanding_psn_resends_it_and_a_flood_does_not() {
    let (mut session, mut tensor) = running();
    let reminder = packet(&Header { kind: Kind::Reminder, ..RESULT }, &[]);
    let mut resent = 0;
    for micros in 0..3000 {
        let now = Duration::from_micros(micros);
        session.handle_datagram(now, &reminder, &mut tensor);
        while let Some(packet) = session.poll_transmit(now) {
            let (header, _) = Header::parse(&packet.header).unwrap();
            if header.kind == Kind::Gradient {
                assert_eq!((header.psn, header.flags), (FIRST, Flags::RETRANSMISSION));
                resent += 1;
            }
        }
    }
    assert_eq!(resent, 2, "one per millisecond, the first after 1 ms");
    assert!(accounted(session.counters()));
}

/// Holds R10.2 of protocol.md.
#[test]
fn results_are_answered_from_the_tensor_and_then_from_what_is_kept() {
    let (mut session, mut tensor) = running();
    let reminder = |psn| packet(&Header { kind: Kind::Reminder, psn, ..RESULT }, &[]);
    let overflowed = Header { psn: 0, flags: Flags::OVERFLOW, ..RESULT };
    session.handle_datagram(Duration::ZERO, &packet(&overflowed, &[9; 16]), &mut tensor);
    let answer = |session: &mut Session, now: Duration, tensor: &mut [u8]| {
        while session.poll_transmit(now).is_some() {}
        session.handle_datagram(now, &reminder(0), tensor);
        let transmit = session.poll_transmit(now).unwrap();
        let (header, _) = Header::parse(&transmit.header).unwrap();
        assert_eq!((header.kind, header.psn, header.rank, header.count), (Kind::Result, 0, 1, 4));
        assert_eq!((header.element, header.epoch), (Element::I32_SUM, EPOCH));
        assert_eq!(header.flags, Flags::OVERFLOW);
        session.payload(&transmit, tensor).to_vec()
    };
    assert_eq!(answer(&mut session, Duration::from_millis(5), &mut tensor), [9; 16]);
    for offset in [0, 1, 3, 4, 5] {
        while session.poll_transmit(Duration::from_millis(6)).is_some() {}
        let header = Header { psn: FIRST.wrapping_add(offset), ..RESULT };
        let body = vec![4; if offset == 5 { 8 } else { 16 }];
        session.handle_datagram(Duration::from_millis(6), &packet(&header, &body), &mut tensor);
    }
    assert_eq!(session.report().packets, 6);
    assert_eq!(session.report().counters.overflows, 1);
    assert_eq!(answer(&mut session, Duration::from_millis(9), &mut []), [9; 16]);
    // However many PSNs are asked for at once, the answers are bounded.
    let asked = (0..10_000).map(|i| reminder(FIRST.wrapping_add(i % 6)));
    for datagram in asked {
        session.handle_datagram(Duration::from_millis(20), &datagram, &mut []);
    }
    let answers = std::iter::from_fn(|| session.poll_transmit(Duration::from_millis(20))).count();
    assert!(answers <= 6 && answers <= PER_INTERVAL as usize, "{answers}");
    assert!(accounted(session.counters()));
}

pub(crate) fn unsolicited(status: Status, expected: u32, got: u32) -> Vec<u8> {
    let ack = Control { status, expected, got, ..Control::request(Action::Ack, 0) };
    packet(&Header { kind: Kind::Control, rank: MEMBERSHIP.identity.rank, ..RESULT }, &ack.to_bytes())
}

#[test]
fn a_refusal_that_is_not_explained_fails_the_allreduce_and_breaks_the_session() {
    let (mut session, mut tensor) = running();
    let refused = unsolicited(Status::ElementMismatch, 1, 2);
    let at = Duration::from_millis;
    while session.poll_transmit(at(1)).is_some() {}
    assert_eq!(session.handle_datagram(at(1), &refused, &mut tensor), None);
    // The others have called something else: it says at once what it has called itself.
    let heartbeat = session.poll_transmit(at(1)).expect("a heartbeat");
    let said = Control::parse(session.payload(&heartbeat, &[])).unwrap();
    assert_eq!((said.action, said.element), (Action::Join, Some(Element::I32_SUM)));
    assert_eq!((said.psn, said.first, said.bytes), (FIRST, FIRST, BYTES as u64));
    assert_eq!(session.handle_datagram(at(2), &refused, &mut tensor), None);
    assert_eq!(session.poll_transmit(at(2)), None, "once");
    let event = session.handle_datagram(at(1600), &refused, &mut tensor);
    let Some(Event::Failed(failure)) = event else { panic!("{event:?}") };
    let text = "rejected: the other ranks of job 3 call sum of f32, rank 1 calls sum of i32";
    assert!(failure.to_string().starts_with(text), "{failure}");
    let Failure::Rejected { rejection: Rejection { reason: Reason::Element, .. }, progress } = failure else {
        panic!("{failure}")
    };
    assert_eq!((progress.completed, progress.packets, progress.oldest_missing), (0, 6, FIRST));
    let again = session.start(Duration::ZERO, BYTES, Element::I32_SUM, Duration::from_secs(9));
    assert_eq!(again, Err(StartError::Broken));
    while let Some(farewell) = session.poll_transmit(Duration::from_secs(1)) {
        assert_eq!(session.payload(&farewell, &[])[0], Action::Leave as u8);
    }
    assert!(accounted(session.counters()));
}

#[test]
fn refusals_that_time_heals_do_not_fail_the_allreduce() {
    let (mut session, mut tensor) = running();
    let refused = unsolicited(Status::UnknownPsn, 0, 0);
    assert_eq!(session.handle_datagram(Duration::from_millis(1), &refused, &mut tensor), None);
    assert_eq!(session.counters().ignored(Ignored::NotFatal), 1);
    assert_eq!(session.progress(), Some((0, 6)));
}

/// Holds R9.12 of protocol.md.
#[test]
fn a_refusal_of_an_earlier_sessions_packet_is_ignored() {
    let (mut session, mut tensor) = running();
    let stale = unsolicited(Status::WrongEpoch, u32::from(EPOCH), 8);
    assert_eq!(session.handle_datagram(Duration::ZERO, &stale, &mut tensor), None);
    assert_eq!(session.counters().ignored(Ignored::Unsolicited), 1);
}

/// Source ports that systems choose from: Linux by default.
const PORTS: f64 = 28_232.0;

/// An off-path sender guesses epoch and PSN of a worker at work, for each refusal and for a result. What it
/// has to guess beside them, the worker's port, the kernel checks.
/// Holds R9.12 of protocol.md.
#[test]
fn who_sees_no_packets_has_to_guess_forty_bits() {
    let refusals = [
        (Status::WrongEpoch, EPOCH.into()),
        (Status::NotMember, 1),
        (Status::UnknownJob, 3),
        (Status::FanInMismatch, 4),
        (Status::PayloadMismatch, 16),
        (Status::ElementMismatch, 2),
        (Status::OperationMismatch, 16),
        (Status::Halted, 0),
    ];
    let refused = |status, got| unsolicited(status, 9, got);
    let results = || packet(&RESULT, &[0; 16]);
    let forged = refusals.map(|(status, got)| refused(status, got)).into_iter().chain([results()]);
    let mut random = fastrand::Rng::with_seed(7);
    for forged in forged {
        let with = |psn: u32, epoch: u16| {
            let mut forged = forged.clone();
            forged[8..12].copy_from_slice(&psn.to_be_bytes());
            // A refusal repeats the epoch that the worker has sent, where that is what was wrong.
            forged[20..22].copy_from_slice(&epoch.to_be_bytes());
            if forged.get(23) == Some(&(Status::WrongEpoch as u8)) {
                forged[22 + 38..22 + 40].copy_from_slice(&epoch.to_be_bytes());
            }
            let (mut session, mut tensor) = running();
            session.handle_datagram(Duration::from_millis(1), &forged, &mut tensor);
            session.counters().without_effect() == 0
        };
        let near = (0..2000).filter(|&offset| with(FIRST.wrapping_add(offset).wrapping_sub(1000), EPOCH));
        let taken = near.count();
        let far = (0..2000).filter(|_| with(random.u32(..), EPOCH)).count();
        let epochs = (0..=u16::MAX).filter(|&epoch| with(FIRST, epoch)).count();
        assert!(taken > 0 && taken <= 4, "{taken}: those in flight, and no others");
        assert_eq!(far, 0, "of 2,000 drawn from all");
        // With as many in flight as the default window lets through.
        let bits = 16.0 + (2f64.powi(32) / 512.0).log2() + PORTS.log2();
        // Two refusals do not know the worker's epoch, and end nothing: it asks whether its generation lives.
        let asks = [Status::NotMember, Status::UnknownJob].map(|status| Some(status as u8));
        let asks = asks.contains(&forged.get(23).copied());
        assert!(bits >= 48.0 && (epochs == 1 || asks), "{bits} bits, {epochs} epochs");
    }
}

#[test]
fn the_deadline_says_how_far_it_came() {
    let (mut session, mut tensor) = running();
    session.handle_datagram(Duration::ZERO, &packet(&RESULT, &[0; 16]), &mut tensor);
    let mut failed = None;
    while failed.is_none() {
        let due = session.poll_timeout().expect("a running operation has a timeout");
        failed = session.handle_timeout(due);
        while session.poll_transmit(due).is_some() {}
        assert!(due <= Duration::from_secs(9));
    }
    let Some(Event::Failed(failure @ Failure::Deadline(progress))) = &failed else { panic!("{failed:?}") };
    assert_eq!((progress.completed, progress.packets, progress.oldest_missing), (1, 6, u32::MAX));
    assert_eq!(progress.elapsed, Duration::from_secs(9));
    // At the ceiling of the timeout, one probe each 100 ms.
    assert!((80..120).contains(&progress.retransmissions), "{failure}");
    assert_eq!(progress.reminders_sent + 3, progress.retransmissions, "{failure}");
    let text = failure.to_string();
    assert!(text.starts_with("deadline passed: the appliance has not answered for 9.0s"), "{text}");
    assert!(text.contains("(1 of 6 packets complete after 9.0s, oldest missing PSN"), "{text}");
}

#[test]
fn what_cannot_start() {
    let mut session = Session::new(MEMBERSHIP, 4);
    let mut start = |bytes| session.start(Duration::ZERO, bytes, Element::F32_SUM, Duration::from_secs(1));
    assert_eq!(start(0), Ok(false));
    assert_eq!(start(5), Err(StartError::Ragged { bytes: 5, size: 4 }));
    assert_eq!(start(1 << 35), Err(StartError::TooLong { bytes: 1 << 35 }));
    assert_eq!(start(4), Ok(true));
    assert_eq!(start(4), Err(StartError::Busy));
}

fn any_header() -> impl Strategy<Value = Header> {
    let kinds = (1_u8..=8).prop_map(|code| Kind::from_code(code).unwrap());
    let elements = prop_oneof![Just(Element::I32_SUM), Just(Element::F32_SUM)];
    let psns = prop_oneof![(0_u32..12).prop_map(|i| (FIRST - 3).wrapping_add(i)), any::<u32>()];
    let flags = (0_u8..64).prop_map(|bits| Flags::from_bits(bits).unwrap());
    (kinds, flags, elements, 2_u16..5, psns, 3_u16..6, prop_oneof![Just(EPOCH), any::<u16>()]).prop_map(
        |(kind, flags, element, job, psn, count, epoch)| Header {
            kind,
            flags,
            element,
            job,
            psn,
            count,
            epoch,
            ..RESULT
        },
    )
}

fn any_body() -> impl Strategy<Value = Vec<u8>> {
    let control =
        (1_u8..=9, 0_u8..=17, 0_u8..=9, 76_u8..79).prop_map(|(action, status, answers, session)| {
            let mut body = [0; 24];
            body[..3].copy_from_slice(&[action, status, answers]);
            body[11] = session;
            body[12..16].copy_from_slice(&[0, 16, 0, 8]);
            body.to_vec()
        });
    prop_oneof![prop::collection::vec(any::<u8>(), 0..40), Just(vec![7; 16]), control]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Holds R14.7 of protocol.md.
    #[test]
    fn noise_changes_nothing(bytes in prop::collection::vec(any::<u8>(), 0..60)) {
        let (mut session, mut tensor) = running();
        let due = session.poll_timeout();
        prop_assert_eq!(session.handle_datagram(Duration::from_millis(3), &bytes, &mut tensor), None);
        prop_assert_eq!(session.counters().without_effect(), 1);
        prop_assert_eq!((session.in_flight(), session.poll_timeout()), (4, due));
        prop_assert_eq!(session.poll_transmit(Duration::from_millis(3)), None);
        prop_assert_eq!(tensor, [1; BYTES]);
    }

    #[test]
    fn plausible_datagrams_are_each_counted_once(
        datagrams in prop::collection::vec((any_header(), any_body()), 1..60),
        short_tensor in any::<bool>(),
        leaving in any::<bool>(),
    ) {
        let (mut session, tensor) = running();
        if leaving {
            session.leave(Duration::ZERO, Duration::from_secs(1));
        }
        let mut tensor = if short_tensor { Vec::new() } else { tensor };
        let mut join = Join::new(IDENTITY, 77, 8, Duration::ZERO, Duration::from_secs(1));
        for (micros, (header, body)) in (0_u64..).step_by(200).zip(&datagrams) {
            let now = Duration::from_micros(micros);
            let bytes = packet(header, body);
            session.handle_datagram(now, &bytes, &mut tensor);
            session.handle_timeout(now);
            while let Some(packet) = session.poll_transmit(now) {
                let _ = session.payload(&packet, &tensor);
            }
            let _ = join.handle_datagram(&bytes);
        }
        prop_assert_eq!(session.counters().received, datagrams.len() as u64);
        prop_assert!(accounted(session.counters()), "{:?}", session.counters());
    }
}
