use super::*;

fn hear(cells: &JobCells, lcore: usize, rank: u16, (psn, bytes, now): (u32, u16, u64)) {
    cells.heard(lcore, rank, &Contribution { psn, bytes, again: psn == 3, now });
}

#[test]
fn lcores_add_up_and_the_one_that_heard_last_knows_the_psn() {
    let cells = JobCells::new(2, 9);
    hear(&cells, 0, 8, (4, 1000, 50));
    hear(&cells, 1, 8, (3, 24, 40));
    hear(&cells, 1, 0, (9, 1000, 45));
    cells.completed(0, 8, 1000, 700);
    cells.completed(1, 8, 24, 300);
    cells.count(1, JobEvent::Spilled, 2);
    cells.dropped(1, DropReason::Duplicate);
    let reading = cells.read();
    let eight = RankReading { contributions: 2, bytes: 1024, heard_ns: 50, psn: 4, again: 1, last: 2 };
    assert_eq!(reading.ranks[8], eight);
    assert_eq!((reading.contributions(), reading.contribution_bytes()), (3, 2024));
    assert_eq!((reading.get(JobEvent::Results), reading.get(JobEvent::ResultBytes)), (2, 1024));
    assert_eq!((reading.waited_ns, reading.get(JobEvent::Spilled)), (1000, 2));
    assert_eq!(reading.dropped(DropReason::Duplicate), 1);
    assert_eq!(reading.front(), Some(9));
    assert_eq!(reading.behind(&eight), 5);
    assert_eq!(reading.behind(&reading.ranks[1]), 10, "nothing has come from it");
}

#[test]
fn the_front_is_found_across_the_wrap_of_the_psn() {
    let cells = JobCells::new(1, 3);
    for (rank, psn) in [(0, u32::MAX - 1), (1, 2), (2, u32::MAX)] {
        hear(&cells, 0, rank, (psn, 8, 1));
    }
    let reading = cells.read();
    assert_eq!(reading.front(), Some(2));
    assert_eq!(reading.behind(&reading.ranks[0]), 4);
}

#[test]
fn strangers_are_not_counted() {
    let none = JobCells::default();
    hear(&none, 0, 0, (0, 8, 1));
    none.completed(0, 0, 8, 1);
    assert_eq!(none.read(), CellsReading::default());
    let one = JobCells::new(1, 2);
    hear(&one, 1, 0, (0, 8, 1));
    hear(&one, 0, 2, (0, 8, 1));
    one.count(1, JobEvent::Evicted, 1);
    assert_eq!(one.read().contributions(), 0);
}
