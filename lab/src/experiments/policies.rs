//! The pool's policies compared in virtual time, as DSA's simulation compares them (section VII.B).
//!
//! Eight jobs of eight workers contend for one pool: each trains one iteration of a model of two layers, with
//! stragglers. The pool is `pascaline-aggregator`'s, the server of each job is `pascaline-ps`'s state
//! machine, windows, loss recovery and priorities of the workers are `pascaline-worker`'s. Simulated are the
//! hosts around them, the lines, and the clock, which counts picoseconds.
//!
//! **Payloads.** Each packet carries eight bytes, so that a run costs little; times and the number of slots
//! follow the size that is modelled. The eight bytes are integers whose sum shows each rank's contribution,
//! so that every result that any worker receives is checked to have each rank exactly once.

mod agenda;
mod experiment;
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
pub(crate) use paper::Fact;
pub(crate) use payload::Payload;
pub(crate) use run::run;
pub(crate) use setting::{HEADERS, Setting};

/// What one run has shown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Run {
    /// The setting.
    pub(crate) setting: Setting,
    /// Milliseconds from a job's begin to the end of its last worker's iteration, forward pass included; the
    /// mean over all jobs.
    pub(crate) completion_ms: f64,
    /// Share of the line rate at which contributions were added in the pool: DSA's definition of memory
    /// utilisation (section VII.C: aggregation throughput over link capacity), with the additions of a PSN
    /// divided by one less than its ranks, from a job's first packet to its last result; the mean over all
    /// jobs.
    pub(crate) utilisation: f64,
    /// Packets from the appliance to the servers.
    pub(crate) ps_packets: u64,
    /// Partials that lost their slot to a newcomer.
    pub(crate) preemptions: u64,
    /// PSNs completed in the pool; one that is completed again counts again.
    pub(crate) pool_completions: u64,
    /// PSNs completed at the servers from more than one piece.
    pub(crate) ps_completions: u64,
    /// Packets refused by the pool that no server took: duplicates, and losers of a conflict where there is
    /// no server.
    pub(crate) refused: u64,
    /// Contributions sent again.
    pub(crate) retransmissions: u64,
    /// Results received by workers, each PSN once, all of them found exact.
    pub(crate) verified: u64,
}

/// What must never be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    /// A result is not the sum of one contribution of each rank.
    #[error("job {job}: rank {rank} got {got:?} for PSN {psn}, not {expected:?}")]
    Sum {
        /// The job.
        job: u16,
        /// The rank that received it.
        rank: u16,
        /// The PSN.
        psn: u32,
        /// The sum of all ranks' contributions.
        expected: Payload,
        /// What was received.
        got: Payload,
    },
    /// A worker waits for ever.
    #[error("job {job}: rank {rank} still waits for PSN {psn}; the last event was after {after_us} us")]
    Stalled {
        /// The job.
        job: u16,
        /// The rank.
        rank: u16,
        /// The PSN.
        psn: u32,
        /// Microseconds of virtual time.
        after_us: u64,
    },
    /// Workers have more or fewer results than there are PSNs.
    #[error("{got} results were received of {expected}")]
    Results {
        /// PSNs times ranks.
        expected: u64,
        /// Results.
        got: u64,
    },
    /// Packets have not come back.
    #[error("{packets} packets are lost in the pool")]
    Leak {
        /// How many.
        packets: usize,
    },
    /// Of some packets the pool has not said what became of them, or has said it twice.
    #[error("the pool was offered {offered} packets, and has said of {answered} what became of them")]
    Unaccounted {
        /// Packets given to the pool.
        offered: u64,
        /// What it has said.
        answered: u64,
    },
    /// Packets still go round, though every worker has finished.
    #[error("packets still go round long after the last result")]
    Restless,
    /// There is no such pool.
    #[error(transparent)]
    Pool(#[from] pascaline_aggregator::PoolConfigError),
    /// There is no such job.
    #[error(transparent)]
    Job(#[from] pascaline_ps::SetJobError),
}
