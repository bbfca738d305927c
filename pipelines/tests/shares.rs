//! What a job gets does not depend on what another one does.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "helpers of tests fail by panicking"
)]

mod common;

use common::appliance::{Bench, Plan, job};
use pascaline_aggregator::{ConflictPolicy, Policy, PoolConfig};
use pascaline_pipelines::membership::{JobSpec, ServerMode};
use pascaline_telemetry::{Counter, DropReason, JobEvent};
use pascaline_testkit::{JOB, Worker};
use pascaline_wire::header::Kind;

const NEIGHBOUR: u16 = JOB + 1;

/// Two jobs of two ranks in a shared pool, the one to be looked at and its neighbour, and their workers.
fn neighbours(policy: Policy, server: bool, pool: PoolConfig) -> (Bench, Vec<Worker>, Vec<Worker>) {
    let mode = if server { ServerMode::Embedded } else { ServerMode::None };
    let spec = |id| JobSpec { policy: Policy { server, ..policy }, server: mode, ..job(id, 2) };
    let plan = Plan { jobs: vec![spec(JOB), spec(NEIGHBOUR)], pool, ..Plan::one_armed() };
    let mut bench = Bench::with_queues(&plan, 1 << 14);
    let mut mine: Vec<Worker> = (0..2).map(|rank| Worker::new(rank, 2)).collect();
    let mut theirs: Vec<Worker> = (0..2)
        .map(|rank| Worker { job: NEIGHBOUR, udp_port: 50_000 + rank, ..Worker::new(rank, 2) })
        .collect();
    bench.join(&mut mine);
    bench.join(&mut theirs);
    (bench, mine, theirs)
}

fn small(slots: usize) -> PoolConfig {
    PoolConfig { slots, ways: 4, ..PoolConfig::default() }
}

fn events(bench: &Bench, job: u16, event: JobEvent) -> u64 {
    bench.appliance.plane.membership().counts_of(job).unwrap().read().get(event)
}

fn drops(bench: &Bench, job: u16, reason: DropReason) -> u64 {
    bench.appliance.plane.membership().counts_of(job).unwrap().read().dropped(reason)
}

#[test]
fn partials_of_a_neighbour_that_never_completes_make_room_for_a_jobs_share() {
    for (conflict, server) in [(ConflictPolicy::FirstCome, false), (ConflictPolicy::Preempt, true)] {
        let policy = Policy { conflict, ..Policy::default() };
        let (mut bench, mine, theirs) = neighbours(policy, server, small(4));
        for psn in 0..100 {
            bench.feed(0, [&theirs[0].gradient(psn, &[1])]);
            let results = bench.appliance.get(Counter::Completed);
            for psn in [2 * psn, 2 * psn + 1] {
                bench.feed(0, [&mine[0].gradient(psn, &[1])]);
            }
            for psn in [2 * psn, 2 * psn + 1] {
                bench.feed(0, [&mine[1].gradient(psn, &[2])]);
            }
            assert_eq!(bench.appliance.get(Counter::Completed), results + 2, "PSN {psn}, {conflict:?}");
        }
        assert_eq!(events(&bench, JOB, JobEvent::OverShare), 0);
        assert_eq!(events(&bench, JOB, JobEvent::GivenBack), 0);
        let limited = events(&bench, NEIGHBOUR, JobEvent::OverShare);
        let given_back = events(&bench, NEIGHBOUR, JobEvent::GivenBack);
        assert!(limited > 50 && given_back <= 4, "{limited}, {given_back}: its share it keeps");
        assert_eq!(drops(&bench, NEIGHBOUR, DropReason::SlotShare) == limited, !server);
        bench.end();
    }
}

#[test]
fn what_a_job_sends_past_the_pool_without_end_is_limited() {
    let (mut bench, mine, theirs) = neighbours(Policy::default(), true, small(64));
    for psn in 0..5000 {
        bench.feed(0, [&theirs[0].bypass(Kind::Gradient, psn % 256, &[0; 32])]);
    }
    let (limited, there) = (drops(&bench, NEIGHBOUR, DropReason::ServerShare), bench.served().len() as u64);
    assert_eq!((limited, limited + there), (5000 - 4096, 5000));
    bench.feed(0, [&mine[0].bypass(Kind::Gradient, 1, &[0; 32])]);
    assert_eq!(bench.served().len(), 1, "that is not the other one's affair");
    assert_eq!(bench.appliance.dropped(DropReason::ServerShare), limited);
    bench.end();
}

#[test]
fn of_an_lcore_that_has_too_much_to_do_each_job_has_its_share() {
    let (mut bench, mine, theirs) = neighbours(Policy::default(), false, small(4096));
    let turns = 700;
    for turn in 0..turns {
        // It never completes; the other one does at once.
        for n in 0..30 {
            bench.io().arrive(0, &theirs[0].gradient((30 * turn + n) % 256, &[1]));
        }
        bench.io().arrive(0, &mine[0].gradient(turn, &[1]));
        bench.io().arrive(0, &mine[1].gradient(turn, &[2]));
        bench.appliance.lcores[0].turn();
        bench.heard(0);
    }
    bench.settle();
    assert_eq!(bench.appliance.get(Counter::Completed), u64::from(turns));
    assert_eq!(drops(&bench, JOB, DropReason::PacketShare), 0);
    let cut = drops(&bench, NEIGHBOUR, DropReason::PacketShare);
    assert!(cut > 4000, "of {} packets {cut} were cut", 30 * turns);
    assert_eq!(cut, bench.appliance.dropped(DropReason::PacketShare));
    bench.end();
}
