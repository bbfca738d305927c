//! One rank of a job that trains asynchronously: no thread of its own, since none of its calls waits long.

use core::mem;
use core::num::NonZeroU16;
use core::time::Duration;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use pascaline_worker::asynchronous::Policy;
use pascaline_worker::{AsyncConfig, AsyncCounters, AsyncJoinError, AsyncWorker, Initial, Left, Push, Slope};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Fault, wrong};
use crate::memory::Memory;
use crate::operation::{LOOK, lock, seconds};
use crate::process::{Home, INTERRUPT, apart, joined};
use crate::report::counted_updates;
use crate::worker::{Security, address, local, security};

/// One rank of an asynchronous job.
#[pyclass(frozen, module = "pascaline")]
#[derive(Debug)]
pub(crate) struct AsyncCore {
    appliance: SocketAddr,
    home: Home,
    life: Arc<Mutex<Life>>,
}

#[derive(Debug)]
enum Life {
    Member(Box<AsyncWorker>),
    Gone(Box<AsyncCounters>),
}

/// Options of a worker beyond its place.
#[derive(Debug, FromPyObject)]
pub(crate) struct AsyncTerms {
    outstanding: u16,
    control: String,
    threshold: f64,
    seed: u64,
    dscp: u8,
    bind: Option<String>,
    join_timeout: f64,
    patience: f64,
    linger: f64,
    security: Option<String>,
    key: Option<String>,
}

impl AsyncTerms {
    fn config(&self, plain: AsyncConfig) -> PyResult<AsyncConfig> {
        let threshold = seconds("threshold", self.threshold)?;
        let policy = match self.control.as_str() {
            "off" => Policy::AtWill,
            "paced" => Policy::Paced,
            "urgency" => Policy::Olaf { slope: Slope::Urgency, threshold },
            "fairness" => Policy::Olaf { slope: Slope::Fairness, threshold },
            other => {
                let text = format_args!("control={other:?}: there are off, urgency, fairness and paced");
                return Err(wrong(text));
            }
        };
        let outstanding = NonZeroU16::new(self.outstanding);
        let plain = match security(self.security.as_deref(), self.key.as_deref())? {
            Security::None => plain,
            Security::Sealed(protection, file) => plain.sealed(file, protection).map_err(wrong)?,
            Security::Masked(_) => return Err(wrong("security=\"masked\" is for sums, not for updates")),
        };
        Ok(AsyncConfig {
            outstanding: outstanding.ok_or_else(|| wrong("outstanding=0: no update could ever be sent"))?,
            policy,
            seed: self.seed,
            dscp: self.dscp,
            bind: self.bind.as_deref().map(local).transpose()?,
            join_deadline: seconds("join_timeout", self.join_timeout)?,
            patience: seconds("patience", self.patience)?,
            linger: seconds("linger", self.linger)?,
            interrupt: Some(INTERRUPT),
            ..plain
        })
    }
}

impl AsyncCore {
    /// Runs a function on the worker.
    fn with<T>(&self, act: impl FnOnce(&mut AsyncWorker) -> Result<T, Fault>) -> Result<T, Fault> {
        self.home.check()?;
        match &mut *lock(&self.life) {
            Life::Member(worker) => act(worker),
            Life::Gone(_) => Err(Fault::closed()),
        }
    }
}

#[pymethods]
impl AsyncCore {
    /// Joins a job and waits until all of its ranks have. The weights are offered as initial ones.
    #[new]
    fn new(
        py: Python<'_>,
        appliance: &str,
        place: (u16, u16, u16),
        weights: &Bound<'_, PyAny>,
        terms: AsyncTerms,
    ) -> PyResult<Self> {
        let mut memory = Memory::of(Some(weights))?;
        let weights = memory.floats().ok_or_else(|| Fault::misaligned().raise(py))?;
        if weights.is_empty() {
            return Err(wrong("a model of 0 floats: there is nothing to train"));
        }
        let (job, rank, ranks) = place;
        let name = address(appliance)?;
        let plain = AsyncConfig::new(name.first, job, rank, ranks, weights.len());
        let config = terms.config(AsyncConfig { others: name.others, ..plain })?;
        let weights = weights.to_vec();
        let join = || -> Result<_, AsyncJoinError> {
            let config = config.settled()?;
            Ok((AsyncWorker::join(&config, Initial::Weights(&weights))?, config.appliance))
        };
        let joined = joined(py, join)?;
        let (worker, appliance) = joined.map_err(|error| Fault::from(error).but(rank).raise(py))?;
        let life = Arc::new(Mutex::new(Life::Member(Box::new(worker))));
        Ok(Self { appliance, home: Home::new(), life })
    }

    /// Offers an update: "sent", "skipped" by transmission control, or "busy" while enough are in flight.
    fn push(&self, py: Python<'_>, gradient: &Bound<'_, PyAny>, reward: f32) -> PyResult<&'static str> {
        let mut memory = Memory::of(Some(gradient))?;
        let floats = memory.floats().ok_or_else(|| Fault::misaligned().raise(py))?;
        let pushed = self.with(|worker| Ok(worker.push(floats, reward)?)).map_err(|fault| fault.raise(py))?;
        Ok(match pushed {
            Push::Sent(_) => "sent",
            Push::Skipped => "skipped",
            Push::Busy => "busy",
        })
    }

    /// Handles arrived datagrams, and returns how often weights have come. Those that have come since `seen`
    /// are written.
    fn poll(&self, py: Python<'_>, into: Option<&Bound<'_, PyAny>>, seen: u64) -> PyResult<u64> {
        let mut memory = Memory::of(into)?;
        let polled = self.with(|worker| {
            let (weights, version) = worker.poll();
            if into.is_some() && version != seen {
                let floats = memory.floats().ok_or_else(Fault::misaligned)?;
                if floats.len() != weights.len() {
                    return Err(Fault::length(floats.len(), weights.len()));
                }
                floats.copy_from_slice(weights);
            }
            Ok(version)
        });
        polled.map_err(|fault| fault.raise(py))
    }

    /// Waits until a datagram arrives or a timeout is due, or for `longest`.
    fn wait(&self, py: Python<'_>, longest: f64) -> PyResult<()> {
        let longest = seconds("seconds", longest)?;
        let begun = Instant::now();
        loop {
            let (now, left) = (Instant::now(), longest.saturating_sub(begun.elapsed()));
            let slice = left.min(LOOK);
            let waited = py.detach(|| self.with(|worker| Ok(worker.wait(slice)?)));
            waited.map_err(|fault| fault.raise(py))?;
            py.check_signals()?;
            if now.elapsed() < slice || left <= LOOK {
                return Ok(());
            }
        }
    }

    /// The worker's counters.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        match &*lock(&self.life) {
            Life::Member(worker) => counted_updates(py, worker.counters()),
            Life::Gone(counters) => counted_updates(py, counters),
        }
    }

    /// Seconds from an update to its answer, smoothed.
    fn round_trip(&self) -> Option<f64> {
        match &*lock(&self.life) {
            Life::Member(worker) => worker.round_trip().as_ref().map(Duration::as_secs_f64),
            Life::Gone(_) => None,
        }
    }

    /// The address that packets go to.
    #[getter]
    fn appliance(&self) -> String {
        self.appliance.to_string()
    }

    /// Leaves: "everyone", "lingered", or "" if it had left before. Ctrl-C ends the wait.
    fn leave(&self, py: Python<'_>) -> PyResult<&'static str> {
        if !self.home.is_here() {
            return Ok("");
        }
        let life = Arc::clone(&self.life);
        apart(py, move || {
            let mut life = lock(&life);
            let counters = match &*life {
                Life::Member(worker) => *worker.counters(),
                Life::Gone(_) => return "",
            };
            let Life::Member(worker) = mem::replace(&mut *life, Life::Gone(Box::new(counters))) else {
                return "";
            };
            let (left, counters) = worker.leave();
            *life = Life::Gone(Box::new(counters));
            if left == Left::Lingered { "lingered" } else { "everyone" }
        })
    }
}

impl Drop for AsyncCore {
    /// In a forked process the socket is the parent's, which has not left.
    fn drop(&mut self) {
        if !self.home.is_here() {
            Box::leak(Box::new(Arc::clone(&self.life)));
        }
    }
}
