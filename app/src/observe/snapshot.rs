//! What the page and `pascaline top` show: one JSON object, at `/api/v1/snapshot`.
//!
//! Totals count since the appliance has started. Rates are of the time between two samples,
//! `interval_seconds`. Lists are bounded, whatever the number of jobs and ranks; where one is cut, the number
//! of all is beside it.

mod inputs;
mod jobs;
mod sample;
mod state_name;
#[cfg(test)]
mod tests;

use pascaline_pipelines::membership::JobState;
use serde::{Deserialize, Serialize};

pub(crate) use self::inputs::{Inputs, JobInput};
pub(crate) use self::sample::Sampler;

/// Jobs that a snapshot has: those with the most traffic since the last sample, then the ones with the lower
/// numbers.
pub(crate) const JOBS: usize = 64;
/// Ranks that it has of a job: those that are furthest behind.
pub(crate) const RANKS: usize = 64;

/// The appliance at one moment.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Snapshot {
    /// Of the program.
    pub(crate) version: String,
    /// Of the appliance, from its configuration.
    pub(crate) name: String,
    /// Seconds since 1970.
    pub(crate) unix_seconds: f64,
    /// Seconds since the start.
    pub(crate) uptime_seconds: f64,
    /// What the rates are of; 0 in the first sample, which has none.
    pub(crate) interval_seconds: f64,
    /// False once it is ending.
    pub(crate) healthy: bool,
    pub(crate) traffic: Traffic,
    pub(crate) jobs: Vec<Job>,
    /// How many there are in all.
    pub(crate) jobs_total: usize,
    pub(crate) pool: Pool,
    /// Reasons for which anything was dropped, the most frequent first.
    pub(crate) drops: Vec<Drop>,
    pub(crate) lcores: Vec<Lcore>,
    pub(crate) times: Times,
    pub(crate) ports: Vec<Port>,
    pub(crate) buffers: Vec<Buffers>,
    /// The parameter server's counters and gauges, as in the metrics; empty if there is none in the
    /// appliance.
    pub(crate) server: Vec<Series>,
    /// OlafQueue and Age-of-Model, as in the metrics; empty if there are none.
    pub(crate) olaf: Vec<Series>,
    pub(crate) config: Configuration,
}

/// What came in and what went out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) received: Flow,
    pub(crate) sent: Flow,
    /// Payloads of contributions.
    pub(crate) contributions: Flow,
    /// Payloads of results, each counted once, however many ranks it went to.
    pub(crate) results: Flow,
    /// Bytes of contributions for each byte of results, since the last sample; while nothing flows, since the
    /// start.
    pub(crate) reduction: Option<f64>,
    pub(crate) forwarded_packets: u64,
    pub(crate) absorbed_packets: u64,
    pub(crate) answered_packets: u64,
    pub(crate) dropped_packets: u64,
    /// Received and in none of the four above. Small for a moment while packets are between lcores.
    pub(crate) unaccounted_packets: i64,
}

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Flow {
    pub(crate) packets: u64,
    pub(crate) bytes: u64,
    pub(crate) packets_per_second: f64,
    pub(crate) bytes_per_second: f64,
}

/// A job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) id: u16,
    /// From the configuration; empty for jobs that were formed by Joins.
    pub(crate) name: String,
    #[serde(with = "state_name")]
    pub(crate) state: JobState,
    pub(crate) ranks: u16,
    pub(crate) joined: u16,
    pub(crate) lost: u16,
    /// Contributions that complete a result.
    pub(crate) needed: u16,
    pub(crate) epoch: u16,
    pub(crate) contributions: Flow,
    pub(crate) results: Flow,
    /// Mean time from the first to the last contribution of a result, in seconds, since the last sample.
    pub(crate) waited_seconds: f64,
    /// The PSN of the rank that is ahead.
    pub(crate) front: Option<u32>,
    /// How many PSNs the last rank is behind it.
    pub(crate) behind: u32,
    /// Whom the others have waited for, for a tenth of a second or longer.
    pub(crate) straggler: Option<u16>,
    /// The ranks, in order; if there are more than 64, those that are furthest behind.
    pub(crate) progress: Vec<Rank>,
    /// What happened beside it, by the names of the metrics; only what did.
    pub(crate) events: Vec<(String, u64)>,
    /// Its packets that were dropped, by reason.
    pub(crate) drops: Vec<(String, u64)>,
    pub(crate) told: Explained,
    /// Age-of-Model: seconds since the newest update was generated that the job's server has answered; none
    /// without answers, and of jobs that are not asynchronous.
    pub(crate) model_age_seconds: Option<f64>,
}

/// Whether a job is aggregated here, and if not, why: what `pascaline explain` says.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Explained {
    /// `yes`, `partly`, `no`; `nothing`: there has been nothing to aggregate; `updates`: the job is
    /// asynchronous.
    pub(crate) aggregated: String,
    /// Share of the bytes that went into results made here, from 0 to 1; none where there were none.
    pub(crate) share: Option<f64>,
    /// In plain words.
    pub(crate) summary: String,
    /// The most important first.
    pub(crate) reasons: Vec<Reason>,
    /// Where its sums go, if they go to another appliance.
    #[serde(default)]
    pub(crate) parent: Option<String>,
}

/// Why not all of a job is aggregated here, or not faster.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Reason {
    /// For programs.
    pub(crate) kind: String,
    /// In plain words.
    pub(crate) text: String,
    /// What can be done about it.
    pub(crate) remedy: String,
}

/// A rank of a job.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Rank {
    pub(crate) rank: u16,
    pub(crate) contributions: u64,
    /// Of these, what had been sent before.
    pub(crate) again: u32,
    pub(crate) bytes_per_second: f64,
    /// Of its latest contribution; none if there has been none.
    pub(crate) psn: Option<u32>,
    /// PSNs behind the rank that is ahead.
    pub(crate) behind: u32,
    /// Seconds since its latest contribution; none if there has been none.
    pub(crate) silent_seconds: Option<f64>,
    /// Share of the results since the last sample whose last contribution was this rank's; while there are
    /// none, since the start.
    pub(crate) last_share: f64,
}

/// The aggregator pool.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Pool {
    pub(crate) slots: usize,
    /// Slots with a partial.
    pub(crate) open: u64,
    /// Slots with a kept result.
    pub(crate) done: u64,
    pub(crate) bytes: usize,
    /// Counters of the pool, by the names of the metrics: total, and per second.
    pub(crate) counters: Vec<(String, u64, f64)>,
    /// Age of the oldest partial that lcores came across on their last round, in seconds.
    pub(crate) oldest_seconds: f64,
    /// Slots that one cell of the map stands for.
    pub(crate) slots_per_cell: usize,
    /// By cell, from the first slot to the last: slots with a partial, slots with a kept result, as the
    /// lcores found them when they last came by.
    pub(crate) cells: Vec<(u32, u32)>,
}

/// Packets dropped for a reason.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Drop {
    pub(crate) reason: String,
    pub(crate) meaning: String,
    pub(crate) packets: u64,
    pub(crate) packets_per_second: f64,
}

/// How an lcore is loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Lcore {
    pub(crate) lcore: usize,
    /// Share of the time spent on packets, 0 to 1.
    pub(crate) busy: f64,
    pub(crate) packets_per_second: f64,
    pub(crate) empty_polls_per_second: f64,
    /// Mean of the polls that found any.
    pub(crate) burst_packets: f64,
}

/// Quantiles of times since the last sample, in seconds; while nothing flows, since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// From a packet's reception to the end of the turn that dealt with it.
    pub(crate) service: Quantiles,
    /// From the first to the last contribution of a PSN.
    pub(crate) spread: Quantiles,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Quantiles {
    pub(crate) p50: f64,
    pub(crate) p90: f64,
    pub(crate) p99: f64,
    pub(crate) p999: f64,
}

/// A port, by the device's own counters.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Port {
    pub(crate) name: String,
    pub(crate) up: bool,
    /// In a word or two: `up`, `no link`, `missing` and so on.
    #[serde(default)]
    pub(crate) state: String,
    /// What is wrong with it, if nothing can pass it.
    #[serde(default)]
    pub(crate) trouble: Option<String>,
    pub(crate) received: Flow,
    pub(crate) sent: Flow,
    /// Lost because the receive ring was full.
    pub(crate) missed_packets: u64,
    pub(crate) receive_errors: u64,
    pub(crate) send_errors: u64,
}

/// DPDK's packet memory.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Buffers {
    pub(crate) pool: String,
    pub(crate) used: usize,
    pub(crate) capacity: usize,
}

/// A metric that is shown as it is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Series {
    /// Without `pascaline_`, and without `_total`.
    pub(crate) name: String,
    pub(crate) labels: Vec<(String, String)>,
    pub(crate) value: f64,
}

/// The configuration in force.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Configuration {
    pub(crate) file: String,
    /// What it amounts to: name and value.
    pub(crate) facts: Vec<(String, String)>,
    /// As `pascaline check` says it, a line each.
    pub(crate) summary: Vec<String>,
}
