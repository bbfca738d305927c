//! The parameter server of a job, where that is a process of its own.

use pascaline_pipelines::Membership;
use pascaline_pipelines::jobs::{Endpoint, Job, Server};
use pascaline_pipelines::membership::{
    APPLIANCE, Event, JobSpec, Role, SILENCE, Secret, ServerMode, ServerState,
};
use pascaline_wire::control::{Action, SERVER_RANK, Status};
use pascaline_wire::frame::Address;

use super::plane::{Plane, millis, request, served};
use Action::{Join, Serve};
use Status::{Ok, Pending, SourceRefused, Unsupported};
use pascaline_testkit::{JOB, OWN_V4, UDP_PORT, Worker, port_mac};

const ADDRESS: Address = Address::from_v4([10, 77, 0, 200]);
const PORT: u16 = 16421;

fn spec(server: ServerMode) -> JobSpec {
    served(server, 2)
}

fn external() -> JobSpec {
    spec(ServerMode::External { address: ADDRESS, udp_port: PORT })
}

/// The server, as far as the control plane can tell it from a worker.
fn server() -> Worker {
    Worker { rank: SERVER_RANK, fan_in: 0, address: ADDRESS, udp_port: PORT, ..Worker::new(0, 1) }
}

/// Where lcores find a server of its own.
fn endpoint(job: &Job) -> Endpoint {
    let Server::External { endpoint, .. } = job.server else { panic!("no server of its own") };
    endpoint
}

#[test]
fn a_server_registers_and_is_found() {
    let mut plane = Plane::new(external());
    let server = server();
    let told = plane.ask(&server, Serve, 0, 0);
    assert_eq!((told.control.status, told.control.payload, told.control.window), (Ok, 0, 512));
    assert_eq!((told.header.fan_in, told.header.epoch, told.control.joined, told.changed), (2, 7, 0, true));

    let _ = plane.ask(&Worker::new(1, 2), Join, 0, 0);
    let told = plane.ask(&server, Serve, 0, 0);
    assert_eq!((told.control.payload, told.control.joined, told.changed), (1024, 1, false));

    let table = plane.table();
    let known = endpoint(table.get(JOB).unwrap());
    assert_eq!((known.address, known.udp_port), (ADDRESS, PORT));
    assert_eq!((known.local, known.local_udp_port), (OWN_V4, UDP_PORT));
    let entries = plane.membership.entries(JOB).unwrap();
    let seen: Vec<_> = entries.iter().map(|entry| (entry.id, entry.role, entry.parent)).collect();
    let above = Some(APPLIANCE);
    let expected =
        [(1, Role::Worker, above), (APPLIANCE, Role::Appliance, None), (SERVER_RANK, Role::Server, above)];
    assert_eq!(seen, expected);
}

#[test]
fn nothing_is_sent_to_a_server_that_is_not_there() {
    let uses = |plane: &Plane| plane.table().get(JOB).unwrap().has_server();
    let mut plane = Plane::new(external());
    assert!(!uses(&plane));
    let _ = plane.ask(&server(), Serve, 0, 0);
    assert!(uses(&plane));
    assert!(uses(&Plane::new(spec(ServerMode::Embedded))));
    assert!(!uses(&Plane::new(spec(ServerMode::None))));
}

#[test]
fn a_server_that_comes_another_way_is_found_there() {
    let mut plane = Plane::new(external());
    let _ = plane.ask(&server(), Serve, 0, 0);
    let moved = Worker { port: 1, mac: port_mac(77), ..server() };
    assert!(plane.ask(&moved, Serve, 0, 0).changed);
    assert_eq!(endpoint(plane.table().get(JOB).unwrap()).port, 1);
}

/// A Serve with a cookie to an appliance that has a secret: status, cookie, and whether lcores are told.
fn serves(
    membership: &mut Membership,
    now: u64,
    (server, session): (&Worker, u64),
    cookie: u64,
) -> (Status, u64, bool) {
    let mut serve = request(server, Serve, 0, 0);
    (serve.control.session, serve.control.cookie) = (session, cookie);
    let answer = membership.handle(millis(now), &serve).unwrap();
    (answer.control.status, answer.control.cookie, answer.changed)
}

#[test]
fn the_place_of_a_server_that_is_here_takes_a_proof_of_the_address() {
    let mut membership = Membership::new(vec![external()], Secret::new([7; 16]), 7);
    let (server, forged) = (server(), Worker { port: 1, mac: port_mac(66), ..server() });
    let (own, anew, foreign) = ((&server, 1), (&server, 2), (&forged, 3));
    assert_eq!(serves(&mut membership, 0, own, 0), (Ok, 0, true), "nobody was here");
    let (status, cookie, changed) = serves(&mut membership, 10, foreign, 0);
    assert!((status, changed) == (Pending, false) && cookie > 1);
    assert_eq!(serves(&mut membership, 20, foreign, 1), (Pending, cookie, false), "a guess");
    assert_eq!(serves(&mut membership, 30, own, 0), (Ok, 0, false));
    // Its next life has what was sent to its address.
    let (status, proof, _) = serves(&mut membership, 40, anew, 0);
    assert!(status == Pending && proof != cookie);
    assert_eq!(serves(&mut membership, 50, foreign, proof).0, Pending, "it is another session's");
    assert_eq!(serves(&mut membership, 60, anew, proof), (Ok, 0, true));
    assert_eq!(serves(&mut membership, 70, own, 0).0, Pending, "late, of the life before");
    assert_eq!(serves(&mut membership, 80, anew, 0).0, Ok);
}

#[test]
fn a_server_whose_place_was_taken_in_its_absence_has_it_back_for_good() {
    let mut membership = Membership::new(vec![external()], Secret::new([7; 16]), 7);
    let (server, forged) = (server(), Worker { port: 1, mac: port_mac(66), ..server() });
    assert_eq!(serves(&mut membership, 0, (&server, 1), 0).0, Ok);
    assert!(membership.handle_timeout(SILENCE).changed);
    assert_eq!(serves(&mut membership, 810, (&forged, 2), 0), (Ok, 0, true));
    let (status, proof, _) = serves(&mut membership, 820, (&server, 1), 0);
    assert_eq!(status, Pending);
    for at in 0..20 {
        let seen = serves(&mut membership, 830 + 100 * at, (&server, 1), proof);
        assert_eq!(seen, (Ok, 0, at == 0));
        assert_eq!(serves(&mut membership, 840 + 100 * at, (&forged, 2), 0).0, Pending);
    }
    // Nor does it matter who came and went meanwhile.
    assert!(membership.handle_timeout(millis(5000)).changed);
    assert_eq!(serves(&mut membership, 5000, (&server, 3), 0), (Ok, 0, true));
    assert!(membership.handle_timeout(millis(6000)).changed);
    for at in 0..3 {
        assert_eq!(serves(&mut membership, 6000 + 100 * at, (&server, 1), 0).0, Ok);
    }
}

#[test]
fn a_flood_in_its_name_does_not_use_up_what_a_server_may_ask() {
    let mut membership = Membership::new(vec![external()], Secret::new([7; 16]), 7);
    let server = server();
    assert_eq!(serves(&mut membership, 0, (&server, 1), 0).0, Ok);
    for _ in 0..2000 {
        let forged = request(&Worker { session: 2, ..server }, Serve, 0, 0);
        let _ = membership.handle(millis(1), &forged);
    }
    assert_eq!(serves(&mut membership, 2, (&server, 1), 0).0, Ok);
}

#[test]
fn a_server_that_falls_silent_is_missed_within_a_second_and_taken_up_when_it_is_back() {
    assert!(SILENCE < millis(1000));
    let seen = |plane: &Plane| {
        let table = plane.table();
        let job = table.get(JOB).unwrap();
        (plane.status().server, job.has_server(), job.bereft)
    };
    // No matter whether ranks are watched.
    for dead_after in [None, Some(millis(5000))] {
        let mut plane = Plane::new(JobSpec { dead_after, ..external() });
        for _ in 0..3 {
            let _ = plane.ask(&server(), Serve, 0, 0);
            let elapsed = plane.pass(SILENCE - millis(20));
            assert_eq!((elapsed.changed, elapsed.events), (false, vec![]));
        }
        assert_eq!(seen(&plane), (ServerState::Here, true, false));
        let due = plane.membership.poll_timeout().unwrap();
        assert!(plane.now < due && due < plane.now + millis(1000), "{due:?}");
        let elapsed = plane.pass(millis(20));
        assert_eq!(
            (elapsed.changed, elapsed.events),
            (true, vec![Event::ServerGone { job: JOB, came: true }])
        );
        assert_eq!(seen(&plane), (ServerState::Gone, false, true));
        assert_eq!(plane.pass(millis(9000)).events, [], "it is told once");
        // The same one, or one that has been started anew, with whatever session.
        let back = Worker { session: 1, ..server() };
        assert!(plane.ask(&back, Serve, 0, 0).changed);
        assert_eq!(plane.ask(&back, Serve, 0, 0).control.status, Ok);
        assert_eq!(seen(&plane), (ServerState::Here, true, false));
        assert_eq!(plane.pass(SILENCE).events, [Event::ServerGone { job: JOB, came: true }]);
    }
}

#[test]
fn a_server_that_never_comes_is_missed_as_well() {
    let mut membership = Membership::new(vec![external()], Secret::NONE, 7);
    let state = |membership: &Membership| membership.status()[0].server;
    assert_eq!(membership.handle_timeout(SILENCE - millis(1)).events, []);
    assert_eq!(state(&membership), ServerState::Awaited);
    let elapsed = membership.handle_timeout(SILENCE);
    assert_eq!((elapsed.changed, elapsed.events), (false, vec![Event::ServerGone { job: JOB, came: false }]));
    assert_eq!(state(&membership), ServerState::Missing);
    for mode in [ServerMode::None, ServerMode::Embedded] {
        let mut membership = Membership::new(vec![spec(mode)], Secret::NONE, 7);
        assert_eq!(
            (membership.handle_timeout(millis(9000)).events, state(&membership)),
            (vec![], ServerState::None)
        );
    }
}

#[test]
fn only_the_configured_server_may_serve() {
    let mut plane = Plane::new(external());
    plane.refuses(&Worker { address: OWN_V4, ..server() }, Serve, SourceRefused, 0, 0);
    plane.refuses(&Worker { udp_port: 1, ..server() }, Serve, SourceRefused, 0, 0);
    plane.refuses(&Worker { rank: 1, fan_in: 2, ..server() }, Serve, Status::RankOutOfRange, 0xffff, 1);
    plane.refuses(&Worker { job: 9, ..server() }, Serve, Status::UnknownJob, 0, 9);
    for mode in [ServerMode::None, ServerMode::Embedded] {
        let mut plane = Plane::new(spec(mode));
        plane.refuses(&server(), Serve, Unsupported, 0, Serve as u32);
        assert!(!matches!(plane.table().get(JOB).unwrap().server, Server::External { .. }));
    }
    // Nor can it become a member.
    plane.refuses(&Worker { fan_in: 2, ..server() }, Join, Status::RankOutOfRange, 2, 0xffff);
}
