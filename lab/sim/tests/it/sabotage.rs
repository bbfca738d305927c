//! The oracle can fail: every deliberate defect is found, as what it is.

use pascaline_sim::{Sabotage, Violation, schedule};

/// Schedules among which a defect must show: some show only with a death, two lives or a result without all
/// ranks.
const SCHEDULES: usize = 620;

/// Where to look. Two sums of one PSN that differ, and a rank for each, are a rare coincidence: one in some
/// thousands of schedules has it.
const fn first_seed(sabotage: Sabotage) -> u64 {
    if matches!(sabotage, Sabotage::ServerNeverAsks) { 15_300 } else { 1 }
}

/// Asserts that one of the first schedules finds a defect as what it is, and tells what happened.
#[track_caller]
fn assert_found(sabotage: Sabotage, is_it: impl Fn(&Violation) -> bool) {
    let mut others = Vec::new();
    for seed in (first_seed(sabotage)..).take(SCHEDULES) {
        for finding in schedule(seed, sabotage, None).findings {
            let panicked = matches!(finding.violation, Violation::Panic { .. });
            assert!(panicked || finding.trace.iter().any(|line| line.contains("VIOLATION")), "{finding:?}");
            if is_it(&finding.violation) {
                assert_eq!(schedule(seed, Sabotage::None, None).violations, 0, "seed {seed} without it");
                return;
            }
            others.push(finding.violation);
        }
    }
    panic!("{sabotage:?} goes unnoticed; found were {others:?}");
}

macro_rules! is_found {
    ($($name:ident: $sabotage:ident => $violation:pat,)+) => {
        $(#[test]
        fn $name() {
            assert_found(Sabotage::$sabotage, |violation| matches!(violation, $violation));
        })+

        #[test]
        fn every_defect_that_there_is_has_a_test() {
            // The last ones take several appliances, or sealed packets: `trees.rs`, `apart.rs`, `sealed.rs`.
            let others = [
                Sabotage::ForgetSpares,
                Sabotage::DealOtherwise,
                Sabotage::HoldKeys,
                Sabotage::RepeatNumbers,
            ];
            assert_eq!(Sabotage::ALL, [&[$(Sabotage::$sabotage,)+][..], &others].concat());
        }
    };
}

is_found! {
    a_changed_payload: AlterPayload => Violation::WrongSum { .. },
    a_gradient_at_another_psn: MovePsn => Violation::WrongSum { .. },
    a_rank_counted_for_another: StealRank => Violation::WrongSum { .. },
    a_gradient_of_an_earlier_life: ReplayStaleEpoch => Violation::WrongSum { .. },
    a_result_of_another_job: CrossJobs => Violation::WrongSum { .. },
    a_contribution_for_a_result: EchoAsResult => Violation::WrongSum { .. },
    a_generation_that_goes_on_for_some_only: ClaimForever => Violation::HalfResumed { .. },
    a_rank_that_goes_on_under_other_numbers: RenumberResumed =>
        Violation::Unexcused { .. } | Violation::WrongSum { .. },
    an_update_counted_twice: RenumberUpdates => Violation::WrongModel { .. },
    a_partial_result_of_other_ranks: MisreportPartial =>
        Violation::WrongReport { .. } | Violation::WrongSum { .. },
    a_partial_result_that_passes_for_whole: HidePartial =>
        Violation::WrongReport { .. } | Violation::WrongSum { .. },
    a_death_under_another_name: MisnameLost => Violation::Misnamed { .. },
    a_death_that_nobody_is_told_of: HideLoss => Violation::Unexcused { .. },
    a_generation_taken_for_an_older_one: HideLower => Violation::Unexcused { .. },
    a_rank_that_leaves_while_others_need_it: HideNeed => Violation::Unexcused { .. },
    a_pause_of_the_appliance_taken_for_its_ranks: SleepThrough =>
        Violation::Unexcused { .. } | Violation::Misjudged { .. },
    a_rank_lost_that_was_heard_of: DeafToHeartbeats => Violation::Misjudged { .. },
    a_partial_counted_twice_by_the_server: ServerCountsTwice => Violation::WrongSum { .. },
    a_server_that_mixes_generations: ServerForgetsNothing => Violation::WrongSum { .. },
    a_second_sum_that_nobody_was_asked_about: ServerNeverAsks => Violation::Differs { .. },
    a_server_that_changes_what_it_sends: ServerAlters => Violation::WrongSum { .. },
    a_server_that_is_gone_and_registers: ServeForTheDead =>
        Violation::Overdue { .. } | Violation::Unexcused { .. },
    a_buffer_that_the_server_keeps: LeakToServer => Violation::Leak { what: "frame", .. },
    a_buffer_that_is_never_given_back: LeakPacket => Violation::Leak { what: "frame", .. },
    a_packet_lost_within_the_port: SwallowPacket => Violation::Uncounted { .. },
    a_packet_without_an_account: Miscount => Violation::Unaccounted { packets: 1, .. },
    a_result_of_the_group_at_another_psn: MoveGroupPsn => Violation::WrongSum { .. },
    a_rank_that_claims_to_hear_its_group: MistakeForGroup => Violation::Pretended { .. },
    a_packet_of_a_client_in_the_other_set: SwapSets =>
        Violation::WrongSum { .. } | Violation::Unexcused { .. },
    a_sum_for_a_client_that_changes: AlterClientSum => Violation::WrongSum { .. },
    a_worker_that_sleeps_on: LoseTimers => Violation::Overdue { .. },
    a_failure_without_an_excuse: CutLink => Violation::Unexcused { .. },
    a_panic: Panic => Violation::Panic { .. },
}
