//! A bridge between three ports, and the appliance's own work beside it.

use std::time::Duration;

use pascaline_pipelines::{Passing, Ports};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{OWN_V4, OWN_V6, Worker, port_mac};

use crate::common::appliance::{Bench, Plan, assert_results};

const SECOND: u64 = 1_000_000_000;
const ALL: [u8; 6] = [0xff; 6];

fn host(number: u8) -> [u8; 6] {
    [2, 0, 0, 0, 7, number]
}

fn frame(to: [u8; 6], from: [u8; 6], length: usize) -> Vec<u8> {
    let mut frame = [&to[..], &from, &[0x88, 0xb5]].concat();
    frame.extend((frame.len()..length).map(|at| u8::try_from(at % 251).unwrap()));
    frame
}

/// What the three ports have sent when this has come in.
fn pass(bench: &mut Bench, port: usize, frame: &Vec<u8>) -> [Vec<Vec<u8>>; 3] {
    bench.feed(port, [frame]);
    core::array::from_fn(|port| bench.io().sent(port))
}

/// The ports of [`pass`], each of which has sent the frame as it came, once.
fn goes_to(bench: &mut Bench, port: usize, frame: &Vec<u8>) -> Vec<usize> {
    let sent = pass(bench, port, frame);
    assert!(sent.iter().all(|sent| sent.is_empty() || *sent == [frame.clone()]), "{sent:?}");
    (0..3).filter(|&port| !sent[port].is_empty()).collect()
}

/// Long and short frames, to ports that send several segments and to such that do not.
#[test]
fn a_frame_goes_to_all_others_until_its_receiver_has_been_heard() {
    for (length, segments) in [(60, true), (60, false), (1500, true), (1500, false)] {
        for passing in [Passing::First, Passing::InTurn] {
            let mut bench = Bench::new(&Plan { passing, ..Plan::bridge() });
            bench.io().ports.iter_mut().for_each(|port| port.multi_segment = segments);
            let [a, b] = [host(1), host(2)];
            assert_eq!(goes_to(&mut bench, 0, &frame(ALL, a, length)), [1, 2]);
            assert_eq!(goes_to(&mut bench, 1, &frame(a, b, length)), [0], "a is known");
            assert_eq!(goes_to(&mut bench, 0, &frame(b, a, length)), [1], "and b by now");
            assert_eq!(goes_to(&mut bench, 2, &frame(host(3), host(4), length)), [0, 1]);
            let appliance = &bench.appliance;
            assert_eq!(appliance.get(Counter::Forwarded), 4);
            assert_eq!(appliance.get(Counter::Flooded), 2);
            assert_eq!(appliance.get(Counter::FloodCopies), 2);
            assert_eq!(appliance.get(Counter::BridgeLearned), 3);
            assert_eq!(appliance.get(Counter::Sent), 6);
            bench.end();
        }
    }
}

#[test]
fn who_moves_is_found_again_and_who_is_silent_is_forgotten() {
    let mut bench = Bench::new(&Plan::bridge());
    let [a, b] = [host(1), host(2)];
    assert_eq!(goes_to(&mut bench, 0, &frame(ALL, a, 60)), [1, 2]);
    assert_eq!(goes_to(&mut bench, 2, &frame(ALL, a, 60)), [0, 1]);
    assert_eq!(bench.appliance.get(Counter::BridgeMoved), 1);
    assert_eq!(goes_to(&mut bench, 1, &frame(a, b, 60)), [2]);
    bench.clock.advance(400 * SECOND);
    assert_eq!(goes_to(&mut bench, 1, &frame(a, b, 60)), [0, 2], "a is forgotten");
    bench.end();
}

#[test]
fn what_no_bridge_passes_on_is_counted() {
    let mut bench = Bench::new(&Plan::bridge());
    let [a, b] = [host(1), host(2)];
    goes_to(&mut bench, 0, &frame(ALL, a, 60));
    assert!(goes_to(&mut bench, 0, &frame(a, b, 60)).is_empty());
    assert_eq!(bench.appliance.dropped(DropReason::BridgeLocal), 1);
    let spanning_tree = [1, 0x80, 0xc2, 0, 0, 0];
    assert!(goes_to(&mut bench, 0, &frame(spanning_tree, a, 60)).is_empty());
    assert_eq!(bench.appliance.dropped(DropReason::BridgeReserved), 1);
    let mut lldp = frame([1, 0x80, 0xc2, 0, 0, 0xe], a, 60);
    lldp[12..14].copy_from_slice(&[0x88, 0xcc]);
    assert_eq!(goes_to(&mut bench, 0, &lldp), [1, 2]);
    assert!(goes_to(&mut bench, 0, &frame(b, a, 60)[..13].to_vec()).is_empty());
    assert_eq!(bench.appliance.dropped(DropReason::Truncated), 1);
    bench.end();
}

#[test]
fn a_full_table_floods_and_the_own_macs_are_not_learned() {
    let mut bench = Bench::new(&Plan { crowded: Some(SECOND), ..Plan::bridge() });
    let count = |bench: &Bench| {
        [Counter::BridgeFull, Counter::BridgeLearned].map(|counter| bench.appliance.get(counter))
    };
    goes_to(&mut bench, 0, &frame(ALL, host(1), 60));
    assert_eq!(count(&bench), [1, 0]);
    assert_eq!(goes_to(&mut bench, 1, &frame(host(1), host(2), 60)), [0, 2]);
    goes_to(&mut bench, 2, &frame(ALL, port_mac(0).0, 60));
    assert_eq!(count(&bench), [2, 0]);
    bench.clock.advance(400 * SECOND);
    goes_to(&mut bench, 0, &frame(ALL, host(1), 60));
    assert_eq!(count(&bench), [2, 1], "in the place of an old one");
    goes_to(&mut bench, 2, &frame(ALL, port_mac(0).0, 60));
    assert_eq!(count(&bench), [2, 1]);
    bench.end();
}

/// A firewall has one MAC, in a VLAN at each of two ports.
#[test]
fn one_mac_in_two_vlans_is_behind_two_ports() {
    for passing in [Passing::First, Passing::InTurn] {
        let mut bench = Bench::new(&Plan { passing, ..Plan::bridge() });
        let [firewall, a, b] = [host(1), host(2), host(3)];
        let tagged = |to, from, vlan| {
            let mut frame = frame(to, from, 60);
            frame.splice(12..12, [0x81, 0, 0, vlan]);
            frame
        };
        for _ in 0..2 {
            assert_eq!(goes_to(&mut bench, 0, &tagged(ALL, firewall, 10)), [1, 2]);
            assert_eq!(goes_to(&mut bench, 1, &tagged(ALL, firewall, 20)), [0, 2]);
            assert_eq!(goes_to(&mut bench, 2, &tagged(firewall, a, 10)), [0]);
            assert_eq!(goes_to(&mut bench, 2, &tagged(firewall, b, 20)), [1]);
        }
        assert_eq!(goes_to(&mut bench, 2, &frame(firewall, a, 60)), [0, 1], "in a third one");
        let appliance = &bench.appliance;
        assert_eq!((appliance.get(Counter::BridgeLearned), appliance.get(Counter::BridgeMoved)), (5, 0));
        bench.end();
    }
}

/// Gradients of a worker that has moved, and nothing else of it.
#[test]
fn frames_for_the_appliance_teach_where_their_sender_is() {
    for passing in [Passing::First, Passing::InTurn] {
        let mut bench = Bench::new(&Plan { passing, ..Plan::bridge() });
        let mut workers: Vec<_> = (0..4).map(|rank| Worker::new(rank, 4)).collect();
        bench.join(&mut workers);
        let mac = workers[1].mac.0;
        assert_eq!(goes_to(&mut bench, 1, &frame(mac, host(1), 60)), [0], "by its Join");
        workers[1].port = 2;
        bench.feed(2, [&workers[1].gradient(9, &[1, 2])]);
        assert_eq!(bench.appliance.get(Counter::BridgeMoved), 1);
        assert_eq!(goes_to(&mut bench, 1, &frame(mac, host(1), 60)), [2], "by its gradient");
        bench.end();
    }
}

#[test]
fn what_is_behind_a_port_that_loses_its_link_is_forgotten_at_once() {
    let mut bench = Bench::new(&Plan::bridge());
    let [a, b] = [host(1), host(2)];
    goes_to(&mut bench, 0, &frame(ALL, a, 60));
    assert_eq!(goes_to(&mut bench, 1, &frame(a, b, 60)), [0]);
    bench.appliance.plane.forget_behind(Ports::of([0]));
    assert_eq!(goes_to(&mut bench, 1, &frame(a, b, 60)), [0, 2], "wherever it is now");
    assert_eq!(goes_to(&mut bench, 2, &frame(b, a, 60)), [1], "b is where it was");
    assert_eq!(goes_to(&mut bench, 1, &frame(a, b, 60)), [2], "and a has been heard");
    bench.end();
}

/// At a start and when a link comes up: from each port with its own MAC, and not forwarded.
#[test]
fn own_addresses_are_told_unasked() {
    let mut bench = Bench::new(&Plan::bridge());
    let now = bench.appliance.now;
    bench.appliance.plane.announce(now, Ports::of([0, 2]));
    bench.appliance.control_turn();
    bench.settle();
    for (port, frames) in [(0, 2), (1, 0), (2, 2)] {
        let sent = bench.io().sent(port);
        assert_eq!(sent.len(), frames, "{sent:x?}");
        let own = port_mac(u8::try_from(port).unwrap());
        for frame in sent {
            assert_eq!((&frame[6..12], frame.len() >= 60), (&own.0[..], true), "{frame:x?}");
            match &frame[12..14] {
                [8, 6] => assert_eq!((frame[28..32].to_vec(), frame[38..42].to_vec()), v4_twice()),
                _ => assert_eq!((&frame[..6], &frame[62..78]), (&[0x33, 0x33, 0, 0, 0, 1][..], &v6()[..])),
            }
        }
    }
    assert_eq!(bench.appliance.plane.poll_timeout(), Some(bench.appliance.now + Duration::from_secs(1)));
    bench.end();
}

fn v4_twice() -> (Vec<u8>, Vec<u8>) {
    let own = OWN_V4.as_v4().expect("IPv4").to_vec();
    (own.clone(), own)
}

fn v6() -> [u8; 16] {
    OWN_V6.octets()
}

#[test]
fn what_one_port_does_not_take_the_others_get() {
    let mut bench = Bench::new(&Plan::bridge());
    bench.io().ports[1].room = 0;
    for _ in 0..300 {
        bench.feed(0, [&frame(ALL, host(1), 1000)]);
    }
    assert_eq!((bench.io().sent(1).len(), bench.io().sent(2).len()), (0, 300));
    assert_eq!(bench.appliance.get(Counter::Forwarded), 300);
    assert_eq!(bench.appliance.get(Counter::TransmitDropped), 300 - 256);
    bench.io().ports[2].room = 0;
    for _ in 0..300 {
        bench.feed(0, [&frame(ALL, host(1), 1000)]);
    }
    assert_eq!(bench.appliance.dropped(DropReason::TransmitFull), 300 - 256, "nobody has got them");
    for port in &mut bench.io().ports {
        port.room = usize::MAX;
    }
    bench.settle();
    assert_eq!(bench.io().sent(1).len(), 256);
    assert_eq!(bench.appliance.reading().unaccounted(), 0);
    bench.end();
}

#[test]
fn without_buffers_for_copies_one_port_gets_the_frame() {
    let mut bench = Bench::new(&Plan::bridge());
    (bench.io().headers, bench.io().frames) = (0, 0);
    assert_eq!(goes_to(&mut bench, 0, &frame(ALL, host(1), 100)), [1]);
    assert_eq!(bench.appliance.get(Counter::NoBuffer), 1);
    assert_eq!(bench.appliance.get(Counter::Forwarded), 1);
    bench.end();
}

#[test]
fn workers_behind_all_ports_are_summed_beside_it() {
    let mut bench = Bench::new(&Plan::bridge());
    let mut workers: Vec<_> = (0..4).map(|rank| Worker::new(rank, 4)).collect();
    for (worker, port) in workers.iter_mut().zip([0, 1, 2, 0]) {
        worker.port = port;
    }
    for _ in 0..2 {
        for worker in &mut workers {
            let join = worker.control(pascaline_wire::control::Action::Join);
            bench.feed(worker.port, [&join]);
            worker.epoch = bench.heard_by(worker)[0].header.epoch;
        }
    }
    for worker in &workers {
        bench.feed(worker.port, [&worker.gradient(9, &[1, 2])]);
    }
    assert_results(&mut bench, &workers, 9, &[4, 8]);
    assert_eq!(bench.appliance.get(Counter::Forwarded), 0);
    bench.end();
}
