//! Sources that ask too often.

use std::time::Duration;

use pascaline_pipelines::membership::{JobSpec, ServerMode};
use pascaline_wire::control::{Action, SERVER_RANK, Status};
use pascaline_wire::frame::Address;

use super::plane::{Plane, millis, request, secs, served};
use pascaline_testkit::{JOB, Worker};

/// What becomes of as many requests in this time: decided on, refused as too many, not answered.
fn flood(
    plane: &mut Plane,
    requests: u32,
    time: Duration,
    request_of: impl Fn(u32) -> (Worker, Action),
) -> [u32; 3] {
    let mut counts = [0; 3];
    for number in 0..requests {
        plane.now += time / requests;
        let (worker, action) = request_of(number);
        let answer = plane.membership.handle(plane.now, &request(&worker, action, 0, 0));
        counts[match answer {
            Some(answer) if answer.control.status != Status::TooMany => 0,
            Some(_) => 1,
            None => 2,
        }] += 1;
    }
    counts
}

#[test]
fn a_flood_of_one_member_does_not_disturb_the_others() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 3));
    let [a, b, _] = workers[..] else { unreachable!() };
    let before = plane.status();
    // Each would begin a generation.
    let [decided, refused, ignored] = flood(&mut plane, 100_000, secs(1), |number| {
        (Worker { session: a.session + u64::from(number), ..a }, Action::Join)
    });
    // As nobody has joined with these sessions, they count as a stranger's.
    assert!((1000..=1512).contains(&decided), "{decided}");
    assert!((9..=11).contains(&refused), "{refused}");
    assert_eq!(decided + refused + ignored, 100_000);
    assert_eq!(plane.membership.answered(Status::TooMany), u64::from(refused));
    assert_eq!(plane.membership.ignored(), u64::from(ignored));
    assert_ne!(plane.status(), before);
    assert_eq!(plane.ask(&b, Action::Join, 0, 0).control.status, Status::Pending);
    // It has only to wait a little.
    plane.now += millis(50);
    assert_ne!(plane.ask(&a, Action::Leave, 0, 0).control.status, Status::TooMany);
}

/// A leaf's and a server's port are no secret.
#[test]
fn whoever_sends_in_the_name_of_a_member_does_not_use_up_what_it_may_ask() {
    let server = Worker { rank: SERVER_RANK, fan_in: 0, udp_port: 9, ..Worker::new(0, 2) };
    let mode = ServerMode::External { address: server.address, udp_port: server.udp_port };
    let (mut plane, workers) = Plane::complete(served(mode, 2));
    assert_eq!(plane.ask(&server, Action::Serve, 0, 0).control.status, Status::Ok);
    // Before another token has come.
    let at_once = |plane: &mut Plane, worker: &Worker, action| {
        let answer = plane.membership.handle(plane.now, &request(worker, action, 0, 0));
        answer.map(|answer| answer.control.status)
    };
    for action in [Action::Leave, Action::Query, Action::Reset] {
        let _ = flood(&mut plane, 20_000, millis(200), |_| (Worker { session: 5, ..workers[0] }, action));
        assert_eq!(at_once(&mut plane, &workers[0], Action::Query), Some(Status::Ok));
    }
    let spoofed = Worker { session: 5, ..server };
    let _ = flood(&mut plane, 20_000, millis(200), |_| (Worker { rank: 5, ..spoofed }, Action::Serve));
    assert_eq!(at_once(&mut plane, &server, Action::Serve), Some(Status::Ok));
    // Its own requests are bounded.
    let own = flood(&mut plane, 20_000, secs(1), |_| (workers[0], Action::Query));
    assert!((200..=264).contains(&own[0]), "{own:?}");
}

#[test]
fn too_many_requests_change_nothing() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let worker = workers[0];
    let _ = flood(&mut plane, 1000, millis(1), |_| (worker, Action::Join));
    let before = plane.status();
    // More than a tenth of a second after it was told last, but not a token later.
    let _ = flood(&mut plane, 10_000, millis(100), |_| (worker, Action::Join));
    let request = request(&worker, Action::Reset, 0, 0);
    let answer = plane.membership.handle(plane.now, &request);
    assert!(answer.is_none_or(|answer| answer.control.status == Status::TooMany && !answer.changed));
    assert_eq!(plane.status(), before);
}

#[test]
fn strangers_are_bounded_by_address() {
    let mut plane = Plane::new(JobSpec::new(JOB, 2));
    let stranger = |number: u32| Worker {
        address: Address::from_v4([192, 0, 2, 1]),
        // Another port each time, and jobs that exist and others.
        udp_port: number.to_le_bytes().map(u16::from)[0] + 1000,
        job: if number.is_multiple_of(2) { JOB } else { 9 },
        rank: 5,
        ..Worker::new(0, 2)
    };
    let counts = flood(&mut plane, 100_000, secs(1), |number| (stranger(number), Action::Join));
    assert!((1000..=1512).contains(&counts[0]), "{counts:?}");
    let other = Worker::new(0, 2);
    assert_eq!(plane.ask(&other, Action::Join, 0, 0).control.status, Status::Pending);
}

#[test]
fn as_often_as_workers_ask_is_never_too_often() {
    let (mut plane, workers) = Plane::complete(JobSpec::new(JOB, 2));
    let worker = workers[0];
    let counts = flood(&mut plane, 50_000, secs(1000), |_| (worker, Action::Join));
    assert_eq!(counts, [50_000, 0, 0]);
}

/// Each of them within its own bounds: what costs the appliance most are the answers.
#[test]
fn the_ranks_of_one_host_are_bounded_together() {
    let host = Address::from_v4([10, 77, 0, 99]);
    let mut workers: Vec<Worker> =
        (0..200).map(|rank| Worker { address: host, ..Worker::new(rank, 201) }).collect();
    workers.push(Worker::new(200, 201));
    let mut plane = Plane::new(JobSpec::new(JOB, 201));
    plane.form(&mut workers);
    plane.now += secs(10);
    let counts = flood(&mut plane, 50_000, secs(1), |number| (workers[number as usize % 200], Action::Join));
    assert!((6_600..=6_700).contains(&counts[0]) && counts[1] == 0, "{counts:?}");
    let elsewhere = request(&workers[200], Action::Join, 0, 0);
    assert!(plane.membership.handle(plane.now, &elsewhere).is_some());
}
