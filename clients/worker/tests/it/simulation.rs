//! The core against an adversary, under a virtual clock.

use std::time::Duration;

use fastrand::Rng;
use pascaline_wire::{DType, Element};
use pascaline_worker::Left;

use crate::adversary::{Conditions, chance};
use crate::values::{Call, DTYPES, OPS, Operation};
use crate::world::{Plan, Upset, run};

/// A plan drawn from a seed: every dimension from harmless to hostile.
pub(crate) fn plan(seed: u64) -> Plan {
    let mut random = Rng::with_seed(seed ^ 0x5eed);
    let mut share = |limit: f64| match random.u64(..3) {
        0 => 0.0,
        _ => limit * random.u64(..1001) as f64 / 1000.0,
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
        server: share(1.0),
    };
    let payload = 8 * (1 + random.u16(..4));
    let spread = 1 + random.u16(..40);
    let operations = 1 + random.u64(..4);
    let mut operation = |_| {
        let dtype = DTYPES[random.usize(..5)];
        let op = OPS[random.usize(..4)];
        let most = usize::from(payload) / dtype.size() * 100;
        Operation { elements: random.usize(..most), dtype, op, call: Call::Allreduce }
    };
    let operations = (0..operations).map(&mut operation).collect();
    Plan {
        ranks: 1 + random.u16(..5),
        payload,
        in_flight: 1 + random.u16(..spread),
        spread,
        first_psn: if chance(&mut random, 0.5) { 0 } else { u32::MAX - random.u32(..100) },
        operations,
        start: Duration::ZERO,
        pause: Duration::from_micros(random.u64(..20_000)),
        deadline: Duration::from_secs(60),
        linger: Duration::from_secs(60),
        conditions,
        threshold: None,
        accept_partial: false,
        upsets: Vec::new(),
    }
}

#[test]
fn every_allreduce_ends_with_the_exact_sum_on_every_rank() {
    let (first, seeds) = match std::env::var("PASCALINE_SEED") {
        Ok(seed) => (seed.parse().unwrap(), 1),
        Err(_) => (0, 400),
    };
    let mut totals = [0; 6];
    let mut originals = 0;
    for seed in first..first + seeds {
        let plan = plan(seed);
        let end = std::panic::catch_unwind(|| run(&plan, seed))
            .unwrap_or_else(|_| panic!("PASCALINE_SEED={seed} reproduces this: {plan:#?}"));
        originals += end.originals;
        for outcome in end.ranks {
            assert_eq!(outcome.failures, [], "seed {seed}");
            assert_eq!(outcome.left, Some(Left::Everyone), "seed {seed}");
            assert_eq!(outcome.verified as usize, plan.operations.len(), "seed {seed}");
            totals[0] += outcome.counters.retransmissions;
            totals[1] += outcome.counters.reminders_sent;
            totals[2] += outcome.counters.reminders_answered;
            totals[3] += outcome.counters.duplicate_results;
            totals[4] += outcome.counters.originals_sent;
            totals[5] += outcome.counters.heartbeats_sent;
        }
    }
    // The adversary did make every mechanism work.
    assert!(
        seeds == 1 || originals > 100 && totals.iter().all(|&total| total > 100),
        "{originals} {totals:?}"
    );
}

/// Four ranks, 2,000 packets of 1 KiB at 1 Gbit/s.
pub(crate) fn gigabit(conditions: Conditions) -> Plan {
    Plan {
        ranks: 4,
        payload: 8,
        in_flight: 128,
        spread: 512,
        first_psn: 0,
        operations: vec![Operation::i32_sum(4_000)],
        start: Duration::from_secs(1),
        pause: Duration::ZERO,
        deadline: Duration::from_secs(10),
        linger: Duration::from_millis(500),
        conditions,
        threshold: None,
        accept_partial: false,
        upsets: Vec::new(),
    }
}

fn slowest(plan: &Plan, seed: u64) -> (Duration, u64) {
    let outcomes = run(plan, seed).ranks;
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

/// One packet in a hundred is lost on each leg: of 2,000 PSNs, about 80 lack a contribution and 80 results
/// are lost. While the flow goes on, that costs its share of the line; at the end, a few timeouts of a round
/// trip and 1 ms, and 128 packets take 1.1 ms here. Five such timeouts are a third of the lossless time.
#[test]
fn one_percent_loss_costs_little_time() {
    let (lossless, _) = slowest(&gigabit(Conditions::IDEAL), 0);
    for seed in 0..6 {
        let (lossy, retransmissions) =
            slowest(&gigabit(Conditions { loss: 0.01, ..Conditions::IDEAL }), seed);
        assert!(lossy < lossless * 4 / 3, "seed {seed}: {lossy:?}, lossless {lossless:?}");
        // All four ranks resend what one has lost, so about 4 × 80 + 80; twice that would be resending
        // without reason.
        assert!(retransmissions < 800, "seed {seed}: {retransmissions}");
    }
}

/// While one rank computes, the others probe; they do not resend their windows, neither then nor when it goes
/// on.
#[test]
fn a_late_rank_costs_probes_only() {
    let plan = Plan {
        pause: Duration::from_millis(500),
        operations: vec![Operation::i32_sum(4_000); 3],
        ..gigabit(Conditions::IDEAL)
    };
    for seed in 0..4 {
        for outcome in run(&plan, seed).ranks {
            let resent = outcome.counters.retransmissions;
            assert!(resent < 40, "seed {seed}: {resent} of 6,000");
        }
    }
}

#[test]
fn every_type_and_operation_goes_through_the_aggregator() {
    for Element { dtype, op } in Element::all().filter(|element| !element.dtype.is_block()) {
        let conditions = Conditions { loss: 0.02, forget_result: 0.2, server: 0.5, ..Conditions::IDEAL };
        // The last packet is not full.
        let operations = vec![Operation { elements: 401, dtype, op, call: Call::Allreduce }; 2];
        let plan = Plan { operations, ranks: 5, linger: Duration::from_secs(5), ..gigabit(conditions) };
        for (rank, outcome) in run(&plan, 1).ranks.iter().enumerate() {
            assert_eq!((outcome.failures.len(), outcome.verified), (0, 2), "{dtype:?} {op:?}, rank {rank}");
        }
    }
}

/// Four of five contributions complete a PSN, and rank 4 never contributes.
#[test]
fn partial_results_say_who_is_missing() {
    let operation = |op| Operation { elements: 999, dtype: DType::F32, op, call: Call::Allreduce };
    let conditions = Conditions { loss: 0.02, ..Conditions::IDEAL };
    let plan = Plan {
        ranks: 5,
        operations: OPS.map(operation).to_vec(),
        threshold: Some(4),
        accept_partial: true,
        upsets: vec![(Duration::from_millis(500), Upset::Kill { rank: 4 })],
        ..gigabit(conditions)
    };
    let end = run(&plan, 1);
    for outcome in &end.ranks[..4] {
        assert_eq!(outcome.verified, 4);
        for partial in &outcome.partial {
            let partial = partial.expect("rank 4 is missing");
            assert_eq!((partial.results, partial.least_count), (500, 4));
            assert_eq!(partial.missing.to_string(), "4");
        }
    }
}
