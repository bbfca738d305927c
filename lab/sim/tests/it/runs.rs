//! A thousand runs in a row at one appliance, of ranks that start at random times, give up, die and return.

use pascaline_sim::runs;

#[test]
fn each_run_whose_ranks_are_all_there_at_some_time_completes() {
    // With this seed a newcomer was once told that its rank is taken, after 466 runs.
    let came = runs(22, 1000);
    assert_eq!(came.violation, None, "run {}: {:#?}", came.runs, came.trace);
    assert_eq!((came.runs, came.met), (1000, came.completed));
    assert!((150..900).contains(&came.completed), "{} completed", came.completed);
}
