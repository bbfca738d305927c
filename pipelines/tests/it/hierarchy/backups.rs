//! Another appliance takes the place of one that is silent.

use core::time::Duration;

use pascaline_pipelines::membership::{Command, JobSpec};
use pascaline_testkit::JOB;
use pascaline_wire::control::{self, ASK, Status};

use super::sums::{SUM, assert_sum, contribute};
use super::tree::{Below, Tree, down};
use crate::common::appliance::job;

/// A root, one that may take its place, and two leaves.
fn two_roots() -> (Tree, Vec<Below>) {
    let shape = [(2, None), (2, Some((0, 0))), (2, Some((0, 1))), (2, None)];
    let backups = [vec![], vec![(3, 0)], vec![(3, 1)], vec![]];
    let mut tree = Tree::with_backups(&shape, &backups, &job(JOB, 2));
    let mut all = [tree.below(1), tree.below(2)].concat();
    tree.form(&mut all, 0);
    (tree, all)
}

/// Which of its parents each leaf has in force.
fn places(tree: &Tree) -> [usize; 2] {
    [1, 2].map(|leaf| {
        let node = &tree.nodes[leaf];
        node.appliance.plane.membership().uplink(JOB, node.appliance.now).unwrap().place
    })
}

/// Workers inside an operation say so, for so many tenths of a second.
fn wait(tree: &mut Tree, all: &mut [Below], epoch: u16, tenths: usize) {
    for _ in 0..tenths {
        for below in all.iter_mut() {
            tree.heartbeat(below, epoch);
        }
        tree.pass(10 - all.len());
    }
}

/// The sum of a PSN that nobody has contributed to before.
fn assert_sums(tree: &mut Tree, all: &[Below], psn: u32) {
    all.iter().for_each(|below| drop(tree.heard_by(below)));
    contribute(tree, all, psn, false);
    assert_sum(tree, all, psn, &SUM);
}

#[test]
fn the_job_goes_on_below_the_backup_where_it_was() {
    let (mut tree, mut all) = two_roots();
    assert_sums(&mut tree, &all, 0);
    let before = all[0].worker.epoch;
    assert_eq!(places(&tree), [0, 0]);
    tree.dead[0] = true;
    contribute(&mut tree, &all, 1, false);
    wait(&mut tree, &mut all, before, 4);
    assert_eq!(places(&tree), [0, 0], "half a second has not passed");
    wait(&mut tree, &mut all, before, 3);
    assert_eq!(places(&tree), [1, 1]);
    tree.form(&mut all, control::generation(before));
    assert_ne!(all[0].worker.epoch, before);
    assert_sums(&mut tree, &all, 1);
    // The first one comes back: who is a member stays where the job is.
    tree.dead[0] = false;
    tree.restart(0, &job(JOB, 2));
    let epoch = all[0].worker.epoch;
    wait(&mut tree, &mut all, epoch, 10);
    assert_eq!(places(&tree), [1, 1]);
    assert_sums(&mut tree, &all, 2);
    tree.end();
}

/// Only they may have results that other ranks lack.
#[test]
fn those_who_have_left_come_to_the_backup_too() {
    let (mut tree, mut all) = two_roots();
    let before = all[0].worker.epoch;
    tree.dead[0] = true;
    for _ in 0..7 {
        all[..2].iter().for_each(|below| tree.leave(below));
        tree.pass(10);
    }
    assert_eq!(places(&tree), [1, 0]);
    // Their Leaves are answered `wrong_epoch` now: they join once more, to leave there.
    wait(&mut tree, &mut all[2..], before, 7);
    tree.form(&mut all, control::generation(before));
    assert_eq!(places(&tree), [1, 1]);
    assert_sums(&mut tree, &all, 0);
    tree.end();
}

/// One that is started anew asks them all, and goes where the others are.
#[test]
fn a_leaf_that_starts_anew_goes_to_the_backup_that_has_the_job() {
    let (mut tree, mut all) = two_roots();
    let before = all[0].worker.epoch;
    tree.dead[0] = true;
    wait(&mut tree, &mut all, before, 7);
    tree.form(&mut all, control::generation(before));
    tree.dead[0] = false;
    tree.restart(0, &job(JOB, 2));
    let before = all[0].worker.epoch;
    tree.restart(1, &job(JOB, 2));
    wait(&mut tree, &mut all, before, 5);
    tree.form(&mut all, control::generation(before));
    assert_eq!(places(&tree), [1, 1]);
    assert_sums(&mut tree, &all, 0);
    tree.end();
}

/// A leaf that alone cannot reach the parent comes back to it, and the job goes on there.
#[test]
fn a_leaf_that_alone_was_cut_off_comes_back() {
    let (mut tree, mut all) = two_roots();
    let before = all[0].worker.epoch;
    let cut = std::rc::Rc::new(core::cell::Cell::new(true));
    let wire = std::rc::Rc::clone(&cut);
    tree.wire = Box::new(move |heard| {
        let ends = [heard.to.0, heard.from.0].map(|address| address.octets());
        let first = ends.iter().any(|end| end[12..] == [10, 78, 0, 254]);
        let second = ends.iter().any(|end| end[12..] == [10, 78, 1, 1]);
        usize::from(!(wire.get() && first && second))
    });
    wait(&mut tree, &mut all, before, 10);
    assert_eq!(places(&tree), [1, 0]);
    for turn in 0..10 {
        for below in &mut all[..2] {
            let got = if turn == 0 { ASK } else { control::generation(below.worker.epoch) };
            let answer = tree.join(below, control::generation(before), got);
            assert_ne!(answer.status, Status::Ok);
        }
    }
    cut.set(false);
    tree.form(&mut all, control::generation(before));
    assert_eq!(places(&tree), [0, 0]);
    assert_sums(&mut tree, &all, 0);
    tree.end();
}

/// The parent is gone before anybody has joined.
#[test]
fn a_job_is_formed_below_the_backup_if_the_parent_never_came() {
    let shape = [(2, None), (2, Some((0, 0))), (2, Some((0, 1))), (2, None)];
    let backups = [vec![], vec![(3, 0)], vec![(3, 1)], vec![]];
    let mut tree = Tree::with_backups(&shape, &backups, &job(JOB, 2));
    tree.dead[0] = true;
    tree.pass(70);
    assert_eq!(places(&tree), [1, 1]);
    let mut all = [tree.below(1), tree.below(2)].concat();
    tree.form(&mut all, 0);
    assert_sums(&mut tree, &all, 0);
    tree.end();
}

/// A short silence, or one in which there is nothing to ask, changes nothing.
#[test]
fn a_parent_that_is_back_in_time_stays() {
    let (mut tree, mut all) = two_roots();
    let before = all[0].worker.epoch;
    tree.dead[0] = true;
    tree.pass(300);
    assert_eq!(places(&tree), [0, 0], "nobody waits");
    wait(&mut tree, &mut all, before, 3);
    tree.dead[0] = false;
    wait(&mut tree, &mut all, before, 8);
    assert_eq!(places(&tree), [0, 0]);
    assert_sums(&mut tree, &all, 0);
    tree.end();
}

/// Three levels: one in the middle is gone, and the leaf below it goes to another one that has its place.
#[test]
fn one_in_the_middle_is_replaced() {
    let shape = [
        (2, None),
        (1, Some((0, 0))),
        (1, Some((0, 1))),
        (2, Some((1, 0))),
        (2, Some((2, 0))),
        (1, Some((0, 0))),
    ];
    let backups = [vec![], vec![], vec![], vec![(5, 0)], vec![], vec![]];
    let mut tree = Tree::with_backups(&shape, &backups, &job(JOB, 2));
    let mut all = [tree.below(3), tree.below(4)].concat();
    tree.form(&mut all, 0);
    let before = all[0].worker.epoch;
    wait(&mut tree, &mut all, before, 2);
    tree.dead[1] = true;
    wait(&mut tree, &mut all, before, 8);
    // The root hears of the newcomer, and misses the one that had the rank.
    let mut left = [all[0], all[1]];
    for turn in 0..60 {
        for below in &mut left {
            let got = if turn == 0 { ASK } else { control::generation(below.worker.epoch) };
            tree.join(below, control::generation(before), got);
        }
        for below in &mut all[2..] {
            tree.heartbeat(below, before);
        }
    }
    (all[0], all[1]) = (left[0], left[1]);
    tree.form(&mut all, control::generation(before));
    contribute(&mut tree, &all, 0, false);
    assert_sum(&mut tree, &all, 0, &[30 + 31 + 40 + 41, 4]);
    tree.end();
}

/// A Reset whose parent is gone does not wait for it.
#[test]
fn a_reset_below_a_dead_parent_begins_anew_below_the_backup() {
    let (mut tree, mut all) = two_roots();
    tree.dead[0] = true;
    for leaf in [1, 2] {
        let node = &mut tree.nodes[leaf];
        node.appliance.plane.command(node.appliance.now, JOB, Command::Reset).unwrap();
    }
    tree.pass(70);
    tree.form(&mut all, 0);
    assert_eq!(places(&tree), [1, 1]);
    assert_sums(&mut tree, &all, 0);
    tree.end();
}

/// Other backups while it runs: the job goes on unless the parent in force is no longer one.
#[test]
fn backups_change_while_the_job_goes_on() {
    let (mut tree, all) = two_roots();
    let like = job(JOB, 2);
    let parents: Vec<_> = {
        let node = &tree.nodes[1].appliance;
        vec![node.plane.membership().uplink(JOB, node.now).unwrap().parent]
    };
    let node = &mut tree.nodes[1];
    let spec = JobSpec { parent: Some(parents[0]), ..like };
    node.appliance.plane.reconfigure(node.appliance.now, vec![spec], None);
    tree.pass(1);
    assert_sums(&mut tree, &all, 0);
    tree.end();
}

/// Whoever keeps the trees writes the one that all have come to first, before or after they come to it.
#[test]
fn parent_and_backup_change_places_while_the_job_goes_on() {
    let (mut tree, all) = two_roots();
    for leaf in [1, 2] {
        let node = &mut tree.nodes[leaf];
        let parent = node.appliance.plane.membership().uplink(JOB, node.appliance.now).unwrap().parent;
        let mut other = parent;
        other.endpoint.address = down(3);
        let spec = JobSpec { parent: Some(other), backups: vec![parent], ..job(JOB, 2) };
        node.appliance.plane.reconfigure(node.appliance.now, vec![spec], None);
    }
    tree.pass(1);
    assert_eq!(places(&tree), [1, 1]);
    assert_sums(&mut tree, &all, 0);
    tree.end();
}

/// One in the middle is gone for good: the one that stands in gets its rank as soon as it has been silent for
/// half a second, and the workers go on.
#[test]
fn the_backup_of_one_in_the_middle_has_its_place_soon() {
    let above = [None, Some((0, 0)), Some((1, 0)), Some((1, 1)), Some((0, 0)), Some((0, 1))];
    let shape: Vec<_> = [2, 2, 1, 1, 2, 1].into_iter().zip(above).collect();
    let backups = [vec![], vec![], vec![(4, 0)], vec![(4, 1)], vec![], vec![]];
    let mut tree = Tree::with_backups(&shape, &backups, &job(JOB, 2));
    let mut all = [tree.below(2), tree.below(3), tree.below(5)].concat();
    tree.form(&mut all, 0);
    let (before, began) = (all[0].worker.epoch, tree.nodes[0].appliance.now);
    tree.dead[1] = true;
    let mut on = [false; 3];
    while on != [true; 3] {
        for (below, on) in all.iter_mut().zip(&mut on) {
            let epoch = below.worker.epoch;
            let answer = if epoch == before {
                tree.heartbeat(below, before)
            } else {
                tree.join(below, control::generation(before), control::generation(epoch))
            };
            *on = answer.status == Status::Ok && below.worker.epoch != before;
        }
        let passed = tree.nodes[0].appliance.now - began;
        assert!(passed < Duration::from_millis(1300), "{passed:?}: {:?}", tree.uplinks());
    }
    tree.end();
}
