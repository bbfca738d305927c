//! Commands that are given at one appliance, and hold for the whole tree.

use pascaline_pipelines::membership::{Command, JobSpec, Refused, Rights};
use pascaline_telemetry::DropReason;
use pascaline_testkit::JOB;
use pascaline_wire::control::{self, ASK, Action, Control, Status};
use pascaline_wire::header::{Element, Flags, Header, Kind};

use super::sums::{SUM, assert_sum, contribute, contribution};
use super::tree::{Below, Tree, formed};
use crate::common::appliance::job;

/// A root, two in the middle, and two leaves of two workers each.
fn three_levels() -> (Tree, Vec<Below>) {
    let shape = [(2, None), (1, Some((0, 0))), (1, Some((0, 1))), (2, Some((1, 0))), (2, Some((2, 0)))];
    let mut tree = Tree::new(&shape, &job(JOB, 2));
    let mut all = [tree.below(3), tree.below(4)].concat();
    tree.form(&mut all, 0);
    (tree, all)
}

fn order(tree: &mut Tree, node: usize, command: Command) -> Result<(), Refused> {
    let node = &mut tree.nodes[node];
    node.appliance.plane.command(node.appliance.now, JOB, command).map(drop)
}

fn halted(tree: &Tree) -> Vec<bool> {
    let of = |node: &crate::common::appliance::Bench| node.appliance.plane.membership().status()[0].halted;
    tree.nodes.iter().map(of).collect()
}

/// All say that they are inside an operation, as they do every 100 ms.
fn heartbeats(tree: &mut Tree, all: &mut [Below], epoch: u16) -> Vec<Status> {
    all.iter_mut().map(|below| tree.join(below, 0, control::generation(epoch)).status).collect()
}

/// A member's command in a packet, and the answer.
fn by_packet(tree: &mut Tree, below: &Below, action: Action) -> Status {
    let worker = below.worker;
    let header = Header { element: Element::F32_SUM, ..worker.header(Kind::Control, 0, 0) };
    tree.send(below, &worker.frame(&header, &Control::request(action, worker.session).to_bytes()));
    tree.pass(1);
    let heard = tree.heard_by(below);
    heard.iter().rfind(|heard| heard.header.kind == Kind::Control).expect("an answer").control().status
}

#[test]
fn a_halt_at_any_appliance_suspends_all_until_a_reset_at_any_other() {
    for (levels, (halt_at, reset_at)) in [
        (2, (1, 2)),
        (2, (1, 1)),
        (2, (0, 2)),
        (2, (1, 0)),
        (3, (3, 4)),
        (3, (3, 0)),
        (3, (1, 4)),
        (3, (0, 3)),
    ] {
        let (mut tree, mut all) = if levels == 2 { formed() } else { three_levels() };
        let case = (levels, halt_at, reset_at);
        let before = all[0].worker.epoch;
        order(&mut tree, halt_at, Command::Halt).unwrap();
        // The workers of the other subtrees hear of it within three of their heartbeats.
        for _ in 0..3 {
            heartbeats(&mut tree, &mut all, before);
            tree.pass(10);
        }
        assert_eq!(heartbeats(&mut tree, &mut all, before), vec![Status::Halted; all.len()], "{case:?}");
        assert!(halted(&tree).iter().all(|&halted| halted), "{case:?}: {:?}", halted(&tree));
        order(&mut tree, reset_at, Command::Reset).unwrap();
        tree.pass(40);
        assert!(!halted(&tree).iter().any(|&halted| halted), "{case:?}: {:?}", halted(&tree));
        tree.form(&mut all, 0);
        assert_ne!(all[0].worker.epoch, before);
        contribute(&mut tree, &all, 0, false);
        all.iter().for_each(|below| assert!(!tree.heard_by(below).is_empty(), "{case:?}"));
        tree.end();
    }
}

/// Workers fail when they are told of a Halt, and leave: whoever resets the job then means the next ones.
#[test]
fn a_reset_that_comes_when_all_have_left_holds_for_those_who_join_next() {
    for reset_at in [0, 1, 2] {
        let (mut tree, mut all) = formed();
        let before = all[0].worker.epoch;
        order(&mut tree, 1, Command::Halt).unwrap();
        for _ in 0..3 {
            heartbeats(&mut tree, &mut all, before);
            tree.pass(10);
        }
        all.iter().for_each(|below| tree.leave(below));
        tree.pass(20);
        all.iter().for_each(|below| tree.leave(below));
        tree.pass(600);
        order(&mut tree, reset_at, Command::Reset).unwrap();
        tree.pass(20);
        all.iter_mut().for_each(|below| below.worker.session += 77);
        for turn in 0..40 {
            for below in &mut all {
                let got = if turn == 0 { ASK } else { control::generation(below.worker.epoch) };
                let told = tree.join(below, 0, got);
                if below.leaf == reset_at || reset_at == 0 {
                    assert_ne!(told.status, Status::Halted, "reset at {reset_at}");
                }
            }
        }
        tree.form(&mut all, 0);
        assert!(!halted(&tree).iter().any(|&halted| halted));
        tree.end();
    }
}

/// Workers fail and leave at once, before their leaf has handed the Halt up.
#[test]
fn a_halt_goes_up_before_those_who_leave_for_it() {
    let (mut tree, mut all) = formed();
    let before = all[0].worker.epoch;
    let slow = std::rc::Rc::new(core::cell::Cell::new(true));
    let wire = std::rc::Rc::clone(&slow);
    tree.wire = Box::new(move |_| usize::from(!wire.get()));
    order(&mut tree, 1, Command::Halt).unwrap();
    all[..2].iter().for_each(|below| tree.leave(below));
    tree.pass(20);
    slow.set(false);
    tree.pass(20);
    for _ in 0..3 {
        heartbeats(&mut tree, &mut all[2..], before);
        tree.pass(10);
    }
    assert_eq!(halted(&tree)[..1], [true]);
    assert_eq!(heartbeats(&mut tree, &mut all[2..], before), [Status::Halted; 2]);
    order(&mut tree, 0, Command::Reset).unwrap();
    tree.pass(40);
    all.iter_mut().for_each(|below| below.worker.session += 77);
    tree.form(&mut all, 0);
    assert_eq!(halted(&tree), [false; 3]);
    tree.end();
}

/// Workers that nobody has told yet send on: what they send says so to their leaf.
#[test]
fn a_packet_of_a_suspended_job_is_refused_wherever_it_comes() {
    let (mut tree, mut all) = formed();
    let before = all[0].worker.epoch;
    assert_eq!(by_packet(&mut tree, &all[0], Action::Halt), Status::Ok);
    tree.pass(5);
    contribute(&mut tree, &all, 0, false);
    tree.pass(20);
    all.iter().for_each(|below| drop(tree.heard_by(below)));
    assert_eq!(halted(&tree), [true; 3]);
    let far = all[3];
    tree.send(&far, &contribution(&far, 0, Flags::RETRANSMISSION));
    tree.pass(1);
    assert_eq!(tree.heard_by(&far).last().unwrap().control().status, Status::Halted);
    assert!(tree.nodes[2].appliance.dropped(DropReason::Halted) > 0);
    // A Reset by the worker of another rack.
    assert_eq!(by_packet(&mut tree, &far, Action::Reset), Status::Ok);
    tree.pass(40);
    assert_eq!(halted(&tree), [false; 3]);
    tree.form(&mut all, 0);
    assert_ne!(all[0].worker.epoch, before);
    tree.end();
}

/// What a command says goes up again until the parent has answered, and counts once.
#[test]
fn commands_survive_loss_between_appliances() {
    let (mut tree, mut all) = formed();
    let before = all[0].worker.epoch;
    let mut number = 0;
    tree.wire = Box::new(move |heard| {
        number += 1;
        usize::from(heard.header.kind != Kind::Control || number % 3 > 0)
    });
    order(&mut tree, 1, Command::Halt).unwrap();
    for _ in 0..8 {
        heartbeats(&mut tree, &mut all, before);
        tree.pass(20);
    }
    assert_eq!(halted(&tree), [true; 3]);
    order(&mut tree, 2, Command::Reset).unwrap();
    tree.pass(100);
    assert_eq!(halted(&tree), [false; 3]);
    tree.wire = Box::new(|_| 1);
    tree.form(&mut all, 0);
    tree.end();
}

/// A Reset holds for the generation that is under way elsewhere, too: nobody goes on with it.
#[test]
fn nobody_resumes_what_another_leaf_has_reset() {
    let (mut tree, mut all) = formed();
    let before = control::generation(all[0].worker.epoch);
    order(&mut tree, 1, Command::Reset).unwrap();
    tree.pass(20);
    tree.form_anew(&mut all, 0, before);
    tree.end();
}

/// A Halt that comes while ranks are missing holds once the tree is complete.
#[test]
fn a_leaf_that_is_no_member_yet_hands_a_halt_up_later() {
    let mut tree = Tree::two_by_two();
    let mut all = [tree.below(1), tree.below(2)].concat();
    tree.pass(10);
    order(&mut tree, 1, Command::Halt).unwrap();
    assert_eq!(halted(&tree), [false, true, false]);
    for turn in 0..20 {
        for below in &mut all {
            let got = if turn == 0 { ASK } else { control::generation(below.worker.epoch) };
            tree.join(below, 0, got);
        }
        tree.pass(5);
    }
    assert_eq!(halted(&tree), [true; 3]);
    order(&mut tree, 0, Command::Reset).unwrap();
    tree.pass(40);
    tree.form(&mut all, 0);
    tree.end();
}

/// Where the parent admits no commands of its ranks, a Halt stops the subtree that it was given for.
#[test]
fn a_parent_that_takes_no_commands_is_not_suspended() {
    let (mut tree, mut all) = formed();
    tree.restart(0, &JobSpec { control: Rights::Operator, ..job(JOB, 2) });
    let before = all[0].worker.epoch;
    heartbeats(&mut tree, &mut all, before);
    tree.pass(20);
    tree.form(&mut all, control::generation(before));
    order(&mut tree, 1, Command::Halt).unwrap();
    tree.pass(20);
    assert_eq!(halted(&tree), [false, true, false]);
    order(&mut tree, 1, Command::Reset).unwrap();
    tree.pass(20);
    assert_eq!(halted(&tree), [false; 3]);
    tree.form(&mut all, 0);
    tree.end();
}

#[test]
fn help_at_a_leaf_and_at_the_root_brings_what_was_lost() {
    for node in [0, 1] {
        let (mut tree, all) = formed();
        // What comes down to the first leaf is lost.
        tree.wire =
            Box::new(|heard| usize::from(heard.header.kind != Kind::Result || heard.to.0.octets()[14] != 1));
        contribute(&mut tree, &all, 0, false);
        all.iter().for_each(|below| drop(tree.heard_by(below)));
        tree.wire = Box::new(|_| 1);
        order(&mut tree, node, Command::Help(all[0].base)).unwrap();
        tree.pass(3);
        assert_sum(&mut tree, &all[..2], 0, &SUM);
        tree.end();
    }
}

#[test]
fn what_cannot_hold_over_levels_is_refused_by_name() {
    let (mut tree, all) = formed();
    assert_eq!(order(&mut tree, 1, Command::SetH(1)), Err(Refused::Levels));
    assert_eq!(order(&mut tree, 1, Command::FBcast(all[0].base)), Err(Refused::Levels));
    assert_eq!(order(&mut tree, 0, Command::SetH(1)), Err(Refused::Whole));
    assert_eq!(by_packet(&mut tree, &all[0], Action::SetH), Status::Unsupported);
    tree.end();
}
