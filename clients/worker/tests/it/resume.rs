//! What happens to a job whose generation ends under it.

use std::time::Duration;

use fastrand::Rng;
use pascaline_wire::control::{self, Action, Status};
use pascaline_wire::{DType, Element};
use pascaline_worker::{Event, Failure, Left, Membership, Op, RankSet, Reason, Rejection};

use crate::adversary::{Conditions, up_to};
use crate::asking::{NEXT, ack, handle, of_workers, rejoining_as};
use crate::datagrams::{BYTES, EPOCH, MEMBERSHIP};
use crate::job::OnDeath;
use crate::rank::Outcome;
use crate::simulation::gigabit;
use crate::values::{Call, DTYPES, OPS, Operation};
use crate::world::{Plan, Upset, run};

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

/// An allreduce of 1 s + 17 ms at least, by four ranks, with what happens meanwhile.
fn interrupted(upsets: &[(Duration, Upset)]) -> Plan {
    Plan { upsets: upsets.to_vec(), linger: Duration::from_secs(5), ..gigabit(Conditions::IDEAL) }
}

const RESTART: Upset = Upset::Restart { down: ms(30), epoch: 99 };

fn all_done(outcomes: &[Outcome], operations: usize) {
    for (rank, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.failures, [], "rank {rank}");
        assert_eq!(outcome.verified as usize, operations, "rank {rank}");
        assert_eq!(outcome.left, Some(Left::Everyone), "rank {rank}");
    }
}

#[test]
fn an_appliance_that_restarts_in_the_middle_interrupts_and_fails_nothing() {
    for at in [1_001, 1_005, 1_010, 1_016] {
        let plan = interrupted(&[(ms(at), RESTART)]);
        let outcomes = run(&plan, at).ranks;
        all_done(&outcomes, 1);
        for outcome in outcomes {
            assert_eq!((outcome.counters.resumed, outcome.epoch), (1, Some(99)));
            // The time away, a timeout or a heartbeat to notice, the handshake; and the rest of the
            // allreduce.
            assert!(outcome.elapsed[0] < ms(30 + 100 + 100 + 17), "{:?}", outcome.elapsed);
        }
    }
}

/// An allreduce that fits into one window: rank 0 hears nothing of its results, the others have finished and
/// wait for it.
fn one_lags_behind(deaf: Duration, then: &[(Duration, Upset)]) -> Plan {
    let mut upsets = then.to_vec();
    upsets.push((ms(1_000), Upset::Deafen { rank: 0, lasts: deaf }));
    Plan { operations: vec![Operation::i32_sum(200)], ..interrupted(&upsets) }
}

#[test]
fn who_has_finished_and_lingers_joins_again_for_the_sake_of_the_others() {
    let plan = one_lags_behind(ms(100), &[(ms(1_060), RESTART)]);
    let outcomes = run(&plan, 1).ranks;
    all_done(&outcomes, 1);
    assert!(outcomes.iter().all(|outcome| outcome.epoch == Some(99) && outcome.counters.resumed == 1));
    let finished = |outcome: &Outcome| outcome.elapsed[0] < ms(50);
    assert_eq!(outcomes.iter().map(finished).collect::<Vec<_>>(), [false, true, true, true]);
    let answered: u64 = outcomes[1..].iter().map(|outcome| outcome.counters.reminders_answered).sum();
    assert!(answered >= 100, "only the others had the results: {answered}");
}

#[test]
fn who_lingers_and_hears_of_nobody_gives_up_at_its_limit() {
    let plan = Plan {
        linger: ms(300),
        ..interrupted(&[(ms(1_010), RESTART), (ms(1_009), Upset::Kill { rank: 0 })])
    };
    let outcomes = run(&Plan { deadline: ms(500), ..plan }, 1).ranks;
    for outcome in &outcomes[1..] {
        let [(at, Failure::Deadline(progress))] = &outcome.failures[..] else { panic!("{outcome:?}") };
        assert!(*at >= ms(1_500) && *at < ms(1_501), "{at:?}");
        assert_eq!(progress.rejoined, Some(3), "of four");
        assert!(progress.to_string().contains("generation had ended, and 3 ranks had joined"), "{progress}");
    }
    // The same after the end: no other rank comes back.
    let plan = one_lags_behind(ms(100), &[(ms(1_030), Upset::Kill { rank: 0 }), (ms(1_040), RESTART)]);
    for outcome in &run(&Plan { linger: ms(300), ..plan }, 1).ranks[1..] {
        assert_eq!((outcome.verified, outcome.left), (1, Some(Left::Lingered)));
    }
}

#[test]
fn nothing_is_resumed_when_a_rank_starts_anew() {
    let anew = Upset::Anew { rank: 2 };
    // Alone, and while the appliance restarts.
    for upsets in [vec![(ms(1_010), anew)], vec![(ms(1_008), RESTART), (ms(1_010), anew)]] {
        let plan = interrupted(&upsets);
        let outcomes = run(&plan, 1).ranks;
        for (rank, outcome) in outcomes.iter().enumerate() {
            assert_eq!((outcome.verified, outcome.left), (1, Some(Left::Everyone)), "rank {rank}");
            if rank == 2 {
                assert_eq!(outcome.failures, []);
                continue;
            }
            let [(_, Failure::Rejected { rejection, .. })] = &outcome.failures[..] else {
                panic!("rank {rank}: {:?}", outcome.failures)
            };
            assert_eq!((&rejection.reason, rejection.got), (&Reason::Generation, 7));
            assert_eq!(outcome.epoch.map(u32::from), Some(rejection.expected));
        }
    }
}

#[test]
fn a_rank_that_begins_anew_between_allreduces_is_told_of_once() {
    let mut plan = interrupted(&[(ms(1_050), Upset::Anew { rank: 1 })]);
    plan.operations = vec![Operation::i32_sum(100); 4];
    plan.pause = ms(400);
    for seed in 0..20 {
        for (rank, outcome) in run(&plan, seed).ranks.iter().enumerate() {
            assert!(outcome.failures.len() <= 1, "rank {rank}: {:?}", outcome.failures);
            assert_eq!(outcome.left, Some(Left::Everyone), "rank {rank}, seed {seed}");
            assert!(outcome.verified >= 4, "rank {rank}, seed {seed}");
        }
    }
}

#[test]
fn all_ranks_that_are_lost_are_named_within_a_heartbeat() {
    let lose = |rank| Upset::Lose { rank, on_death: OnDeath::Fail };
    let plan = interrupted(&[
        (ms(1_005), Upset::Kill { rank: 1 }),
        (ms(1_005), Upset::Kill { rank: 2 }),
        (ms(2_000), lose(1)),
        (ms(2_000), lose(2)),
    ]);
    let outcomes = run(&plan, 1).ranks;
    for rank in [0, 3] {
        let [(at, failure @ Failure::Rejected { rejection, .. })] = &outcomes[rank].failures[..] else {
            panic!()
        };
        let ranks = Box::new([1, 2].into_iter().collect());
        assert_eq!((&rejection.reason, rejection.expected), (&Reason::RanksLost(ranks), 2));
        assert!(failure.to_string().starts_with("rejected: ranks 1, 2 of job 3 have died: "), "{failure}");
        assert!(*at >= ms(2_000) && *at < ms(2_101), "{at:?}");
    }
}

#[test]
fn the_others_go_on_without_a_rank_that_is_lost() {
    let mut plan = interrupted(&[
        (ms(1_005), Upset::Kill { rank: 1 }),
        (ms(1_500), Upset::Lose { rank: 1, on_death: OnDeath::Continue }),
    ]);
    plan.operations = vec![
        Operation::i32_sum(4_000),
        Operation { dtype: DType::F64, op: Op::Mean, ..Operation::i32_sum(100) },
    ];
    plan.accept_partial = true;
    let outcomes = run(&plan, 1).ranks;
    for rank in [0, 2, 3] {
        let outcome = &outcomes[rank];
        assert_eq!((outcome.failures.len(), outcome.left), (0, Some(Left::Everyone)), "rank {rank}");
        assert_eq!(outcome.counters.resumed, 1);
        for partial in &outcome.partial {
            let partial = partial.expect("rank 1 is missing");
            assert_eq!((partial.least_count, partial.missing), (3, [1].into_iter().collect::<RankSet>()));
        }
        // The second operation, a mean of three: in the first, rank 1 has taken part for a while.
        assert_eq!(outcome.verified, 1);
        let packets = plan.operations[1].packets(plan.payload);
        assert_eq!(outcome.partial[1].map(|partial| partial.results), Some(packets));
    }
}

/// Holds R10.10 of protocol.md.
#[test]
fn partial_results_are_not_taken_unasked() {
    let plan = Plan {
        deadline: ms(800),
        ..interrupted(&[
            (ms(1_005), Upset::Kill { rank: 1 }),
            (ms(1_100), Upset::Lose { rank: 1, on_death: OnDeath::Continue }),
        ])
    };
    for rank in [0, 2, 3] {
        let outcome = &run(&plan, 1).ranks[rank];
        let [(_, Failure::Deadline(progress))] = &outcome.failures[..] else { panic!("{outcome:?}") };
        assert!(progress.incomplete > 0);
        assert!(progress.to_string().contains("results that lack ranks were refused"));
    }
}

/// The appliance restarts once, at any time, in any network.
#[test]
fn restarts_at_any_time_end_well() {
    let mut resumed = 0;
    for seed in 0..300 {
        let mut random = Rng::with_seed(seed);
        let conditions = Conditions {
            loss: 0.1 * random.u64(..2) as f64,
            duplicate: 0.1 * random.u64(..2) as f64,
            jitter: ms(3),
            jittered: 0.3 * random.u64(..2) as f64,
            forget_result: 0.5 * random.u64(..2) as f64,
            server: random.u64(..2) as f64,
            ..Conditions::IDEAL
        };
        let operations = 1 + random.u64(..3);
        let operation = |random: &mut Rng| Operation {
            elements: 1 + random.usize(..400),
            dtype: DTYPES[random.usize(..5)],
            op: OPS[random.usize(..4)],
            call: Call::Allreduce,
        };
        let upset = Upset::Restart { down: up_to(&mut random, ms(50)), epoch: 200 };
        let at = up_to(&mut random, ms(150));
        let plan = Plan {
            operations: (0..operations).map(|_| operation(&mut random)).collect(),
            ranks: 1 + random.u16(..4),
            in_flight: 12,
            spread: 20,
            start: Duration::ZERO,
            pause: up_to(&mut random, ms(30)),
            conditions,
            linger: Duration::from_secs(2),
            ..interrupted(&[(at, upset)])
        };
        let end = std::panic::catch_unwind(|| run(&plan, seed));
        let end = end.unwrap_or_else(|_| panic!("seed {seed}: {plan:#?}"));
        for (rank, outcome) in end.ranks.iter().enumerate() {
            resumed += outcome.counters.resumed;
            // A rank that had not been admitted yet begins anew; the others get this error.
            let anew = |(_, failure): &(Duration, Failure)| {
                matches!(
                    failure,
                    Failure::Rejected { rejection: Rejection { reason: Reason::Generation, .. }, .. }
                )
            };
            assert!(outcome.failures.iter().all(anew), "seed {seed}, rank {rank}: {:?}", outcome.failures);
            assert!(outcome.failures.len() <= 1);
            assert!(u64::from(outcome.verified) >= operations, "seed {seed}, rank {rank}");
            assert!(outcome.left.is_some(), "seed {seed}, rank {rank}");
        }
    }
    assert!(resumed > 200, "{resumed}");
}

/// An appliance that was started anew may have the job without its parent: what it adds up is of its own
/// ranks alone.
#[test]
fn it_does_not_go_on_where_results_are_of_other_workers() {
    let resumed = ack(Action::Join, Status::Ok, NEXT, control::generation(EPOCH));
    for (before, there, told) in [(0, 9, (9, 4)), (9, 0, (4, 9)), (9, 8, (8, 9))] {
        let member = Membership { workers: before, ..MEMBERSHIP };
        let mut session = rejoining_as(member);
        let Some(Event::Failed(Failure::Rejected { rejection, .. })) =
            handle(&mut session, ms(2), &of_workers(there, resumed.clone()))
        else {
            panic!("{before} before, {there} there")
        };
        assert_eq!((rejection.reason, (rejection.expected, rejection.got)), (Reason::Workers, told));
        assert_eq!((session.counters().resumed, session.membership().workers), (0, before));
        assert!(session.start(ms(3), BYTES, Element::I32_SUM, ms(900)).is_err(), "nor anew");
        // The same number as before is that of the same tree.
        let mut session = rejoining_as(member);
        assert_eq!(handle(&mut session, ms(2), &of_workers(before, resumed.clone())), None);
        assert_eq!(session.counters().resumed, 1);
    }
}
