//! What goes up, what comes down, and what is lost on the way.

use core::cell::Cell;
use std::rc::Rc;

use pascaline_pipelines::membership::JobSpec;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{Heard, JOB, values};
use pascaline_wire::header::{Flags, Kind};

use super::tree::{Below, Tree, formed};
use crate::common::appliance::job;

pub(crate) fn contribution(below: &Below, psn: u32, flags: Flags) -> Vec<u8> {
    let value = i32::from(below.worker.rank) + 10 * i32::try_from(below.leaf).unwrap();
    let header = below.worker.header(Kind::Gradient, below.base.wrapping_add(psn), 1);
    let header = pascaline_wire::Header { flags, ..header };
    below.worker.frame(&header, &pascaline_testkit::bytes(&[value, 1]))
}

fn again(below: &Below, psn: u32) -> Vec<u8> {
    contribution(below, psn, Flags::RETRANSMISSION)
}

pub(crate) fn contribute(tree: &mut Tree, all: &[Below], psn: u32, again: bool) {
    for below in all {
        let flags = if again { Flags::RETRANSMISSION } else { Flags::NONE };
        tree.send(below, &contribution(below, psn, flags));
    }
    tree.pass(1);
}

/// Each has heard this sum, once, and as a result of its own job.
#[track_caller]
pub(crate) fn assert_sum(tree: &mut Tree, all: &[Below], psn: u32, sum: &[i32]) {
    for below in all {
        let heard = tree.heard_by(below);
        let results: Vec<&Heard> = heard.iter().filter(|heard| heard.header.kind == Kind::Result).collect();
        let [result] = results[..] else { panic!("one result for {below:?}: {heard:?}") };
        result.assert_addressed_to(&below.worker);
        let header = result.header;
        let worker = &below.worker;
        assert_eq!((header.psn, header.epoch), (below.base.wrapping_add(psn), worker.epoch));
        assert_eq!((header.fan_in, header.count), (worker.fan_in, worker.fan_in));
        assert_eq!(values(&result.body), sum);
    }
}

pub(crate) const SUM: [i32; 2] = [10 + 11 + 20 + 21, 4];

#[test]
fn a_sum_goes_up_once_from_each_leaf_and_the_result_comes_down_to_all() {
    let (mut tree, all) = formed();
    for psn in 0..5 {
        contribute(&mut tree, &all, psn, false);
        assert_sum(&mut tree, &all, psn, &SUM);
    }
    assert_eq!(tree.climbed.iter().map(Vec::len).collect::<Vec<_>>(), [0, 5, 5]);
    assert_eq!(tree.nodes[0].appliance.get(Counter::Completed), 5);
    assert_eq!(tree.nodes[1].appliance.get(Counter::SentUp), 5);
    assert_eq!(tree.nodes[1].appliance.get(Counter::FromAbove), 5);
    tree.end();
}

/// One contribution that has met congestion, anywhere, is told to all; and so is where there is least room.
#[test]
fn marks_go_up_and_down_with_the_sums_and_so_does_the_least_room() {
    let mut tree = Tree::two_by_two();
    for (node, slots) in [(0, 32), (1, 48), (2, 24)] {
        tree.restart(node, &JobSpec { slots, ..job(JOB, 2) });
    }
    let mut all = [tree.below(1), tree.below(2)].concat();
    tree.form(&mut all, 0);
    for (psn, whose) in [(0, None), (1, Some(0)), (2, None)] {
        for (number, below) in all.iter().enumerate() {
            let header = below.worker.header(Kind::Gradient, below.base + psn, 1);
            let flags = if whose == Some(number) { Flags::ECN_ECHO } else { Flags::NONE };
            let frame = below.worker.frame(&pascaline_wire::Header { flags, ..header }, &[0; 8]);
            tree.send(below, &frame);
        }
        tree.pass(1);
        for below in &all {
            let heard = tree.heard_by(below);
            let result = heard.iter().find(|heard| heard.header.kind == Kind::Result).unwrap().header;
            assert_eq!(result.flags.has(Flags::ECN_ECHO), whose.is_some(), "PSN {psn}");
            assert_eq!(result.own.wnd_cap(), if below.leaf == 1 { 32 } else { 24 }, "PSN {psn}");
        }
    }
    tree.end();
}

#[test]
fn three_levels_sum_like_two() {
    let shape = [
        (2, None),
        (1, Some((0, 0))),
        (2, Some((0, 1))),
        (2, Some((1, 0))),
        (1, Some((2, 0))),
        (1, Some((2, 1))),
    ];
    let mut tree = Tree::new(&shape, &job(JOB, 2));
    let mut all = [tree.below(3), tree.below(4), tree.below(5)].concat();
    tree.form(&mut all, 0);
    assert!(all.iter().all(|below| below.workers == 4));
    contribute(&mut tree, &all, 0, false);
    assert_sum(&mut tree, &all, 0, &[30 + 31 + 40 + 50, 4]);
    assert_eq!(tree.climbed.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1, 1, 1, 1, 1]);
    tree.end();
}

/// Whichever packet between leaf and root is lost, workers that send again bring the result.
#[test]
fn a_sum_or_a_result_that_is_lost_comes_by_what_workers_send_again() {
    for lost in [Kind::Gradient, Kind::Result] {
        let (mut tree, all) = formed();
        let left = Rc::new(Cell::new(1));
        tree.wire = Box::new(move |heard| {
            let lose = heard.header.kind == lost && left.replace(0) > 0;
            usize::from(!lose)
        });
        contribute(&mut tree, &all, 0, false);
        let got: Vec<usize> = all.iter().map(|below| tree.heard_by(below).len()).collect();
        let lacking: Vec<Below> =
            all.iter().zip(&got).filter(|(_, got)| **got == 0).map(|(b, _)| *b).collect();
        assert_eq!(lacking.len(), if lost == Kind::Result { 2 } else { 4 });
        contribute(&mut tree, &lacking, 0, true);
        assert_sum(&mut tree, &lacking, 0, &SUM);
        tree.end();
    }
}

/// A rank that lacks a result gets what ranks below another leaf have kept, if both appliances have forgotten
/// it.
#[test]
fn a_result_that_only_another_subtree_has_kept_comes_over_the_root() {
    let (mut tree, all) = formed();
    contribute(&mut tree, &all, 0, false);
    assert_sum(&mut tree, &all, 0, &SUM);
    let before = pascaline_wire::control::generation(all[0].worker.epoch);
    (0..3).for_each(|node| tree.restart(node, &job(JOB, 2)));
    let mut all = all;
    tree.form(&mut all, before);
    all.iter_mut().for_each(|below| below.base = 0);
    // The ranks below the first leaf have lost the result: both contribute again.
    contribute(&mut tree, &all[..2], 0, true);
    // As a worker does: a reminder right behind a contribution.
    for frame in [again(&all[0], 0), all[0].worker.reminder(0)] {
        tree.send(&all[0], &frame);
    }
    tree.pass(2);
    // The root asks the other leaf, and that its ranks.
    let asked = tree.heard_by(&all[2]);
    assert!(asked.iter().any(|heard| heard.header.kind == Kind::Reminder), "{asked:?}");
    tree.heard_by(&all[3]);
    let kept = all[2].worker.cached_result(0, &SUM);
    tree.send(&all[2], &kept);
    tree.pass(1);
    for below in &all[..2] {
        let heard = tree.heard_by(below);
        assert!(heard.iter().any(|h| h.header.kind == Kind::Result && values(&h.body) == SUM), "{heard:?}");
    }
    tree.end();
}

/// Packets from the parent's address that are not the parent's job's as this appliance knows it change
/// nothing, and are counted.
#[test]
fn what_a_parent_says_wrongly_is_counted_and_ignored() {
    type Change = fn(&mut pascaline_wire::Header);
    let (mut tree, all) = formed();
    let wrong: [(Change, DropReason); 5] = [
        (|header| header.fan_in = 3, DropReason::FanInMismatch),
        (|header| header.count = 1, DropReason::BadCount),
        (|header| header.epoch ^= 64, DropReason::WrongEpoch),
        (|header| header.kind = Kind::Gradient, DropReason::UnhandledKind),
        (|header| header.job = 99, DropReason::UnknownJob),
    ];
    for (change, reason) in wrong {
        let mut parent = all[0].worker;
        parent.address = pascaline_wire::frame::Address::from_v4([10, 78, 0, 254]);
        parent.udp_port = pascaline_testkit::UDP_PORT;
        let mut header = parent.header(Kind::Result, all[0].base, 2);
        change(&mut header);
        let frame = parent.frame(&header, &pascaline_testkit::bytes(&[1, 2]));
        tree.send(&all[0], &frame);
        tree.pass(1);
        assert_eq!(tree.nodes[1].appliance.dropped(reason), 1, "{reason:?}");
        assert!(all.iter().all(|below| tree.heard_by(below).iter().all(|h| h.header.kind == Kind::Control)));
    }
    tree.end();
}
