//! Joins that say in which generation they are to count.

use pascaline_pipelines::membership::JobSpec;
use pascaline_wire::control::{ASK, Action, Status, generation};

use super::plane::{Plane, told};
use Action::Join;
use Status::{Ok, PayloadMismatch, Pending, WrongEpoch};
use pascaline_testkit::{JOB, Worker};

#[test]
fn a_question_changes_nothing() {
    let mut plane = Plane::new(JobSpec::new(JOB, 1));
    let worker = Worker::new(0, 1);
    for _ in 0..2 {
        plane.refuses_values(&worker, Join, (0, ASK), (Pending, 0, 0));
    }
    assert_eq!(plane.members(JOB), []);
    let answer = plane.ask(&worker, Join, 0, generation(7));
    assert_eq!((told(&answer), answer.changed), ((Ok, 7, 0, 0), true));
    // Also where it would begin a generation.
    plane.refuses_values(&Worker { session: 2000, ..worker }, Join, (0, ASK), (Pending, 1, 0));
}

/// The others crashed, or gave up, and come back with another payload: nobody is held to what was before.
#[test]
fn a_payload_is_agreed_on_anew_with_each_generation() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let [a, b] = [0, 1].map(|at: usize| Worker { session: 2000, payload: 512, ..workers[at] });
    // Who asks learns what the ports take, and not what was agreed on before.
    let most = JobSpec::new(JOB, 2).max_payload;
    assert_eq!(plane.ask(&a, Join, 0, ASK).control.payload, most);
    assert_eq!(told(&plane.join(&a)), (Pending, 8, 0, 0));
    plane.refuses_values(
        &Worker { payload: 1024, ..b },
        Join,
        (0, generation(8)),
        (PayloadMismatch, 512, 1024),
    );
    plane.expect(&Worker { epoch: 8, ..a }, Action::Leave, (Ok, 8, 0, true));
    let answer = plane.ask(&Worker { payload: 1024, ..b }, Join, 0, generation(8));
    assert_eq!((told(&answer), answer.control.payload), ((Pending, 8, 0, 0), 1024));
}

#[test]
fn a_join_of_another_generation_does_not_count() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let [a, b] = workers[..] else { unreachable!() };
    let newer = Worker { session: 2000, ..b };
    assert_eq!(told(&plane.join(&newer)), (Pending, 8, 0, 0), "7 was the generation when it asked");
    plane.refuses_values(&a, Join, (0, generation(7)), (WrongEpoch, 8, 7));
    plane.refuses_values(&a, Join, (generation(7), generation(7)), (WrongEpoch, 8, 7));
    assert_eq!(told(&plane.ask(&a, Join, 0, generation(8))), (Ok, 8, 0, 0));
}

/// The appliance has started anew; a Join to its former life, whose sender is no more, arrives.
/// Holds R9.3 of protocol.md.
#[test]
fn a_join_from_before_a_restart_does_not_complete_a_generation() {
    let mut plane = Plane::new(JobSpec::new(JOB, 2));
    let [a, b] = [0, 1].map(|rank| Worker { epoch: 200, ..Worker::new(rank, 2) });
    plane.refuses_values(&b, Join, (0, generation(200)), (WrongEpoch, 7, 200));
    plane.refuses_values(&b, Join, (0, ASK), (Pending, 0, 0));
    assert_eq!(told(&plane.ask(&a, Join, 0, generation(7))), (Pending, 7, 0, 0));
    assert_eq!(plane.members(JOB), [0]);
}

/// A worker that repeats its Join because the Ack got lost, while the generation went on.
#[test]
fn a_repeated_join_with_an_old_number_is_told_the_new_one() {
    let mut plane = Plane::new(JobSpec::new(JOB, 2));
    let [a, b] = [0, 1].map(|rank| Worker { epoch: 7, ..Worker::new(rank, 2) });
    let _ = plane.join(&a);
    let _ = plane.join(&Worker { session: 2000, ..a });
    plane.refuses_values(&Worker { session: 2000, ..a }, Join, (0, generation(7)), (WrongEpoch, 8, 7));
    assert_eq!(told(&plane.ask(&b, Join, 0, generation(8))), (Ok, 8, 0, 0));
}

#[test]
fn a_number_that_is_none_is_refused() {
    let mut plane = Plane::new(JobSpec::new(JOB, 1));
    for got in [1, 7, 0xffff, 0x3_0100, ASK | 7, u32::MAX] {
        plane.refuses_values(&Worker::new(0, 1), Join, (0, got), (Status::Unsupported, 0, got));
    }
}
