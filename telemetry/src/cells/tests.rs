use super::*;

const MS: u64 = 1_000_000;

fn hear(cells: &JobCells, lcore: usize, rank: u16, (psn, ms): (u32, u64)) {
    assert!(cells.ranks_of(lcore).heard(rank, psn, Moment::at(ms * MS)));
    if psn == 3 {
        cells.again(lcore, rank);
    }
}

#[test]
fn lcores_add_up_and_the_one_that_heard_last_knows_the_psn() {
    let cells = JobCells::new(2, 9);
    hear(&cells, 0, 8, (4, 500));
    hear(&cells, 1, 8, (3, 400));
    hear(&cells, 1, 0, (9, 450));
    hear(&cells, 0, 1, (7, 450));
    hear(&cells, 1, 1, (6, 450));
    cells.completed(0, 8, Made { contributions: 9, bytes: 1000 }, 700);
    cells.completed(1, 8, Made { contributions: 8, bytes: 24 }, 300);
    cells.released(1, Made { contributions: 2, bytes: 8 });
    cells.count(1, JobEvent::Spilled, 2);
    cells.count(1, JobEvent::SpilledBytes, 100);
    cells.dropped(1, DropReason::Duplicate);
    let reading = cells.read();
    let eight = reading.ranks[8];
    assert_eq!((eight.contributions, eight.psn, eight.again, eight.last), (2, 4, 1, 2));
    assert!((500 * MS).abs_diff(eight.heard_ns) <= 17 * MS, "{}", eight.heard_ns);
    assert_eq!(reading.ranks[1].psn, 7, "the one that is ahead");
    assert_eq!((reading.contributions(), reading.contribution_bytes()), (5, 9208 + 100));
    assert_eq!((reading.get(JobEvent::Results), reading.get(JobEvent::ResultBytes)), (3, 1032));
    let aggregated = [JobEvent::Aggregated, JobEvent::AggregatedBytes].map(|event| reading.get(event));
    assert_eq!((aggregated, reading.get(JobEvent::Released)), ([19, 9000 + 192 + 16], 1));
    assert!((reading.mean_payload() - 9208.0 / 19.0).abs() < 1e-9);
    assert_eq!((reading.waited_ns, reading.get(JobEvent::Spilled)), (1000, 2));
    assert_eq!(reading.dropped(DropReason::Duplicate), 1);
    assert_eq!(reading.front(), Some(9));
    assert_eq!(reading.behind(&eight), 5);
    assert_eq!(reading.behind(&reading.ranks[2]), 10, "nothing has come from it");
}

#[test]
fn a_contribution_at_the_very_start_counts_as_heard() {
    let cells = JobCells::new(1, 2);
    hear(&cells, 0, 0, (0, 0));
    assert_eq!(cells.read().ranks.iter().map(|rank| rank.heard_ns > 0).collect::<Vec<_>>(), [true, false]);
}

#[test]
fn the_front_is_found_across_the_wrap_of_the_psn() {
    let cells = JobCells::new(1, 3);
    for (rank, psn) in [(0, u32::MAX - 1), (1, 2), (2, u32::MAX)] {
        hear(&cells, 0, rank, (psn, 1));
    }
    let reading = cells.read();
    assert_eq!(reading.front(), Some(2));
    assert_eq!(reading.behind(&reading.ranks[0]), 4);
}

#[test]
fn strangers_are_not_counted() {
    let none = JobCells::default();
    assert!(!none.ranks_of(0).heard(0, 0, Moment::at(1)));
    none.again(0, 0);
    none.completed(0, 0, Made { contributions: 1, bytes: 8 }, 1);
    none.late(0, 0, 1, 2);
    assert_eq!(none.read(), CellsReading::default());
    let one = JobCells::new(1, 2);
    assert!(!one.ranks_of(1).heard(0, 0, Moment::at(1)) && !one.ranks_of(0).heard(2, 0, Moment::at(1)));
    one.count(1, JobEvent::Evicted, 1);
    one.completed(0, 2, Made { contributions: 1, bytes: 8 }, 1);
    assert_eq!(
        one.read(),
        CellsReading { ranks: vec![RankReading::default(); 2], ..CellsReading::default() }
    );
    assert_eq!(none.late_ranks(2), []);
}

#[test]
fn a_late_rank_is_named_with_the_oldest_psn_that_lacks_it() {
    let job = JobCells::new(2, 8);
    job.late(1, 5, 100 * MS, 200 * MS);
    job.late(1, 5, 150 * MS, 300 * MS);
    assert_eq!(job.late_ranks(300 * MS), [Late { rank: 5, since: 100 * MS, seen: 200 * MS }]);
    job.late(1, 5, 100 * MS, 400 * MS);
    job.late(0, 5, 390 * MS, 400 * MS);
    assert_eq!(job.late_ranks(2_400 * MS), [Late { rank: 5, since: 100 * MS, seen: 400 * MS }]);
    assert_eq!(job.late_ranks(2_401 * MS), [], "it has not been missing for a while");
    // Late again, in another PSN.
    job.late(1, 5, 3_000 * MS, 3_100 * MS);
    assert_eq!(job.late_ranks(3_100 * MS), [Late { rank: 5, since: 3_000 * MS, seen: 3_100 * MS }]);
}

#[test]
fn of_many_late_ranks_the_last_seen_are_named() {
    let job = JobCells::new(1, 8);
    for rank in 0..6 {
        job.late(0, rank, 0, u64::from(rank) + 1);
    }
    let mut ranks: Vec<u16> = job.late_ranks(10).iter().map(|late| late.rank).collect();
    ranks.sort_unstable();
    assert_eq!(ranks, [2, 3, 4, 5]);
}

#[test]
fn names_are_unique() {
    let names: std::collections::BTreeSet<&str> = JobEvent::ALL.iter().map(|event| event.name()).collect();
    assert_eq!(names.len(), JobEvent::ALL.len());
}

#[test]
fn the_newest_answered_update_is_how_old_the_model_is() {
    let job = JobCells::new(2, 2);
    job.answered(0, 500);
    job.answered(1, 700);
    job.answered(1, 600);
    assert_eq!((job.read().model_ns, job.read().get(JobEvent::Answers)), (700, 3));
    job.answered(0, 3_000_000_000);
    assert_eq!([job.read().model_age(5.5), job.read().model_age(2.0)], [Some(2.5), Some(0.0)]);
    assert_eq!(JobCells::new(1, 1).read().model_age(5.0), None);
}
