//! What a session ignores, and what it does not send, while it asks about its generation: at its appliance,
//! or at the backup that it has turned to.

use std::time::Duration;

use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::{Element, Flags, Header, Kind};
use pascaline_worker::{Event, Failure, Places, Session, StartError};

use crate::aggregator::packet;
use crate::asking::{Asking, NEXT, ack, handle, ms, rejoining, request, running, sent, to};
use crate::datagrams::{BYTES, EPOCH, FIRST, MEMBERSHIP, RESULT, unsolicited};

/// What requests among these packets ask for, in their order.
fn actions(packets: &[(Header, Vec<u8>)]) -> Vec<Action> {
    let requests = packets.iter().filter(|(header, _)| header.kind == Kind::Control);
    requests.map(|(_, body)| Control::parse(body).unwrap().action).collect()
}

/// Holds R9.13 of protocol.md.
#[test]
fn an_ack_to_another_rank_or_of_another_job_is_ignored() {
    let refused = unsolicited(Status::WrongEpoch, NEXT.into(), EPOCH.into());
    for datagram in [refused, ack(Action::Join, Status::WrongEpoch, NEXT, 0)] {
        let (mut session, _) = running();
        // The last bytes of the job and of the rank.
        for at in [5, 7] {
            let mut foreign = datagram.clone();
            foreign[at] ^= 1;
            assert_eq!(handle(&mut session, ms(1), &foreign), None);
            assert_eq!(sent(&mut session, ms(1)), []);
        }
        assert_eq!(handle(&mut session, ms(2), &datagram), None);
        assert_eq!(request(&mut session, ms(2)).1.expected, control::generation(EPOCH), "its own");
    }
}

/// Holds R9.5 of protocol.md.
#[test]
fn an_answer_to_a_query_that_was_not_asked_is_ignored() {
    let (mut session, _) = running();
    let mut now = ms(0);
    while !actions(&sent(&mut session, now)).contains(&Action::Query) {
        now = session.poll_timeout().unwrap();
        assert_eq!(session.handle_timeout(now), None);
    }
    let answer = ack(Action::Query, Status::Ok, EPOCH, 0);
    let acks = session.counters().acks;
    for number in [0, 1 << 20, u32::MAX / 2] {
        assert_eq!(handle(&mut session, now, &to(number, answer.clone())), None);
    }
    assert_eq!(session.counters().acks, acks);
    assert_eq!(handle(&mut session, now, &answer), None);
    assert_eq!(session.counters().acks, acks + 1);
}

/// Holds R10.5 of protocol.md.
#[test]
fn while_its_generation_is_in_doubt_it_sends_nothing_about_a_psn() {
    let mut session = rejoining();
    // A result of the former generation, which makes room for the next contribution.
    handle(&mut session, ms(1), &packet(&Header { psn: FIRST, ..RESULT }, &[9; 16]));
    assert_eq!(session.progress(), Some((1, 6)));
    let mut asked = Vec::new();
    for tenth in 1..50 {
        let now = ms(100 * tenth);
        for (psn, flags) in [(FIRST, Flags::NONE), (FIRST + 1, Flags::NONE), (FIRST + 1, Flags::BYPASS)] {
            handle(&mut session, now, &packet(&Header { kind: Kind::Reminder, psn, flags, ..RESULT }, &[]));
        }
        assert_eq!(session.handle_timeout(now), None);
        let packets = sent(&mut session, now);
        assert!(packets.iter().all(|(header, _)| header.kind == Kind::Control), "{packets:?}");
        asked.extend(actions(&packets));
    }
    assert!(asked.iter().all(|action| [Action::Join, Action::Query].contains(action)), "{asked:?}");
    assert!(asked.contains(&Action::Join) && asked.contains(&Action::Query));
}

/// Waits with nothing but silence until the session turns to the other of two appliances, and asks there.
fn turned(session: &mut Asking, mut now: Duration) -> Duration {
    let here = session.places().at();
    while session.places().at() == here {
        sent(session, now);
        now = session.poll_timeout().unwrap().max(now);
        assert_eq!(session.handle_timeout(now), None);
    }
    let (_, join) = request(session, now);
    assert_eq!((join.action, join.got), (Action::Join, control::ASK));
    now
}

/// A session whose appliance fell silent inside an operation, and that has asked at the backup to resume.
fn at_the_backup() -> (Asking, Duration) {
    let mut session = Asking::new(Session::new(MEMBERSHIP, 4).among(Places::new(2, ms(500))));
    assert_eq!(session.start(ms(0), BYTES, Element::I32_SUM, Duration::from_secs(9)), Ok(true));
    let now = turned(&mut session, ms(0));
    (session, now)
}

/// Another rank may lack a result of an earlier operation, and wait at the backup.
#[test]
fn without_an_operation_it_turns_only_while_another_tree_has_one_and_later() {
    let mut session = Asking::new(Session::new(MEMBERSHIP, 4).among(Places::new(2, ms(500))));
    for tenth in 0..100 {
        sent(&mut session, ms(100 * tenth));
        assert_eq!(session.handle_timeout(ms(100 * tenth)), None);
    }
    assert_eq!(session.places().at(), 0);
    session.attend(ms(10_000), true);
    let now = turned(&mut session, ms(10_000));
    assert!((ms(15_500)..ms(15_700)).contains(&now), "{now:?}");
    let mut other = Asking::new(Session::new(MEMBERSHIP, 4).among(Places::new(2, ms(500))));
    other.attend(ms(0), true);
    sent(&mut other, ms(0));
    other.attend(ms(1), false);
    assert_eq!(other.poll_timeout(), None);
}

/// Holds R10.8 of protocol.md.
#[test]
fn who_cannot_resume_at_a_backup_does_not_begin_anew_there() {
    let (mut session, now) = at_the_backup();
    let event = handle(&mut session, now, &ack(Action::Join, Status::Ok, NEXT, 0));
    assert!(matches!(event, Some(Event::Failed(Failure::Rejected { .. }))), "{event:?}");
    assert_eq!(session.start(now, BYTES, Element::I32_SUM, ms(100)), Err(StartError::Broken));
    assert_eq!(session.places().at(), 0, "the others may still be in its generation");
    let packets: Vec<_> = (0..100).flat_map(|tenth| sent(&mut session, now + ms(100 * tenth))).collect();
    assert_eq!(actions(&packets), [Action::Leave; 2]);
    assert_eq!(packets.len(), 2);
}

/// Holds R10.7 of protocol.md.
#[test]
fn who_has_resumed_at_a_backup_does_not_go_back_to_the_generation_before() {
    for status in [Status::Ok, Status::Pending, Status::WrongEpoch] {
        let (mut session, now) = at_the_backup();
        let resumed = ack(Action::Join, Status::Ok, NEXT, control::generation(EPOCH));
        assert_eq!(handle(&mut session, now, &resumed), None);
        assert_eq!(session.membership().epoch, NEXT);
        // The backup falls silent as well, and at the first one the former generation is still there.
        let now = turned(&mut session, now);
        assert_eq!(session.places().at(), 0);
        let _ = handle(&mut session, now, &ack(Action::Join, status, EPOCH, 0));
        assert_eq!(session.membership().epoch, NEXT, "{status:?}");
        let packets: Vec<_> = (0..10).flat_map(|tenth| sent(&mut session, now + ms(100 * tenth))).collect();
        assert!(packets.iter().all(|(header, _)| header.kind == Kind::Control), "{packets:?}");
    }
}
