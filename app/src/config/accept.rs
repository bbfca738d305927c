//! From what was written to what is accepted.

use core::fmt;
use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use pascaline_aggregator::{PoolConfig, PoolConfigError, RankSet};
use pascaline_dpdk::{Device, Hugepages};
use pascaline_pipelines::IdlePolicy;
use toml::Spanned;

use super::{Config, ConfigError, JobConfig, Located, Place, PortConfig, raw};

type Checked<T> = Result<T, ConfigError>;

const DEFAULT_MTU: u16 = 1500;
const DEFAULT_DESCRIPTORS: u16 = 512;
const DEFAULT_WINDOW: u16 = 512;
const DEFAULT_MEMORY_MB: u32 = 512;
const DEFAULT_DRAIN: Duration = Duration::from_secs(1);
const DEFAULT_NAP: Duration = Duration::from_micros(100);

/// Checks one file's contents.
pub(super) struct Accept<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
}

impl Accept<'_> {
    fn error<T>(&self, at: &Spanned<T>, message: impl fmt::Display, remedy: &str) -> ConfigError {
        ConfigError {
            file: self.file.to_owned(),
            place: Some(Place::of(self.text, at.span().start)),
            message: message.to_string(),
            remedy: remedy.to_owned(),
        }
    }

    fn locate<T: Clone, U>(&self, at: &Spanned<T>, value: U) -> Located<U> {
        Located { value, place: Place::of(self.text, at.span().start) }
    }

    pub(super) fn config(&self, raw: raw::Raw) -> Checked<Config> {
        let raw::Raw { appliance, dataplane, ports, pool, jobs, telemetry } = raw;
        let addresses = self.addresses(&appliance.addresses)?;
        let udp_port = match appliance.udp_port {
            Some(port) if *port.get_ref() == 0 => {
                return Err(self.error(
                    &port,
                    "UDP port 0 cannot be listened on",
                    "choose a port from 1 to 65535",
                ));
            }
            Some(port) => port.into_inner(),
            None => pascaline_wire::DEFAULT_PORT,
        };
        let name = match appliance.name {
            Some(name) if name.get_ref().is_empty() || name.get_ref().contains(['/', '\0']) => {
                return Err(self.error(
                    &name,
                    "the name is empty or contains a slash",
                    "use letters and digits",
                ));
            }
            Some(name) => name.into_inner(),
            None => "pascaline".to_owned(),
        };
        let memory_mb = match &dataplane.get_ref().memory_mb {
            Some(memory) => self.locate(memory, *memory.get_ref()),
            None => Located { value: DEFAULT_MEMORY_MB, place: Place::of(self.text, dataplane.span().start) },
        };
        let dataplane = dataplane.into_inner();
        let cores = self.cores(&dataplane)?;
        let pool = self.pool(pool)?;
        Ok(Config {
            file: self.file.to_owned(),
            name,
            addresses,
            udp_port,
            main_core: *dataplane.main_core.get_ref(),
            float: dataplane.float,
            idle: self.idle(&dataplane)?,
            hugepages: self.hugepages(dataplane.hugepages.as_ref())?,
            memory_mb,
            drain: self.duration(dataplane.drain.as_ref(), DEFAULT_DRAIN)?,
            ports: self.ports(&ports)?,
            jobs: self.jobs(&jobs, &pool)?,
            pool,
            cores,
            listen: telemetry.listen.map(|listen| self.listen(&listen)).transpose()?,
        })
    }

    fn addresses(&self, written: &Spanned<Vec<Spanned<String>>>) -> Checked<Vec<IpAddr>> {
        if written.get_ref().is_empty() {
            return Err(self.error(written, "the appliance has no address", "give at least one IP address"));
        }
        written.get_ref().iter().map(|address| self.address(address)).collect()
    }

    fn address(&self, written: &Spanned<String>) -> Checked<IpAddr> {
        written.get_ref().parse().map_err(|error| {
            let message = format!("{:?}: {error}", written.get_ref());
            self.error(
                written,
                message,
                "write an address without prefix length, e.g. \"10.77.0.254\" or \"fd00::1\"",
            )
        })
    }

    fn cores(&self, dataplane: &raw::Dataplane) -> Checked<Located<Vec<usize>>> {
        let raw::Dataplane { main_core, cores, float, .. } = dataplane;
        if cores.get_ref().is_empty() {
            return Err(self.error(cores, "no dataplane core", "give one core per lcore, e.g. cores = [1]"));
        }
        let mut used = BTreeSet::from([*main_core.get_ref()]);
        for core in cores.get_ref() {
            if !used.insert(*core.get_ref()) && !float {
                let other = if core.get_ref() == main_core.get_ref() { "main_core" } else { "another lcore" };
                return Err(self.error(
                    core,
                    format_args!("cores overlap: core {} is also used by {other}", core.get_ref()),
                    "give every lcore a core of its own, or set float = true to let lcores share the listed cores",
                ));
            }
        }
        Ok(self.locate(cores, cores.get_ref().iter().map(|core| *core.get_ref()).collect()))
    }

    fn idle(&self, dataplane: &raw::Dataplane) -> Checked<IdlePolicy> {
        let longest_nap = self.duration(dataplane.longest_nap.as_ref(), DEFAULT_NAP)?;
        match dataplane.idle.as_ref().map(|idle| (idle, idle.get_ref().as_str())) {
            None | Some((_, "backoff")) => Ok(IdlePolicy::Backoff { longest_nap }),
            Some((_, "spin")) => Ok(IdlePolicy::Spin),
            Some((idle, other)) => {
                let message = format!("idle = {other:?} is not a policy");
                Err(self.error(
                    idle,
                    message,
                    "\"spin\" polls for ever, \"backoff\" sleeps between empty polls",
                ))
            }
        }
    }

    fn hugepages(&self, written: Option<&Spanned<String>>) -> Checked<Hugepages> {
        match written.map(|written| (written, written.get_ref().as_str())) {
            None | Some((_, "auto")) => Ok(Hugepages::Auto),
            Some((_, "require")) => Ok(Hugepages::Require),
            Some((_, "no")) => Ok(Hugepages::No),
            Some((written, other)) => {
                let message = format!("hugepages = {other:?} is not a choice");
                Err(self.error(written, message, "\"auto\", \"require\" or \"no\""))
            }
        }
    }

    fn duration(&self, written: Option<&Spanned<String>>, default: Duration) -> Checked<Duration> {
        let Some(written) = written else { return Ok(default) };
        match humantime::parse_duration(written.get_ref()) {
            Ok(duration) if !duration.is_zero() => Ok(duration),
            Ok(_) => Err(self.error(written, "a duration of zero", "write a longer one, e.g. \"500ms\"")),
            Err(error) => Err(self.error(
                written,
                error,
                "write a number and a unit, e.g. \"100us\", \"500ms\" or \"2s\"",
            )),
        }
    }

    fn ports(&self, written: &Spanned<Vec<Spanned<raw::Port>>>) -> Checked<Vec<PortConfig>> {
        if written.get_ref().is_empty() {
            return Err(self.error(written, "no port", "add a [[ports]] table with name and device"));
        }
        let mut ports: Vec<PortConfig> = Vec::new();
        for port in written.get_ref().iter().map(Spanned::get_ref) {
            if ports.iter().any(|other| other.name == *port.name.get_ref()) {
                let message = format!("two ports are called {:?}", port.name.get_ref());
                return Err(self.error(&port.name, message, "give each port a name of its own"));
            }
            let device = device(port.device.get_ref());
            if ports.iter().any(|other| other.device.value == device) {
                return Err(self.error(
                    &port.device,
                    "this device is a port already",
                    "use each device once",
                ));
            }
            ports.push(PortConfig {
                name: port.name.get_ref().clone(),
                device: self.locate(&port.device, device),
                mtu: self.within(port.mtu.as_ref(), DEFAULT_MTU, 128, 9702, "mtu")?,
                rx_descriptors: self.within(
                    port.rx_descriptors.as_ref(),
                    DEFAULT_DESCRIPTORS,
                    32,
                    16384,
                    "rx_descriptors",
                )?,
                tx_descriptors: self.within(
                    port.tx_descriptors.as_ref(),
                    DEFAULT_DESCRIPTORS,
                    32,
                    16384,
                    "tx_descriptors",
                )?,
                peer: None,
            });
        }
        for (at, port) in written.get_ref().iter().map(Spanned::get_ref).enumerate() {
            let Some(peer) = &port.peer else { continue };
            let found = ports.iter().position(|other| other.name == *peer.get_ref());
            let Some(found) = found.filter(|&found| found != at) else {
                let message = format!("there is no other port called {:?}", peer.get_ref());
                return Err(self.error(peer, message, "name the port at the other side"));
            };
            for (from, to) in [(at, found), (found, at)] {
                if ports[from].peer.is_some_and(|present| present != to) {
                    let message = format!("port {:?} has another peer already", ports[from].name);
                    return Err(self.error(peer, message, "peers come in pairs"));
                }
                ports[from].peer = Some(to);
            }
        }
        Ok(ports)
    }

    fn within(
        &self,
        written: Option<&Spanned<u16>>,
        default: u16,
        least: u16,
        most: u16,
        what: &str,
    ) -> Checked<u16> {
        match written {
            None => Ok(default),
            Some(value) if (least..=most).contains(value.get_ref()) => Ok(*value.get_ref()),
            Some(value) => {
                let message = format!("{what} = {} is out of range", value.get_ref());
                Err(self.error(value, message, &format!("choose a number from {least} to {most}")))
            }
        }
    }

    fn pool(&self, written: raw::Pool) -> Checked<PoolConfig> {
        let raw::Pool { slots, ways, age_limit } = written;
        let default = PoolConfig::default();
        let pool = PoolConfig {
            slots: slots.as_ref().map_or(default.slots, |slots| *slots.get_ref()),
            ways: ways.as_ref().map_or(default.ways, |ways| *ways.get_ref()),
            age_limit: self.duration(age_limit.as_ref(), default.age_limit)?,
            ..default
        };
        match pool.check() {
            Ok(()) => Ok(pool),
            Err(error) => {
                let at = match error {
                    PoolConfigError::Slots(_) => slots.or(ways),
                    PoolConfigError::Ways(_) => ways,
                };
                // The defaults are right, so whatever is wrong was written.
                let at = at.unwrap_or_else(|| Spanned::new(0..0, 0));
                Err(self.error(&at, error, "e.g. slots = 4096 and ways = 4"))
            }
        }
    }

    fn jobs(&self, written: &[Spanned<raw::Job>], pool: &PoolConfig) -> Checked<Vec<JobConfig>> {
        let mut jobs: Vec<JobConfig> = Vec::new();
        for job in written.iter().map(Spanned::get_ref) {
            let id = *job.id.get_ref();
            if jobs.iter().any(|other| other.id == id) {
                let message = format!("two jobs have the number {id}");
                return Err(self.error(&job.id, message, "give each job a number of its own"));
            }
            let most = RankSet::<1>::CAPACITY;
            let fan_in = self.within(Some(&job.fan_in), 0, 1, most, "fan_in")?;
            let most = u16::try_from(pool.slots).unwrap_or(u16::MAX).min(1 << 14);
            let default = DEFAULT_WINDOW.min(most);
            let window = self.within(job.window.as_ref(), default, 1, most, "window")?;
            let members = match &job.members {
                None => None,
                Some(members) if members.get_ref().len() == usize::from(fan_in) => Some(
                    members
                        .get_ref()
                        .iter()
                        .map(|member| self.address(member))
                        .collect::<Checked<Vec<_>>>()?,
                ),
                Some(members) => {
                    let message = format!("{} members, but fan_in = {fan_in}", members.get_ref().len());
                    return Err(self.error(
                        members,
                        message,
                        "list one address per rank, or leave members out",
                    ));
                }
            };
            let name = job.name.clone().unwrap_or_else(|| format!("job{id}"));
            jobs.push(JobConfig { id, name, fan_in, window, members });
        }
        Ok(jobs)
    }

    fn listen(&self, written: &Spanned<String>) -> Checked<Located<SocketAddr>> {
        match written.get_ref().parse() {
            Ok(address) => Ok(self.locate(written, address)),
            Err(error) => {
                let message = format!("{:?}: {error}", written.get_ref());
                Err(self.error(written, message, "write address and port, e.g. \"127.0.0.1:9464\""))
            }
        }
    }
}

/// A PCI address looks like 0000:01:00.0 or 01:00.0; everything else is a virtual device.
fn device(text: &str) -> Device {
    let is_pci = text.split(',').next().is_some_and(|address| {
        let digits = address.chars().all(|c| c.is_ascii_hexdigit() || c == ':' || c == '.');
        digits && address.contains(':') && address.contains('.')
    });
    if is_pci { Device::Pci(text.to_owned()) } else { Device::Vdev(text.to_owned()) }
}
