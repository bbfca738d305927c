//! Schedules below several levels of appliances break no promise.

use pascaline_sim::{Campaign, Fault, Reach, Report, Sabotage};

fn run(levels: usize, seed: u64, runs: u64) -> Report {
    let campaign = Campaign { levels, seed, runs, threads: 2, sabotage: Sabotage::None };
    campaign.run(&|_, _| {})
}

fn assert_kept(levels: usize) {
    let report = run(levels, 1, 300);
    let findings: Vec<_> = report.findings.iter().map(|one| (one.seed, one.violation.to_string())).collect();
    assert_eq!((report.schedules, report.violations), (300, 0), "{findings:#?}");
    assert!(report.faults.get(Fault::ApplianceRestart) > 50, "{report}");
    assert!(report.reached.get(Reach::Resumed) > 50, "{report}");
}

#[test]
fn no_promise_is_broken_with_two_levels() {
    assert_kept(2);
}

#[test]
fn no_promise_is_broken_with_three_levels() {
    assert_kept(3);
}
