//! What operators ask of lcores: why a job is aggregated or not, copies of its packets, and other terms while
//! it is at work.

use std::sync::Arc;

use pascaline_aggregator::{ConflictPolicy, Policy};
use pascaline_pipelines::membership::{JobSpec, Reconfigured, ServerMode};
use pascaline_telemetry::{CellsReading, DropReason, JobCells, JobEvent};
use pascaline_testkit::{JOB, Worker};
use pascaline_wire::header::Kind;

use crate::common::appliance::{Bench, Plan, assert_results, four, job, kind, single_slot};

const MS: u64 = 1_000_000;
/// Bytes of the payloads below.
const BYTES: u64 = 32;

fn gradient(worker: &Worker, psn: u32) -> Vec<u8> {
    worker.gradient(psn, &[1; 8])
}

/// Where it is counted what a job does.
fn cells(bench: &Bench, id: u16) -> Arc<JobCells> {
    let counts = bench.appliance.plane.membership().counts();
    counts.into_iter().find(|(job, _)| *job == id).expect("the job").1
}

fn counted(bench: &Bench, id: u16) -> CellsReading {
    cells(bench, id).read()
}

/// Checks all events that have been counted for the job, and all drops.
#[track_caller]
fn expect(bench: &Bench, expected: &[(JobEvent, u64)], drops: &[(DropReason, u64)]) {
    let counted = counted(bench, JOB);
    for &event in JobEvent::ALL {
        let value = expected.iter().find(|(wanted, _)| *wanted == event).map_or(0, |(_, value)| *value);
        assert_eq!(counted.get(event), value, "{}", event.name());
    }
    for &reason in DropReason::ALL {
        let value = drops.iter().find(|(wanted, _)| *wanted == reason).map_or(0, |(_, value)| *value);
        assert_eq!(counted.dropped(reason), value, "{}", reason.name());
    }
}

fn served(policy: Policy) -> JobSpec {
    JobSpec { kind: kind(policy, ServerMode::Embedded), ..job(JOB, 4) }
}

#[test]
fn what_is_aggregated_is_counted_for_its_job() {
    let other = 900;
    let plan = Plan { jobs: vec![job(JOB, 4), job(other, 2)], ..Plan::one_armed() };
    let (mut bench, workers) = four(&plan);
    let mut others = [0, 1].map(|rank| Worker { job: other, ..Worker::new(rank, 2) });
    bench.join(&mut others);
    // In one burst, in turns.
    let mine = (0..3).flat_map(|psn| workers.iter().map(move |worker| gradient(worker, psn)));
    let theirs = (0..6).flat_map(|psn| others.iter().map(move |worker| gradient(worker, psn)));
    let frames: Vec<Vec<u8>> = mine.zip(theirs).flat_map(|(mine, theirs)| [mine, theirs]).collect();
    assert_eq!(frames.len(), 24);
    bench.feed(0, &frames);
    bench.feed(0, [&gradient(&workers[0], 0)]);
    expect(
        &bench,
        &[
            (JobEvent::Results, 3),
            (JobEvent::ResultBytes, 3 * BYTES),
            (JobEvent::Aggregated, 12),
            (JobEvent::AggregatedBytes, 12 * BYTES),
            (JobEvent::Replayed, 1),
        ],
        &[],
    );
    let theirs = counted(&bench, other);
    assert_eq!([JobEvent::Results, JobEvent::Aggregated].map(|c| theirs.get(c)), [6, 12]);
    bench.end();
}

#[test]
fn contributions_without_a_slot_are_collisions_wherever_they_go() {
    for server in [false, true] {
        let spec = if server { served(Policy::default()) } else { job(JOB, 4) };
        let (mut bench, workers) = four(&Plan { pool: single_slot(), jobs: vec![spec], ..Plan::one_armed() });
        bench.feed(0, [&gradient(&workers[0], 1), &gradient(&workers[0], 2), &gradient(&workers[1], 2)]);
        let spilled = if server { 2 } else { 0 };
        assert_eq!(bench.served().len() as u64, spilled);
        expect(
            &bench,
            &[
                (JobEvent::Collisions, 2),
                (JobEvent::Spilled, spilled),
                (JobEvent::SpilledBytes, spilled * BYTES),
            ],
            &[(DropReason::Conflict, 2 - spilled)],
        );
        bench.end();
    }
}

#[test]
fn a_preempted_partial_goes_to_the_server_with_what_is_inside() {
    let always = Policy { conflict: ConflictPolicy::Always, ..Policy::default() };
    let plan = Plan { pool: single_slot(), jobs: vec![served(always)], ..Plan::one_armed() };
    let (mut bench, workers) = four(&plan);
    bench.feed(0, [&gradient(&workers[0], 1), &gradient(&workers[1], 1), &gradient(&workers[0], 2)]);
    expect(
        &bench,
        &[(JobEvent::Preempted, 1), (JobEvent::Evicted, 2), (JobEvent::EvictedBytes, 2 * BYTES)],
        &[],
    );
    bench.end();
}

#[test]
fn a_quota_and_a_bypass_are_told_apart() {
    let plan = Plan { jobs: vec![served(Policy { quota: 1, ..Policy::default() })], ..Plan::one_armed() };
    let (mut bench, workers) = four(&plan);
    bench.feed(0, [&gradient(&workers[0], 1), &gradient(&workers[0], 2)]);
    bench.feed(0, [&workers[1].bypass(Kind::Gradient, 3, &[0; 32])]);
    expect(
        &bench,
        &[
            (JobEvent::OverQuota, 1),
            (JobEvent::Spilled, 1),
            (JobEvent::SpilledBytes, BYTES),
            (JobEvent::Bypassed, 1),
            (JobEvent::BypassedBytes, BYTES),
        ],
        &[],
    );
    bench.end();
}

#[test]
fn drops_that_are_about_a_job_are_counted_there() {
    let (mut bench, workers) = four(&Plan::one_armed());
    let [a, b, ..] = workers[..] else { panic!("four workers") };
    bench.feed(0, [&gradient(&Worker { epoch: a.epoch.wrapping_sub(1), ..a }, 1)]);
    bench.feed(0, [&gradient(&Worker { udp_port: 9, ..a }, 1), &gradient(&Worker { rank: 9, ..a }, 1)]);
    bench.feed(0, [&gradient(&Worker { job: JOB + 1, ..a }, 1)]);
    bench.feed(0, [&gradient(&a, 1), &gradient(&a, 1), &b.gradient(1, &[1; 7])]);
    expect(
        &bench,
        &[],
        &[
            (DropReason::WrongEpoch, 1),
            (DropReason::RankSpoofed, 1),
            (DropReason::RankOutOfRange, 1),
            (DropReason::Duplicate, 1),
            (DropReason::LengthChanged, 1),
        ],
    );
    assert_eq!(bench.appliance.dropped(DropReason::UnknownJob), 1);
    bench.end();
}

#[test]
fn who_holds_others_up_is_found_by_the_sweep() {
    let (mut bench, workers) = four(&Plan::one_armed());
    let late = |bench: &Bench| -> Vec<(u16, u64)> {
        let late = cells(bench, JOB).late_ranks(bench.clock.now());
        late.iter().map(|late| (late.rank, (bench.clock.now() - late.since) / MS)).collect()
    };
    let turns = |bench: &mut Bench| (0..8).for_each(|_| bench.settle());
    for rank in [0, 1, 3] {
        bench.feed(0, [&gradient(&workers[rank], 1)]);
    }
    turns(&mut bench);
    assert_eq!(late(&bench), [], "it has been no time");
    bench.clock.advance(50 * MS);
    turns(&mut bench);
    assert_eq!(late(&bench), [(2, 50)]);
    bench.feed(0, [&gradient(&workers[2], 1)]);
    bench.clock.advance(2_500 * MS);
    turns(&mut bench);
    assert_eq!(late(&bench), [], "it has come, and that is a while ago");
    bench.end();
}

#[test]
fn the_packets_of_one_job_are_copied_while_they_are_wanted() {
    let plan = Plan { jobs: vec![job(JOB, 4), job(900, 2)], ..Plan::one_armed() };
    let (mut bench, workers) = four(&plan);
    let mut others = [0, 1].map(|rank| Worker { job: 900, ..Worker::new(rank, 2) });
    bench.join(&mut others);
    let frames: Vec<Vec<u8>> = workers.iter().map(|worker| gradient(worker, 1)).collect();
    bench.feed(0, &frames);
    assert!(bench.appliance.plane.capture().take().is_none(), "nobody has asked");
    bench.appliance.plane.capture().begin(JOB);
    bench.clock.advance(5 * MS);
    bench
        .feed(0, [&gradient(&others[0], 1), &frames[1], &gradient(&others[1], 1), &frames[3][..40].to_vec()]);
    bench.feed(0, [&workers[2].reminder(7)]);
    bench.appliance.plane.capture().end();
    bench.feed(0, &frames);
    let capture = bench.appliance.plane.capture();
    let copies: Vec<_> = core::iter::from_fn(|| capture.take()).collect();
    assert_eq!(copies.len(), 2, "what cannot be read belongs to no job");
    assert_eq!(
        (copies[0].bytes(), copies[0].len, copies[0].at),
        (&frames[1][..], frames[1].len(), bench.clock.now())
    );
    assert_eq!(copies[1].bytes(), workers[2].reminder(7));
    assert_eq!(capture.missed(), 0);
    bench.end();
}

#[test]
fn a_psn_that_is_under_way_is_completed_under_other_limits() {
    let plan = Plan { jobs: vec![job(JOB, 4), job(900, 2)], ..Plan::one_armed() };
    let (mut bench, workers) = four(&plan);
    bench.feed(0, [&gradient(&workers[0], 1), &gradient(&workers[1], 1)]);
    let limits = kind(Policy { quota: 8, ..Policy::default() }, ServerMode::None);
    let limited = JobSpec { kind: limits, ..job(JOB, 4) };
    let added = job(901, 2);
    let now = bench.appliance.now;
    let done = bench.appliance.plane.reconfigure(now, vec![limited, added], None);
    let what: Vec<_> = done.into_iter().collect();
    assert_eq!(
        what,
        [(JOB, Reconfigured::Changed), (900, Reconfigured::Removed), (901, Reconfigured::Added)]
    );
    assert!(bench.appliance.control_turn().published);
    bench.feed(0, [&gradient(&workers[2], 1), &gradient(&workers[3], 1)]);
    assert!(bench.appliance.control_turn().settled);
    assert_results(&mut bench, &workers, 1, &[4; 8]);
    assert_eq!(bench.appliance.reading().dropped_total(), 0);
    bench.end();
}
