//! Reset, SetH and Halt: who may, and what follows.

use pascaline_pipelines::membership::JobSpec;
use pascaline_wire::control::{Action, Status};

use super::plane::{Plane, early, ranks, told};
use Action::{FBcast, Halt, Help, Join, Leave, Reset, SetH};
use Status::{FanInMismatch, Halted, NotMember, Ok, Pending, RankSpoofed, Unsupported, WrongEpoch};
use pascaline_testkit::{JOB, Worker};

const COMMANDS: [Action; 5] = [Reset, SetH, Halt, FBcast, Help];

fn partials(fan_in: u16) -> JobSpec {
    early(fan_in, fan_in)
}

fn needed(plane: &Plane) -> u16 {
    plane.table().get(JOB).unwrap().needed
}

/// Holds R9.15 of protocol.md.
#[test]
fn a_command_of_somebody_who_is_no_member_is_refused() {
    let (mut plane, workers) = Plane::complete(partials(3));
    let [a, b, c] = workers[..] else { unreachable!() };
    plane.expect(&c, Leave, (Pending, 7, 2, false));
    for action in COMMANDS {
        let mut refuses = |worker: &Worker, status, expected, got| {
            plane.refuses_values(worker, action, (1, 0), (status, expected, got));
        };
        refuses(&Worker { address: b.address, ..a }, RankSpoofed, 0, 0);
        refuses(&Worker { udp_port: b.udp_port, ..a }, RankSpoofed, 0, 0);
        refuses(&Worker { rank: 1, ..a }, RankSpoofed, 0, 1);
        refuses(&Worker { session: 999, ..a }, NotMember, 0, 0);
        refuses(&Worker { session: 1001, ..a }, NotMember, 0, 0);
        refuses(&c, NotMember, 0, 2);
        refuses(&Worker { epoch: 6, ..a }, WrongEpoch, 7, 6);
        refuses(&Worker { fan_in: 2, ..a }, FanInMismatch, 3, 2);
        refuses(&Worker { rank: 3, ..a }, Status::RankOutOfRange, 3, 3);
        refuses(&Worker { job: 9, ..a }, Status::UnknownJob, 0, 9);
    }
    // Nobody has joined this one.
    let mut plane = Plane::new(partials(1));
    for action in COMMANDS {
        plane.refuses_values(&Worker { epoch: 7, ..ranks(1)[0] }, action, (1, 0), (NotMember, 0, 0));
    }
}

#[test]
fn what_names_a_psn_is_not_for_the_control_plane() {
    let (mut plane, workers) = Plane::complete(partials(2));
    for action in [FBcast, Help] {
        plane.refuses(&workers[0], action, Unsupported, 0, action as u32);
    }
}

/// Holds R9.16 of protocol.md.
#[test]
fn reset_ends_the_generation_once() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let [a, b] = workers[..] else { unreachable!() };
    plane.expect(&a, Reset, (Ok, 8, 0, true));
    assert_eq!(plane.members(JOB), []);
    // The answer got lost.
    plane.expect(&a, Reset, (Ok, 8, 0, false));
    plane.refuses(&b, Reset, WrongEpoch, 8, 7);
    plane.refuses(&Worker { udp_port: 1, ..a }, Reset, RankSpoofed, 0, 0);
    plane.expect(&b, Join, (Pending, 8, 1, true));
    plane.expect(&a, Reset, (Ok, 8, 1, false));
    plane.expect(&a, Join, (Ok, 8, 2, true));
}

#[test]
fn a_reset_of_a_later_generation_with_the_same_number_is_another() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let [a, mut b] = workers[..] else { unreachable!() };
    plane.expect(&a, Reset, (Ok, 8, 0, true));
    while plane.status().epoch != 7 {
        b.session += 1;
        let _ = plane.ask(&b, Join, 0, 0);
    }
    plane.expect(&a, Join, (Ok, 7, 2, true));
    plane.expect(&a, Reset, (Ok, 8, 0, true));
}

#[test]
fn set_h_is_in_range_and_only_for_jobs_with_partial_results() {
    let (mut plane, workers) = Plane::complete(partials(3));
    let [a, b, _] = workers[..] else { unreachable!() };
    for h in [0, 4, 0x1_0001, u32::MAX] {
        plane.refuses_values(&a, SetH, (h, 0), (FanInMismatch, 3, h));
    }
    assert_eq!(needed(&plane), 3);
    for (h, changed) in [(2, true), (2, false), (1, true), (3, true)] {
        let answer = plane.ask(&b, SetH, h, 0);
        assert_eq!((told(&answer), answer.changed), ((Ok, 7, 0, 0), changed));
        assert_eq!(u32::from(needed(&plane)), h);
    }
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 3));
    plane.refuses_values(&workers[0], SetH, (2, 0), (Unsupported, 0, SetH as u32));
}

#[test]
fn the_threshold_holds_until_a_reset_or_the_end() {
    let (mut plane, workers) = Plane::complete(early(3, 2));
    let mut workers = workers;
    assert_eq!(needed(&plane), 2);
    let _ = plane.ask(&workers[0], SetH, 1, 0);
    assert_eq!(needed(&plane), 1);
    // A rank that starts anew changes nothing about it.
    workers[2].session += 1;
    plane.form(&mut workers);
    assert_eq!((workers[0].epoch, needed(&plane)), (8, 1));
    let _ = plane.ask(&workers[0], Reset, 0, 0);
    assert_eq!(needed(&plane), 2);
    plane.form(&mut workers);
    let _ = plane.ask(&workers[1], SetH, 3, 0);
    for worker in &workers {
        let _ = plane.ask(worker, Leave, 0, 0);
    }
    assert_eq!(needed(&plane), 2);
}

#[test]
fn a_threshold_beyond_the_job_is_all_of_it() {
    for (threshold, expected) in [(0, 1), (1, 1), (3, 3), (4, 3)] {
        let plane = Plane::new(early(3, threshold));
        assert_eq!((needed(&plane), plane.status().needed), (expected, expected));
    }
}

#[test]
fn halt_suspends_the_job_until_a_reset() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let mut workers = workers;
    let halted = |plane: &Plane| (plane.table().get(JOB).unwrap().halted, plane.status().halted);
    assert_eq!(halted(&plane), (false, false));
    plane.expect(&workers[1], Halt, (Ok, 7, 2, true));
    plane.expect(&workers[1], Halt, (Ok, 7, 2, false));
    assert_eq!(halted(&plane), (true, true));
    plane.expect(&workers[0], Join, (Halted, 7, 2, false));
    // Whoever starts anew is told so, and is a member all the same: else nobody could ever end it.
    for worker in &mut workers {
        worker.session += 1;
        let answer = plane.ask(worker, Join, 0, 0);
        assert_eq!((told(&answer), answer.changed), ((Halted, 8, 0, 0), true));
        worker.epoch = answer.header.epoch;
    }
    assert_eq!((plane.members(JOB), halted(&plane)), (vec![0, 1], (true, true)));
    plane.expect(&workers[0], Reset, (Ok, 9, 0, true));
    assert_eq!(halted(&plane), (false, false));
    plane.form(&mut workers);
}

#[test]
fn rights_bind_members_and_not_operators() {
    use pascaline_pipelines::membership::{Command, Rights};
    for (control, by_0, by_1) in
        [(Rights::Members, true, true), (Rights::RankZero, true, false), (Rights::Operator, false, false)]
    {
        for (rank, may) in [(0, by_0), (1, by_1)] {
            let (mut plane, workers) = Plane::complete(JobSpec { control, ..partials(2) });
            if may {
                plane.expect(&workers[rank], Halt, (Ok, 7, 2, true));
            } else {
                for action in [Halt, Reset, SetH] {
                    let refused = (Status::NotPermitted, 0, u32::try_from(rank).unwrap());
                    plane.refuses_values(&workers[rank], action, (1, 0), refused);
                }
            }
            assert!(plane.membership.command(plane.now, JOB, Command::Halt).is_ok());
            assert!(plane.membership.status()[0].halted);
        }
    }
}

#[test]
fn an_operators_reset_heals_a_halted_job_and_frees_its_ranks() {
    use pascaline_pipelines::membership::{Command, Refused};
    let (mut plane, mut workers) = Plane::complete(partials(2));
    let order = |plane: &mut Plane, command| plane.membership.command(plane.now, JOB, command);
    assert!(order(&mut plane, Command::SetH(1)).unwrap().changed);
    assert!(order(&mut plane, Command::Halt).unwrap().changed);
    assert_eq!((needed(&plane), plane.membership.status()[0].halted), (1, true));
    assert!(!order(&mut plane, Command::Halt).unwrap().changed, "it is already");
    assert_eq!(order(&mut plane, Command::SetH(3)), Err(Refused::Threshold { asked: 3, ranks: 2 }));
    assert_eq!(order(&mut plane, Command::FBcast(1)), Err(Refused::Halted));
    let unknown = plane.membership.command(plane.now, 99, Command::Reset);
    assert_eq!(unknown, Err(Refused::UnknownJob));
    assert!(order(&mut plane, Command::Reset).unwrap().changed);
    assert_eq!((needed(&plane), plane.membership.status()[0].halted), (2, false));
    assert_eq!(plane.membership.status()[0].joined, 0);
    plane.refuses(&workers[0], Halt, NotMember, 0, 0);
    // Whoever comes now has the rank, whatever its session and address are.
    for worker in &mut workers {
        worker.session = 3;
        worker.udp_port += 1000;
    }
    plane.form(&mut workers);
    assert_eq!(plane.membership.status()[0].joined, 2);
}

#[test]
fn an_operator_declares_a_rank_gone() {
    use pascaline_pipelines::membership::{Command, Event, OnDeath, Refused};
    let (mut plane, _) = Plane::complete(JobSpec::new(JOB, 2));
    let order = |plane: &mut Plane, rank| plane.membership.command(plane.now, JOB, Command::Leave(rank));
    assert_eq!(order(&mut plane, 2), Err(Refused::NoSuchRank { asked: 2, ranks: 2 }));
    let obeyed = order(&mut plane, 1).unwrap();
    let lost = Event::Lost { job: JOB, epoch: 7, ranks: vec![1], on_death: OnDeath::Fail };
    assert_eq!((obeyed.changed, obeyed.events), (true, vec![lost]));
    assert!(plane.membership.status()[0].broken);
    assert_eq!(order(&mut plane, 1), Err(Refused::NotMember { rank: 1 }));
    // Of a generation that is forming it is simply not there any more.
    let mut plane = Plane::new(JobSpec::new(JOB, 2));
    plane.join(&Worker { epoch: 7, ..ranks(2)[0] });
    assert!(order(&mut plane, 0).unwrap().changed);
    assert_eq!(plane.membership.status()[0].joined, 0);
}
