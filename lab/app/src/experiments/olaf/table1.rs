//! Olaf's microbenchmark (section 8.1): Table 1, Figure 6, and the average Age-of-Model.

#[cfg(test)]
mod tests;

use core::time::Duration;

use pascaline_buffer::HeapPool;
use pascaline_queue::{Config, ConfigError, Discipline, Update};
use pascaline_sim::random::mix;
use serde::Serialize;

use super::{Age, Arrival, Arrivals, Bottleneck, Hold, SECOND, Workload};

/// Section 8.1: 27 workers send 500 packets of 2,048 bits each, 60 Gbit/s in all. The line is that of the
/// testbed's ports.
const WORKLOAD: Workload =
    Workload { workers: 27, updates: 500, bits: 2048, offered_gbps: 60, line_gbps: 100 };
const CLUSTERS: u16 = 9;
const SEGMENTS: u16 = 8;
/// The output rates of Table 1 and Figure 6.
const OUT_GBPS: [u32; 3] = [40, 20, 5];
/// Headers within the 256 bytes: untagged Ethernet, IPv4, UDP and aggregation.
const HEADERS: u16 = 64;

/// The experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Table1 {
    /// Seed of everything.
    pub(crate) seed: u64,
    /// Runs to average; the paper has 30. At least 1.
    pub(crate) runs: u32,
}

/// A row as printed in the paper.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Paper {
    /// Rate of the output.
    pub(crate) out_gbps: u32,
    /// Updates received at the parameter server, first in, first out.
    pub(crate) fifo_received: u32,
    /// Updates lost, percent.
    pub(crate) fifo_lost_pct: f64,
    /// Updates received with Olaf.
    pub(crate) olaf_received: u32,
    /// Updates that became part of another.
    pub(crate) olaf_aggregated: u32,
    /// Updates lost with Olaf, percent.
    pub(crate) olaf_lost_pct: f64,
    /// Reduction of the average age by Olaf, percent.
    pub(crate) aom_reduction_pct: f64,
}

/// Table 1, and the reductions of the average age of section 8.1.
pub(crate) const PAPER: [Paper; 2] = [
    Paper {
        out_gbps: 40,
        fifo_received: 6109,
        fifo_lost_pct: 55.8,
        olaf_received: 4823,
        olaf_aggregated: 7204,
        olaf_lost_pct: 11.0,
        aom_reduction_pct: 69.0,
    },
    Paper {
        out_gbps: 20,
        fifo_received: 3476,
        fifo_lost_pct: 74.3,
        olaf_received: 2604,
        olaf_aggregated: 9343,
        olaf_lost_pct: 11.5,
        aom_reduction_pct: 78.0,
    },
];

/// First in, first out: means over all runs.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub(crate) struct Fifo {
    /// Updates received at the parameter server.
    pub(crate) received: f64,
    /// Updates lost, percent of those sent.
    pub(crate) lost_pct: f64,
    /// Average age of a cluster's newest update, in milliseconds.
    pub(crate) aom_ms: f64,
    /// Average age of a *worker's* newest update, in milliseconds.
    pub(crate) worker_aom_ms: f64,
}

/// Olaf: means over all runs.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Olaf {
    /// Updates received at the parameter server.
    pub(crate) received: f64,
    /// Updates that became part of another or were replaced by a newer one of their worker.
    pub(crate) aggregated: f64,
    /// The replaced ones among them.
    pub(crate) replaced: f64,
    /// Updates lost, percent of those sent.
    pub(crate) lost_pct: f64,
    /// Average age of a cluster's newest update, in milliseconds.
    pub(crate) aom_ms: f64,
    /// Figure 6: share of outgoing updates with at most 0, 1, 2, … aggregations; ends with 1.
    #[serde(skip)]
    pub(crate) aggregations_cdf: Vec<f64>,
}

/// A row: both queues with the same arrivals.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    /// How updates arrived.
    pub(crate) arrivals: Arrivals,
    /// Rate of the output.
    pub(crate) out_gbps: u32,
    /// First in, first out.
    pub(crate) fifo: Fifo,
    /// Olaf.
    pub(crate) olaf: Olaf,
}

impl Row {
    /// Reduction of a cluster's average age against FIFO, percent.
    #[must_use]
    pub(crate) fn aom_reduction_pct(&self) -> f64 {
        reduction_pct(self.fifo.aom_ms, self.olaf.aom_ms)
    }

    /// Reduction of a cluster's average age against a worker's under FIFO, percent.
    #[must_use]
    pub(crate) fn worker_aom_reduction_pct(&self) -> f64 {
        reduction_pct(self.fifo.worker_aom_ms, self.olaf.aom_ms)
    }

    /// The paper's row for this rate.
    #[must_use]
    pub(crate) fn paper(&self) -> Option<&'static Paper> {
        PAPER.iter().find(|paper| paper.out_gbps == self.out_gbps)
    }
}

fn reduction_pct(from: f64, to: f64) -> f64 {
    if from > 0.0 { 100.0 * (1.0 - to / from) } else { 0.0 }
}

/// One run of one queue.
struct Run {
    received: u64,
    replaced: u64,
    aggregated: u64,
    lost: u64,
    aom_ms: f64,
    worker_aom_ms: f64,
    /// Outgoing updates by their number of aggregations.
    aggregations: Vec<u64>,
}

impl Table1 {
    /// A row for each output rate, with segments freed as in an appliance.
    ///
    /// # Errors
    /// [`ConfigError`]: not to be expected.
    pub(crate) fn rows(&self, arrivals: Arrivals) -> Result<Vec<Row>, ConfigError> {
        self.rows_holding(arrivals, Hold::UntilBegun)
    }

    /// A row for each output rate.
    ///
    /// # Errors
    /// [`ConfigError`]: not to be expected.
    pub(crate) fn rows_holding(&self, arrivals: Arrivals, hold: Hold) -> Result<Vec<Row>, ConfigError> {
        let runs: Vec<_> = (0..self.runs.max(1))
            .map(|number| arrivals.draw(&WORKLOAD, mix(self.seed).wrapping_add(u64::from(number))))
            .collect();
        OUT_GBPS.iter().map(|out| row(arrivals, *out, hold, &runs)).collect()
    }
}

fn row(arrivals: Arrivals, out_gbps: u32, hold: Hold, runs: &[Vec<Arrival>]) -> Result<Row, ConfigError> {
    let (mut fifo, mut olaf) = (Fifo::default(), Olaf::default());
    let mut histogram: Vec<u64> = Vec::new();
    #[expect(clippy::cast_precision_loss, reason = "dozens")]
    let share = 1.0 / runs.len() as f64;
    #[expect(clippy::cast_precision_loss, reason = "thousands")]
    let mean = |count: u64| count as f64 * share;
    let sent = f64::from(WORKLOAD.workers) * f64::from(WORKLOAD.updates);
    for arrivals in runs {
        let one = run(Discipline::Fifo, arrivals, out_gbps, hold)?;
        fifo.received += mean(one.received);
        fifo.lost_pct += mean(one.lost) * 100.0 / sent;
        fifo.aom_ms += one.aom_ms * share;
        fifo.worker_aom_ms += one.worker_aom_ms * share;
        let one = run(Discipline::Olaf, arrivals, out_gbps, hold)?;
        olaf.received += mean(one.received);
        olaf.aggregated += mean(one.aggregated + one.replaced);
        olaf.replaced += mean(one.replaced);
        olaf.lost_pct += mean(one.lost) * 100.0 / sent;
        olaf.aom_ms += one.aom_ms * share;
        histogram.resize(histogram.len().max(one.aggregations.len()), 0);
        histogram.iter_mut().zip(&one.aggregations).for_each(|(all, more)| *all += more);
    }
    let total: u64 = histogram.iter().sum();
    let mut so_far = 0;
    olaf.aggregations_cdf = histogram
        .iter()
        .map(|count| {
            so_far += count;
            #[expect(clippy::cast_precision_loss, reason = "at most millions")]
            let share = so_far as f64 / total as f64;
            share
        })
        .collect();
    Ok(Row { arrivals, out_gbps, fifo, olaf })
}

fn run(discipline: Discipline, arrivals: &[Arrival], out_gbps: u32, hold: Hold) -> Result<Run, ConfigError> {
    let config = Config {
        discipline,
        segments: SEGMENTS,
        clusters: u32::from(CLUSTERS),
        // Ticks as everywhere here; not used.
        activity: Duration::from_millis(1),
        ..Config::default()
    };
    let bytes = vec![0; WORKLOAD.bits as usize / 8];
    let pool = HeapPool::new();
    let mut bottleneck = Bottleneck::new(&config, out_gbps, hold)?;
    let mut clusters = vec![Age::default(); usize::from(CLUSTERS)];
    let mut workers = vec![Age::default(); usize::from(WORKLOAD.workers)];
    let mut aggregations = Vec::new();
    let mut coming = arrivals.iter().peekable();
    loop {
        let sent = bottleneck.next();
        // At equal times departures come first.
        if let Some(now) = sent
            && coming.peek().is_none_or(|arrival| now <= arrival.at)
        {
            if let Some(departure) = bottleneck.finish(now) {
                let (update, merged) = (departure.update, departure.aggregations as usize);
                clusters[update.cluster as usize].receive(now, update.generated_ns);
                workers[usize::from(update.worker)].receive(now, update.generated_ns);
                aggregations.resize(aggregations.len().max(merged + 1), 0);
                aggregations[merged] += 1;
            }
        } else if let Some(arrival) = coming.next() {
            let _ = bottleneck.offer(arrival.at, update(arrival, &config), pool.alloc(&bytes, bytes.len()));
        } else {
            break;
        }
    }
    // An age after the last arrival would only measure how long the run lasts.
    let until = arrivals.last().map_or(0, |arrival| arrival.at);
    let counters = bottleneck.queue().counters();
    Ok(Run {
        received: counters.departed.updates,
        replaced: counters.superseded.updates,
        aggregated: counters.aggregated.updates,
        lost: counters.full.updates,
        aom_ms: mean_ms(clusters, until),
        worker_aom_ms: mean_ms(workers, until),
        aggregations,
    })
}

fn update(arrival: &Arrival, config: &Config) -> Update {
    let len = u16::try_from(WORKLOAD.bits / 8).unwrap_or(config.segment_len) - HEADERS;
    let (cluster, worker) = (arrival.worker / (WORKLOAD.workers / CLUSTERS), arrival.worker);
    Update { offset: HEADERS, ..Update::new(cluster.into(), worker, arrival.at, len) }
}

fn mean_ms(ages: Vec<Age>, until: u64) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a power of ten, and dozens")]
    let (per_ms, all) = (SECOND as f64 / 1000.0, ages.len() as f64);
    ages.into_iter().map(|age| age.average(until) / per_ms).sum::<f64>() / all
}
