//! The appliance's configuration: as written ([`raw`]) and as accepted ([`Config`]).

mod accept;
pub(crate) mod admin;
pub(crate) mod convert;
pub(crate) mod job;
pub(crate) mod kind;
pub(crate) mod lane;
mod layout;
pub(crate) mod live;
pub(crate) mod packets;
mod raw;
mod reading;
pub(crate) mod server;
pub(crate) mod settings;
mod summary;
pub(crate) mod words;

use core::fmt;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use pascaline_aggregator::PoolConfig;
use pascaline_dpdk::{Device, Hugepages};
use pascaline_pipelines::membership::Admission;
use pascaline_pipelines::{IdlePolicy, Marks, Mode, PortQueue, Ports};
use pascaline_queue as queue;
use pascaline_wire::UdpPorts;
use pascaline_wire::trailer::ACK_LEN;

use accept::{HERE, Scene};
pub(crate) use accept::{JobTerms, NewJob};
pub(crate) use admin::{AdminConfig, AdminListen};
pub(crate) use job::{Checkpoint, JobConfig, PsConfig, PsMode};
pub(crate) use lane::InLine;
pub(crate) use server::ServerLimits;
pub(crate) use words::{PassingQueue, Verify};

/// Bytes of a configuration file: thousands of jobs.
const LONGEST: usize = 4 << 20;

/// A place in the configuration file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    line: usize,
    column: usize,
}

impl Place {
    fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.bytes().filter(|&byte| byte == b'\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
        }
    }
}

/// A value and where it was written. Values that were not written stand at the table that lacks them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Located<T> {
    pub(crate) value: T,
    pub(crate) place: Place,
}

/// What is wrong with a configuration, where, and what to do about it.
#[derive(Debug)]
pub(crate) struct ConfigError {
    file: PathBuf,
    place: Option<Place>,
    message: String,
    remedy: String,
    /// The file may be right: this machine does not have yet what it names.
    not_yet: bool,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.file.display())?;
        if let Some(Place { line, column }) = self.place {
            write!(f, ":{line}:{column}")?;
        }
        write!(f, ": {}", self.message)?;
        if !self.remedy.is_empty() {
            write!(f, "\n  remedy: {}", self.remedy)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}

impl ConfigError {
    /// What is wrong, without place and remedy.
    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// What to do about it; empty where that says itself.
    pub(crate) fn remedy(&self) -> &str {
        &self.remedy
    }

    /// The same, where the machine may come to have what is missing: a later start may succeed.
    pub(crate) fn not_yet(self) -> Self {
        Self { not_yet: true, ..self }
    }

    /// Whether a later start may succeed with the same file.
    pub(crate) const fn is_not_yet(&self) -> bool {
        self.not_yet
    }

    /// Line and column in the file, where there is a place.
    pub(crate) fn place(&self) -> Option<(usize, usize)> {
        self.place.map(|place| (place.line, place.column))
    }
}

/// A port as accepted.
#[derive(Debug, Clone)]
pub(crate) struct PortConfig {
    pub(crate) name: String,
    pub(crate) device: Located<Device>,
    pub(crate) mtu: u16,
    pub(crate) rx_descriptors: u16,
    pub(crate) tx_descriptors: u16,
    pub(crate) peer: Option<usize>,
    /// The bridge between more than two ports that it belongs to.
    pub(crate) bridge: Option<String>,
    /// Where what is not for the appliance can go.
    pub(crate) beyond: Ports,
    /// Who is to verify UDP checksums; none if that depends on the device.
    pub(crate) verify: Option<Verify>,
    /// The queue of updates in front of it, as far as it can be known before jobs and packet sizes are.
    pub(crate) queue: PortQueue,
}

impl PortConfig {
    /// True if what is not for the appliance passes through.
    pub(crate) const fn in_line(&self) -> bool {
        !self.beyond.is_empty()
    }
}

/// A configuration that has been checked as far as that is possible without the hardware.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) file: PathBuf,
    pub(crate) name: String,
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) udp_ports: UdpPorts,
    /// What its packets have to carry, beside the UDP port.
    pub(crate) dscp: Option<u8>,
    pub(crate) main_core: Located<usize>,
    pub(crate) cores: Located<Vec<usize>>,
    pub(crate) float: bool,
    pub(crate) idle: IdlePolicy,
    pub(crate) hugepages: Hugepages,
    pub(crate) memory_mb: Located<u32>,
    pub(crate) drain: Duration,
    /// How the appliance passes on what is not for it.
    pub(crate) in_line: InLine,
    /// From when on results say that there is congestion here.
    pub(crate) marks: Marks,
    pub(crate) ports: Vec<PortConfig>,
    pub(crate) pool: PoolConfig,
    /// Packet buffers beyond what the jobs need, for jobs that are added later.
    pub(crate) spare_packets: usize,
    /// Sets of the pool that all jobs without a region share, from set 0 on; the regions lie behind them.
    pub(crate) shared_sets: u32,
    pub(crate) jobs: Vec<JobConfig>,
    pub(crate) admission: Option<Admission>,
    /// The file whose queries jobs have to meet.
    pub(crate) verified: Option<PathBuf>,
    pub(crate) ps: PsConfig,
    pub(crate) listen: Option<Located<SocketAddr>>,
    /// Names under which pages may be asked for, beside addresses and the machine's own.
    pub(crate) hosts: Vec<String>,
    /// Open DPDK's own telemetry socket.
    pub(crate) dpdk_telemetry: bool,
    pub(crate) admin: Option<AdminConfig>,
    /// All of it as it was written.
    pub(crate) written: toml::Table,
}

impl Config {
    /// Reads and checks a file.
    pub(crate) fn load(file: &Path) -> Result<Self, ConfigError> {
        Self::accepted(file, &Self::text(file)?, HERE)
    }

    /// Reads and checks a file that is for another machine: those that it names are not read.
    pub(crate) fn load_elsewhere(file: &Path) -> Result<Self, ConfigError> {
        Self::accepted(file, &Self::text(file)?, Scene { here: false, ..HERE })
    }

    /// Reads and checks the appliance's file for a parameter server of another process: the keys of other
    /// jobs than its own are not read, either.
    pub(crate) fn load_for_server(file: &Path) -> Result<Self, ConfigError> {
        Self::accepted(file, &Self::text(file)?, Scene { here: false, all_keys: false, ..HERE })
    }

    fn text(file: &Path) -> Result<String, ConfigError> {
        let refuse = |place, message: String, remedy: &str| ConfigError {
            file: file.to_owned(),
            place,
            message,
            remedy: remedy.to_owned(),
            not_yet: false,
        };
        let bytes = pascaline_shared::file::read(file, LONGEST)
            .map_err(|error| refuse(None, error.message, error.remedy))?;
        String::from_utf8(bytes).map_err(|error| {
            let good = error.utf8_error().valid_up_to();
            let place = Place::of(&String::from_utf8_lossy(&error.as_bytes()[..good]), good);
            refuse(Some(place), "this byte is no UTF-8".to_owned(), "save the file as UTF-8 text")
        })
    }

    /// The text of a file from before there were kinds of jobs, in today's words.
    ///
    /// # Errors
    /// It cannot be read, or is no TOML.
    pub(crate) fn converted(file: &Path) -> Result<String, ConfigError> {
        let text = Self::text(file)?;
        convert::converted(&text).map_err(|error| ConfigError {
            file: file.to_owned(),
            place: error.span().map(|span| Place::of(&text, span.start)),
            message: error.message().replace('\n', " "),
            remedy: "correct it first".to_owned(),
            not_yet: false,
        })
    }

    /// Checks the text of a file.
    pub(crate) fn parse(file: &Path, text: &str) -> Result<Self, ConfigError> {
        Self::accepted(file, text, HERE)
    }

    /// Checks what runs with other jobs: what is there for jobs that are gone is no mistake.
    pub(crate) fn parse_running(file: &Path, text: &str) -> Result<Self, ConfigError> {
        Self::accepted(file, text, Scene { runs: true, ..HERE })
    }

    fn accepted(file: &Path, text: &str, scene: Scene) -> Result<Self, ConfigError> {
        let raw: raw::Raw = toml::from_str(text).map_err(|error| {
            let (place, message, remedy) = reading::told(text, &error);
            ConfigError { file: file.to_owned(), place, message, remedy, not_yet: false }
        })?;
        // It has just been read as something more particular.
        let written = toml::from_str(text).unwrap_or_default();
        // Ports that lead nowhere leave only the host itself to talk to.
        let null = |port: &raw::Port| port.device.get_ref().starts_with("net_null");
        let no_wire = raw.ports.get_ref().iter().all(|port| null(port.get_ref()));
        accept::Accept { file, text, no_wire, scene }.config(raw, written)
    }

    /// An error at a value of this configuration, found when it was put to use.
    pub(crate) fn error<T>(&self, at: &Located<T>, message: impl fmt::Display, remedy: &str) -> ConfigError {
        ConfigError {
            file: self.file.clone(),
            place: Some(at.place),
            message: message.to_string(),
            remedy: remedy.to_owned(),
            not_yet: false,
        }
    }

    /// Longest payload that fits into a packet on every port, in whole 8-byte elements.
    pub(crate) fn max_payload(&self) -> u16 {
        max_payload(&self.addresses, &self.ports)
    }

    /// Longest update: the same, less what is said about updates behind them.
    pub(crate) fn max_update(&self) -> u16 {
        max_update(&self.addresses, &self.ports)
    }

    /// The longest payload of a job of this mode.
    pub(crate) fn max_payload_in(&self, mode: Mode) -> u16 {
        match mode {
            Mode::Sync => self.max_payload(),
            Mode::Olaf => self.max_update(),
        }
    }

    /// The queues of updates in front of the ports; none if no job sends any.
    pub(crate) fn port_queues(&self) -> Option<Vec<PortQueue>> {
        let olaf = self.jobs.iter().filter(|job| job.updates());
        // Clusters are jobs, by their numbers.
        let clusters = u32::from(olaf.map(|job| job.spec.id).max()?) + 1;
        let segment_len = self.max_update();
        let whole = |port: &PortConfig| PortQueue {
            queue: queue::Config { clusters, segment_len, ..port.queue.queue },
            rate: port.queue.rate,
        };
        Some(self.ports.iter().map(whole).collect())
    }
}

fn max_payload(addresses: &[IpAddr], ports: &[PortConfig]) -> u16 {
    room(addresses, ports) / 8 * 8
}

fn max_update(addresses: &[IpAddr], ports: &[PortConfig]) -> u16 {
    room(addresses, ports).saturating_sub(ACK_LEN) / 8 * 8
}

/// What is left for payload and trailer in the smallest packet.
fn room(addresses: &[IpAddr], ports: &[PortConfig]) -> u16 {
    let ip = if addresses.iter().any(IpAddr::is_ipv6) { 40 } else { 20 };
    let overhead = ip + 8 + 22;
    let mtu = ports.iter().map(|port| port.mtu).min().unwrap_or(0);
    mtu.saturating_sub(overhead)
}

#[cfg(test)]
mod tests;
