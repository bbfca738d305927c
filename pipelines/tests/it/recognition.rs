//! Which packets are the appliance's: by UDP port, and by DSCP where that is configured.

use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{JOB, UDP_PORT, Worker};
use pascaline_wire::UdpPorts;
use pascaline_wire::control::Action;
use pascaline_wire::frame::{Frame, Net};
use pascaline_wire::header::Kind;

use crate::common::appliance::{Bench, Plan, job};

const OURS: u8 = 46;

fn pair(dscp: u8, like: fn(Worker) -> Worker) -> Vec<Worker> {
    (0..2).map(|rank| like(Worker { dscp, ..Worker::new(rank, 2) })).collect()
}

fn in_line() -> Plan {
    Plan { dscp: Some(OURS), jobs: vec![job(JOB, 2)], ..Plan::inline() }
}

fn dscp_of(frame: &[u8]) -> u8 {
    match Frame::parse(frame).unwrap().net {
        Net::Ip(ip) => ip.dscp,
        other => panic!("{other:?}"),
    }
}

/// IPv4 on the fast path, IPv6 and tags beside it: sums come about, and answers carry the DSCP.
#[test]
fn packets_with_the_dscp_are_added() {
    let ways: [fn(Worker) -> Worker; 3] = [|w| w, Worker::v6, |w| w.tagged(0x8100, 42)];
    for (way, like) in ways.into_iter().enumerate() {
        let mut bench = Bench::new(&in_line());
        let mut workers = pair(OURS, like);
        bench.join(&mut workers);
        bench.heard(0);
        for worker in &workers {
            bench.feed(0, [&worker.gradient(3, &[20, 1])]);
        }
        let sent = bench.io().sent(0);
        assert_eq!(sent.len(), 2, "way {way}");
        assert!(sent.iter().all(|frame| dscp_of(frame) == OURS), "way {way}");
        assert!(bench.io().sent(1).is_empty(), "way {way}");
        bench.end();
    }
}

/// What members send with another DSCP goes to the peer port unchanged, and adds nothing.
#[test]
fn packets_with_another_dscp_pass() {
    let ways: [fn(Worker) -> Worker; 2] = [|w| w, Worker::v6];
    for (way, like) in ways.into_iter().enumerate() {
        let mut bench = Bench::new(&in_line());
        let mut workers = pair(OURS, like);
        bench.join(&mut workers);
        bench.heard(0);
        let others: Vec<_> = [0, 45, 47, 14].map(|dscp| Worker { dscp, ..workers[0] }).to_vec();
        let frames: Vec<_> = others.iter().map(|other| other.gradient(3, &[5, 5])).collect();
        for frame in &frames {
            bench.feed(0, [frame]);
        }
        assert_eq!(bench.io().sent(1), frames, "way {way}");
        for worker in &workers {
            bench.feed(0, [&worker.gradient(3, &[20, 1])]);
        }
        let heard = bench.heard(0);
        let results: Vec<_> = heard.iter().filter(|heard| heard.header.kind == Kind::Result).collect();
        assert_eq!(results.len(), 2, "way {way}");
        assert!(results.iter().all(|result| result.header.count == 2), "way {way}");
        assert_eq!(bench.appliance.get(Counter::Forwarded), 4, "way {way}");
        bench.end();
    }
}

/// Without a peer there is nowhere to go on to: they are counted, and nobody is answered.
#[test]
fn without_a_peer_they_are_not_for_us() {
    let plan = Plan { peers: vec![None], ..in_line() };
    let mut bench = Bench::new(&plan);
    let stranger = Worker { dscp: 8, ..Worker::new(0, 2) };
    bench.feed(0, [&stranger.gradient(0, &[1])]);
    assert_eq!(bench.appliance.dropped(DropReason::NotForUs), 1);
    assert!(bench.io().sent(0).is_empty());
    bench.end();
}

/// Where none is configured, any will do, and each worker hears its own.
#[test]
fn answers_carry_the_dscp_of_the_join() {
    let mut bench = Bench::new(&Plan { dscp: None, ..in_line() });
    let mut workers = pair(0, |w| w);
    workers[1].dscp = 10;
    bench.join(&mut workers);
    bench.heard(0);
    for worker in &workers {
        bench.feed(0, [&worker.gradient(3, &[20, 1])]);
    }
    let mut told: Vec<u8> = bench.io().sent(0).iter().map(|frame| dscp_of(frame)).collect();
    told.sort_unstable();
    assert_eq!(told, [0, 10]);
    bench.end();
}

/// With several UDP ports a Join is the same at each.
/// Holds R2.2 of protocol.md.
#[test]
fn a_join_may_come_to_any_udp_port() {
    let told = (0..4).map(|port| {
        let udp_ports = UdpPorts::new(UDP_PORT, 4).unwrap();
        let mut bench = Bench::new(&Plan { udp_ports, dscp: None, ..in_line() });
        let mut join = Worker::new(0, 2).control(Action::Join);
        join[36..38].copy_from_slice(&(UDP_PORT + port).to_be_bytes());
        bench.feed(0, [&join]);
        let heard = bench.heard(0);
        assert_eq!(heard.len(), 1, "port {port}");
        (heard[0].header, heard[0].control())
    });
    let told: Vec<_> = told.collect();
    assert!(told.iter().all(|one| *one == told[0]), "{told:?}");
}
