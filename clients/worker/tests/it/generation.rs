//! Heartbeats, and what a session does when its generation ends or it leaves.

use std::time::Duration;

use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::{Element, Flags, Header, Kind};
use pascaline_worker::session::HEARTBEAT;
use pascaline_worker::{Event, Failure, Ignored, Left, Reason, Session, StartError};

use crate::aggregator::{bitmap_trailer, packet};
use crate::datagrams::{BYTES, EPOCH, FIRST, MEMBERSHIP, PAYLOAD, RESULT, accounted, unsolicited};

use crate::asking::{Asking, NEXT, about, ack, beginning, handle, ms, rejoining, request, running, sent, to};

#[test]
fn while_it_waits_it_shows_that_it_is_alive() {
    let (mut session, _) = running();
    let heartbeats = |session: &mut Asking, now| {
        let joins = sent(session, now).into_iter().filter(|(header, _)| header.kind == Kind::Control);
        joins.map(|(header, body)| (header.epoch, Control::parse(&body).unwrap())).collect::<Vec<_>>()
    };
    assert_eq!(heartbeats(&mut session, HEARTBEAT - ms(1)), []);
    let join = Control {
        element: Some(RESULT.element),
        payload: PAYLOAD,
        window: MEMBERSHIP.spread,
        number: 2,
        got: control::generation(EPOCH),
        psn: FIRST,
        first: FIRST,
        bytes: BYTES as u64,
        ..Control::request(Action::Join, MEMBERSHIP.session)
    };
    assert_eq!(heartbeats(&mut session, HEARTBEAT), [(0, join)]);
    assert_eq!(heartbeats(&mut session, HEARTBEAT + ms(1)), []);
    assert_eq!(session.counters().heartbeats_sent, 2, "the first one before the allreduce");
    // Others may have left; that the generation lives is all that matters.
    for status in [Status::Ok, Status::Pending] {
        assert_eq!(handle(&mut session, HEARTBEAT, &ack(Action::Join, status, EPOCH, 0)), None);
    }
    assert_eq!(session.counters().acks, 2);
    assert!(session.poll_timeout().unwrap() <= 2 * HEARTBEAT);
    assert_eq!(heartbeats(&mut session, 2 * HEARTBEAT).len(), 1);
    assert!(accounted(session.counters()));
}

/// Generations have 256 numbers, and appliances that start anew begin with any of them.
#[test]
fn another_generation_of_the_same_number_is_known_by_its_first_psn() {
    for status in [Status::Ok, Status::Pending] {
        for base in [0, FIRST + 1] {
            let (mut session, _) = running();
            let other = beginning(base, ack(Action::Join, status, EPOCH, 0));
            assert_eq!(handle(&mut session, ms(1), &other), None);
            let (_, join) = request(&mut session, ms(1));
            let asked = (control::generation(EPOCH), control::generation(EPOCH));
            assert_eq!((join.expected, join.got), asked, "{status:?}");
            // It goes on there, and knows that generation by its own first PSN.
            let resumed = ack(Action::Join, Status::Ok, EPOCH, control::generation(EPOCH));
            assert_eq!(handle(&mut session, ms(2), &beginning(7, resumed)), None);
            assert_eq!(session.counters().resumed, 1);
            let alive = |base| beginning(base, ack(Action::Join, Status::Ok, EPOCH, 0));
            let resent = sent(&mut session, ms(2) + HEARTBEAT);
            assert!(resent.iter().any(|(header, _)| header.kind == Kind::Control));
            assert_eq!(handle(&mut session, ms(3) + HEARTBEAT, &alive(7)), None);
            assert!(
                !sent(&mut session, ms(4) + HEARTBEAT)
                    .iter()
                    .any(|(_, body)| { Control::parse(body).is_ok_and(|join| join.expected > 0) })
            );
        }
    }
}

#[test]
fn it_shows_that_it_is_alive_before_the_first_allreduce_and_after_a_generation_lost() {
    let mut session = Asking::new(Session::new(MEMBERSHIP, 4));
    assert_eq!(session.poll_timeout(), None, "only for drivers that tend it");
    assert_eq!(request(&mut session, ms(1)).1.action, Action::Join);
    assert_eq!(sent(&mut session, ms(2)), []);
    let mut session = rejoining();
    assert!(handle(&mut session, ms(2), &ack(Action::Join, Status::Ok, NEXT, 0)).is_some());
    assert_eq!(sent(&mut session, ms(3)), []);
    assert_eq!(request(&mut session, ms(2) + HEARTBEAT).1.got, control::generation(NEXT));
    // But not when it is of no further use.
    let (mut session, _) = running();
    assert!(session.handle_timeout(Duration::from_secs(9)).is_some());
    let farewells = sent(&mut session, Duration::from_secs(10));
    assert!(farewells.iter().all(|(_, body)| body[0] == Action::Leave as u8), "{farewells:?}");
    assert_eq!(sent(&mut session, Duration::from_secs(20)), []);
}

/// Holds R10.4 and R10.6 of protocol.md.
#[test]
fn in_the_next_generation_it_sends_again_what_has_no_result() {
    let (mut session, _) = running();
    handle(&mut session, ms(1), &packet(&Header { psn: FIRST, ..RESULT }, &[9; 16]));
    assert_eq!(sent(&mut session, ms(1)).len(), 1, "the fifth of six");
    assert_eq!(
        handle(&mut session, ms(2), &about(FIRST.wrapping_add(1), unsolicited(Status::NotMember, 0, 1))),
        None
    );
    // An unsolicited Ack tells no generation, so the first Join asks for it.
    let (header, join) = request(&mut session, ms(2));
    assert_eq!((header.epoch, join.action, join.session), (0, Action::Join, MEMBERSHIP.session));
    assert_eq!((join.expected, join.got), (control::generation(EPOCH), control::ASK));
    assert_eq!(handle(&mut session, ms(3), &ack(Action::Join, Status::Pending, NEXT, 0)), None);
    let (_, join) = request(&mut session, ms(3));
    assert_eq!((join.expected, join.got), (control::generation(EPOCH), control::generation(NEXT)));
    assert_eq!(handle(&mut session, ms(4), &ack(Action::Join, Status::Pending, NEXT, 0)), None);
    assert_eq!(sent(&mut session, ms(4)), []);
    // A result of the old generation is still good.
    handle(&mut session, ms(4), &packet(&Header { psn: FIRST.wrapping_add(2), ..RESULT }, &[9; 16]));
    assert_eq!(session.progress(), Some((2, 6)));
    let mut due = session.poll_timeout().unwrap();
    assert!(due > ms(4) && due < ms(40), "asks again: {due:?}");
    while due < ms(600) {
        assert_eq!(session.handle_timeout(due), None);
        request(&mut session, due);
        due = session.poll_timeout().unwrap();
    }

    let resumed = ack(Action::Join, Status::Ok, NEXT, control::generation(EPOCH));
    assert_eq!(handle(&mut session, due, &resumed), None);
    assert_eq!((session.membership().epoch, session.counters().resumed), (NEXT, 1));
    let mut packets = sent(&mut session, due);
    packets.retain(|(header, _)| header.kind != Kind::Control);
    // None of the time without a generation counts towards the timeout.
    let next = session.poll_timeout().unwrap();
    assert!(next > due && next < due + ms(20), "{:?}", next - due);
    let again: Vec<_> =
        packets.iter().map(|(header, _)| (header.psn.wrapping_sub(FIRST), header.flags)).collect();
    let flags = Flags::RETRANSMISSION;
    assert_eq!(again, [(1, flags), (3, flags), (4, flags), (5, Flags::FIN)]);
    assert!(packets.iter().all(|(header, body)| header.epoch == NEXT && body[..] == [1; 16][..body.len()]));
    // Now results of the old generation are not: others have not seen them, and may make another.
    handle(&mut session, due, &packet(&Header { psn: FIRST.wrapping_add(3), ..RESULT }, &[9; 16]));
    assert_eq!(session.counters().ignored(Ignored::WrongEpoch), 1);
    // What it has kept, it passes on in the new one.
    let reminder = Header { kind: Kind::Reminder, psn: FIRST, epoch: NEXT, ..RESULT };
    handle(&mut session, due, &packet(&reminder, &[]));
    let answers = sent(&mut session, due);
    assert_eq!((answers[0].0.kind, answers[0].0.epoch), (Kind::Result, NEXT));
    assert!(accounted(session.counters()));
}

#[test]
fn acks_from_before_the_change_raise_no_doubts() {
    let mut session = rejoining();
    handle(&mut session, ms(2), &ack(Action::Join, Status::Ok, NEXT, control::generation(EPOCH)));
    sent(&mut session, ms(2));
    let old = [
        to(1, ack(Action::Join, Status::Ok, EPOCH, 0)),
        to(1, ack(Action::Join, Status::Pending, EPOCH, 0)),
        to(1, ack(Action::Join, Status::WrongEpoch, NEXT, 0)),
        unsolicited(Status::WrongEpoch, u32::from(NEXT), u32::from(EPOCH)),
        unsolicited(Status::NotMember, 0, 1),
    ];
    for (number, datagram) in old.iter().enumerate() {
        assert_eq!(handle(&mut session, ms(3), datagram), None);
        assert_eq!(sent(&mut session, ms(3)), [], "{number}");
    }
    assert_eq!(session.membership().epoch, NEXT);
    assert!(accounted(session.counters()));
}

/// Found with seed 63639: an Ack from an earlier life of the appliance arrived when the worker had heard from
/// the next one and asked it to go on. It was taken for the answer to that, and the worker went on in a
/// generation that had ended.
/// Holds R9.4, R9.5 and R9.7 of protocol.md.
#[test]
fn an_answer_to_what_was_asked_before_the_news_is_none() {
    const THIRD: u16 = 77;
    let mut session = rejoining();
    assert_eq!(session.counters().ignored(Ignored::LateAnswer), 0);
    let (_, join) = {
        let due = session.poll_timeout().unwrap();
        request(&mut session, due)
    };
    assert_eq!(join.number, 3, "the second time that it has asked");
    // To the first time, but from the next life.
    assert_eq!(handle(&mut session, ms(40), &to(2, ack(Action::Join, Status::WrongEpoch, THIRD, 0))), None);
    let (_, join) = request(&mut session, ms(40));
    assert_eq!((join.number, join.got), (4, control::generation(THIRD)));
    let admitted = |epoch| ack(Action::Join, Status::Ok, epoch, control::generation(EPOCH));
    // Before the news, and of what it has never asked.
    for number in [1, 2, 3, 5, 1000, u32::MAX / 2] {
        assert_eq!(handle(&mut session, ms(41), &to(number, admitted(NEXT))), None);
    }
    assert_eq!((session.membership().epoch, session.counters().ignored(Ignored::LateAnswer)), (EPOCH, 6));
    assert_eq!(handle(&mut session, ms(42), &to(4, admitted(THIRD))), None);
    assert_eq!(session.membership().epoch, THIRD);
    assert!(accounted(session.counters()));
}

#[test]
fn doubts_end_when_the_appliance_says_that_the_generation_lives() {
    for status in [Status::Ok, Status::Pending] {
        let (mut session, _) = running();
        handle(&mut session, ms(1), &unsolicited(Status::NotMember, 0, 1));
        request(&mut session, ms(1));
        handle(&mut session, ms(2), &ack(Action::Join, status, EPOCH, 0));
        assert_eq!((session.membership().epoch, session.counters().resumed), (EPOCH, 0));
        handle(&mut session, ms(3), &packet(&RESULT, &[9; 16]));
        let next = sent(&mut session, ms(3));
        assert_eq!((next.len(), next[0].0.kind, next[0].0.epoch), (1, Kind::Gradient, EPOCH));
    }
}

/// Holds R9.8 of protocol.md.
#[test]
fn where_a_rank_starts_anew_the_allreduce_fails_and_the_next_one_is_the_first() {
    for (expected, window) in [(0, 8), (control::generation(EPOCH), 7)] {
        let mut session = rejoining();
        let mut anew = ack(Action::Join, Status::Ok, NEXT, expected);
        anew[22 + 27] = window;
        let Some(Event::Failed(Failure::Rejected { rejection, .. })) = handle(&mut session, ms(2), &anew)
        else {
            panic!()
        };
        let (expected, got) = (u32::from(NEXT), u32::from(EPOCH));
        assert_eq!(
            (rejection.reason, rejection.expected, rejection.got),
            (Reason::Generation, expected, got)
        );
        // It belongs to no generation, until its user wants it to.
        assert_eq!(sent(&mut session, ms(3)), []);
        assert_eq!(session.start(ms(4), BYTES, Element::I32_SUM, ms(100)), Ok(true));
        let (_, join) = request(&mut session, ms(4));
        assert_eq!((join.expected, join.got), (0, control::generation(NEXT)));
        assert_eq!(handle(&mut session, ms(5), &ack(Action::Join, Status::Pending, NEXT, 0)), None);
        assert_eq!(sent(&mut session, ms(5)), [], "others are not there yet");
        admit(&mut session, ms(6));
        let packets = sent(&mut session, ms(6));
        assert_eq!((packets[0].0.psn, packets[0].0.epoch, packets[0].0.flags), (FIRST, NEXT, Flags::NONE));
        assert_eq!((packets.len(), session.progress()), (4, Some((0, 6))));
        assert!(accounted(session.counters()));
    }
}

/// The generation that starts from nothing is complete.
fn admit(session: &mut Asking, now: Duration) {
    sent(session, now);
    assert_eq!(handle(session, now, &ack(Action::Join, Status::Ok, NEXT, 0)), None);
    assert_eq!(session.membership().epoch, NEXT);
}

/// A rank that waits to start from nothing has nothing that could be lost: it waits for the next generation
/// instead, and takes the window that it is granted there.
#[test]
fn another_restart_before_the_first_allreduce_of_a_generation_costs_nothing() {
    const THIRD: u16 = 77;
    let mut session = rejoining();
    assert!(handle(&mut session, ms(2), &ack(Action::Join, Status::Ok, NEXT, 0)).is_some());
    session.start(ms(3), BYTES, Element::I32_SUM, ms(900)).unwrap();
    request(&mut session, ms(3));
    assert_eq!(handle(&mut session, ms(4), &ack(Action::Join, Status::WrongEpoch, THIRD, 0)), None);
    let (_, join) = request(&mut session, ms(4));
    assert_eq!((join.expected, join.got), (0, control::generation(THIRD)));
    let mut narrower = ack(Action::Join, Status::Ok, THIRD, 0);
    narrower[22 + 27] = 3;
    assert_eq!(handle(&mut session, ms(5), &narrower), None);
    let packets = sent(&mut session, ms(5));
    assert_eq!((packets.len(), packets[0].0.epoch, packets[0].0.psn), (3, THIRD, FIRST));
    assert_eq!((session.progress(), session.counters().resumed), (Some((0, 6)), 0));
}

/// Found with a schedule in which only one rank had heard of the first of two restarts.
#[test]
fn who_has_done_nothing_in_a_generation_can_go_on_with_the_one_before_as_well() {
    const THIRD: u16 = 77;
    for result in [false, true] {
        let mut session = rejoining();
        let resumed = ack(Action::Join, Status::Ok, NEXT, control::generation(EPOCH));
        assert_eq!(handle(&mut session, ms(2), &resumed), None);
        sent(&mut session, ms(2));
        if result {
            handle(&mut session, ms(3), &packet(&Header { epoch: NEXT, ..RESULT }, &[9; 16]));
        }
        let late = HEARTBEAT + ms(10);
        sent(&mut session, late);
        assert_eq!(handle(&mut session, late, &to(3, ack(Action::Join, Status::WrongEpoch, THIRD, 0))), None);
        let (_, join) = request(&mut session, late);
        let before = if result { 0 } else { control::generation(EPOCH) };
        assert_eq!((join.expected, join.before), (control::generation(NEXT), before));
        let agreed = ack(Action::Join, Status::Ok, THIRD, control::generation(EPOCH));
        let event = handle(&mut session, late, &agreed);
        assert_eq!(event.is_some(), result, "{event:?}");
        assert_eq!(session.counters().resumed, if result { 1 } else { 2 });
    }
}

/// An appliance that has been started anew may not know a job that is formed by Joins, until one of them
/// comes.
#[test]
fn a_job_that_is_unknown_after_a_restart_is_joined_again() {
    let answers = [ack(Action::Join, Status::UnknownJob, 0, 0), unsolicited(Status::UnknownJob, 0, 3)];
    for answer in &answers {
        let (mut session, _) = running();
        assert_eq!(handle(&mut session, ms(1), answer), None);
        let (_, join) = request(&mut session, ms(1));
        assert_eq!((join.expected, join.got), (control::generation(EPOCH), control::ASK));
        // It may take a while.
        assert_eq!(handle(&mut session, ms(2), &answers[0]), None);
        assert_eq!(handle(&mut session, ms(3), &ack(Action::Join, Status::Pending, NEXT, 0)), None);
        request(&mut session, ms(3));
        let resumed = ack(Action::Join, Status::Ok, NEXT, control::generation(EPOCH));
        assert_eq!(handle(&mut session, ms(4), &resumed), None);
        assert_eq!((session.membership().epoch, session.counters().resumed), (NEXT, 1));
        assert!(accounted(session.counters()));
    }
    // Before it has been a member, that is final.
    let mut session = rejoining();
    session.leave(ms(2), ms(500));
    let end = handle(&mut session, ms(3), &ack(Action::Join, Status::UnknownJob, 0, 0));
    assert_eq!(end, Some(Event::Left(Left::Everyone)), "no rank can need what it has kept");
}

#[test]
fn a_generation_that_starts_from_nothing_is_one_of_partial_results_too() {
    let mut session = Asking::new(Session::new(MEMBERSHIP, 4).accept_partial());
    request(&mut session, ms(0));
    session.start(ms(0), 32, Element::I32_SUM, ms(900)).unwrap();
    sent(&mut session, ms(0));
    handle(&mut session, ms(1), &ack(Action::Join, Status::WrongEpoch, NEXT, 0));
    request(&mut session, ms(1));
    handle(&mut session, ms(2), &ack(Action::Join, Status::Ok, NEXT, 0));
    session.start(ms(3), 16, Element::I32_SUM, ms(900)).unwrap();
    admit(&mut session, ms(3));
    sent(&mut session, ms(3));
    let header = Header { epoch: NEXT, count: 2, flags: Flags::TRAILER, ..RESULT };
    let datagram = [packet(&header, &[5; 16]), bitmap_trailer(4, [0, 1])].concat();
    let event = session.handle_datagram(ms(4), &datagram, &mut [1; 16]);
    assert_eq!(event, Some(Event::Completed));
}

#[test]
fn what_was_kept_for_a_generation_that_is_not_resumed_is_not_passed_on() {
    let (mut session, mut tensor) = running();
    for offset in 0..6 {
        sent(&mut session, ms(1));
        let header = Header { psn: FIRST.wrapping_add(offset), ..RESULT };
        session.handle_datagram(
            ms(1),
            &packet(&header, &[3; 16][..if offset == 5 { 8 } else { 16 }]),
            &mut tensor,
        );
    }
    // Between two allreduces.
    assert_eq!(session.poll_timeout(), None);
    let tended = ms(2) + HEARTBEAT;
    request(&mut session, tended);
    handle(&mut session, tended, &ack(Action::Join, Status::WrongEpoch, NEXT, 0));
    request(&mut session, tended);
    assert_eq!(handle(&mut session, tended, &ack(Action::Join, Status::Ok, NEXT, 0)), None);
    assert_eq!(sent(&mut session, tended), []);
    // Being tended, it joins before its user wants it to.
    let late = tended + HEARTBEAT;
    assert_eq!(request(&mut session, late).1.expected, 0);
    admit(&mut session, late);
    let reminder = Header { kind: Kind::Reminder, psn: FIRST, epoch: NEXT, ..RESULT };
    handle(&mut session, late, &packet(&reminder, &[]));
    assert_eq!(session.counters().ignored(Ignored::ReminderUnanswerable), 1);
    assert_eq!(sent(&mut session, late), []);
    // Told once.
    let mut start = || session.start(late, BYTES, Element::I32_SUM, ms(100));
    assert_eq!(start(), Err(StartError::Ended { expected: NEXT, got: EPOCH }));
    assert_eq!(start(), Ok(true));
}

#[test]
fn lost_ranks_fail_the_allreduce_by_name() {
    let named = |mut datagram: Vec<u8>, ranks: &[u16]| {
        datagram[2] = Flags::TRAILER.bits();
        datagram[22 + 35] = u8::try_from(ranks.len()).unwrap();
        datagram[22 + 39] = u8::try_from(ranks[0]).unwrap();
        datagram.extend(bitmap_trailer(4, ranks.iter().copied()));
        datagram
    };
    // In answer to a heartbeat, or while it asks to go on.
    let acks = [ack(Action::Join, Status::RankLost, EPOCH, 0)];
    for session in [running().0, rejoining()] {
        let (mut session, datagram) = (session, &acks[0]);
        let event = handle(&mut session, ms(5), &named(datagram.clone(), &[0, 3]));
        let Some(Event::Failed(Failure::Rejected { rejection, .. })) = event else { panic!("{event:?}") };
        assert!(rejection.to_string().starts_with("ranks 0, 3 of job 3 have died: "), "{rejection}");
        assert!(accounted(session.counters()));
    }
    // A trailer that disagrees with the body names no rank.
    let mut wrong = named(acks[0].clone(), &[0, 3]);
    wrong[22 + 35] = 3;
    let event = handle(&mut running().0, ms(5), &wrong);
    let Some(Event::Failed(Failure::Rejected { rejection, .. })) = event else { panic!("{event:?}") };
    assert!(rejection.to_string().starts_with("3 ranks of job 3 have died, the first of them rank 0"));
}
