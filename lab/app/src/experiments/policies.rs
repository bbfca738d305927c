//! The pool's policies in virtual time, compared as in DSA's simulation (section VII.B).
//!
//! Eight jobs of eight workers contend for one pool; each trains one iteration of a model of two layers, with
//! stragglers. Pool, parameter server and the workers' windows, recovery and priorities are the real code.
//! Hosts, lines and the clock, which counts picoseconds, are simulated.
//!
//! **Payloads.** Each packet carries eight bytes, so that a run costs little; times and slots follow the
//! modelled size. The bytes are integers whose sum shows each rank's contribution: every result that a worker
//! receives is checked to hold each rank exactly once.

mod experiment;
mod ledger;
mod line;
mod outcome;
mod paper;
mod payload;
mod run;
mod server;
mod setting;
mod switch;
#[cfg(test)]
mod tests;
mod worker;

pub(crate) use experiment::{Best, Comparison, Experiment, Part, Row};
pub(crate) use ledger::{Case, Repair, Role, Task};
pub(crate) use paper::{Fact, Measure, SIDES, Side};
pub(crate) use payload::Payload;
pub(crate) use run::{run, watched};
pub(crate) use setting::{HEADERS, Lossy, Mix, ResultsAt, Setting};

/// The figures of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Run {
    /// The setting.
    pub(crate) setting: Setting,
    /// Milliseconds from a job's start to the end of its last worker's iteration, forward pass included; the
    /// mean over all jobs.
    pub(crate) completion_ms: f64,
    /// Use of the pool's memory as DSA defines it: aggregation throughput over link capacity (section VII.C).
    /// The additions of a PSN count divided by one less than its ranks, from a job's first packet to its last
    /// result; the mean over all jobs.
    pub(crate) utilisation: f64,
    /// Packets from the appliance to the servers.
    pub(crate) ps_packets: u64,
    /// Partials evicted by a newcomer.
    pub(crate) preemptions: u64,
    /// PSNs completed in the pool; each completion counts.
    pub(crate) pool_completions: u64,
    /// PSNs that servers completed from more than one piece.
    pub(crate) ps_completions: u64,
    /// Packets that the pool rejected and no server took: duplicates, and losers of a conflict without a
    /// server.
    pub(crate) refused: u64,
    /// Contributions sent again.
    pub(crate) retransmissions: u64,
    /// Exact results that workers received, each PSN once.
    pub(crate) verified: u64,
}

/// A violated invariant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    /// A result is not the sum of one contribution of each rank.
    #[error("job {job}: rank {rank} got {got:?} for PSN {psn}, not {expected:?}")]
    Sum { job: u16, rank: u16, psn: u32, expected: Payload, got: Payload },
    /// A worker waits forever.
    #[error("job {job}: rank {rank} still waits for PSN {psn}; the last event was after {after_us} us")]
    Stalled { job: u16, rank: u16, psn: u32, after_us: u64 },
    /// The number of workers' results is not that of PSNs.
    #[error("{got} of {expected} results were received")]
    Results { expected: u64, got: u64 },
    /// Packets were not returned.
    #[error("{packets} packets are lost in the pool")]
    Leak { packets: usize },
    /// The pool did not report a packet's outcome, or reported it twice.
    #[error("the pool was offered {offered} packets, but accounted for {answered}")]
    Unaccounted { offered: u64, answered: u64 },
    /// Packets still circulate after every worker has finished.
    #[error("packets still circulate long after the last result")]
    Restless,
    /// The pool's configuration is impossible.
    #[error(transparent)]
    Pool(#[from] pascaline_aggregator::PoolConfigError),
    /// The job's settings are impossible.
    #[error(transparent)]
    Job(#[from] pascaline_ps::SetJobError),
}
