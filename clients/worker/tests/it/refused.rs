//! Packets that hosts on the way refuse, also with backup appliances: no socket, and no time that passes.

use std::time::Duration;

use pascaline_wire::Element;
use pascaline_worker::way::CLOSED;
use pascaline_worker::{Event, Failure, Join, JoinFailure, Obstacle, Places, Session, Unreachable};

use crate::datagrams::{IDENTITY, MEMBERSHIP, running};
use crate::units::ms;

const REFUSED: Unreachable = Unreachable { obstacle: Obstacle::NothingListens, by: None };
const DEADLINE: Duration = ms(8000);

/// Two appliances, of which one that says nothing at all is waited for until the deadline.
fn two() -> Places {
    Places::new(2, 2 * DEADLINE)
}

/// Where the worker learns that its way is closed at each place, one after the other.
const TURNS: [usize; 4] = [0, 1, 0, 1];

#[test]
fn who_joins_turns_where_it_is_refused_and_goes_on_asking() {
    let mut join = Join::new(IDENTITY, 55, 512, ms(0), DEADLINE).among(two());
    let mut seen = Vec::new();
    let mut refused = None;
    let failure = loop {
        let now = join.poll_timeout();
        if let Some(failure) = join.handle_timeout(now) {
            break failure;
        }
        if join.poll_transmit(now).is_some() {
            let at = join.places().at();
            if refused.replace(at) != Some(at) {
                seen.push((now, at));
            }
            join.note_unreachable(now, REFUSED);
        }
    };
    assert_eq!(seen[..4].iter().map(|&(_, at)| at).collect::<Vec<_>>(), TURNS);
    assert_eq!(seen[1].0, CLOSED, "at once");
    assert_eq!(failure, JoinFailure::NoAnswer { waited: DEADLINE, appliance: None, report: Some(REFUSED) });
}

#[test]
fn an_operation_turns_where_it_is_refused_and_does_not_end() {
    let mut session = Session::new(MEMBERSHIP, 4).among(two());
    session.start(ms(0), 4096, Element::F32_SUM, DEADLINE).unwrap();
    let (mut now, mut seen) = (ms(0), Vec::new());
    let failure = loop {
        while session.poll_transmit(now).is_some() {
            session.note_unreachable(now, REFUSED);
        }
        let at = session.places().at();
        if seen.last() != Some(&at) {
            seen.push(at);
        }
        now = session.poll_timeout().unwrap().max(now);
        if let Some(Event::Failed(failure)) = session.handle_timeout(now) {
            break failure;
        }
    };
    assert_eq!(seen[..4], TURNS);
    assert!(matches!(failure, Failure::Deadline(_)), "{failure:?}");
    assert_eq!(failure.progress().unreachable, Some(REFUSED));
}

#[test]
fn what_is_too_long_for_the_path_is_due_at_once_and_concerns_the_operation_only() {
    let (mut session, _) = running();
    session.note_too_long(Some(1500));
    assert_eq!(session.poll_timeout(), Some(ms(0)));
    let failed = session.handle_timeout(ms(1));
    assert!(matches!(failed, Some(Event::Failed(Failure::TooLong { mtu: Some(1500), .. }))), "{failed:?}");
    let mut session = Session::new(MEMBERSHIP, 4);
    session.note_too_long(None);
    assert_eq!((session.poll_timeout(), session.handle_timeout(ms(1))), (None, None));
    assert_eq!(session.start(ms(1), 16, Element::I32_SUM, DEADLINE), Ok(true));
    assert_eq!(session.handle_timeout(ms(2)), None);
}

#[test]
fn a_payload_that_is_too_long_is_refused_with_the_longest_that_fits_sealed_or_not() {
    for (longer, largest) in [(0, 1448), (28, 1416)] {
        let mut session = Session::new(MEMBERSHIP, 4).longer(longer);
        assert_eq!(session.start(ms(1), 16, Element::I32_SUM, DEADLINE), Ok(true));
        session.note_too_long(Some(1500));
        let failed = session.handle_timeout(ms(2));
        let Some(Event::Failed(failure)) = failed else { panic!("{failed:?}") };
        let remedy =
            format!("MTU is 1500: raise it, or start every rank with a payload of {largest} at most");
        assert!(failure.to_string().contains(&remedy), "{failure}");
    }
}
