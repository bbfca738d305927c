//! What the control plane tells those who show the appliance.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use pascaline_pipelines::Membership;
use pascaline_pipelines::membership::JobStatus;
use pascaline_telemetry::JobCells;
use pascaline_wire::control::Status;
use pascaline_wire::trailer::RankReports;

use super::endpoints;
use super::explain::{PortHealth, Stalled, Terms};
use super::snapshot::Configuration;
use crate::config::Config;

/// Jobs that `/readyz` names.
const LINES: usize = 64;

/// What the control plane tells the metrics server.
#[derive(Debug)]
pub(crate) struct Shared {
    healthy: AtomicBool,
    /// The lcores poll their ports.
    polling: AtomicBool,
    /// Answers to control packets, in the order of the statuses.
    answers: [AtomicU64; Status::ALL.len()],
    jobs: Mutex<Vec<KnownJob>>,
    stalled: Mutex<Vec<Stalled>>,
    ports: Mutex<Vec<PortHealth>>,
    /// What is configured.
    configured: Mutex<Arc<Configured>>,
}

/// What the control plane knows of a job.
#[derive(Debug, Clone)]
pub(super) struct KnownJob {
    pub(super) status: JobStatus,
    pub(super) cells: Arc<JobCells>,
    /// Who keeps the others from getting on.
    pub(super) missing: RankReports,
}

/// What there is to know of the configuration in force.
#[derive(Debug)]
pub(super) struct Configured {
    /// What the jobs in it are called, and how they may use the pool.
    pub(super) jobs: BTreeMap<u16, (String, Terms)>,
    /// How jobs may use the pool that are formed by Joins.
    pub(super) formed: Terms,
    pub(super) shown: Configuration,
}

impl Configured {
    fn new(config: &Config) -> Self {
        let jobs = config.jobs.iter().map(|job| {
            let id = job.spec.id;
            (id, (job.name.clone(), Terms::of_job(config, id)))
        });
        Self {
            jobs: jobs.collect(),
            formed: Terms::of_formed(config),
            shown: endpoints::configuration(config),
        }
    }
}

impl Shared {
    pub(crate) fn new(membership: &Membership, config: &Config) -> Self {
        let shared = Self {
            healthy: AtomicBool::new(true),
            polling: AtomicBool::new(false),
            jobs: Mutex::default(),
            stalled: Mutex::default(),
            ports: Mutex::default(),
            answers: [const { AtomicU64::new(0) }; Status::ALL.len()],
            configured: Mutex::new(Arc::new(Configured::new(config))),
        };
        shared.set_jobs(membership, Duration::ZERO);
        shared
    }

    /// To be told whenever another configuration is in force.
    pub(crate) fn set_config(&self, config: &Config) {
        *self.configured.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(Configured::new(config));
    }

    /// To be told whenever something about the jobs has changed, and now and then: who is silent changes with
    /// time alone.
    pub(crate) fn set_jobs(&self, membership: &Membership, now: Duration) {
        // Both are in the order of the jobs' numbers.
        let cells = membership.counts().into_iter().map(|(_, cells)| cells);
        let known = |(status, cells): (JobStatus, Arc<JobCells>)| {
            let missing = membership.missing(status.id, now);
            KnownJob { status, cells, missing }
        };
        let jobs = membership.status().into_iter().zip(cells).map(known).collect();
        *self.jobs.lock().unwrap_or_else(PoisonError::into_inner) = jobs;
    }

    /// To be told whenever requests have been answered.
    pub(crate) fn set_answers(&self, membership: &Membership) {
        for (answers, status) in self.answers.iter().zip(Status::ALL) {
            answers.store(membership.answered(status), Ordering::Relaxed);
        }
    }

    /// Answers to control packets, by status: those that there have been.
    pub(super) fn answers(&self) -> impl Iterator<Item = (Status, u64)> {
        let counts = self.answers.iter().map(|answers| answers.load(Ordering::Relaxed));
        Status::ALL.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }

    pub(super) fn configured(&self) -> Arc<Configured> {
        Arc::clone(&self.configured.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn jobs(&self) -> Vec<KnownJob> {
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The lcores that do not turn.
    pub(crate) fn set_stalled(&self, stalled: Vec<Stalled>) {
        *self.stalled.lock().unwrap_or_else(PoisonError::into_inner) = stalled;
    }

    pub(super) fn stalled(&self) -> Vec<Stalled> {
        self.stalled.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What the ports are like, in the order of the configuration.
    pub(crate) fn set_ports(&self, ports: Vec<PortHealth>) {
        *self.ports.lock().unwrap_or_else(PoisonError::into_inner) = ports;
    }

    pub(super) fn ports(&self) -> Vec<PortHealth> {
        self.ports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_healthy(&self, healthy: bool) {
        self.healthy.store(healthy, Ordering::Relaxed);
    }

    pub(crate) fn set_polling(&self) {
        self.polling.store(true, Ordering::Relaxed);
    }

    /// Why it does not do all of its work: before the ports are polled, once it is about to end, and while an
    /// lcore does not turn, a port carries nothing or a job lacks its parameter server.
    pub(crate) fn unready(&self) -> Option<String> {
        if !self.polling.load(Ordering::Relaxed) || !self.healthy() {
            return Some("not ready\n".to_owned());
        }
        let stalled = self.stalled().into_iter().map(|stalled| format!("not ready: {stalled}\n"));
        let lacking = self.jobs().into_iter().map(|job| job.status).filter(|job| job.server.is_lacking());
        let line = |job: JobStatus| format!("not ready: job {}: its parameter server is not here\n", job.id);
        let ports = self.ports().into_iter().filter(PortHealth::is_in_trouble);
        let ports = ports.map(|port| format!("not ready: {port}; {}\n", port.remedy()));
        let lines: String = stalled.chain(ports).chain(lacking.take(LINES).map(line)).collect();
        (!lines.is_empty()).then_some(lines)
    }

    /// True while all lcores run and nobody has asked the appliance to end.
    pub(crate) fn healthy(&self) -> bool {
        self.healthy.load(Ordering::Relaxed)
    }
}
