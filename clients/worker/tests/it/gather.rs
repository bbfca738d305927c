//! When datagrams may gather before a driver looks at them.

use std::time::Duration;

use pascaline_wire::{Element, Header};
use pascaline_worker::{Membership, Session};

use crate::aggregator::packet;
use crate::datagrams::{MEMBERSHIP, RESULT};

const IN_FLIGHT: u16 = 40;
const PACKETS: usize = 200;
const ROUND_TRIP: Duration = Duration::from_millis(4);

fn fill(session: &mut Session, now: Duration) {
    while session.poll_transmit(now).is_some() {}
}

fn results(session: &mut Session, tensor: &mut [u8], now: Duration, psns: core::ops::Range<u32>) {
    for psn in psns {
        session.handle_datagram(now, &packet(&Header { psn, ..RESULT }, &[1; 16]), tensor);
    }
}

#[test]
fn they_gather_while_many_are_in_flight_and_more_are_to_come() {
    let mut session = Session::new(Membership { spread: 128, base: 0, ..MEMBERSHIP }, IN_FLIGHT);
    let mut tensor = vec![0; PACKETS * 16];
    assert_eq!(session.may_gather(), None, "no operation");
    session.start(Duration::ZERO, tensor.len(), Element::I32_SUM, Duration::from_secs(9)).unwrap();
    fill(&mut session, Duration::ZERO);
    assert_eq!(session.may_gather(), None, "no round trip is known");

    results(&mut session, &mut tensor, ROUND_TRIP, 0..10);
    assert_eq!(session.may_gather(), Some(ROUND_TRIP / 16), "30 of 40 are in flight");
    results(&mut session, &mut tensor, ROUND_TRIP, 10..11);
    assert_eq!(session.may_gather(), None, "too few are in flight");

    fill(&mut session, ROUND_TRIP);
    assert!(session.may_gather().is_some());
    let mut now = ROUND_TRIP;
    for psn in 11..120 {
        now += Duration::from_micros(100);
        results(&mut session, &mut tensor, now, psn..psn + 1);
        fill(&mut session, now);
        assert_eq!(session.may_gather().is_some(), 200 - (psn + 1 + 40) > 40, "{psn}");
    }
}

#[test]
fn they_do_not_gather_where_a_round_trip_is_short_nor_for_long_where_it_is_long() {
    for (round_trip, expected) in [(3_199, None), (3_200, Some(200)), (7_999, Some(499)), (80_000, Some(500))]
    {
        let mut session = Session::new(Membership { spread: 128, base: 0, ..MEMBERSHIP }, IN_FLIGHT);
        let mut tensor = vec![0; PACKETS * 16];
        session.start(Duration::ZERO, tensor.len(), Element::I32_SUM, Duration::from_secs(9)).unwrap();
        fill(&mut session, Duration::ZERO);
        let now = Duration::from_micros(round_trip);
        results(&mut session, &mut tensor, now, 0..1);
        fill(&mut session, now);
        let gather = session.may_gather().map(|gather| gather.as_micros());
        assert_eq!(gather, expected, "{round_trip} µs");
    }
}
