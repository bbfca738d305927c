//! What one rank asks of the others, and what it answers: reminders both ways, originals, partial results.

use std::time::Duration;

use pascaline_wire::{DType, Element, Flags, Header, Kind, Malformed, Own, round};
use pascaline_worker::answers::{INTERVAL, PER_INTERVAL};
use pascaline_worker::{Event, Hints, Ignored, Op, Request, Session, Transmit};

use crate::aggregator::{bitmap_trailer, packet};
use crate::datagrams::{BYTES, FIRST, MEMBERSHIP, RESULT, accounted, running};

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

/// A packet sent now: header, payload, trailer.
fn sent(session: &mut Session, now: Duration, tensor: &[u8]) -> Vec<(Header, Vec<u8>, Vec<u8>)> {
    let packets: Vec<_> = std::iter::from_fn(|| session.poll_transmit(now)).collect();
    let parts = |packet: &Transmit| {
        let (header, _) = Header::parse(&packet.header).unwrap();
        (header, session.payload(packet, tensor).to_vec(), session.trailer(packet).to_vec())
    };
    packets.iter().map(parts).collect()
}

fn reminder(psn: u32, flags: Flags) -> Vec<u8> {
    packet(&Header { kind: Kind::Reminder, psn, flags, ..RESULT }, &[])
}

#[test]
fn after_three_retransmissions_a_reminder_goes_beside_each_further_one() {
    let (mut session, tensor) = running();
    let mut kinds = Vec::new();
    while kinds.iter().filter(|&&(kind, _)| kind == Kind::Gradient).count() < 6 {
        let due = session.poll_timeout().unwrap();
        assert_eq!(session.handle_timeout(due), None);
        for (header, _, _) in sent(&mut session, due, &tensor) {
            if header.kind != Kind::Control {
                assert_eq!(header.psn, FIRST);
                kinds.push((header.kind, header.flags));
            }
        }
    }
    let (again, ask) = ((Kind::Gradient, Flags::RETRANSMISSION), (Kind::Reminder, Flags::NONE));
    assert_eq!(kinds[..8], [again, again, again, again, ask, again, ask, again]);
    assert_eq!(session.counters().retransmissions, 6);
}

/// Holds R10.2 of protocol.md.
#[test]
fn results_of_as_many_psns_as_the_window_has_are_kept_across_operations() {
    let (mut session, mut tensor) = running();
    let psn = |offset: u32| FIRST.wrapping_add(offset);
    for offset in 0..12 {
        if offset == 6 {
            assert_eq!(session.start(us(1), BYTES, Element::I32_SUM, us(9_000_000)), Ok(true));
        }
        sent(&mut session, us(1), &tensor);
        let body = [9; 16];
        let body = &body[..if offset % 6 == 5 { 8 } else { 16 }];
        session.handle_datagram(us(1), &packet(&Header { psn: psn(offset), ..RESULT }, body), &mut tensor);
    }
    for offset in 12 - u32::from(MEMBERSHIP.spread)..12 {
        session.handle_datagram(us(5_000), &reminder(psn(offset), Flags::NONE), &mut []);
        let answers = sent(&mut session, us(5_000), &[]);
        assert_eq!((answers[0].0.kind, answers[0].0.psn), (Kind::Result, psn(offset)));
    }
}

/// Were it otherwise, every rank's answer would make all others answer in their turn.
#[test]
fn what_a_reminder_asks_for_is_sent_without_a_reminder() {
    let (mut session, mut tensor) = running();
    let mut now = Duration::ZERO;
    // This worker has come to the point of asking itself.
    while session.counters().reminders_sent == 0 {
        now = session.poll_timeout().unwrap();
        session.handle_timeout(now);
        sent(&mut session, now, &tensor);
    }
    for _ in 0..200 {
        now += INTERVAL;
        session.handle_datagram(now, &reminder(FIRST, Flags::NONE), &mut tensor);
        let mut answers = sent(&mut session, now, &tensor);
        answers.retain(|(header, _, _)| header.kind != Kind::Control);
        let [(header, _, _)] = &answers[..] else { panic!("{answers:?}") };
        assert_eq!((header.kind, header.psn, header.flags), (Kind::Gradient, FIRST, Flags::RETRANSMISSION));
    }
    assert_eq!(session.counters().reminders_sent, 1);
}

#[test]
fn the_parameter_server_gets_the_original_past_the_aggregation() {
    let (mut session, mut tensor) = running();
    let psn = FIRST.wrapping_add(2);
    // At once, however short a time ago the contribution was sent.
    session.handle_datagram(us(10), &reminder(psn, Flags::BYPASS), &mut tensor);
    let originals = sent(&mut session, us(10), &tensor);
    let [(header, payload, _)] = &originals[..] else { panic!("{originals:?}") };
    assert_eq!((header.kind, header.psn, header.count, header.rank), (Kind::Gradient, psn, 1, 1));
    assert_eq!(header.flags, Flags::BYPASS.with(Flags::RETRANSMISSION));
    assert_eq!(payload[..], [1; 16]);
    assert_eq!((session.counters().originals_sent, session.counters().retransmissions), (1, 0));
    assert_eq!(session.in_flight(), 4, "the contribution itself is still under way");
    // The result comes between reminder and answer: now that is asked for, and it is what is sent.
    session.handle_datagram(us(2_000), &reminder(psn, Flags::BYPASS), &mut tensor);
    session.handle_datagram(us(2_000), &packet(&Header { psn, ..RESULT }, &[9; 16]), &mut tensor);
    let answers = sent(&mut session, us(2_000), &tensor);
    assert_eq!(
        (answers[0].0.kind, answers[0].0.flags, &answers[0].1[..]),
        (Kind::Result, Flags::BYPASS, &[9; 16][..])
    );
    assert_eq!(answers[0].0.count, 4);
    // Also when the operation is over.
    for offset in [0, 1, 3, 4, 5] {
        sent(&mut session, us(2_000), &tensor);
        let header = Header { psn: FIRST.wrapping_add(offset), ..RESULT };
        session.handle_datagram(
            us(2_000),
            &packet(&header, &[8; 16][..if offset == 5 { 8 } else { 16 }]),
            &mut tensor,
        );
    }
    session.handle_datagram(us(4_000), &reminder(psn, Flags::BYPASS), &mut []);
    let answers = sent(&mut session, us(4_000), &[]);
    assert_eq!(
        (answers[0].0.kind, answers[0].0.flags, &answers[0].1[..]),
        (Kind::Result, Flags::BYPASS, &[9; 16][..])
    );
    // Packets that have not been sent follow in their own time.
    assert_eq!(session.start(us(5_000), BYTES, Element::I32_SUM, us(9_000)), Ok(true));
    session.handle_datagram(us(5_000), &reminder(FIRST.wrapping_add(7), Flags::BYPASS), &mut tensor);
    assert_eq!(session.counters().ignored(Ignored::ReminderUnanswerable), 1);
    assert!(accounted(session.counters()));
}

/// A result that was made before all ranks were asked could differ from that of the answers.
/// Holds R11.2 of protocol.md.
#[test]
fn who_answers_with_the_original_waits_for_what_comes_of_it() {
    let (mut session, mut tensor) = running();
    let ask = |round| {
        packet(
            &Header {
                kind: Kind::Reminder,
                psn: FIRST,
                flags: Flags::BYPASS,
                own: Own::vote(round, 0),
                ..RESULT
            },
            &[],
        )
    };
    let result = |round| packet(&Header { psn: FIRST, own: Own::vote(round, 0), ..RESULT }, &[9; 16]);
    for (now, round) in [(us(0), 7), (us(2_000), 8)] {
        session.handle_datagram(now, &ask(round), &mut tensor);
        let answers = sent(&mut session, now, &tensor);
        assert_eq!(
            (answers[0].0.kind, answers[0].0.own.round()),
            (Kind::Gradient, round),
            "it says what it promises"
        );
    }
    // An unanswered request promises nothing.
    session.handle_datagram(us(2_500), &ask(9), &mut tensor);
    assert!(sent(&mut session, us(2_500), &tensor).is_empty());
    for round in [round::NONE, 7, 9] {
        session.handle_datagram(us(2_600), &result(round), &mut tensor);
    }
    assert_eq!((session.counters().ignored(Ignored::OutVoted), session.counters().results), (3, 0));
    // It tells the appliance, which may keep one of those, what it waits for.
    let mut reminders = Vec::new();
    while reminders.is_empty() {
        let now = session.poll_timeout().unwrap();
        session.handle_timeout(now);
        reminders = sent(&mut session, now, &tensor);
        reminders.retain(|(header, ..)| header.kind == Kind::Reminder);
    }
    assert_eq!((reminders[0].0.psn, reminders[0].0.own.round()), (FIRST, 8));
    // Of another PSN it has promised nothing.
    let other = FIRST.wrapping_add(1);
    session.handle_datagram(us(2_700), &packet(&Header { psn: other, ..RESULT }, &[9; 16]), &mut tensor);
    session.handle_datagram(us(2_700), &result(8), &mut tensor);
    assert_eq!(session.counters().results, 2);
    // What it has taken, all others may take.
    session.handle_datagram(us(9_000_000), &ask(11), &mut tensor);
    let answers = sent(&mut session, us(9_000_000), &tensor);
    let (header, ..) = answers.iter().find(|(header, ..)| header.kind == Kind::Result).unwrap();
    assert_eq!((header.psn, header.own.round()), (FIRST, round::TAKEN));
    assert!(accounted(session.counters()));
}

/// Holds R11.2 of protocol.md.
#[test]
fn what_a_rank_has_taken_may_be_taken_whatever_was_promised() {
    let (mut session, mut tensor) = running();
    let ask =
        Header { kind: Kind::Reminder, psn: FIRST, flags: Flags::BYPASS, own: Own::vote(7, 0), ..RESULT };
    session.handle_datagram(us(0), &packet(&ask, &[]), &mut tensor);
    let taken = Header { psn: FIRST, own: Own::vote(round::TAKEN, 0), ..RESULT };
    session.handle_datagram(us(1), &packet(&taken, &[9; 16]), &mut tensor);
    assert_eq!(session.counters().results, 1);
}

#[test]
fn a_flood_of_reminders_is_answered_once_a_millisecond_for_each_psn() {
    let (mut session, mut tensor) = running();
    let mut answers = [0; 2];
    for micros in 0..10_000 {
        for flags in [Flags::NONE, Flags::BYPASS] {
            session.handle_datagram(us(micros), &reminder(FIRST, flags), &mut tensor);
        }
        for (header, _, _) in sent(&mut session, us(micros), &tensor) {
            answers[usize::from(header.flags.has(Flags::BYPASS))] += 1;
        }
    }
    assert_eq!(answers, [9, 10], "the contribution was sent at the start");
    // And never more than a batch in a millisecond, for whatever PSNs.
    let mut many = Session::new(pascaline_worker::Membership { spread: 600, base: 0, ..MEMBERSHIP }, 600);
    let mut tensor = vec![1; 600 * 16];
    many.start(us(0), tensor.len(), Element::I32_SUM, Duration::from_secs(9)).unwrap();
    sent(&mut many, us(0), &tensor);
    for psn in 0..600 {
        many.handle_datagram(us(20), &reminder(psn, Flags::BYPASS), &mut tensor);
    }
    assert_eq!(sent(&mut many, us(20), &tensor).len(), PER_INTERVAL as usize);
    assert_eq!(many.counters().ignored(Ignored::ReminderLimited), 600 - u64::from(PER_INTERVAL));
}

/// The session of rank 1 of 4 that accepts partial results, in an allreduce of two packets of this operation.
fn partial(op: Op) -> (Session, Vec<u8>) {
    let mut session = Session::new(MEMBERSHIP, 4).accept_partial();
    let deadline = Duration::from_secs(9);
    let request = Request { bytes: 32, dtype: DType::I32, op, deadline, hints: Hints::default() };
    assert_eq!(session.start_with(us(0), &request), Ok(true));
    let tensor = vec![1; 32];
    assert_eq!(sent(&mut session, us(0), &tensor).len(), 2);
    (session, tensor)
}

fn partial_result(psn: u32, inside: &[u16], value: i32) -> Vec<u8> {
    let count = u16::try_from(inside.len()).unwrap();
    let header = Header { psn, count, flags: Flags::TRAILER, ..RESULT };
    [packet(&header, &value.to_le_bytes().repeat(4)), bitmap_trailer(4, inside.iter().copied())].concat()
}

#[test]
fn partial_results_are_reported_and_passed_on_with_what_they_contain() {
    for (op, value, expected) in [(Op::Sum, 10, 10), (Op::Mean, 10, 3), (Op::Max, 10, 10)] {
        let (mut session, mut tensor) = partial(op);
        let element = Element { dtype: DType::I32, op };
        let with = |mut datagram: Vec<u8>| {
            datagram[3] = element.code();
            datagram
        };
        let first = with(partial_result(FIRST, &[0, 1, 3], value));
        assert_eq!(session.handle_datagram(us(9), &first, &mut tensor), None);
        assert_eq!(tensor[..16], i32::to_le_bytes(expected).repeat(4));
        let answer = |session: &mut Session, now, tensor: &mut [u8]| {
            session.handle_datagram(now, &reminder(FIRST, Flags::NONE), tensor);
            let mut answers = sent(session, now, tensor);
            assert_eq!(answers.len(), 1);
            answers.remove(0)
        };
        // The sum, not the mean: the others divide it themselves.
        let passed_on = |(header, payload, trailer): (Header, Vec<u8>, Vec<u8>)| {
            assert_eq!((header.kind, header.count, header.flags), (Kind::Result, 3, Flags::TRAILER));
            assert_eq!(header.element, element);
            assert_eq!(payload, value.to_le_bytes().repeat(4));
            assert_eq!(trailer, bitmap_trailer(4, [0, 1, 3]));
        };
        passed_on(answer(&mut session, us(2_000), &mut tensor));
        let second = with(partial_result(FIRST.wrapping_add(1), &[1, 3], 4));
        assert_eq!(session.handle_datagram(us(2_001), &second, &mut tensor), Some(Event::Completed));
        let report = session.report().partial.unwrap();
        assert_eq!((report.results, report.least_count, report.missing.to_string().as_str()), (2, 2, "0, 2"));
        assert_eq!(session.counters().partial_results, 2);
        passed_on(answer(&mut session, us(4_000), &mut []));
        assert!(accounted(session.counters()));
    }
}

#[test]
fn a_complete_result_needs_no_trailer_and_makes_no_report() {
    let (mut session, mut tensor) = partial(Op::Mean);
    let element = Element { dtype: DType::I32, op: Op::Mean };
    for psn in [FIRST, FIRST.wrapping_add(1)] {
        session.handle_datagram(
            us(9),
            &packet(&Header { psn, element, ..RESULT }, &6_i32.to_le_bytes().repeat(4)),
            &mut tensor,
        );
    }
    // 1.5, to even.
    assert_eq!((&tensor[..4], session.report().partial), (&[2, 0, 0, 0][..], None));
}

#[test]
fn partial_results_that_contradict_themselves_change_nothing() {
    let bitmap = |inside: &[u16]| bitmap_trailer(4, inside.iter().copied());
    let result = |count, flags, trailer: &[u8]| {
        [packet(&Header { count, flags, ..RESULT }, &[7; 16]), trailer.to_vec()].concat()
    };
    let wrong = [
        result(3, Flags::NONE, &[]),
        result(3, Flags::TRAILER, &bitmap(&[0, 1])),
        result(5, Flags::TRAILER, &bitmap(&[0, 1, 2, 3])),
        result(4, Flags::TRAILER, &bitmap(&[0, 1, 3])),
        result(0, Flags::TRAILER, &bitmap(&[])),
        result(3, Flags::TRAILER, &bitmap(&[0, 1, 4])),
        // A trailer without elements.
        result(3, Flags::TRAILER, &[0, 2]),
    ];
    for (number, datagram) in wrong.iter().enumerate() {
        let (mut session, mut tensor) = partial(Op::Sum);
        assert_eq!(session.handle_datagram(us(9), datagram, &mut tensor), None);
        assert_eq!(session.counters().ignored(Ignored::WrongBitmap), 1, "{number}");
        assert_eq!((&tensor[..], session.progress()), (&[1; 32][..], Some((0, 2))));
    }
    let (mut session, mut tensor) = partial(Op::Sum);
    session.handle_datagram(us(9), &result(3, Flags::TRAILER, &[9; 3]), &mut tensor);
    assert_eq!(session.counters().malformed(Malformed::Trailer), 1);
    // And who does not accept partial results takes none, however consistent.
    let (mut session, mut tensor) = running();
    session.handle_datagram(us(9), &partial_result(FIRST, &[0, 1, 3], 10), &mut tensor);
    assert_eq!(session.counters().ignored(Ignored::Incomplete), 1);
}
