//! The parameter server of a job, where that is a process of its own.

use pascaline_aggregator::Policy;
use pascaline_pipelines::Membership;
use pascaline_pipelines::jobs::{Endpoint, Job, Server};
use pascaline_pipelines::membership::{
    APPLIANCE, Event, JobSpec, Role, SILENCE, Secret, ServerMode, ServerState,
};
use pascaline_wire::control::{Action, SERVER_RANK, Status};
use pascaline_wire::frame::Address;

use crate::plane::{Plane, millis};
use Action::{Join, Serve};
use Status::{Ok, SourceRefused, StaleSession, Unsupported};
use pascaline_testkit::{JOB, OWN_V4, UDP_PORT, Worker, port_mac};

const ADDRESS: Address = Address::from_v4([10, 77, 0, 200]);
const PORT: u16 = 16421;

fn spec(server: ServerMode) -> JobSpec {
    JobSpec { server, policy: Policy { server: true, ..Policy::default() }, ..JobSpec::new(JOB, 2) }
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
    assert_eq!((told.header.fan_in, told.header.epoch, told.header.count, told.changed), (2, 7, 0, true));

    let _ = plane.ask(&Worker::new(1, 2), Join, 0, 0);
    let told = plane.ask(&server, Serve, 0, 0);
    assert_eq!((told.control.payload, told.header.count, told.changed), (1024, 1, false));

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
    assert!(!uses(&Plane::new(JobSpec { policy: Policy::default(), ..spec(ServerMode::Embedded) })));
}

#[test]
fn a_server_that_comes_another_way_is_found_there() {
    let mut plane = Plane::new(external());
    let _ = plane.ask(&server(), Serve, 0, 0);
    let moved = Worker { port: 1, mac: port_mac(77), ..server() };
    assert!(plane.ask(&moved, Serve, 0, 0).changed);
    assert_eq!(endpoint(plane.table().get(JOB).unwrap()).port, 1);
    // It has been started anew; what its former life sent before is late.
    let later = Worker { session: 2000, ..moved };
    assert!(!plane.ask(&later, Serve, 0, 0).changed);
    plane.refuses(&server(), Serve, StaleSession, 0, 0);
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
