//! The oracle can fail: every deliberate defect is found, as what it is.

use pascaline_sim::{Campaign, Sabotage, Violation};

/// What a defect is found as, in any of a few schedules.
fn found(sabotage: Sabotage) -> Vec<Violation> {
    let campaign = Campaign { seed: 1, runs: 60, threads: 1, sabotage };
    let report = campaign.run(&|_, _| {});
    assert!(report.violations > 0, "{sabotage:?} goes unnoticed");
    for finding in &report.findings {
        let panicked = matches!(finding.violation, Violation::Panic { .. });
        assert!(panicked || finding.trace.iter().any(|line| line.contains("VIOLATION")), "{finding:?}");
    }
    report.findings.into_iter().map(|finding| finding.violation).collect()
}

macro_rules! is_found {
    ($($name:ident: $sabotage:ident => $violation:pat,)+) => {
        $(#[test]
        fn $name() {
            let found = found(Sabotage::$sabotage);
            assert!(found.iter().any(|violation| matches!(violation, $violation)), "{found:?}");
        })+

        #[test]
        fn each_of_these_is_a_defect_that_there_is() {
            for defect in [$(Sabotage::$sabotage),+] {
                assert!(Sabotage::ALL.contains(&defect), "{defect:?}");
            }
        }
    };
}

is_found! {
    a_changed_payload: AlterPayload => Violation::WrongSum { .. },
    a_gradient_at_another_psn: MovePsn => Violation::WrongSum { .. } | Violation::Unexcused { .. },
    a_rank_counted_for_another: StealRank => Violation::WrongSum { .. },
    a_gradient_of_an_earlier_life: ReplayStaleEpoch => Violation::WrongSum { .. },
    a_result_of_another_job: CrossJobs => Violation::WrongSum { .. },
    a_contribution_for_a_result: EchoAsResult => Violation::WrongSum { .. },
    a_buffer_that_is_never_given_back: LeakPacket => Violation::Leak { what: "frame", .. },
    a_packet_lost_within_the_port: SwallowPacket => Violation::Uncounted { .. },
    a_packet_without_an_account: Miscount => Violation::Unaccounted { packets: 1, .. },
    a_worker_that_sleeps_on: LoseTimers => Violation::Overdue { .. },
    a_failure_without_an_excuse: CutLink => Violation::Unexcused { .. },
    a_panic: Panic => Violation::Panic { .. },
}
