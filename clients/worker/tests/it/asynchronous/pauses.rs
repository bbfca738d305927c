//! Pauses that the server asks for.

use pascaline_wire::header::PAUSE_UNIT;

use super::*;

/// The same acknowledgement with a pause of this many units.
fn asking_for(ack: &Ack, units: u16) -> Vec<u8> {
    let datagram = ack.datagram();
    let (header, body) = Header::parse(&datagram).unwrap();
    [&Header { own: Own::answer(Status::Ok, units), ..header }.to_bytes()[..], body].concat()
}

#[test]
fn the_next_update_waits_as_long_as_the_server_has_asked() {
    let mut session = session(Policy::Paced, Initial::Nothing);
    assert_eq!(push(&mut session, ms(1)), Push::Sent(0));
    let congested = Ack { generated: ms(1), queue: Some(queue(10, 8)), ..ACK };
    session.handle_datagram(ms(4), &asking_for(&congested, 30));
    let over = ms(4) + 30 * PAUSE_UNIT;
    assert_eq!(over, ms(7));
    for now in [ms(4), over - Duration::from_nanos(1)] {
        assert_eq!(push(&mut session, now), Push::Skipped, "{now:?}");
    }
    assert_eq!(push(&mut session, over), Push::Sent(1));
}
