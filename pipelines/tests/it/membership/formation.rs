//! Joining and leaving, and the generations that they begin.

use pascaline_pipelines::membership::{APPLIANCE, Entry, JobSpec, Role};
use pascaline_wire::control::{ASK, Action, Status};

use super::plane::{Plane, ranks, request};
use Action::{Join, Leave};
use Status::{NotMember, Ok, Pending, StaleSession};
use pascaline_testkit::{JOB, OWN_V4, UDP_PORT, Worker};

#[test]
fn a_job_forms_lives_and_ends() {
    let mut plane = Plane::new(JobSpec::new(JOB, 2));
    let [a, b] = [0, 1].map(|rank| Worker { epoch: 7, ..Worker::new(rank, 2) });
    plane.expect(&a, Join, (Pending, 7, 1, true));
    plane.expect(&a, Join, (Pending, 7, 1, false));
    plane.expect(&b, Join, (Ok, 7, 2, true));
    plane.expect(&a, Join, (Ok, 7, 2, false));
    assert_eq!(plane.members(JOB), [0, 1]);
    let control = plane.ask(&a, Join, 0, 0).control;
    assert_eq!(
        (control.window, control.payload, control.expected),
        (64, 1024, 0),
        "no more than was asked for"
    );

    plane.expect(&a, Leave, (Pending, 7, 1, false));
    plane.expect(&a, Leave, (Pending, 7, 1, false));
    assert_eq!(plane.members(JOB), [0, 1], "it may have kept what the other needs");
    plane.expect(&b, Join, (Ok, 7, 1, false));
    // A Join that was overtaken by its own Leave does not bring the rank back.
    plane.refuses(&a, Join, StaleSession, 0, 0);
    plane.expect(&b, Leave, (Ok, 7, 0, true));
    plane.expect(&a, Leave, (Ok, 7, 0, false));
    assert!(plane.members(JOB).is_empty());
    plane.refuses(&Worker { session: 999, ..a }, Leave, NotMember, 0, 0);

    plane.expect(&Worker { session: 1001, ..b }, Join, (Pending, 8, 1, true));
    plane.expect(&Worker { session: 1002, ..a }, Join, (Ok, 8, 2, true));
}

#[test]
fn a_rank_that_starts_anew_starts_a_generation() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 3));
    let [a, b, c] = workers[..] else { unreachable!() };
    let newer = Worker { session: 2000, ..b };
    plane.expect(&newer, Join, (Pending, 8, 1, true));
    assert_eq!(plane.members(JOB), [1]);
    plane.refuses(&b, Join, StaleSession, 0, 0);
    plane.refuses(&b, Leave, NotMember, 0, 1);
    plane.refuses(&a, Leave, NotMember, 0, 0);
    // A session that has left is over, even if its generation was over before.
    plane.refuses(&a, Join, StaleSession, 0, 0);
    let a = Worker { session: a.session + 1, ..a };
    // The same session from elsewhere is a new start as well: two hosts do not share a rank.
    plane.expect(&Worker { udp_port: 6, ..newer }, Join, (Pending, 9, 1, true));
    plane.expect(&a, Join, (Pending, 9, 2, true));
    plane.expect(&c, Join, (Ok, 9, 3, true));
    // Joining after somebody has left: what was collected is forgotten, whoever it is.
    plane.expect(&Worker { epoch: 9, ..a }, Leave, (Pending, 9, 2, false));
    plane.expect(&Worker { session: 3000, ..a }, Join, (Pending, 10, 1, true));
    plane.expect(&c, Join, (Pending, 10, 2, true));
}

#[test]
fn whoever_is_not_the_rank_cannot_end_its_session() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let [a, b] = workers[..] else { unreachable!() };
    plane.refuses(&Worker { address: b.address, ..a }, Leave, Status::RankSpoofed, 0, 0);
    plane.refuses(&Worker { udp_port: 1, ..a }, Leave, Status::RankSpoofed, 0, 0);
    plane.expect(&a, Join, (Ok, 7, 2, false));
}

#[test]
fn a_leave_of_another_generation_takes_a_ghost_out() {
    // Rank 1 starts anew; a Join of rank 0 that was under way all the time brings it into the new generation,
    // of which its worker knows nothing: it is leaving.
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 3));
    let [a, b, c] = workers[..] else { unreachable!() };
    plane.expect(&Worker { session: 2000, ..b }, Join, (Pending, 8, 1, true));
    plane.expect(&a, Join, (Pending, 8, 2, true));
    plane.expect(&a, Leave, (NotMember, 8, 1, true));
    assert_eq!(plane.members(JOB), [1]);
    plane.refuses(&a, Leave, NotMember, 0, 0);
    plane.refuses(&a, Join, StaleSession, 0, 0);

    // If it has made a generation complete, the others wait for it in vain: they have to join again.
    plane.expect(&Worker { session: 2000, ..a }, Join, (Pending, 8, 2, true));
    plane.expect(&c, Join, (Ok, 8, 3, true));
    plane.expect(&c, Leave, (NotMember, 9, 0, true));
    assert!(plane.members(JOB).is_empty());
}

#[test]
fn a_leave_with_a_damaged_epoch_is_one_all_the_same() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    plane.expect(&Worker { epoch: 77, ..workers[0] }, Leave, (Pending, 7, 1, false));
    plane.expect(&workers[1], Leave, (Ok, 7, 0, true));
}

#[test]
fn a_leave_of_a_generation_whose_number_has_come_round_is_one_all_the_same() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let [a, mut b] = workers[..] else { unreachable!() };
    for _ in 0..1 << 16 {
        b.session += 1;
        let _ = plane.ask(&b, Join, 0, 0);
    }
    plane.expect(&a, Join, (Ok, 7, 2, true));
    plane.expect(&a, Leave, (Pending, 7, 1, false));
}

#[test]
fn whoever_gives_up_before_all_have_joined_is_gone_at_once() {
    let mut plane = Plane::new(JobSpec::new(JOB, 3));
    let [a, b, c] = [0, 1, 2].map(|rank| Worker { epoch: 7, ..Worker::new(rank, 3) });
    plane.expect(&a, Join, (Pending, 7, 1, true));
    plane.expect(&b, Join, (Pending, 7, 2, true));
    plane.expect(&a, Leave, (Pending, 7, 1, true));
    assert_eq!(plane.members(JOB), [1]);
    plane.refuses(&a, Leave, NotMember, 0, 0);
    // Nothing has been collected, so no other generation is needed.
    plane.expect(&Worker { session: 2000, ..a }, Join, (Pending, 7, 2, true));
    plane.expect(&c, Join, (Ok, 7, 3, true));
}

#[test]
fn what_disagrees_is_refused_by_name() {
    let listed = ranks(2).iter().map(|worker| worker.address).collect();
    let mut plane = Plane::new(JobSpec { admitted: Some(listed), ..JobSpec::new(JOB, 2) });
    let [a, b] = [0, 1].map(|rank| Worker::new(rank, 2));
    plane.refuses(&Worker { fan_in: 8, ..a }, Join, Status::FanInMismatch, 2, 8);
    plane.refuses(&Worker { rank: 2, ..a }, Join, Status::RankOutOfRange, 2, 2);
    plane.refuses(&Worker { rank: 1, ..a }, Join, Status::SourceRefused, 0, 1);
    plane.refuses(&a.v6(), Join, Status::SourceRefused, 0, 0);
    for payload in [0, 1020, 1416] {
        plane.refuses(&Worker { payload, ..a }, Join, Status::PayloadMismatch, 1408, u32::from(payload));
    }
    plane.refuses(&Worker { job: 9, ..a }, Join, Status::UnknownJob, 0, 9);
    plane.refuses(&a, Leave, NotMember, 0, 0);
    assert_eq!(plane.ask(&a, Join, 0, 0).control.status, Pending);
    plane.refuses(&Worker { payload: 512, ..b }, Join, Status::PayloadMismatch, 1024, 512);
    assert_eq!(plane.ask(&b, Join, 0, 0).control.status, Ok);
    let count = |status| plane.membership.answered(status);
    assert_eq!([Ok, Pending, Status::PayloadMismatch, Status::Quota].map(count), [1, 1, 4, 0]);
}

/// Holds R9.1 of protocol.md.
#[test]
fn an_ack_is_never_answered() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let before = plane.status();
    assert_eq!(plane.membership.handle(plane.now, &request(&workers[0], Action::Ack, 0, ASK)), None);
    assert_eq!((plane.status(), plane.membership.ignored()), (before, 1));
}

#[test]
fn generations_go_round_after_65536() {
    let mut plane = Plane::new(JobSpec::new(JOB, 1));
    let mut worker = Worker::new(0, 1);
    for start in 0..=1 << 16u64 {
        worker.session = start;
        assert_eq!(u64::from(plane.ask(&worker, Join, 0, 0).header.epoch), (7 + start) % (1 << 16));
    }
}

#[test]
fn the_membership_table_says_who_is_there() {
    let mut plane = Plane::new(JobSpec::new(JOB, 3));
    assert_eq!(plane.membership.entries(JOB), Some(Vec::new()));
    assert_eq!(plane.membership.entries(JOB + 1), None);
    let [a, b] = [0, 2].map(|rank| Worker::new(rank, 3));
    for worker in [b, a] {
        let _ = plane.ask(&worker, Join, 0, 0);
    }
    let worker = |of: &Worker| Entry {
        id: of.rank,
        address: of.address,
        udp_port: of.udp_port,
        role: Role::Worker,
        parent: Some(APPLIANCE),
    };
    let own =
        Entry { id: APPLIANCE, address: OWN_V4, udp_port: UDP_PORT, role: Role::Appliance, parent: None };
    assert_eq!(plane.membership.entries(JOB), Some(vec![worker(&a), worker(&b), own]));
}
