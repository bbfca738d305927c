//! Results by a multicast group: what a worker says of it, and when it does without.

use std::time::Duration;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::multicast::Hearing;
use pascaline_wire::{Element, Header, Kind, MulticastGroup};
use pascaline_worker::{Membership, Session};

use crate::datagrams::MEMBERSHIP;

const MS: Duration = Duration::from_millis(1);
const PACKETS: usize = 4096;

fn group(last: u8) -> MulticastGroup {
    MulticastGroup::new([239, 77, 0, last].into()).unwrap()
}

/// A session that a group has been named to, inside an allreduce of many packets.
fn started(now: Duration) -> (Session, Vec<u8>) {
    let named = Membership { group: Some(group(1)), base: 0, spread: 512, ..MEMBERSHIP };
    let mut session = Session::new(named, 64);
    let tensor = vec![0; PACKETS * usize::from(MEMBERSHIP.identity.payload)];
    session.listen(true);
    assert!(session.start(now, tensor.len(), Element::F32_SUM, 60_000 * MS).unwrap());
    (session, tensor)
}

/// Everything that the session sends now: the PSNs of contributions, and what its Joins say of the group.
fn sent(session: &mut Session, now: Duration, tensor: &[u8]) -> (Vec<u32>, Vec<Hearing>) {
    let (mut psns, mut says) = (Vec::new(), Vec::new());
    while let Some(packet) = session.poll_transmit(now) {
        let (header, _) = Header::parse(&packet.header).unwrap();
        match header.kind {
            Kind::Gradient => psns.push(header.psn),
            Kind::Control => {
                let body = Control::parse(session.payload(&packet, tensor)).unwrap();
                says.extend((body.action == Action::Join).then_some(body.hearing));
            }
            _ => {}
        }
    }
    (psns, says)
}

fn result(psn: u32) -> Vec<u8> {
    let about = Header::about(Kind::Result, Element::F32_SUM, MEMBERSHIP.identity.job, MEMBERSHIP.epoch);
    let ranks = MEMBERSHIP.identity.ranks;
    let header = Header { psn, fan_in: ranks, count: ranks, ..about };
    [&header.to_bytes()[..], &vec![0; usize::from(MEMBERSHIP.identity.payload)]].concat()
}

/// An Ack to another rank's Join, as it is sent to the group.
fn probe() -> Vec<u8> {
    let identity = MEMBERSHIP.identity;
    let about = Header::about(Kind::Control, Element::F32_SUM, identity.job, MEMBERSHIP.epoch);
    let header = Header { rank: identity.rank + 1, ..about };
    let ack = Control { answers: Some(Action::Join), ..Control::request(Action::Ack, 9) };
    [&header.to_bytes()[..], &ack.to_bytes()].concat()
}

#[test]
fn what_comes_by_the_group_is_said_at_once() {
    let (mut session, mut tensor) = started(MS);
    assert_eq!(sent(&mut session, MS, &tensor).1, [Hearing::Listens]);
    assert_eq!(sent(&mut session, 50 * MS, &tensor).1, []);
    let before = session.counters().acks;
    assert_eq!(session.handle_by_group(51 * MS, &probe(), false, &mut tensor), None);
    assert_eq!((session.counters().acks - before, session.counters().without_effect()), (1, 0));
    assert_eq!(sent(&mut session, 51 * MS, &tensor).1, [Hearing::Hears]);
    assert_eq!(sent(&mut session, 52 * MS, &tensor).1, []);
    // Results that come so are results.
    session.handle_by_group(53 * MS, &result(0), false, &mut tensor);
    session.handle_by_group(53 * MS, &result(0), false, &mut tensor);
    assert_eq!((session.counters().results, session.counters().duplicate_results), (1, 1));
}

#[test]
fn what_is_not_of_the_job_says_nothing() {
    let (mut session, mut tensor) = started(MS);
    sent(&mut session, MS, &tensor);
    let mut foreign = probe();
    foreign[4] ^= 1;
    for datagram in [&foreign[..], &foreign[..9]] {
        session.handle_by_group(2 * MS, datagram, false, &mut tensor);
        assert_eq!(sent(&mut session, 2 * MS, &tensor).1, []);
    }
    assert_eq!(session.counters().without_effect(), 2);
}

/// Where nothing comes it says so to its user, once, and to the appliance for some time only.
#[test]
fn a_group_that_is_filtered_is_given_up() {
    let (mut session, tensor) = started(MS);
    let (mut says, mut told) = (Vec::new(), 0);
    for tick in 0..40 {
        says.extend(sent(&mut session, (1 + 101 * tick) * MS, &tensor).1);
        told += u32::from(session.unheard().is_some());
    }
    assert_eq!(says, [[Hearing::Listens; 20], [Hearing::Deaf; 20]].concat());
    assert_eq!(told, 1);
}

/// A filter that comes later costs the results of a moment: then they come by unicast again.
#[test]
fn a_group_that_falls_silent_is_given_up() {
    let (mut session, mut tensor) = started(MS);
    let (mut now, mut says) = (MS, Vec::new());
    let mut waiting = sent(&mut session, now, &tensor).0;
    session.handle_by_group(now, &probe(), false, &mut tensor);
    for turn in 0..40 {
        let (psns, said) = sent(&mut session, now, &tensor);
        says.extend(said);
        waiting.extend(psns);
        now += 10 * MS;
        for psn in core::mem::take(&mut waiting) {
            match turn {
                0..10 => session.handle_by_group(now, &result(psn), false, &mut tensor),
                _ => session.handle_datagram(now, &result(psn), &mut tensor),
            };
        }
    }
    let first = says.iter().position(|&said| said == Hearing::Listens).unwrap();
    assert!(first > 0 && says[..first].iter().all(|&said| said == Hearing::Hears), "{says:?}");
}

/// Where results come neither way, those that other ranks bring back may go to the group as well.
#[test]
fn a_group_that_falls_silent_with_everything_else_is_doubted() {
    let (mut session, mut tensor) = started(MS);
    sent(&mut session, MS, &tensor);
    session.handle_by_group(MS, &probe(), false, &mut tensor);
    let says = |session: &mut Session, from: u32| {
        let mut says = Vec::new();
        for tick in from..from + 100 {
            assert_eq!(session.handle_timeout(10 * tick * MS), None);
            says.extend(sent(session, 10 * tick * MS, &tensor).1);
        }
        says
    };
    let first = says(&mut session, 1);
    assert_eq!((first.first(), first.last()), (Some(&Hearing::Hears), Some(&Hearing::Listens)), "{first:?}");
    // A rank was late, and the group reaches this host.
    session.handle_by_group(1010 * MS, &probe(), false, &mut []);
    assert_eq!(sent(&mut session, 1010 * MS, &[]).1, [Hearing::Hears]);
}

/// Another appliance, or another configuration, names another group: nothing has been heard of that one.
#[test]
fn another_group_has_to_be_heard_anew() {
    let (mut session, mut tensor) = started(MS);
    sent(&mut session, MS, &tensor);
    session.handle_by_group(MS, &probe(), false, &mut tensor);
    let mut number = 0;
    while let Some(packet) = session.poll_transmit(MS) {
        let body = Control::parse(session.payload(&packet, &tensor));
        number = body.map_or(number, |body| body.number);
    }
    for (named, wants) in [(Some(group(1)), Some(group(1))), (Some(group(2)), Some(group(2))), (None, None)] {
        let identity = MEMBERSHIP.identity;
        let about = Header::about(Kind::Control, Element::F32_SUM, identity.job, MEMBERSHIP.epoch);
        let header = Header { rank: identity.rank, ..about };
        let ack = Control {
            status: Status::Ok,
            answers: Some(Action::Join),
            number,
            payload: identity.payload,
            window: 512,
            cookie: MEMBERSHIP.cookie,
            group: named,
            ..Control::request(Action::Ack, MEMBERSHIP.session)
        };
        session.handle_datagram(2 * MS, &[&header.to_bytes()[..], &ack.to_bytes()].concat(), &mut tensor);
        assert_eq!(session.group(), wants);
    }
}
