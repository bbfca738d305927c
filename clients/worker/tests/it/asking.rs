//! A session that asks about the end of its generation, and the Acks it gets.

use std::ops::{Deref, DerefMut};
use std::time::Duration;

use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::{Element, Header, Kind};
use pascaline_worker::{Event, Membership, Session};

use crate::aggregator::packet;
use crate::datagrams::{BYTES, EPOCH, FIRST, MEMBERSHIP, PAYLOAD, RESULT};

pub(crate) const NEXT: u16 = 44;

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// A session, and the number of its latest request.
pub(crate) struct Asking {
    session: Session,
    latest: u32,
}

impl Asking {
    pub(crate) fn new(session: Session) -> Self {
        Self { session, latest: 0 }
    }
}

impl Deref for Asking {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.session
    }
}

impl DerefMut for Asking {
    fn deref_mut(&mut self) -> &mut Session {
        &mut self.session
    }
}

/// A session that has sent a heartbeat, its first request, and whose first allreduce has four packets in
/// flight.
pub(crate) fn running() -> (Asking, Vec<u8>) {
    running_as(MEMBERSHIP)
}

fn running_as(membership: Membership) -> (Asking, Vec<u8>) {
    let mut session = Asking::new(Session::new(membership, 4));
    assert_eq!(request(&mut session, ms(0)).1.number, 1);
    assert_eq!(session.start(ms(0), BYTES, Element::I32_SUM, Duration::from_secs(9)), Ok(true));
    assert_eq!(sent(&mut session, ms(0)).len(), 4);
    (session, vec![1; BYTES])
}

/// Stands for the number of the latest request: [`handle`] puts that in its place.
pub(crate) const LATEST: u32 = u32::MAX;

/// An Ack to the latest request of this session.
pub(crate) fn ack(answers: Action, status: Status, epoch: u16, expected: u32) -> Vec<u8> {
    let body = Control {
        status,
        answers: Some(answers),
        number: LATEST,
        joined: 3,
        payload: PAYLOAD,
        window: MEMBERSHIP.spread,
        expected,
        psn: FIRST,
        ..Control::request(Action::Ack, MEMBERSHIP.session)
    };
    let rank = MEMBERSHIP.identity.rank;
    packet(&Header { kind: Kind::Control, rank, psn: 0, epoch, count: 0, ..RESULT }, &body.to_bytes())
}

/// The same, of a generation that begins with this PSN.
pub(crate) fn beginning(base: u32, ack: Vec<u8>) -> Vec<u8> {
    saying(ack, |control| Control { psn: base, ..control })
}

/// The same, of a generation whose results are of this many workers.
pub(crate) fn of_workers(workers: u32, ack: Vec<u8>) -> Vec<u8> {
    saying(ack, |control| Control { workers, ..control })
}

fn saying(mut ack: Vec<u8>, what: impl Fn(Control) -> Control) -> Vec<u8> {
    let (_, body) = Header::parse(&ack).unwrap();
    let body = what(Control::parse(body).unwrap()).to_bytes();
    let at = ack.len() - body.len();
    ack[at..].copy_from_slice(&body);
    ack
}

/// The same, about this PSN.
pub(crate) fn about(psn: u32, mut ack: Vec<u8>) -> Vec<u8> {
    ack[8..12].copy_from_slice(&psn.to_be_bytes());
    ack
}

/// The same, to the request with a number.
pub(crate) fn to(number: u32, mut ack: Vec<u8>) -> Vec<u8> {
    ack[26..30].copy_from_slice(&number.to_be_bytes());
    ack
}

pub(crate) fn sent(session: &mut Asking, now: Duration) -> Vec<(Header, Vec<u8>)> {
    let tensor = [1; BYTES];
    let packets = std::iter::from_fn(|| session.poll_transmit(now)).collect::<Vec<_>>();
    let body = |packet| [session.payload(packet, &tensor), session.trailer(packet)].concat();
    let packets: Vec<_> =
        packets.iter().map(|packet| (Header::parse(&packet.header).unwrap().0, body(packet))).collect();
    let requests = packets.iter().filter(|(header, _)| header.kind == Kind::Control);
    session.latest =
        requests.map(|(_, body)| Control::parse(body).unwrap().number).next_back().unwrap_or(session.latest);
    packets
}

/// The one request that is sent now.
pub(crate) fn request(session: &mut Asking, now: Duration) -> (Header, Control) {
    let packets = sent(session, now);
    let [(header, body)] = &packets[..] else { panic!("{packets:?}") };
    (*header, Control::parse(body).unwrap())
}

pub(crate) fn handle(session: &mut Asking, now: Duration, datagram: &[u8]) -> Option<Event> {
    let mut tensor = [1; BYTES];
    let mut datagram = datagram.to_vec();
    if datagram.get(26..30) == Some(&LATEST.to_be_bytes()[..]) {
        datagram = to(session.latest, datagram);
    }
    session.handle_datagram(now, &datagram, &mut tensor)
}

/// A session that has heard that its generation is over, and has asked to go on.
pub(crate) fn rejoining() -> Asking {
    rejoining_as(MEMBERSHIP)
}

pub(crate) fn rejoining_as(membership: Membership) -> Asking {
    let (mut session, _) = running_as(membership);
    assert_eq!(handle(&mut session, ms(1), &ack(Action::Join, Status::WrongEpoch, NEXT, 0)), None);
    let (_, join) = request(&mut session, ms(1));
    assert_eq!((join.expected, join.got), (control::generation(EPOCH), control::generation(NEXT)));
    session
}
