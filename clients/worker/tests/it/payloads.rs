//! Ranks that agree on a payload, and where payloads lie.

use pascaline_wire::control::{AT_MOST, Action, Control, Status};
use pascaline_wire::{Element, Header, Kind};
use pascaline_worker::session::HEARTBEAT;
use pascaline_worker::{Event, Failure, Identity, Join, JoinFailure, Membership, Reason, Rejection, Session};

use crate::aggregator::packet;
use crate::asking::{Asking, NEXT, ack, handle, ms, request, sent};
use crate::datagrams::{BYTES, IDENTITY, MEMBERSHIP, PAYLOAD, RESULT};

/// What a Join comes to whose Ack says this payload.
fn joined(join: Join, said: u16, agreed: u16) -> Result<Membership, JoinFailure> {
    let mut join = join;
    let (_, body) = Header::parse(join.poll_transmit(ms(0)).unwrap()).unwrap();
    let request = Control::parse(body).unwrap();
    assert_eq!(request.payload, said);
    let ok = Control {
        answers: Some(Action::Join),
        number: request.number,
        payload: agreed,
        window: 8,
        ..Control::request(Action::Ack, 77)
    };
    let ok = packet(&Header { kind: Kind::Control, rank: 1, ..RESULT }, &ok.to_bytes());
    join.handle_datagram(&ok).expect("it is a member, or refuses")
}

fn join() -> Join {
    Join::new(Identity { payload: 1448, ..IDENTITY }, 77, 8, ms(0), ms(1000))
}

#[test]
fn a_rank_that_was_told_no_payload_takes_what_the_ranks_agree_on() {
    for agreed in [1408, 1448, 8] {
        let member = joined(join().flexible(), 1448 | AT_MOST, agreed).unwrap();
        assert_eq!((member.identity.payload, member.flexible), (agreed, true));
    }
    let refused = |join, said, agreed| match joined(join, said, agreed) {
        Err(JoinFailure::Rejected(Rejection { expected, got, reason: Reason::Payload, .. })) => {
            (expected, got)
        }
        other => panic!("{other:?}"),
    };
    // Longer packets than it can send; and other ones than it was given.
    assert_eq!(refused(join().flexible(), 1448 | AT_MOST, 1456), (1456, 1448));
    assert_eq!(refused(join().flexible(), 1448 | AT_MOST, 1004), (1004, 1448));
    assert_eq!(refused(join(), 1448, 1408), (1408, 1448));
}

/// One of the ranks has started anew, on a way with a smaller MTU.
#[test]
fn where_the_ranks_begin_anew_they_may_agree_on_less() {
    for (agreed, flexible) in [(8, true), (PAYLOAD, true), (8, false), (PAYLOAD + 8, true)] {
        let mut session = Asking::new(Session::new(Membership { flexible, ..MEMBERSHIP }, 16));
        request(&mut session, ms(0));
        // An Ack of a generation that resumes none.
        assert_eq!(handle(&mut session, ms(1), &ack(Action::Join, Status::WrongEpoch, NEXT, 0)), None);
        assert_eq!(request(&mut session, ms(1)).1.payload, PAYLOAD, "to go on, it keeps to what is agreed");
        assert_eq!(handle(&mut session, ms(2), &ack(Action::Join, Status::Ok, NEXT, 0)), None);
        assert!(session.start(ms(3), BYTES, Element::I32_SUM, ms(9000)).is_err(), "told once");
        assert_eq!(session.start(ms(3), BYTES, Element::I32_SUM, ms(9000)), Ok(true));
        let (_, join) = request(&mut session, ms(3) + HEARTBEAT);
        assert_eq!(join.payload, if flexible { PAYLOAD | AT_MOST } else { PAYLOAD });
        let mut ok = ack(Action::Join, Status::Ok, NEXT, 0);
        ok[22 + 24..22 + 26].copy_from_slice(&agreed.to_be_bytes());
        let event = handle(&mut session, ms(4) + HEARTBEAT, &ok);
        if agreed > PAYLOAD || agreed < PAYLOAD && !flexible {
            let Some(Event::Failed(Failure::Rejected { rejection, .. })) = event else { panic!("{event:?}") };
            let (expected, got) = (agreed.into(), PAYLOAD.into());
            assert_eq!(
                (rejection.reason, rejection.expected, rejection.got),
                (Reason::Payload, expected, got)
            );
            continue;
        }
        assert_eq!(event, None);
        let lengths: Vec<_> = sent(&mut session, ms(4) + HEARTBEAT)
            .iter()
            .filter(|(header, _)| header.kind == Kind::Gradient)
            .map(|(_, body)| body.len())
            .collect();
        assert_eq!(lengths.iter().max(), Some(&usize::from(agreed)));
        assert_eq!(session.membership().identity.payload, agreed);
        assert_eq!(session.progress(), Some((0, u32::try_from(BYTES).unwrap().div_ceil(agreed.into()))));
    }
}

#[test]
fn a_driver_is_told_where_the_payloads_to_come_lie() {
    let mut session = Session::new(MEMBERSHIP, 8);
    assert_eq!(session.start(ms(0), BYTES, Element::I32_SUM, ms(9000)), Ok(true));
    let tensor: Vec<u8> = (0..BYTES).map(|at| u8::try_from(at).unwrap()).collect();
    let packets: Vec<_> = core::iter::from_fn(|| session.poll_transmit(ms(0))).collect();
    let told = |at: usize, further| packets[at].ahead(&tensor, further);
    assert_eq!(told(0, 2), session.payload(&packets[2], &tensor));
    assert_eq!(told(2, 2), session.payload(&packets[4], &tensor));
    // The last one is shorter: it would not be whole.
    assert_eq!((told(3, 2), told(5, 4)), (&[][..], &[][..]));
}
