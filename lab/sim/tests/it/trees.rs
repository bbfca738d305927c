//! Schedules below several levels of appliances break no promise.

use pascaline_sim::{Campaign, Fault, Reach, Report, Sabotage, Shape, Violation, shaped_schedule};

fn run(levels: usize, seed: u64, runs: u64) -> Report {
    let campaign =
        Campaign { shape: Shape::Levels(levels), seed, runs, threads: 2, sabotage: Sabotage::None };
    campaign.run(&|_, _| {})
}

fn assert_kept(levels: usize) -> Report {
    let report = run(levels, 1, 120);
    let findings: Vec<_> = report.findings.iter().map(|one| (one.seed, one.violation.to_string())).collect();
    assert_eq!((report.schedules, report.violations), (120, 0), "{findings:#?}");
    assert!(report.faults.get(Fault::ApplianceRestart) > 20, "{report}");
    // What a job below appliances can come to; of the rest it comes to too little in so few, or to nothing.
    for reach in [Reach::Resumed, Reach::BegunAnew, Reach::Refused] {
        assert!(report.reached.get(reach) > 20, "{report}");
    }
    assert!(report.reached.get(Reach::Wrapped) > 5, "{report}");
    assert!(report.faults.get(Fault::WorkerKilled) > 2, "{report}");
    report
}

#[test]
fn no_promise_is_broken_with_two_levels() {
    let report = assert_kept(2);
    assert!(report.faults.get(Fault::Commanded) > 2, "{report}");
}

#[test]
fn no_promise_is_broken_with_three_levels() {
    assert_kept(3);
}

/// Seeds from elsewhere than those above.
#[test]
fn no_promise_is_broken_by_seeds_far_apart() {
    for (levels, seed) in [(2, 1_026_017), (2, 1_053_915), (2, 1_071_973), (2, 1_076_915), (3, 300_908)] {
        let findings = run(levels, seed, 1).findings;
        assert!(findings.is_empty(), "{seed}: {:?}", findings.first().map(|one| one.violation.to_string()));
    }
}

/// A defect must show within the first schedules.
#[track_caller]
fn assert_found(sabotage: Sabotage, is_it: impl Fn(&Violation) -> bool) {
    let found = (1..200).flat_map(|seed| shaped_schedule(Shape::Levels(2), seed, sabotage, None).findings);
    let mut others = Vec::new();
    let found = found.map(|finding| finding.violation).any(|violation| {
        let it = is_it(&violation);
        others.push(violation);
        it
    });
    assert!(found, "{sabotage:?}: {others:?}");
}

#[test]
fn a_sum_that_changes_between_two_appliances_is_found() {
    assert_found(Sabotage::AlterPayload, |violation| matches!(violation, Violation::WrongSum { .. }));
}

/// A parent that is gone for good is replaced in time, or a rank waits forever.
#[test]
fn a_spare_appliance_that_nobody_knows_is_missed() {
    assert_found(Sabotage::ForgetSpares, |violation| matches!(violation, Violation::Unexcused { .. }));
}

#[test]
fn a_packet_without_an_account_is_found_at_any_appliance() {
    assert_found(Sabotage::Miscount, |violation| matches!(violation, Violation::Unaccounted { .. }));
}

#[test]
fn a_worker_that_sleeps_on_is_found() {
    assert_found(Sabotage::LoseTimers, |violation| matches!(violation, Violation::Overdue { .. }));
}
