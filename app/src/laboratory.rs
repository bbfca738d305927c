//! What `pascaline-lab` measures of the appliance. Nothing else uses it.

use std::net::TcpListener;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use pascaline_dpdk::port::Started;
use pascaline_dpdk::{Clock, Lcore as DpdkLcore, Mempool, Port};
use pascaline_pipelines::membership::JobStatus;
use pascaline_pipelines::{ControlPlane, Lcore};
use pascaline_telemetry::{Gauge, Gauges, JobCells, LcoreCounters, LcoreReaders, Telemetry};

use crate::admin::server as admin;
use crate::appliance::{Appliance, Listening, Machine, serve};
pub use crate::appliance::{DpdkIo, Queues};
use crate::config::Config;
pub use crate::config::kind::{KindName, Tag};
use crate::observe::explain::Terms;
use crate::observe::metrics::JobMetrics;
use crate::observe::snapshot::{Inputs, JobInput, Sampler};

/// An appliance of one lcore, one port and no parameter server.
#[expect(missing_debug_implementations, reason = "a control plane has none")]
pub struct SmallAppliance {
    /// The lcore and the core that runs it.
    pub lcore: (DpdkLcore, Lcore<DpdkIo, 1>),
    /// The lcore's other end.
    pub plane: ControlPlane,
    /// What the lcore counts.
    pub counters: Arc<LcoreCounters>,
    /// What the lcore records.
    pub readers: LcoreReaders,
    /// The port.
    pub port: Port<Started>,
    /// The packet buffers.
    pub pools: Vec<Mempool>,
    /// Slots of the pool.
    pub pool_slots: usize,
    /// The lcore's clock.
    pub clock: Clock,
}

impl SmallAppliance {
    /// Runs it with this configuration's listeners until someone orders it to drain.
    ///
    /// # Errors
    /// If the configuration is refused, or the appliance fails.
    pub fn serve(self, configuration: &str, page: TcpListener) -> anyhow::Result<ExitCode> {
        let config = Config::parse(Path::new("bench observed"), configuration)?;
        let bound = config.admin.as_ref().map(|admin| admin::bind(&config, admin)).transpose()?;
        let (core, lcore) = self.lcore;
        let appliance = Appliance {
            lcores: vec![(core, Machine::Narrow(lcore))],
            plane: self.plane,
            counters: vec![self.counters],
            readers: vec![self.readers],
            ports: vec![("p0".to_owned(), self.port)],
            pools: self.pools,
            pool_slots: self.pool_slots,
            pool_bytes: 0,
            server: None,
            queues: Vec::new(),
            clock: self.clock,
        };
        serve(&config, appliance, Some(page), Listening { admin: bound, controllers: Vec::new() })
    }
}

/// Jobs without an appliance, for a scrape.
#[derive(Debug)]
pub struct CountedJobs {
    metrics: JobMetrics,
    cells: Vec<Arc<JobCells>>,
    ranks: u16,
}

impl CountedJobs {
    /// One job per cell, all with as many ranks.
    #[must_use]
    pub fn new(cells: Vec<Arc<JobCells>>, ranks: u16) -> Self {
        Self { metrics: JobMetrics::new(), cells, ranks }
    }

    fn inputs(&self) -> Vec<JobInput> {
        let ranks = self.ranks;
        let status = |id| JobStatus {
            id,
            fan_in: ranks,
            joined: ranks,
            epoch: 1,
            payload: 1024,
            multicast: None,
            needed: ranks,
            lost: 0,
            complete: true,
            halted: false,
            broken: false,
            formed: false,
            server: pascaline_pipelines::membership::ServerState::None,
            uplink: None,
        };
        let input = |(id, cells): (u16, &Arc<JobCells>)| JobInput {
            status: status(id),
            name: format!("job {id}"),
            terms: Terms::default(),
            missing: pascaline_wire::trailer::RankReports::EMPTY,
            reading: cells.read(),
            cells: Arc::clone(cells),
        };
        (0..).zip(&self.cells).map(input).collect()
    }
}

impl Gauges for CountedJobs {
    fn gauges(&self) -> Vec<Gauge> {
        self.metrics.gauges(&self.inputs())
    }
}

/// Takes samples of the page.
#[derive(Debug)]
pub struct PageSampler {
    sampler: Sampler,
    began: Instant,
}

impl Default for PageSampler {
    fn default() -> Self {
        Self { sampler: Sampler::new("bench".to_owned()), began: Instant::now() }
    }
}

impl PageSampler {
    /// The next sample, as JSON.
    ///
    /// # Errors
    /// If it is no JSON.
    pub fn sample(&mut self, telemetry: &Telemetry, jobs: &CountedJobs) -> serde_json::Result<String> {
        let inputs = Inputs {
            at: self.began.elapsed(),
            readings: telemetry.readings(),
            times: telemetry.times().ok(),
            census: telemetry.census(),
            jobs: jobs.inputs(),
            ..Inputs::default()
        };
        serde_json::to_string(&self.sampler.take(inputs))
    }
}
