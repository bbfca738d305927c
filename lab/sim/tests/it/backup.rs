//! Schedules of a job at an appliance that another stands in for break no promise.

use pascaline_sim::{Campaign, Fault, Reach, Report, Sabotage, Shape, Violation, shaped_schedule};

fn run(seed: u64, runs: u64) -> Report {
    let campaign = Campaign { shape: Shape::Backup, seed, runs, threads: 2, sabotage: Sabotage::None };
    campaign.run(&|_, _| {})
}

#[test]
fn no_promise_is_broken() {
    let report = run(1, 300);
    let findings: Vec<_> = report.findings.iter().map(|one| (one.seed, one.violation.to_string())).collect();
    assert_eq!((report.schedules, report.violations), (300, 0), "{findings:#?}");
    assert!(report.faults.get(Fault::ApplianceRestart) > 100, "{report}");
    // What a job with a backup can come to.
    for (reach, least) in
        [(Reach::Resumed, 100), (Reach::BegunAnew, 4), (Reach::Refused, 1000), (Reach::StayedOn, 2)]
    {
        assert!(report.reached.get(reach) > least, "{report}");
    }
    assert!(report.reached.get(Reach::Wrapped) > 10, "{report}");
    // Those that fail were still joining when something happened.
    assert!(report.finished > 15 * report.failed, "{report}");
}

/// A defect must show within the first schedules.
#[track_caller]
fn assert_found(sabotage: Sabotage, is_it: impl Fn(&Violation) -> bool) {
    let found = (1..60).flat_map(|seed| shaped_schedule(Shape::Backup, seed, sabotage, None).findings);
    let found: Vec<_> = found.map(|finding| finding.violation).collect();
    assert!(found.iter().any(is_it), "{sabotage:?}: {found:?}");
}

#[test]
fn a_changed_payload_is_found() {
    assert_found(Sabotage::AlterPayload, |violation| matches!(violation, Violation::WrongSum { .. }));
}
