//! Leaving: who stays, and for how long.

use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::{Element, Header, Kind};
use pascaline_worker::{Event, Left, Session, StartError};

use crate::aggregator::packet;
use crate::datagrams::{EPOCH, FIRST, MEMBERSHIP, RESULT, accounted, unsolicited};

use crate::asking::{Asking, NEXT, ack, beginning, handle, ms, rejoining, request, sent, to};

/// A session that is leaving, with its first request sent.
fn leaving() -> Asking {
    let mut session = Asking::new(Session::new(MEMBERSHIP, 4));
    session.leave(ms(0), ms(500));
    let (header, leave) = request(&mut session, ms(0));
    assert_eq!(
        leave,
        Control {
            number: 1,
            psn: FIRST,
            first: FIRST,
            ..Control::request(Action::Leave, MEMBERSHIP.session)
        }
    );
    assert_eq!((header.rank, header.epoch), (1, EPOCH));
    session
}

#[test]
fn leaving_lasts_until_everyone_has_left_or_the_linger_limit() {
    let left = |left| Some(Event::Left(left));
    let mut session = leaving();
    assert_eq!(session.start(ms(1), 4, Element::F32_SUM, ms(1)), Err(StartError::Broken));
    let foreign = [
        ack(Action::Join, Status::Ok, EPOCH, 0),
        ack(Action::Leave, Status::Pending, EPOCH, 0),
        unsolicited(Status::NotMember, 0, 1),
        ack(Action::Leave, Status::TooMany, EPOCH, 0),
    ];
    for datagram in foreign {
        assert_eq!(handle(&mut session, ms(1), &datagram), None);
    }
    assert!(accounted(session.counters()));
    let due = session.poll_timeout().unwrap();
    assert_eq!(request(&mut session, due).1.action, Action::Leave);
    assert_eq!(handle(&mut session, due, &ack(Action::Leave, Status::Ok, EPOCH, 0)), left(Left::Everyone));
    assert_eq!((session.poll_timeout(), sent(&mut session, ms(600))), (None, vec![]));
    let mut session = leaving();
    assert_eq!(session.handle_timeout(ms(499)), None);
    assert_eq!(session.handle_timeout(ms(500)), left(Left::Lingered));
}

/// An appliance that was started anew may begin with the very number that the generation had: others may
/// still need this rank, which asks.
#[test]
fn who_is_not_known_in_a_generation_of_the_same_number_asks_to_go_on() {
    let mut session = leaving();
    assert_eq!(handle(&mut session, ms(2), &ack(Action::Leave, Status::NotMember, EPOCH, 0)), None);
    let (_, join) = request(&mut session, ms(2));
    assert_eq!((join.action, join.expected), (Action::Join, control::generation(EPOCH)));
    let gone = handle(&mut session, ms(3), &ack(Action::Join, Status::StaleSession, EPOCH, 0));
    assert_eq!(gone, Some(Event::Left(Left::Everyone)));
    // Nor is one that does not name its first PSN the one that it is in.
    let mut session = leaving();
    assert_eq!(handle(&mut session, ms(2), &beginning(0, waiting(0))), None);
    assert_eq!(request(&mut session, ms(2)).1.action, Action::Join);
}

/// The answer to a Leave: others are still there, and this many of them wait inside an allreduce.
fn waiting(ranks: u32) -> Vec<u8> {
    ack(Action::Leave, Status::Pending, EPOCH, ranks)
}

/// Has every result of an allreduce that might have taken 30 s, and begins to leave at 10 ms, with a linger
/// limit of 500 ms.
fn done() -> Asking {
    let mut session = Asking::new(Session::new(MEMBERSHIP, 4));
    session.start(ms(0), 16, Element::I32_SUM, ms(30_000)).unwrap();
    sent(&mut session, ms(0));
    let event = session.handle_datagram(ms(10), &packet(&RESULT, &[5; 16]), &mut [1; 16]);
    assert_eq!(event, Some(Event::Completed));
    session.leave(ms(10), ms(500));
    session
}

/// Asks until it has left, and gives the answer to each Leave 1 ms later. When it has left, in milliseconds.
fn leave(session: &mut Asking, mut answer: impl FnMut(u64) -> Option<Vec<u8>>) -> (u64, Left) {
    loop {
        let due = session.poll_timeout().unwrap();
        let mut event = session.handle_timeout(due);
        let mut now = due;
        if event.is_none() {
            request(session, due);
            now = due + ms(1);
            let at = u64::try_from(now.as_millis()).unwrap();
            event = answer(at).and_then(|answer| handle(session, now, &answer));
        }
        match event {
            Some(Event::Left(left)) => return (u64::try_from(now.as_millis()).unwrap(), left),
            Some(event) => panic!("{event:?}"),
            None => {}
        }
    }
}

/// The demonstration came to this on a busy machine: three ranks had the last result, asked for 500 ms
/// whether all had left, and went; the fourth, which had not come to its first reminder by then, waited for
/// them until its deadline.
#[test]
fn who_leaves_stays_as_long_as_a_rank_waits() {
    let until = |end| move |now| Some(waiting(u32::from(now < end)));
    let (at, left) = leave(&mut done(), until(5_000));
    assert!((5_400..=5_600).contains(&at), "{at}");
    assert_eq!(left, Left::Lingered);
    // No other rank waits at all.
    let (at, _) = leave(&mut done(), until(0));
    assert!((510..=610).contains(&at), "{at}");
    // Not forever: operations that it could help with have reached their deadlines.
    assert_eq!(leave(&mut done(), until(u64::MAX)), (30_510, Left::Lingered));
}

/// Holds R9.14 of protocol.md.
#[test]
fn a_reminder_is_a_reason_to_stay() {
    let mut session = done();
    for at in (100..3_000).step_by(100) {
        request(&mut session, ms(at));
        let reminder = Header { kind: Kind::Reminder, ..RESULT };
        assert_eq!(handle(&mut session, ms(at), &packet(&reminder, &[])), None);
        assert_eq!(sent(&mut session, ms(at)).len(), 1);
        assert_eq!(handle(&mut session, ms(at), &waiting(0)), None, "after {at} ms");
    }
    // A request for a PSN that it never had does not keep it.
    let unknown = Header { kind: Kind::Reminder, psn: FIRST.wrapping_add(1), ..RESULT };
    handle(&mut session, ms(3_300), &packet(&unknown, &[]));
    request(&mut session, ms(3_500));
    assert_eq!(handle(&mut session, ms(3_500), &waiting(0)), Some(Event::Left(Left::Lingered)));
}

/// It may be starting anew, and the others cannot go on then without those who have left.
#[test]
fn an_appliance_that_does_not_answer_is_waited_for() {
    let (at, left) = leave(&mut done(), |_| None);
    assert_eq!((at, left), (10 + 5_000, Left::Lingered));
    let (at, _) = leave(&mut done(), |now| (now < 1_000).then(|| waiting(1)));
    assert!((5_900..6_000).contains(&at), "{at}");
    // It comes back after three seconds, and then it takes others a while to say that they wait.
    let mut session = done();
    request(&mut session, ms(10));
    handle(&mut session, ms(3_000), &ack(Action::Leave, Status::NotMember, NEXT, 0));
    request(&mut session, ms(3_000));
    assert_eq!(session.handle_timeout(ms(5_500)), None);
    let resumed = ack(Action::Join, Status::Ok, NEXT, control::generation(EPOCH));
    assert_eq!(handle(&mut session, ms(5_500), &resumed), None);
    let pending = ack(Action::Leave, Status::Pending, NEXT, 0);
    request(&mut session, ms(5_500));
    assert_eq!(handle(&mut session, ms(5_501), &pending), None);
    request(&mut session, ms(5_999));
    assert_eq!(handle(&mut session, ms(5_999), &pending), None);
    request(&mut session, ms(6_100));
    assert_eq!(handle(&mut session, ms(6_100), &pending), Some(Event::Left(Left::Lingered)));
}

#[test]
fn who_leaves_joins_an_appliance_that_was_started_anew_and_leaves_again() {
    for status in [Status::NotMember, Status::WrongEpoch] {
        let mut session = leaving();
        assert_eq!(handle(&mut session, ms(2), &ack(Action::Leave, status, NEXT, 0)), None);
        let (_, join) = request(&mut session, ms(2));
        assert_eq!((join.expected, join.got), (control::generation(EPOCH), control::generation(NEXT)));
        assert!(session.poll_timeout().unwrap() > ms(2), "it does not spin");
        let resumed = ack(Action::Join, Status::Ok, NEXT, control::generation(EPOCH));
        assert_eq!(handle(&mut session, ms(3), &resumed), None);
        let (header, leave) = request(&mut session, ms(3));
        assert_eq!((header.epoch, leave.action), (NEXT, Action::Leave));
        // Answers to the Leave of before.
        for status in [Status::NotMember, Status::WrongEpoch] {
            assert_eq!(handle(&mut session, ms(4), &to(1, ack(Action::Leave, status, NEXT, 0))), None);
        }
        let end = handle(&mut session, ms(5), &ack(Action::Leave, Status::Ok, NEXT, 0));
        assert_eq!(end, Some(Event::Left(Left::Everyone)));
        assert!(accounted(session.counters()));
    }
    // It is not admitted again: no rank needs it.
    let mut session = leaving();
    handle(&mut session, ms(2), &ack(Action::Leave, Status::NotMember, NEXT, 0));
    request(&mut session, ms(2));
    let end = handle(&mut session, ms(3), &ack(Action::Join, Status::StaleSession, NEXT, 0));
    assert_eq!(end, Some(Event::Left(Left::Everyone)));
    // A rank has started anew: no rank needs it or waits for it.
    let mut session = leaving();
    handle(&mut session, ms(2), &ack(Action::Leave, Status::NotMember, NEXT, 0));
    request(&mut session, ms(2));
    let end = handle(&mut session, ms(3), &ack(Action::Join, Status::Ok, NEXT, 0));
    assert_eq!(end, Some(Event::Left(Left::Everyone)));
    // The same, known before it leaves.
    let mut session = rejoining();
    assert!(handle(&mut session, ms(2), &ack(Action::Join, Status::Ok, NEXT, 0)).is_some());
    session.leave(ms(3), ms(500));
    assert_eq!((sent(&mut session, ms(3)), session.poll_timeout()), (vec![], Some(ms(3))));
    assert_eq!(session.handle_timeout(ms(3)), Some(Event::Left(Left::Everyone)));
    // No rank comes back: the limit holds.
    let mut session = leaving();
    handle(&mut session, ms(2), &ack(Action::Leave, Status::NotMember, NEXT, 0));
    let mut end = None;
    while end.is_none() {
        let due = session.poll_timeout().unwrap();
        assert!(due <= ms(500));
        end = session.handle_timeout(due);
        sent(&mut session, due);
    }
    assert_eq!(end, Some(Event::Left(Left::Lingered)));
}
