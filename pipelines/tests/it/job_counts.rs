//! What lcores count of a job, and how busy they are.

use pascaline_telemetry::{CellsReading, Counter, DropReason, JobEvent, RankReading};
use pascaline_testkit::{JOB, Worker};
use pascaline_wire::header::{Element, Flags, Header, Kind};

use crate::common::appliance::{Bench, Plan};

fn joined() -> (Bench, Vec<Worker>) {
    let mut bench = Bench::new(&Plan::one_armed());
    let mut workers: Vec<Worker> = (0..4).map(|rank| Worker::new(rank, 4)).collect();
    bench.join(&mut workers);
    (bench, workers)
}

fn counted(bench: &Bench) -> CellsReading {
    let counts = bench.appliance.plane.membership().counts();
    counts.into_iter().find(|(id, _)| *id == JOB).map(|(_, cells)| cells.read()).unwrap()
}

#[test]
fn contributions_count_by_rank_and_the_last_one_is_remembered() {
    let (mut bench, workers) = joined();
    for (psn, order) in [(3, [0, 1, 2, 3]), (4, [3, 1, 0, 2])] {
        for rank in order {
            bench.clock.advance(1000);
            bench.feed(0, [&workers[rank].gradient(psn, &[1; 8])]);
        }
    }
    let job = counted(&bench);
    assert_eq!((job.get(JobEvent::Results), job.get(JobEvent::ResultBytes)), (2, 64));
    assert_eq!((job.contributions(), job.contribution_bytes()), (8, 256));
    assert_eq!(job.waited_ns, 6000, "three steps of the clock for each");
    assert_eq!(job.ranks.iter().map(|rank| rank.last).collect::<Vec<_>>(), [0, 0, 1, 1]);
    assert_eq!(job.front(), Some(4));
    assert!(job.ranks.iter().all(|rank| rank.psn == 4 && rank.heard_ns > 0 && rank.again == 0));
    assert_eq!(bench.appliance.get(Counter::Hits), 6);
}

#[test]
fn refused_and_repeated_contributions_are_told_apart() {
    let (mut bench, workers) = joined();
    bench.feed(0, [&workers[1].gradient(7, &[1; 8])]);
    bench.feed(0, [&workers[1].gradient(7, &[1; 8])]);
    let header = workers[1].header(Kind::Gradient, 7, 1);
    let again = Header { flags: header.flags.with(Flags::RETRANSMISSION), ..header };
    bench.feed(0, [&workers[1].frame(&again, &[0; 32])]);
    let job = counted(&bench);
    let RankReading { contributions, again, last, .. } = job.ranks[1];
    assert_eq!((contributions, again, last), (3, 1, 0));
    assert_eq!(job.dropped(DropReason::Duplicate), bench.appliance.dropped(DropReason::Duplicate));
    assert!(job.dropped(DropReason::Duplicate) > 0);
    assert_eq!(job.behind(&job.ranks[0]), 8, "rank 0 has sent nothing");
}

#[test]
fn results_that_are_no_numbers_are_estimated() {
    let (mut bench, workers) = joined();
    let mut send = |psn: u32, odd: f32| {
        for worker in &workers {
            let header = Header { element: Element::F32_SUM, ..worker.header(Kind::Gradient, psn, 1) };
            let value = if worker.rank == 2 { odd } else { 1.0 };
            let values: Vec<u8> =
                [1.0, 1.0, value, 1.0].iter().flat_map(|value| value.to_le_bytes()).collect();
            bench.feed(0, [&worker.frame(&header, &values)]);
        }
    };
    (0..64).for_each(|psn| send(psn, 2.0));
    (64..128).for_each(|psn| send(psn, f32::NAN));
    (128..192).for_each(|psn| send(psn, f32::INFINITY));
    let job = counted(&bench);
    assert_eq!(job.get(JobEvent::Results), 192);
    // One in eight is looked at, and counts for eight.
    let estimate = job.get(JobEvent::NonFinite);
    assert!((96..=160).contains(&estimate) && estimate.is_multiple_of(8), "{estimate} of 128");
    assert_eq!(bench.appliance.get(Counter::NonFinite), estimate);
}

#[test]
fn counts_outlive_a_generation() {
    let (mut bench, mut workers) = joined();
    bench.feed(0, [&workers[0].gradient(1, &[1; 8])]);
    workers.iter_mut().for_each(|worker| worker.session += 1);
    bench.join(&mut workers);
    bench.feed(0, [&workers[0].gradient(2, &[1; 8])]);
    assert_eq!(counted(&bench).ranks[0].contributions, 2);
}

#[test]
fn polls_are_counted_by_what_they_found() {
    let (mut bench, workers) = joined();
    let before = bench.appliance.reading();
    let burst: Vec<_> = (0..5).map(|psn| workers[0].gradient(psn, &[1; 8])).collect();
    bench.feed(0, &burst);
    let after = bench.appliance.reading();
    let (load, former) = (after.load(), before.load());
    assert_eq!(load.packets - former.packets, 5);
    assert_eq!((load.bursts[3] - former.bursts[3], load.polls() - former.polls()), (1, 1), "up to eight");
    // What idle turns count is published now and then.
    (0..64).for_each(|_| bench.appliance.turn());
    let after = bench.appliance.reading();
    assert!(after.get(Counter::EmptyPolls) > before.get(Counter::EmptyPolls));
}
