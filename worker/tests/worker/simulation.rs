//! The core against an adversary, under a virtual clock.

use std::time::Duration;

use pascaline_worker::Left;

use crate::adversary::{Conditions, Random};
use crate::world::{Plan, run};

/// A plan drawn from a seed: every dimension from harmless to hostile.
fn plan(seed: u64) -> Plan {
    let mut random = Random(seed ^ 0x5eed);
    let mut share = |limit: f64| match random.below(3) {
        0 => 0.0,
        _ => limit * random.below(1001) as f64 / 1000.0,
    };
    let conditions = Conditions {
        loss: share(0.25),
        duplicate: share(0.2),
        delay: Duration::from_micros(20),
        jitter: Duration::from_millis(5),
        jittered: share(1.0),
        serialisation: Duration::from_micros(1),
        forget_result: share(1.0),
        forget_partial: share(0.05),
    };
    let payload = 4 * (1 + random.below(8));
    let spread = 1 + random.below(40);
    let operations = 1 + random.below(4);
    Plan {
        ranks: u16::try_from(1 + random.below(5)).unwrap(),
        payload: u16::try_from(payload).unwrap(),
        in_flight: u16::try_from(1 + random.below(spread)).unwrap(),
        spread: u16::try_from(spread).unwrap(),
        first_psn: if random.chance(0.5) { 0 } else { u32::MAX - u32::try_from(random.below(100)).unwrap() },
        operations: (0..operations)
            .map(|_| usize::try_from(random.below(payload / 4 * 100)).unwrap())
            .collect(),
        start: Duration::ZERO,
        pause: Duration::from_micros(random.below(20_000)),
        deadline: Duration::from_secs(60),
        linger: Duration::from_secs(60),
        conditions,
    }
}

#[test]
fn every_allreduce_ends_with_the_exact_sum_on_every_rank() {
    let (first, seeds) = match std::env::var("PASCALINE_SEED") {
        Ok(seed) => (seed.parse().unwrap(), 1),
        Err(_) => (0, 400),
    };
    let mut totals = [0; 4];
    for seed in first..first + seeds {
        let plan = plan(seed);
        let outcomes = std::panic::catch_unwind(|| run(&plan, seed))
            .unwrap_or_else(|_| panic!("PASCALINE_SEED={seed} reproduces this: {plan:#?}"));
        for outcome in outcomes {
            assert_eq!(outcome.left, Left::Everyone, "seed {seed}");
            totals[0] += outcome.counters.retransmissions;
            totals[1] += outcome.counters.reminders_sent;
            totals[2] += outcome.counters.reminders_answered;
            totals[3] += outcome.counters.duplicate_results;
        }
    }
    // The adversary did make every mechanism work.
    assert!(seeds == 1 || totals.iter().all(|&total| total > 100), "{totals:?}");
}

/// Four ranks, 2,000 packets of 1 KiB at 1 Gbit/s.
fn gigabit(conditions: Conditions) -> Plan {
    Plan {
        ranks: 4,
        payload: 8,
        in_flight: 128,
        spread: 512,
        first_psn: 0,
        operations: vec![4_000],
        start: Duration::from_secs(1),
        pause: Duration::ZERO,
        deadline: Duration::from_secs(10),
        linger: Duration::from_millis(500),
        conditions,
    }
}

fn slowest(plan: &Plan, seed: u64) -> (Duration, u64) {
    let outcomes = run(plan, seed);
    let elapsed = outcomes.iter().map(|outcome| outcome.elapsed[0]).max().unwrap();
    (elapsed, outcomes.iter().map(|outcome| outcome.counters.retransmissions).sum())
}

#[test]
fn nothing_is_resent_when_nothing_is_lost() {
    let (elapsed, retransmissions) = slowest(&gigabit(Conditions::IDEAL), 1);
    assert_eq!(retransmissions, 0);
    let line_rate = 2_000 * Conditions::IDEAL.serialisation;
    assert!(elapsed < line_rate * 11 / 10, "{elapsed:?}, line rate {line_rate:?}");
}

/// One packet in a hundred is lost on each leg: of 2,000 PSNs, about 80 lack a contribution and 80 results are lost.
/// While the flow goes on, that costs its share of the line; at the end, a few timeouts of a round trip and 1 ms, and
/// 128 packets take 1.1 ms here. Five such timeouts are a third of the lossless time.
#[test]
fn one_percent_loss_costs_little_time() {
    let (lossless, _) = slowest(&gigabit(Conditions::IDEAL), 0);
    for seed in 0..6 {
        let (lossy, retransmissions) =
            slowest(&gigabit(Conditions { loss: 0.01, ..Conditions::IDEAL }), seed);
        assert!(lossy < lossless * 4 / 3, "seed {seed}: {lossy:?}, lossless {lossless:?}");
        // All four ranks resend what one has lost, so about 4 × 80 + 80; twice that would be resending without reason.
        assert!(retransmissions < 800, "seed {seed}: {retransmissions}");
    }
}

/// While one rank computes, the others probe; they do not resend their windows, neither then nor when it goes on.
#[test]
fn a_late_rank_costs_probes_only() {
    let plan =
        Plan { pause: Duration::from_millis(500), operations: vec![4_000; 3], ..gigabit(Conditions::IDEAL) };
    for seed in 0..4 {
        for outcome in run(&plan, seed) {
            let resent = outcome.counters.retransmissions;
            assert!(resent < 40, "seed {seed}: {resent} of 6,000");
        }
    }
}
