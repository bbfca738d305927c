//! Schedules of a job over several trees break no promise.

use pascaline_sim::{Campaign, Fault, Reach, Report, Sabotage, Shape, Violation, shaped_schedule};

fn assert_kept(trees: usize) -> Report {
    let shape = Shape::Trees(trees);
    let report = Campaign { shape, seed: 1, runs: 60, threads: 2, sabotage: Sabotage::None }.run(&|_, _| {});
    let findings: Vec<_> = report.findings.iter().map(|one| (one.seed, one.violation.to_string())).collect();
    assert_eq!((report.schedules, report.violations), (60, 0), "{findings:#?}");
    for fault in [Fault::ApplianceRestart, Fault::WorkerKilled, Fault::WorkerRestarted, Fault::Paused] {
        assert!(report.faults.get(fault) > 3, "{}: {report}", fault.text());
    }
    assert!(report.reached.get(Reach::Resumed) > 10, "{report}");
    assert!(report.finished > 5 * report.failed && report.failed > 10, "{report}");
    report
}

#[test]
fn no_promise_is_broken_over_two_trees() {
    let report = assert_kept(2);
    assert!(report.reached.get(Reach::Wrapped) > 5, "{report}");
}

#[test]
fn no_promise_is_broken_over_three_trees() {
    assert_kept(3);
}

/// A defect must show within the first schedules.
#[track_caller]
fn assert_found(sabotage: Sabotage, is_it: impl Fn(&Violation) -> bool) {
    let found = (1..60).flat_map(|seed| shaped_schedule(Shape::Trees(2), seed, sabotage, None).findings);
    let mut others = Vec::new();
    let found = found.map(|finding| finding.violation).any(|violation| {
        let it = is_it(&violation);
        others.push(violation);
        it
    });
    assert!(found, "{sabotage:?}: {others:?}");
}

/// Its packets go over another tree than those of the others, or are another part of the tensor.
#[test]
fn a_rank_that_deals_otherwise_is_found() {
    assert_found(Sabotage::DealOtherwise, |violation| matches!(violation, Violation::Unexcused { .. }));
    assert_found(Sabotage::DealOtherwise, |violation| matches!(violation, Violation::WrongSum { .. }));
}

#[test]
fn a_result_of_another_tree_is_found() {
    assert_found(Sabotage::CrossJobs, |violation| matches!(violation, Violation::WrongSum { .. }));
}

#[test]
fn a_worker_that_sleeps_on_is_found() {
    assert_found(Sabotage::LoseTimers, |violation| matches!(violation, Violation::Overdue { .. }));
}
