//! One rank, and its thread.

use core::mem;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs as _};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use pascaline_worker::masked::Key;
use pascaline_worker::{
    Addresses, Appliances, Background, Config, Counters, Departure, Left, Parts, Protection, Streams, Worker,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::errors::{Fault, wrong};
use crate::memory::Memory;
use crate::operation::{Operation, Pending, Wish, lock, seconds};
use crate::process::{Home, INTERRUPT, apart, joined};
use crate::report::counted;

/// One rank of a job.
#[pyclass(frozen, module = "pascaline")]
#[derive(Debug)]
pub(crate) struct Core {
    config: Config,
    /// If the appliance is not to read anything.
    key: Option<Key>,
    home: Home,
    life: Mutex<Life>,
    /// The counters after the latest operation.
    counters: Arc<Mutex<Counters>>,
}

#[derive(Debug)]
enum Life {
    Member(Background),
    Gone,
}

/// Options of a worker beyond its place.
#[derive(Debug, FromPyObject)]
pub(crate) struct Terms {
    payload: Option<u16>,
    in_flight: Option<u16>,
    spread: Option<u16>,
    udp_ports: Option<u16>,
    dscp: Option<u8>,
    bind: Option<String>,
    timeout: Option<f64>,
    join_timeout: Option<f64>,
    linger: Option<f64>,
    partial: bool,
    security: Option<String>,
    key: Option<String>,
}

impl Terms {
    /// For this many streams.
    fn config(&self, appliance: &str, (job, rank, ranks): (u16, u16, u16), streams: u16) -> PyResult<Config> {
        let all = Appliances::read(appliance, address)?;
        let config = Config::new(all.appliance, job, rank, ranks).among(all);
        let mut config = Config { accept_partial: self.partial, interrupt: Some(INTERRUPT), ..config };
        for (place, value) in [
            (&mut config.payload, self.payload),
            (&mut config.in_flight, self.in_flight),
            (&mut config.spread, self.spread),
            (&mut config.udp_ports, self.udp_ports),
        ] {
            *place = value.unwrap_or(*place);
        }
        config.dscp = self.dscp.unwrap_or(config.dscp);
        if let Some(timeout) = self.timeout {
            config.deadline = seconds("timeout", timeout)?;
            config.join_deadline = config.deadline;
        }
        if let Some(timeout) = self.join_timeout {
            config.join_deadline = seconds("join_timeout", timeout)?;
        }
        if let Some(linger) = self.linger {
            config.linger = seconds("linger", linger)?;
        }
        config.bind = self.bind.as_deref().map(local).transpose()?;
        match security(self.security.as_deref(), self.key.as_deref())? {
            Security::Sealed(protection, file) => config.sealed(file, protection, streams).map_err(wrong),
            Security::None | Security::Masked(_) => Ok(config),
        }
    }

    /// The key of a job that hides its tensors.
    fn key(&self) -> PyResult<Option<Key>> {
        match security(self.security.as_deref(), self.key.as_deref())? {
            Security::Masked(file) => Key::read(file).map(Some).map_err(wrong),
            Security::None | Security::Sealed(..) => Ok(None),
        }
    }
}

/// What protects tensors, and the file of its key.
pub(crate) enum Security<'a> {
    None,
    Masked(&'a Path),
    Sealed(Protection, &'a Path),
}

/// The same from a program's words.
pub(crate) fn security<'a>(name: Option<&str>, key: Option<&'a str>) -> PyResult<Security<'a>> {
    let name = name.unwrap_or("none");
    match (name, Protection::from_name(name), key.map(Path::new)) {
        ("none", _, None) => Ok(Security::None),
        ("none", _, Some(_)) => Err(wrong("key=... goes with security=\"masked\", \"mac\" or \"encrypt\"")),
        ("masked", _, Some(file)) => Ok(Security::Masked(file)),
        (_, Some(protection), Some(file)) => Ok(Security::Sealed(protection, file)),
        ("masked", ..) | (_, Some(_), None) => {
            Err(wrong(format_args!("security={name:?} takes key=..., the file that all ranks have")))
        }
        _ => Err(wrong(format_args!("security={name:?}: there are none, masked, mac and encrypt"))),
    }
}

/// A local address, with or without a port.
pub(crate) fn local(bind: &str) -> PyResult<SocketAddr> {
    let any_port = || bind.trim_matches(['[', ']']).parse().map(|ip| SocketAddr::new(ip, 0));
    let told = |_| wrong(format_args!("bind={bind:?}: expected an address"));
    bind.parse().or_else(|_| any_port()).map_err(told)
}

/// `host`, `host:port`, an IPv6 address, or one in brackets with a port. A name may have several addresses.
pub(crate) fn address(place: &str) -> PyResult<Addresses> {
    let default = pascaline_wire::DEFAULT_PORT;
    let bare = place.trim_matches(['[', ']']);
    if let Ok(ip) = bare.parse::<IpAddr>() {
        return Ok(SocketAddr::new(ip, default).into());
    }
    let text = if place.rsplit_once(':').is_some() { place.to_owned() } else { format!("{place}:{default}") };
    let told = |why: String| wrong(format_args!("appliance={place:?}: no address, and no known host: {why}"));
    let found = text.to_socket_addrs().map_err(|error| told(error.to_string()))?;
    Addresses::of(found).ok_or_else(|| told("the name has no address".to_owned()))
}

#[pymethods]
impl Core {
    /// Joins a job and waits until all of its ranks have.
    #[new]
    fn join(
        py: Python<'_>,
        appliance: &str,
        job: u16,
        rank: u16,
        ranks: u16,
        terms: Terms,
    ) -> PyResult<Self> {
        let (config, key) = (terms.config(appliance, (job, rank, ranks), 1)?, terms.key()?);
        let join = || -> Result<_, Fault> {
            let config = config.settled()?;
            Ok((Worker::join(config.clone())?.into_background(), config))
        };
        let (worker, config) = joined(py, join)?.map_err(|fault| fault.but(rank).raise(py))?;
        Ok(Self::new((config, key), worker?))
    }

    /// Starts an operation on an object that lends its bytes.
    fn start(&self, py: Python<'_>, wish: Wish, array: Option<&Bound<'_, PyAny>>) -> PyResult<Pending> {
        self.home.check().map_err(|fault| fault.raise(py))?;
        let operation = Operation::new(wish, Memory::of(array)?)?;
        if self.key.is_some() && operation.is_narrow() {
            return Err(wrong("wire=... does not go with security=\"masked\", which sends words of 32 bits"));
        }
        let (counters, key) = (Arc::clone(&self.counters), self.key.clone());
        let work = move |worker: &mut Worker| {
            let outcome = operation.run(worker, key.as_ref());
            *lock(&counters) = *worker.counters();
            outcome
        };
        let submitted = match &*lock(&self.life) {
            Life::Member(background) => Some(background.submit(work)),
            Life::Gone => None,
        };
        Ok(Pending::new(self.home, submitted))
    }

    /// First element and number of elements of this rank's part of this many.
    #[pyo3(signature = (elements, counts=None))]
    fn part(&self, elements: usize, counts: Option<Vec<usize>>) -> PyResult<(usize, usize)> {
        let parts = counts.as_deref().map_or(Parts::Even, Parts::Counts);
        let part = parts.of(self.config.rank, self.config.ranks, elements).map_err(wrong)?;
        Ok((part.start, part.len()))
    }

    /// The worker's counters, up to the latest operation that has ended.
    fn statistics<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        counted(py, &lock(&self.counters))
    }

    /// The address that packets go to.
    #[getter]
    fn appliance(&self) -> String {
        self.config.appliance.to_string()
    }

    /// Leaves after the started operations: "everyone", "lingered", or "" if it had left before. Ctrl-C ends
    /// the wait, but not the leaving.
    fn leave(&self, py: Python<'_>) -> PyResult<&'static str> {
        let Some(leaving) = self.begin_to_leave() else { return Ok("") };
        Ok(self.left(apart(py, || leaving.join().ok())?))
    }

    /// Leaves without completing the started operations, which fail within 100 ms. Does not wait for that.
    fn abort(&self) {
        if self.home.is_here()
            && let Life::Member(background) = mem::replace(&mut *lock(&self.life), Life::Gone)
        {
            drop(background.abort());
        }
    }
}

impl Core {
    fn new((config, key): (Config, Option<Key>), background: Background) -> Self {
        let life = Mutex::new(Life::Member(background));
        Self { config, key, home: Home::new(), life, counters: Arc::default() }
    }

    /// Makes the thread leave after the started operations. None if it had before, or is another process's.
    fn begin_to_leave(&self) -> Option<JoinHandle<Departure>> {
        if !self.home.is_here() {
            return None;
        }
        let life = mem::replace(&mut *lock(&self.life), Life::Gone);
        if let Life::Member(background) = life { Some(background.begin_to_leave()) } else { None }
    }

    /// Notes how it has. None: its thread has panicked.
    fn left(&self, departure: Option<Departure>) -> &'static str {
        let Some(departure) = departure else { return "" };
        *lock(&self.counters) = departure.counters;
        if departure.left == Left::Lingered { "lingered" } else { "everyone" }
    }
}

/// Joins several streams of a job, and waits until all of its ranks have.
#[pyfunction]
pub(crate) fn join_streams(
    py: Python<'_>,
    appliance: &str,
    place: (u16, u16, u16),
    streams: u16,
    terms: Terms,
) -> PyResult<Vec<Core>> {
    let (config, key) = (terms.config(appliance, place, streams)?, terms.key()?);
    let rank = config.rank;
    let join = || -> Result<_, Fault> {
        let config = config.settled()?;
        Ok((Streams::join(&config, streams)?, config))
    };
    let (joined, config) = joined(py, join)?.map_err(|fault| fault.but(rank).raise(py))?;
    let core = |background| Core::new((config.clone(), key.clone()), background);
    Ok(joined.into_workers().into_iter().map(core).collect())
}

/// Leaves with all of them at the same time: each stays until the other ranks have left, too.
#[pyfunction]
pub(crate) fn leave_streams(py: Python<'_>, streams: Vec<Py<Core>>) -> PyResult<()> {
    let leaving: Vec<_> = streams.iter().map(|core| core.get().begin_to_leave()).collect();
    let wait = || leaving.into_iter().map(|thread| thread.and_then(|thread| thread.join().ok())).collect();
    let departures: Vec<_> = apart(py, wait)?;
    for (core, departure) in streams.iter().zip(departures) {
        core.get().left(departure);
    }
    Ok(())
}

impl Drop for Core {
    /// In a forked process there is no thread to release.
    fn drop(&mut self) {
        if !self.home.is_here() {
            let life = self.life.get_mut().unwrap_or_else(PoisonError::into_inner);
            Box::leak(Box::new(mem::replace(life, Life::Gone)));
        }
    }
}
