//! What a job gets does not depend on what another one does.

use std::collections::BTreeMap;

use pascaline_aggregator::{ConflictPolicy, Policy, PoolConfig};
use pascaline_buffer::HeapPool;
use pascaline_pipelines::membership::{JobSpec, ServerMode};
use pascaline_telemetry::{Counter, DropReason, JobEvent};
use pascaline_testkit::{Clock, Heard, JOB, MemoryIo, Worker};
use pascaline_wire::control::Action;
use pascaline_wire::header::Kind;

use crate::common::appliance::{Appliance, Bench, Plan, job, kind};

const NEIGHBOUR: u16 = JOB + 1;

/// Two jobs of two ranks in a shared pool, the one to be looked at and its neighbour, and their workers.
fn neighbours(policy: Policy, server: bool, pool: PoolConfig) -> (Bench, Vec<Worker>, Vec<Worker>) {
    let mode = if server { ServerMode::Embedded } else { ServerMode::None };
    let spec = |id| JobSpec { kind: kind(policy, mode), ..job(id, 2) };
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

#[test]
fn what_comes_to_nothing_without_end_is_dropped_before_the_pool() {
    let (mut bench, mine, theirs) = neighbours(Policy::default(), false, small(4096));
    // Enough for anything that a window may have under way, and what is sent again of it.
    let first = 4096 + 256;
    for psn in (0..first).map(|n| n % 256) {
        bench.feed(0, [&theirs[0].gradient(psn, &[1])]);
    }
    assert_eq!(bench.appliance.dropped(DropReason::PacketShare), 0);
    assert_eq!(drops(&bench, NEIGHBOUR, DropReason::Duplicate), 4096);
    let mut pauses = 0;
    for psn in 0..20_000 {
        bench.clock.advance(10_000);
        bench.feed(0, [&theirs[0].gradient(psn % 256, &[1])]);
        if psn % 100 == 0 {
            let results = bench.appliance.get(Counter::Completed);
            bench.feed(0, [&mine[0].gradient(psn / 100, &[1]), &mine[1].gradient(psn / 100, &[2])]);
            assert_eq!(bench.appliance.get(Counter::Completed), results + 1);
            pauses += 1;
        }
    }
    // In 200 ms, half of 800 a second.
    let taken = drops(&bench, NEIGHBOUR, DropReason::Duplicate) - 4096;
    assert!((40..=100).contains(&taken), "{taken}");
    assert_eq!(drops(&bench, NEIGHBOUR, DropReason::PacketShare), 20_000 - taken);
    assert_eq!((drops(&bench, JOB, DropReason::PacketShare), pauses), (0, 200));
    // The rank that was missing comes: all is as before.
    bench.clock.advance(50_000_000);
    let results = bench.appliance.get(Counter::Completed);
    for psn in 0..256 {
        bench.feed(0, [&theirs[1].gradient(psn, &[2])]);
    }
    assert_eq!(bench.appliance.get(Counter::Completed), results + 256);
    bench.end();
}

#[test]
fn nobody_is_held_back_who_is_alone() {
    let mut bench = Bench::new(&Plan { jobs: vec![job(JOB, 2)], ..Plan::one_armed() });
    let mut mine: Vec<Worker> = (0..2).map(|rank| Worker::new(rank, 2)).collect();
    bench.join(&mut mine);
    for _ in 0..10_000 {
        bench.feed(0, [&mine[0].gradient(1, &[1])]);
    }
    assert_eq!(bench.appliance.dropped(DropReason::PacketShare), 0);
    bench.end();
}

/// Two jobs beside each other at an appliance of two lcores: all packets come to the first one, and the other
/// one has a turn now and then.
#[test]
fn a_neighbour_leaves_room_on_the_way_between_lcores() {
    let (heap, clock) = (HeapPool::new(), Clock::default());
    clock.advance(1_000_000_000);
    let wires: Vec<_> = (0..2).map(|_| MemoryIo::new(1, &heap, &clock)).collect();
    let jobs = vec![job(JOB, 2), job(NEIGHBOUR, 2)];
    let plan = Plan { jobs, pool: small(4096), ..Plan::one_armed() };
    let mut appliance = Appliance::new(&plan, wires.clone());
    let mut workers: BTreeMap<(u16, u16), Worker> = BTreeMap::new();
    for (job, rank) in [(JOB, 0), (JOB, 1), (NEIGHBOUR, 0), (NEIGHBOUR, 1)].repeat(2) {
        let new = Worker { job, udp_port: 50_000 + 10 * job + rank, ..Worker::new(rank, 2) };
        let worker = workers.entry((job, rank)).or_insert(new);
        wires[0].arrive(0, &worker.control(Action::Join));
        appliance.turn();
        let heard: Vec<Heard> = wires[0].ports[0].sent().map(|frame| Heard::parse(&frame.to_vec())).collect();
        worker.epoch = heard[0].header.epoch;
    }
    let gradient = |job, rank, psn| wires[0].arrive(0, &workers[&(job, rank)].gradient(psn, &[1]));
    for round in 0..200 {
        // All for the sets of the other lcore: more than a ring holds.
        for n in 0..64 * 31 {
            gradient(NEIGHBOUR, 0, 2 * (n % 128) + 1);
        }
        for rank in 0..2 {
            gradient(JOB, rank, 2 * round + 1);
        }
        while !wires[0].ports[0].rx.is_empty() {
            appliance.lcores[0].turn();
        }
        (0..16).for_each(|_| _ = appliance.lcores[1].turn());
        clock.advance(1_000_000);
        assert_eq!(appliance.get(Counter::Completed), u64::from(round) + 1);
    }
    let counted = |job| appliance.plane.membership().counts_of(job).unwrap().read();
    assert_eq!(counted(JOB).dropped(DropReason::Contention), 0);
    assert!(counted(NEIGHBOUR).dropped(DropReason::Contention) > 0);
    let handed_off = appliance.get(Counter::HandedOff);
    assert!(handed_off < 20_000, "{handed_off}: one lcore tells the other what comes to nothing");
    assert_eq!(appliance.reading().unaccounted(), 0);
}
