use super::*;

/// A received update counts for each worker inside; a replaced or dropped one for none.
#[test]
fn what_arrives_is_counted() {
    let mut tally = Tally::new(2);
    for (worker, outcome) in [
        (0, EnqueueOutcome::Appended),
        (0, EnqueueOutcome::Replaced),
        (1, EnqueueOutcome::Aggregated),
        (2, EnqueueOutcome::Full),
        (3, EnqueueOutcome::Appended),
    ] {
        tally.offer(worker, outcome);
    }
    assert_eq!(tally.wanted[..4], [2; 4], "nothing has arrived");
    tally.arrive(&Update { count: 2, ..update(0, 0) });
    assert_eq!(tally.wanted[..4], [1, 1, 2, 2]);
    for _ in 0..2 {
        tally.offer(0, EnqueueOutcome::Appended);
        tally.arrive(&update(0, 0));
    }
    assert_eq!((tally.wanted[0], tally.lacking), (0, usize::from(WORKERS) - 1));
}
