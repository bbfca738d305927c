//! Jobs whose packets are sealed, with an attacker on their path who has no key.

use pascaline_sim::{Campaign, Fault, Reach, Sabotage, Shape, Violation, scripted, shaped_schedule};
use proptest::prelude::*;

#[test]
fn no_frame_of_an_attacker_is_taken() {
    let campaign =
        Campaign { shape: Shape::Sealed, seed: 1, runs: 400, threads: 2, sabotage: Sabotage::None };
    let report = campaign.run(&|_, _| {});
    let findings: Vec<_> = report.findings.iter().map(|one| (one.seed, one.violation.to_string())).collect();
    assert_eq!((report.schedules, report.violations), (400, 0), "{findings:?}");
    assert!(report.finished > 1000 && report.reached.get(Reach::Forged) > 1000, "{report}");
    assert!(report.faults.get(Fault::Rekeyed) > 50, "{report}");
}

/// Asserts that one of the first schedules finds a defect as what it is.
#[track_caller]
fn assert_found(sabotage: Sabotage, is_it: impl Fn(&Violation) -> bool) {
    let found = (1..100).find(|&seed| {
        let findings = shaped_schedule(Shape::Sealed, seed, sabotage, None).findings;
        findings.iter().any(|finding| is_it(&finding.violation))
    });
    let seed = found.unwrap_or_else(|| panic!("{sabotage:?} goes unnoticed"));
    assert_eq!(shaped_schedule(Shape::Sealed, seed, Sabotage::None, None).violations, 0, "seed {seed}");
}

#[test]
fn seals_that_are_taken_unchecked_are_found() {
    assert_found(Sabotage::HoldKeys, |violation| matches!(violation, Violation::WrongSum { .. }));
}

#[test]
fn numbers_that_are_used_twice_are_found() {
    assert_found(Sabotage::RepeatNumbers, |violation| matches!(violation, Violation::NumberTwice { .. }));
}

/// What looks on is the same, with random decisions of the attacker or with those of a script.
#[test]
fn defects_are_found_beside_a_script() {
    let found = |seed| scripted(&[1, seed, 0], Sabotage::RepeatNumbers);
    assert!((0..40).any(|seed| matches!(found(seed), Err(Violation::NumberTwice { .. }))));
}

/// What a fuzzer may find for an attacker to do: the mode, the schedule, and frames.
fn scripts() -> impl Strategy<Value = Vec<u8>> {
    let changes = (0_usize..24, any::<[u8; 24]>());
    let frame =
        (0_u8..60, any::<[u8; 3]>(), changes).prop_map(|(wait, [after, which, at], (count, bytes))| {
            [&[wait, after, which, at, u8::try_from(count).unwrap()], &bytes[..count]].concat()
        });
    (any::<[u8; 3]>(), prop::collection::vec(frame, 0..60))
        .prop_map(|(head, frames)| head.into_iter().chain(frames.concat()).collect())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]
    #[test]
    fn no_script_of_an_attacker_breaks_a_promise(script in scripts()) {
        prop_assert_eq!(scripted(&script, Sabotage::None).map_err(|violation| violation.to_string()), Ok(()));
    }
}
