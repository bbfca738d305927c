//! The comparison as one JSON object.

use serde_json::{Value, json};

use crate::experiments::policies::{Best, Comparison, Experiment, Fact, HEADERS, Row};

fn cell(row: &Row) -> Value {
    let setting = &row.setting;
    json!({
        "part": row.part.name(),
        "jobs": setting.jobs,
        "workers": setting.ranks,
        "models": setting.mix.name(),
        "payload": setting.payload,
        "packet_bytes": u64::from(setting.payload) + HEADERS,
        "pool_bytes": setting.memory,
        "slots": setting.slots(),
        "host_jitter_us": setting.poll_us,
        "policy": setting.policy.name(),
        "results_at": setting.results_at.name(),
        "ways": setting.ways,
        "completion_ms": row.completion_ms.median,
        "completion_ms_min": row.completion_ms.min,
        "completion_ms_max": row.completion_ms.max,
        // Divided by that of the best choice in the same setting.
        "times_best": row.relative,
        "utilisation": row.utilisation,
        "ps_packets": row.ps_packets,
        "preemptions": row.preemptions,
        "pool_completions": row.pool_completions,
        "ps_completions": row.ps_completions,
        "refused": row.refused,
        "retransmissions": row.retransmissions,
        "verified": row.verified,
        "expected": expected(row),
    })
}

fn expected(row: &Row) -> u64 {
    u64::from(row.runs) * row.setting.results()
}

/// Times are the geometric mean, and the worst, over all settings.
fn ranked(all: &[Best]) -> Value {
    let one = |best: &Best| {
        json!({
            "policy": best.choice.policy.name(),
            "results_at": best.choice.results_at.name(),
            "ways": best.choice.ways,
            "times_best": best.mean,
            "times_best_worst": best.worst,
        })
    };
    all.iter().map(one).collect()
}

/// `paper` is null where the text has no number, `over_the` unless the figure is over the number of jobs or
/// workers.
fn paper_factor((fact, [here, here_4_ways]): &(Fact, [Option<f64>; 2])) -> Value {
    json!({
        "figure": fact.figure,
        "models": fact.mix.name(),
        "measure": fact.measure.name(),
        "of": fact.of.policy.name(),
        "over": fact.over.policy.name(),
        "paper": fact.factor,
        "over_the": fact.sweep.name(),
        "here": here,
        "here_4_ways": here_4_ways,
    })
}

pub(super) fn report(experiment: &Experiment, comparison: &Comparison) -> Value {
    let paper = super::paper(experiment);
    let (starts_ms, stragglers_ms) = paper.chance_ms();
    json!({
        "seed": experiment.seed,
        "runs": experiment.runs,
        "scale": experiment.scale,
        "loss_ppm": experiment.loss,
        // For all cells without their own.
        "setting": {
            "gbps": paper.gbps,
            "header_bytes": HEADERS,
            "in_flight": paper.in_flight,
            "spread": paper.spread,
            "host_jitter_us": paper.poll_us,
            // Between two hosts of an idle network.
            "round_trip_us": paper.round_trip_us(),
            // Jobs begin within this time.
            "starts_ms": starts_ms,
            // A worker's gradients are ready at most this long after the first one's.
            "stragglers_ms": stragglers_ms,
            "element": "i32 sum",
        },
        "cells": comparison.rows.iter().map(cell).collect::<Value>(),
        // With the papers' pool, the best first, and with one that is too small for all windows.
        "ranking": ranked(&comparison.ranking),
        "ranking_scarce": ranked(&comparison.scarce),
        "paper": comparison.facts.iter().map(paper_factor).collect::<Value>(),
        // Results that workers received; each was checked to hold each rank's contribution once.
        "verified": comparison.rows.iter().map(|row| row.verified).sum::<u64>(),
        "expected": comparison.rows.iter().map(expected).sum::<u64>(),
        // The command fails at the first one.
        "violations": 0,
    })
}
