//! Who is told to go when, and with what.

use core::time::Duration;

use pascaline_pipelines::membership::{JobSpec, OnDeath, UplinkState};
use pascaline_testkit::JOB;
use pascaline_wire::control::{self, ASK, Status};

use super::tree::{Tree, formed};
use crate::common::appliance::job;

#[test]
fn workers_go_when_the_whole_tree_is_there_and_hear_how_many_they_are() {
    let mut tree = Tree::two_by_two();
    let (mut left, mut right) = (tree.below(1), tree.below(2));
    assert_eq!(tree.uplinks(), [None, Some(UplinkState::Pending), Some(UplinkState::Pending)]);
    // Each asks the root for its number first.
    tree.pass(10);
    for below in &mut left {
        tree.join(below, 0, ASK);
        let got = control::generation(below.worker.epoch);
        assert_eq!(tree.join(below, 0, got).status, Status::Pending);
    }
    tree.pass(20);
    assert_eq!(tree.uplinks(), [None, Some(UplinkState::Pending), Some(UplinkState::Idle)]);
    tree.join(&mut right[0], 0, ASK);
    let mut all = [left, right].concat();
    tree.form(&mut all, 0);
    assert!(all.iter().all(|below| below.workers == 4), "{all:?}");
    assert_eq!(tree.uplinks()[1..], [Some(UplinkState::Joined); 2]);
    tree.end();
}

/// A rank that is silent may have turned elsewhere, and be counted there. Holds R9.11 of protocol.md.
#[test]
fn a_rank_that_waits_at_a_leaf_and_falls_silent_is_not_counted_above() {
    let mut tree = Tree::two_by_two();
    let [first, second] = &mut tree.below(1)[..] else { unreachable!() };
    tree.pass(10);
    tree.join(first, 0, ASK);
    tree.join(first, 0, control::generation(first.worker.epoch));
    let joined = |tree: &Tree| tree.nodes[1].appliance.plane.membership().status()[0].joined;
    tree.pass(40);
    assert_eq!(joined(&tree), 1);
    tree.pass(20);
    assert_eq!(joined(&tree), 0);
    tree.join(second, 0, ASK);
    tree.join(second, 0, control::generation(second.worker.epoch));
    tree.pass(20);
    assert_eq!((joined(&tree), tree.uplinks()[1]), (1, Some(UplinkState::Idle)), "it does not join above");
    tree.end();
}

/// An appliance that starts anew, at either level, has forgotten everything, and the workers go on.
#[test]
fn whichever_appliance_starts_anew_the_generation_is_resumed() {
    for node in 0..3 {
        let (mut tree, mut all) = formed();
        let before = all[0].worker.epoch;
        tree.restart(node, &job(JOB, 2));
        // Workers inside an operation say so, and hear that their generation is over.
        for below in &mut all {
            let got = control::generation(before);
            tree.join(below, 0, got);
        }
        tree.pass(20);
        tree.form(&mut all, control::generation(before));
        assert_ne!(all[0].worker.epoch, before);
        tree.end();
    }
}

/// A leaf that starts anew with the very number that the workers' generation has: they must not take it for
/// the one that knows them, and it must not take their heartbeats for Joins from nothing.
#[test]
fn a_leaf_whose_number_is_that_of_the_generation_by_chance_tells_them_another() {
    let (mut tree, mut all) = formed();
    let before = all[0].worker.epoch;
    tree.restart_at(1, &job(JOB, 2), before);
    let got = control::generation(before);
    for below in all.iter_mut().filter(|below| below.leaf == 1) {
        // The first comes before the root has told its number.
        for _ in 0..4 {
            tree.join(below, 0, got);
        }
        assert_ne!(below.worker.epoch, before);
    }
    tree.form(&mut all, got);
    tree.end();
}

/// A Join that is still under way from a generation that was forming must not count in a later one: those
/// have other numbers, whatever the root's are.
#[test]
fn generations_that_form_at_a_leaf_have_different_numbers() {
    let (mut tree, mut all) = formed();
    let mut numbers = Vec::new();
    for _ in 0..4 {
        let got = control::generation(all[0].worker.epoch);
        tree.restart_at(0, &job(JOB, 2), 40);
        for below in &mut all {
            tree.join(below, 0, got);
        }
        tree.pass(20);
        tree.join(&mut all[0], 0, ASK);
        numbers.push(all[0].worker.epoch);
        tree.form(&mut all, got);
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 4, "{numbers:?}");
    tree.end();
}

/// A root that is started anew may begin with any number. No leaf may form its next generation with the
/// number of the one that its workers are in: their heartbeats would count as Joins that begin from nothing.
#[test]
fn no_generation_forms_with_the_number_of_the_one_that_workers_are_in() {
    for begins in (0..=u16::MAX).step_by(0x100) {
        let (mut tree, mut all) = formed();
        let before = all[0].worker.epoch;
        let got = control::generation(before);
        tree.restart_at(0, &job(JOB, 2), begins);
        for below in &mut all {
            tree.join(below, 0, got);
        }
        tree.pass(20);
        for below in &mut all {
            tree.join(below, 0, ASK);
            assert_ne!(below.worker.epoch, before, "the root begins with {begins}");
        }
        tree.end();
    }
}

/// Who has left and is started anew is needed again by those who wait for what its workers have kept.
#[test]
fn a_leaf_that_had_left_comes_back_to_those_who_wait() {
    let (mut tree, mut all) = formed();
    let before = all[0].worker.epoch;
    for at in [0, 1] {
        tree.leave(&all[at]);
    }
    tree.pass(5);
    let got = control::generation(before);
    for at in [2, 3] {
        tree.join(&mut all[at], 0, got);
    }
    tree.restart(1, &job(JOB, 2));
    tree.pass(10);
    // The others wait all the time.
    tree.form(&mut all, got);
    tree.end();
}

#[test]
fn a_worker_that_starts_anew_ends_the_generation_of_all() {
    let (mut tree, mut all) = formed();
    let before = all[0].worker.epoch;
    all[0].worker.session = 77;
    tree.join(&mut all[0], 0, ASK);
    tree.form(&mut all, 0);
    assert_ne!(all[3].worker.epoch, before);
    tree.end();
}

/// If the ranks below one leaf cannot go on, nobody can, and each is told so.
#[test]
fn nobody_resumes_what_another_subtree_cannot() {
    let (mut tree, mut all) = formed();
    let before = control::generation(all[0].worker.epoch);
    for below in &mut all[..2] {
        below.worker.session += 1;
    }
    tree.form_anew(&mut all, 2, before);
    tree.end();
}

/// The root has given a leaf up that did not come back: those who wait to go on fail now, not at a deadline.
#[test]
fn what_the_root_has_given_up_nobody_below_waits_for() {
    let like = JobSpec { dead_after: Some(Duration::from_secs(1)), ..job(JOB, 2) };
    let mut tree = Tree::new(&[(2, None), (2, Some((0, 0))), (2, Some((0, 1)))], &like);
    let mut all = [tree.below(1), tree.below(2)].concat();
    tree.form(&mut all, 0);
    let before = control::generation(all[0].worker.epoch);
    tree.restart(0, &like);
    let mut told = [Status::Ok; 2];
    for turn in 0..100 {
        for (below, told) in all[..2].iter_mut().zip(&mut told) {
            let got = if turn == 0 { before } else { control::generation(below.worker.epoch) };
            let resume = if turn == 0 { 0 } else { before };
            *told = tree.join(below, resume, got).status;
        }
        tree.pass(1);
    }
    assert_eq!(told, [Status::RankLeft; 2]);
    // From nothing they are taken in.
    for below in &mut all {
        below.worker.session += 1;
    }
    tree.form(&mut all, 0);
    tree.end();
}

/// Nobody waits at a leaf all of whose ranks are dead, and that appliance is alive: the root misses them.
#[test]
fn all_ranks_of_a_leaf_are_missed_at_the_root() {
    let like = JobSpec { dead_after: Some(Duration::from_secs(1)), ..job(JOB, 2) };
    for (dead, told) in [(true, Status::RankLeft), (false, Status::Ok)] {
        let mut tree = Tree::new(&[(2, None), (2, Some((0, 0))), (2, Some((0, 1)))], &like);
        let mut all = [tree.below(1), tree.below(2)].concat();
        tree.form(&mut all, 0);
        let epoch = all[0].worker.epoch;
        let mut last = Status::Ok;
        for turn in 0..40 {
            for below in &mut all[..2] {
                last = if last == Status::Ok {
                    tree.heartbeat(below, epoch).status
                } else {
                    let got = control::generation(below.worker.epoch);
                    tree.join(below, control::generation(epoch), got).status
                };
            }
            // Those of the other leaf wait for nothing, but may say that they are alive.
            if !dead && turn % 6 == 0 {
                let got = control::generation(epoch);
                assert_eq!(tree.join(&mut all[2], 0, got).status, Status::Ok);
                assert_eq!(tree.heartbeat(&mut all[3], epoch).status, Status::Ok);
            }
            tree.pass(8);
        }
        assert_eq!(last, told, "dead: {dead}");
        tree.end();
    }
}

#[test]
fn workers_wait_until_all_below_the_root_have_left() {
    let (mut tree, all) = formed();
    let leave = |tree: &mut Tree, at: usize| {
        tree.leave(&all[at]);
        tree.pass(15);
        tree.heard_by(&all[at]).last().expect("an answer").control().status
    };
    assert_eq!(leave(&mut tree, 0), Status::Pending);
    for _ in 0..3 {
        assert_eq!(leave(&mut tree, 1), Status::Pending, "the others are there");
    }
    leave(&mut tree, 2);
    leave(&mut tree, 3);
    for at in [1, 0, 3, 2] {
        assert_eq!(leave(&mut tree, at), Status::Ok, "rank {at}");
    }
    tree.end();
}

/// An appliance tells its parent how many workers are below, and all of them hear how many there are.
#[test]
fn as_many_workers_as_there_are_are_told() {
    for (counts, sum) in [([40_000, 25_536], 65_536), ([u32::MAX, 2], u32::MAX)] {
        // The two that an appliance in the middle has, and one without a parent.
        for shape in [&[(1, None), (2, Some((0, 0)))][..], &[(2, None)]] {
            let mut tree = Tree::new(shape, &job(JOB, 2));
            let mut all = tree.below(shape.len() - 1);
            tree.pass(10);
            let mut told = Vec::new();
            for turn in 0..20 {
                for (below, count) in all.iter_mut().zip(counts) {
                    below.count = count;
                    let got = if turn == 0 { ASK } else { control::generation(below.worker.epoch) };
                    told.push(tree.join(below, 0, got));
                }
            }
            let said = told.last().unwrap();
            assert_eq!((said.status, said.workers), (Status::Ok, sum), "{counts:?} below {shape:?}");
            tree.end();
        }
    }
}

/// What a root cannot do for several workers behind a rank it refuses by name.
#[test]
fn a_subtree_is_refused_where_results_may_lack_ranks() {
    let like = JobSpec { on_death: OnDeath::Continue, ..job(JOB, 2) };
    let mut tree = Tree::new(&[(1, None), (1, Some((0, 0)))], &like);
    let mut below = tree.below(1);
    for _ in 0..10 {
        let got = control::generation(below[0].worker.epoch);
        tree.join(&mut below[0], 0, got);
    }
    assert_eq!(tree.uplinks()[1], Some(UplinkState::Refused(Status::Unsupported)));
    tree.end();
}
