//! Packets between appliances are sealed.

use core::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use pascaline_pipelines::membership::{JobSpec, UplinkState};
use pascaline_seal::{JobKeys, Protection};
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{JOB, UDP_PORT, Worker};
use pascaline_wire::control::{self, Status};
use pascaline_wire::frame::Address;
use pascaline_wire::header::{self, Kind};

use super::sums::{SUM, assert_sum, contribute};
use super::tree::{Below, Tree, down, up};
use crate::common::appliance::job;
use crate::sealed::secret;

fn like(protection: Protection) -> JobSpec {
    JobSpec { keys: Some(Arc::new(JobKeys::new(&secret(1), JOB, protection))), ..job(JOB, 2) }
}

/// A root above two leaves of two ranks each, whose sums are sealed, and another root for its place.
fn tree(protection: Protection) -> Tree {
    let shape = [(2, None), (2, Some((0, 0))), (2, Some((0, 1))), (2, None)];
    let backups = [vec![], vec![(3, 0)], vec![(3, 1)], vec![]];
    Tree::with_backups(&shape, &backups, &like(protection))
}

fn formed(protection: Protection) -> (Tree, Vec<Below>) {
    let mut tree = tree(protection);
    let mut all = [tree.below(1), tree.below(2)].concat();
    tree.form(&mut all, 0);
    (tree, all)
}

fn dropped(tree: &Tree, node: usize) -> [u64; 3] {
    [DropReason::Unsealed, DropReason::Forged, DropReason::Replayed]
        .map(|reason| tree.nodes[node].appliance.dropped(reason))
}

/// A frame in the name of an appliance, without a seal.
fn plain(from: Address, kind: Kind) -> Vec<u8> {
    let worker = Worker { address: from, udp_port: UDP_PORT, ..Worker::new(0, 2) };
    let header = worker.header(kind, 0, if kind == Kind::Result { 2 } else { 1 });
    worker.frame(&header, &pascaline_testkit::bytes(&[666, 666]))
}

/// Holds R14.8 and R14.10 of protocol.md.
#[test]
fn sums_are_as_without_seals_and_nothing_else_is_taken() {
    for protection in Protection::ALL {
        let (mut tree, all) = formed(protection);
        let mut sealed = 0;
        for psn in 0..5 {
            contribute(&mut tree, &all, psn, false);
            assert_sum(&mut tree, &all, psn, &SUM);
            sealed += 1;
        }
        assert_eq!(tree.nodes[1].appliance.get(Counter::SentUp), sealed);
        // A leaf's sum and the root's result, of a host without a key.
        tree.nodes[0].io().arrive(0, &plain(up(1), Kind::Gradient));
        tree.nodes[1].io().arrive(0, &plain(down(0), Kind::Result));
        tree.pass(1);
        assert_eq!([dropped(&tree, 0), dropped(&tree, 1)], [[1, 0, 0]; 2], "{protection:?}");
        contribute(&mut tree, &all, 5, false);
        assert_sum(&mut tree, &all, 5, &SUM);
        tree.end();
    }
}

/// A packet that is sent again is sealed anew, with another number.
///
/// Holds R14.9 of protocol.md.
#[test]
fn no_number_is_used_twice_between_appliances() {
    let (mut tree, all) = formed(Protection::Mac);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sent = Rc::clone(&seen);
    tree.wire = Box::new(move |heard| {
        if heard.to.0 == down(0) {
            let mut datagram = vec![0; header::LEN];
            heard.header.emit(&mut datagram).unwrap();
            datagram.extend_from_slice(&heard.body);
            sent.borrow_mut()
                .push((heard.from.0.octets(), pascaline_seal::counter(&datagram).expect("sealed")));
        }
        usize::from(heard.header.kind == Kind::Control)
    });
    for again in [false, true] {
        tree.pass(20);
        contribute(&mut tree, &all, 0, again);
    }
    let mut numbers = seen.take();
    assert!(numbers.len() >= 4, "{numbers:?}");
    let all_of_them = numbers.len();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), all_of_them);
    tree.wire = Box::new(|_| 1);
    tree.pass(20);
    contribute(&mut tree, &all, 0, true);
    assert_sum(&mut tree, &all, 0, &SUM);
    tree.end();
}

/// Holds R14.11 of protocol.md.
#[test]
fn a_root_that_starts_anew_and_a_backup_have_other_salts() {
    let (mut tree, mut all) = formed(Protection::Encrypt);
    contribute(&mut tree, &all, 0, false);
    assert_sum(&mut tree, &all, 0, &SUM);
    let before = all[0].worker.epoch;
    tree.restart(0, &like(Protection::Encrypt));
    for _ in 0..10 {
        all.iter_mut().for_each(|below| _ = tree.heartbeat(below, before));
    }
    tree.form(&mut all, control::generation(before));
    contribute(&mut tree, &all, 1, false);
    assert_sum(&mut tree, &all, 1, &SUM);

    let before = all[0].worker.epoch;
    tree.dead[0] = true;
    for _ in 0..30 {
        all.iter_mut().for_each(|below| _ = tree.heartbeat(below, before));
    }
    tree.form(&mut all, control::generation(before));
    all.iter().for_each(|below| drop(tree.heard_by(below)));
    contribute(&mut tree, &all, 2, false);
    assert_sum(&mut tree, &all, 2, &SUM);
    tree.end();
}

/// First the root or first a leaf: sums go on, and with the key before nothing is taken in the end.
///
/// Holds R14.14 of protocol.md.
#[test]
fn keys_change_in_any_order_while_sums_go_on() {
    for root_first in [true, false] {
        let (mut tree, mut all) = formed(Protection::Mac);
        let epoch = all[0].worker.epoch;
        let order = if root_first { [0, 1, 2] } else { [1, 0, 2] };
        let mut psn = 0;
        for node in order {
            tree.change_key(node, &like(Protection::Mac), 2);
            for _ in 0..3 {
                all.iter_mut().for_each(|below| _ = tree.heartbeat(below, epoch));
                tree.pass(10);
                all.iter().for_each(|below| drop(tree.heard_by(below)));
                contribute(&mut tree, &all, psn, false);
                assert_sum(&mut tree, &all, psn, &SUM);
                psn += 1;
            }
        }
        tree.pass(200);
        for _ in 0..3 {
            all.iter_mut().for_each(|below| _ = tree.heartbeat(below, epoch));
            tree.pass(30);
        }
        let root = tree.nodes[0].appliance.plane.membership();
        assert_eq!(root.with_former_keys(JOB), [0; 0]);
        let forged: u64 = (0..3).map(|node| dropped(&tree, node)[1]).sum();
        all.iter().for_each(|below| drop(tree.heard_by(below)));
        contribute(&mut tree, &all, psn, false);
        assert_sum(&mut tree, &all, psn, &SUM);
        assert_eq!(forged, (0..3).map(|node| dropped(&tree, node)[1]).sum::<u64>());
        tree.end();
    }
}

/// With another key, or without one, a leaf says why its ranks wait.
#[test]
fn a_leaf_with_another_key_knows_what_its_parent_demands() {
    for (sealed, demand) in [(true, Some(1)), (false, None)] {
        let mut tree = Tree::two_by_two();
        let like = like(Protection::Mac);
        tree.restart(0, &like);
        if sealed {
            tree.restart(1, &like);
            tree.change_key(0, &like, 9);
            assert!(tree.nodes[0].appliance.plane.end_former_keys(JOB));
        }
        let mut all = tree.below(1);
        for _ in 0..30 {
            all.iter_mut().for_each(|below| _ = tree.join(below, 0, 0));
            tree.pass(5);
        }
        let node = &tree.nodes[1].appliance;
        let status = node.plane.membership().uplink(JOB, node.now).unwrap();
        assert_eq!(status.demand, demand);
        match status.state {
            UplinkState::NoAnswer => assert!(sealed),
            UplinkState::Refused(Status::Unproven) => assert!(!sealed),
            state => panic!("{state:?}"),
        }
        tree.end();
    }
}
