//! The comparison as one JSON object.

use crate::experiments::policies::{Best, Comparison, Experiment, Fact, HEADERS, Row};
use serde::Serialize;

#[derive(Debug, Serialize)]
pub(super) struct Report {
    seed: u64,
    runs: u32,
    scale: u32,
    loss_ppm: u32,
    /// Settings of all cells that do not say otherwise.
    setting: Common,
    cells: Vec<Cell>,
    /// With the papers' pool, the best first.
    ranking: Vec<Ranked>,
    /// With a pool that is too small for all windows.
    ranking_scarce: Vec<Ranked>,
    paper: Vec<PaperFactor>,
    /// Results that workers received; each was checked to hold each rank's contribution once.
    verified: u64,
    expected: u64,
    /// Always 0: the command fails at the first one.
    violations: u32,
}

#[derive(Debug, Serialize)]
struct Common {
    gbps: u32,
    header_bytes: u64,
    in_flight: u16,
    spread: u16,
    host_jitter_us: u32,
    /// Between two hosts of an idle network.
    round_trip_us: u64,
    /// Jobs begin within this time.
    starts_ms: f64,
    /// A worker's gradients are ready at most this long after the first one's.
    stragglers_ms: f64,
    element: &'static str,
}

#[derive(Debug, Serialize)]
struct Cell {
    part: &'static str,
    jobs: u16,
    workers: u16,
    models: &'static str,
    payload: u16,
    packet_bytes: u64,
    pool_bytes: usize,
    slots: usize,
    host_jitter_us: u32,
    policy: &'static str,
    results_at: &'static str,
    ways: usize,
    completion_ms: f64,
    completion_ms_min: f64,
    completion_ms_max: f64,
    /// Divided by that of the best choice in the same setting.
    times_best: f64,
    utilisation: f64,
    ps_packets: f64,
    preemptions: f64,
    pool_completions: f64,
    ps_completions: f64,
    refused: f64,
    retransmissions: f64,
    verified: u64,
    expected: u64,
}

#[derive(Debug, Serialize)]
struct Ranked {
    policy: &'static str,
    results_at: &'static str,
    ways: usize,
    /// Geometric mean over all settings.
    times_best: f64,
    times_best_worst: f64,
}

#[derive(Debug, Serialize)]
struct PaperFactor {
    figure: u8,
    models: &'static str,
    measure: &'static str,
    of: &'static str,
    over: &'static str,
    /// Null where the text has no number.
    paper: Option<f64>,
    /// The axis, if the figure is over the number of jobs or workers.
    over_the: Option<&'static str>,
    here: Option<f64>,
    here_4_ways: Option<f64>,
}

impl From<&Row> for Cell {
    fn from(row: &Row) -> Self {
        let setting = &row.setting;
        Self {
            part: row.part.name(),
            jobs: setting.jobs,
            workers: setting.ranks,
            models: setting.mix.name(),
            payload: setting.payload,
            packet_bytes: u64::from(setting.payload) + HEADERS,
            pool_bytes: setting.memory,
            slots: setting.slots(),
            host_jitter_us: setting.poll_us,
            policy: setting.policy.name(),
            results_at: setting.results_at.name(),
            ways: setting.ways,
            completion_ms: row.completion_ms.median,
            completion_ms_min: row.completion_ms.min,
            completion_ms_max: row.completion_ms.max,
            times_best: row.relative,
            utilisation: row.utilisation,
            ps_packets: row.ps_packets,
            preemptions: row.preemptions,
            pool_completions: row.pool_completions,
            ps_completions: row.ps_completions,
            refused: row.refused,
            retransmissions: row.retransmissions,
            verified: row.verified,
            expected: u64::from(row.runs) * setting.results(),
        }
    }
}

impl From<&Best> for Ranked {
    fn from(best: &Best) -> Self {
        Self {
            policy: best.choice.policy.name(),
            results_at: best.choice.results_at.name(),
            ways: best.choice.ways,
            times_best: best.mean,
            times_best_worst: best.worst,
        }
    }
}

impl From<&(Fact, [Option<f64>; 2])> for PaperFactor {
    fn from((fact, [here, here_4_ways]): &(Fact, [Option<f64>; 2])) -> Self {
        Self {
            figure: fact.figure,
            models: fact.mix.name(),
            measure: fact.measure.name(),
            of: fact.of.policy.name(),
            over: fact.over.policy.name(),
            paper: fact.factor,
            over_the: fact.sweep.name(),
            here: *here,
            here_4_ways: *here_4_ways,
        }
    }
}

pub(super) fn report(experiment: &Experiment, comparison: &Comparison) -> Report {
    let paper = super::paper(experiment);
    let (starts_ms, stragglers_ms) = paper.chance_ms();
    let cells: Vec<Cell> = comparison.rows.iter().map(Cell::from).collect();
    Report {
        seed: experiment.seed,
        runs: experiment.runs,
        scale: experiment.scale,
        loss_ppm: experiment.loss,
        setting: Common {
            gbps: paper.gbps,
            header_bytes: HEADERS,
            in_flight: paper.in_flight,
            spread: paper.spread,
            host_jitter_us: paper.poll_us,
            round_trip_us: paper.round_trip_us(),
            starts_ms,
            stragglers_ms,
            element: "i32 sum",
        },
        ranking: comparison.ranking.iter().map(Ranked::from).collect(),
        ranking_scarce: comparison.scarce.iter().map(Ranked::from).collect(),
        paper: comparison.facts.iter().map(PaperFactor::from).collect(),
        verified: cells.iter().map(|cell| cell.verified).sum(),
        expected: cells.iter().map(|cell| cell.expected).sum(),
        violations: 0,
        cells,
    }
}
