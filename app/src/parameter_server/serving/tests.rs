use pascaline_aggregator::Order;
use pascaline_wire::{Element, Flags, Kind};

use super::*;

fn datagram(job: u16, epoch: u16) -> Vec<u8> {
    let about = Header::about(Kind::Gradient, Element::F32_SUM, job, epoch);
    let header = Header { flags: Flags::BYPASS, fan_in: 2, count: 1, ..about };
    [&header.to_bytes()[..], &1.0_f32.to_le_bytes()].concat()
}

#[test]
fn packets_of_what_is_not_served_are_told() {
    let mut server = ServerLoop::new(ServerLimits::new(1, 1, 8));
    let now = Duration::ZERO;
    assert_eq!(server.receive(now, &datagram(1, 5)), Some(1));
    let job = ServedJob { job: 1, fan_in: 2, epoch: 5, needed: 2, order: Order::Arrival, payload: 64 };
    server.set_job(&job);
    assert_eq!(server.receive(now, &datagram(1, 5)), None, "served");
    assert_eq!(server.receive(now, &datagram(1, 4)), Some(1), "another generation");
    assert_eq!(server.receive(now, &datagram(2, 5)), Some(2), "another job");
    assert_eq!(server.receive(now, &datagram(1, 5)[..20]), None, "nobody knows whose");
    server.remove_job(1);
    assert_eq!(server.receive(now, &datagram(1, 5)), Some(1));
}

#[test]
fn a_job_that_becomes_impossible_is_no_longer_served() {
    let mut server = ServerLoop::new(ServerLimits::new(1, 1, 8));
    let job = ServedJob { job: 1, fan_in: 2, epoch: 5, needed: 2, order: Order::Arrival, payload: 64 };
    server.set_job(&job);
    server.set_job(&ServedJob { epoch: 6, needed: 3, ..job });
    assert_eq!(server.receive(Duration::ZERO, &datagram(1, 5)), Some(1));
    let snapshot = server.snapshot(Vec::new());
    assert_eq!((snapshot.jobs_refused, snapshot.jobs.len()), (1, 0));
    server.set_job(&job);
    assert_eq!(server.receive(Duration::ZERO, &datagram(1, 5)), None, "possible again");
}
