//! What a snapshot is made of, as it is read: totals without rates.

use std::sync::Arc;
use std::time::Duration;

use pascaline_dpdk::port::Stats;
use pascaline_pipelines::membership::JobStatus;
use pascaline_telemetry::{CellsReading, Gauge, JobCells, Reading, Times};
use pascaline_wire::trailer::RankReports;

use super::{Buffers, Configuration};
use crate::observe::explain::{PortHealth, Stalled, Terms};

/// The appliance's counters at one moment.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    /// Since the start.
    pub(crate) at: Duration,
    /// Seconds since 1970.
    pub(crate) unix_seconds: f64,
    /// The time on the lcores' clock, in nanoseconds.
    pub(crate) lcore_ns: u64,
    pub(crate) healthy: bool,
    /// By lcore.
    pub(crate) readings: Vec<Reading>,
    pub(crate) times: Option<Times>,
    /// By cell of the pool: partials, kept results; and the age of the oldest partial in nanoseconds.
    pub(crate) census: (Vec<(u32, u32)>, u64),
    pub(crate) jobs: Vec<JobInput>,
    /// Lcores that do not turn.
    pub(crate) stalled: Vec<Stalled>,
    /// What they are like, and their counters.
    pub(crate) ports: Vec<(PortHealth, Stats)>,
    pub(crate) buffers: Vec<Buffers>,
    pub(crate) pool_slots: usize,
    pub(crate) pool_bytes: usize,
    /// Metrics of the parameter server.
    pub(crate) server: Vec<Gauge>,
    /// Metrics of OlafQueue and Age-of-Model.
    pub(crate) olaf: Vec<Gauge>,
    /// The configuration in force.
    pub(crate) config: Configuration,
}

/// A job.
#[derive(Debug, Clone)]
pub(crate) struct JobInput {
    pub(crate) status: JobStatus,
    pub(crate) name: String,
    pub(crate) terms: Terms,
    /// Who keeps the others from getting on.
    pub(crate) missing: RankReports,
    /// What lcores count of it, and what they had counted at that moment.
    pub(crate) cells: Arc<JobCells>,
    pub(crate) reading: CellsReading,
}
