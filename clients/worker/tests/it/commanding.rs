//! Commands of a member: what is sent, which answers count, and what follows.

use std::time::Duration;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::{Element, Header, Kind};
use pascaline_worker::{Command, CommandFailure, Event, Reason, Session, StartError};

use crate::aggregator::packet;
use crate::asking::{Asking, NEXT, about, ack, handle, ms, request, running, sent, to};
use crate::datagrams::{BYTES, EPOCH, FIRST, MEMBERSHIP, RESULT, accounted, unsolicited};

const PATIENCE: Duration = Duration::from_secs(5);
const OBEYED: Option<Event> = Some(Event::Commanded(Ok(())));

/// A session that has sent a heartbeat and this command.
fn commanding(command: Command) -> (Asking, Header, Control) {
    let mut session = Asking::new(Session::new(MEMBERSHIP, 4));
    request(&mut session, ms(0));
    session.command(ms(1), command, PATIENCE).unwrap();
    assert_eq!(session.command(ms(1), command, PATIENCE), Err(StartError::Busy));
    assert_eq!(session.start(ms(1), BYTES, Element::I32_SUM, PATIENCE), Err(StartError::Busy));
    let (header, body) = request(&mut session, ms(1));
    assert_eq!((header.rank, header.epoch, body.session), (1, EPOCH, MEMBERSHIP.session));
    (session, header, body)
}

fn refusal(event: Option<Event>) -> Reason {
    match event {
        Some(Event::Commanded(Err(CommandFailure::Refused { rejection, .. }))) => rejection.reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_command_says_what_is_wanted_and_ends_with_its_answer() {
    for (command, action, psn, expected) in [
        (Command::Halt, Action::Halt, 0, 0),
        (Command::Reset, Action::Reset, 0, 0),
        (Command::SetH(3), Action::SetH, 0, 3),
        (Command::FBcast(77), Action::FBcast, 77, 0),
        (Command::Help(78), Action::Help, 78, 0),
    ] {
        let (mut session, header, body) = commanding(command);
        assert_eq!((header.kind, header.psn), (Kind::Control, psn), "{command}");
        assert_eq!((body.action, body.number, body.expected), (action, 2, expected), "{command}");
        if psn == 0 {
            // Neither the heartbeat's answer nor that to another command.
            for other in
                [to(1, ack(Action::Join, Status::Ok, EPOCH, 0)), ack(Action::Leave, Status::Ok, EPOCH, 0)]
            {
                assert_eq!(handle(&mut session, ms(2), &other), None, "{command}");
            }
            assert_eq!(handle(&mut session, ms(3), &ack(action, Status::Ok, EPOCH, 0)), OBEYED);
            assert_eq!(handle(&mut session, ms(4), &ack(action, Status::Ok, EPOCH, 0)), None, "once");
        } else {
            for kind in [Kind::Result, Kind::Reminder] {
                let (mut session, ..) = commanding(command);
                let about = |psn| {
                    packet(&Header { kind, psn, ..RESULT }, if kind == Kind::Result { &[5; 16] } else { &[] })
                };
                assert_eq!(handle(&mut session, ms(2), &about(psn + 1)), None, "{command}");
                assert_eq!(handle(&mut session, ms(2), &about(psn)), OBEYED, "{command}");
                assert!(accounted(session.counters()));
            }
        }
        assert!(accounted(session.counters()));
    }
}

#[test]
fn it_is_repeated_until_it_is_answered_but_not_for_ever() {
    let (mut session, ..) = commanding(Command::Halt);
    let mut times = 1;
    let (end, event) = loop {
        let due = session.poll_timeout().unwrap();
        if let Some(event) = session.handle_timeout(due) {
            break (due, event);
        }
        let repeated = sent(&mut session, due);
        times += repeated.iter().filter(|(_, body)| body[0] == Action::Halt as u8).count();
    };
    assert_eq!(end, ms(1) + PATIENCE);
    assert!((40..=60).contains(&times), "{times}");
    let Event::Commanded(Err(failure)) = event else { panic!("{event:?}") };
    assert!(failure.to_string().starts_with("halt: no answer in 5.0s: Is this"), "{failure}");
    // A late answer to an earlier command is none to this one.
    session.command(end, Command::Halt, PATIENCE).unwrap();
    assert_eq!(handle(&mut session, end, &ack(Action::Halt, Status::Ok, EPOCH, 0)), None);
    request(&mut session, end);
    assert_eq!(handle(&mut session, end, &ack(Action::Halt, Status::Ok, EPOCH, 0)), OBEYED);
}

#[test]
fn who_asks_for_a_result_that_goes_to_others_does_not_wait_for_it() {
    let (mut session, ..) = commanding(Command::Help(9));
    assert_eq!(session.handle_timeout(ms(250)), None);
    assert_eq!(session.handle_timeout(ms(251)), OBEYED);
    let (mut session, ..) = commanding(Command::FBcast(9));
    assert_eq!(session.handle_timeout(ms(251)), None);
    let Some(Event::Commanded(Err(failure))) = session.handle_timeout(ms(5_001)) else { panic!() };
    let why = "PSN 9 is outside the job's window, or its result was lost";
    assert_eq!(failure.to_string(), format!("fbcast=9: no answer in 5.0s: {why}"));
}

#[test]
fn a_refusal_names_its_reason_and_too_many_is_none() {
    let (mut session, ..) = commanding(Command::SetH(9));
    assert_eq!(handle(&mut session, ms(2), &ack(Action::SetH, Status::TooMany, EPOCH, 0)), None);
    let no = ack(Action::SetH, Status::NotPermitted, EPOCH, 0);
    assert_eq!(refusal(handle(&mut session, ms(2), &no)), Reason::NotPermitted);
    assert!(session.command(ms(3), Command::FBcast(9), PATIENCE).is_ok(), "it is a member as before");
    request(&mut session, ms(3));
    let unknown = |psn| about(psn, unsolicited(Status::UnknownPsn, 0, psn));
    assert_eq!(handle(&mut session, ms(4), &unknown(8)), None);
    assert_eq!(refusal(handle(&mut session, ms(4), &unknown(9))), Reason::UnknownPsn);
    assert!(accounted(session.counters()));
}

#[test]
fn after_its_own_reset_it_goes_on_from_nothing() {
    let (mut session, ..) = commanding(Command::Reset);
    assert_eq!(handle(&mut session, ms(2), &ack(Action::Reset, Status::Ok, NEXT, 0)), OBEYED);
    assert_eq!(session.start(ms(3), BYTES, Element::I32_SUM, PATIENCE), Ok(true));
    let (_, join) = request(&mut session, ms(3));
    assert_eq!((join.action, join.expected), (Action::Join, 0));
    handle(&mut session, ms(4), &ack(Action::Join, Status::Ok, NEXT, 0));
    let gradients = sent(&mut session, ms(4));
    assert_eq!((gradients.len(), gradients[0].0.psn, gradients[0].0.epoch), (4, FIRST, NEXT));
}

#[test]
fn while_its_generation_is_in_doubt_it_asks_about_that_alone_and_sleeps_between() {
    let mut session = Asking::new(Session::new(MEMBERSHIP, 4));
    request(&mut session, ms(0));
    assert_eq!(handle(&mut session, ms(1), &ack(Action::Join, Status::WrongEpoch, NEXT, 0)), None);
    session.command(ms(1), Command::Halt, PATIENCE).unwrap();
    let (mut now, mut wakes) = (ms(1), 0);
    let event = loop {
        assert!(sent(&mut session, now).iter().all(|(_, body)| body[0] == Action::Join as u8));
        let due = session.poll_timeout().unwrap();
        assert!(due > now, "it is woken for what cannot be sent");
        now = due;
        wakes += 1;
        if let Some(event) = session.handle_timeout(now) {
            break event;
        }
    };
    assert_eq!(now, ms(1) + PATIENCE);
    assert!(wakes < 100, "{wakes}");
    let Event::Commanded(Err(failure)) = event else { panic!("{event:?}") };
    assert!(failure.to_string().starts_with("halt: no answer in 5.0s"), "{failure}");
}

#[test]
fn not_while_an_operation_runs_nor_after_it_has_left() {
    let (mut session, _) = running();
    assert_eq!(session.command(ms(1), Command::Halt, PATIENCE), Err(StartError::Busy));
    let (mut session, ..) = commanding(Command::Halt);
    session.leave(ms(2), ms(500));
    assert_eq!(request(&mut session, ms(2)).1.action, Action::Leave);
    assert_eq!(session.command(ms(2), Command::Halt, PATIENCE), Err(StartError::Broken));
}
