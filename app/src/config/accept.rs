//! From what was written to what is accepted.

use core::fmt;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use pascaline_aggregator::{PoolConfig, PoolConfigError};
use pascaline_pipelines::{IdlePolicy, Marks, STAGE};
use toml::Spanned;

use self::values::{get, word};
use super::words::Idle;
use super::{Config, ConfigError, Located, Place, raw};

/// Tables of jobs: each key with its type as it is read, with its place in the file, and its type in JSON.
/// Requests of the admin API have the latter; their keys are put into the file's table and judged there.
macro_rules! keys {
    ($($(#[$of:meta])* $table:ident as $json:ident {
        $($(#[$about:meta])* $key:ident: $read:ty as $sent:ty),+ $(,)?
    })+) => {$(
        $(#[$of])*
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        pub(crate) struct $table {
            $(pub(super) $key: $read),+
        }

        $(#[$of])*
        #[derive(utoipa::ToSchema)]
        #[expect(dead_code, reason = "a schema only")]
        pub(crate) struct $json {
            $($(#[$about])* $key: $sent),+
        }
    )+};
}

mod addresses;
mod admin;
mod devices;
mod job;
mod jobs;
mod kind;
mod listens;
mod multicast;
mod names;
mod objective;
mod olaf;
mod parent;
mod ports;
mod ps;
mod security;
mod switchml;
mod training;
mod values;

pub(crate) use job::{Job, JobTerms, NewJob};

type Checked<T> = Result<T, ConfigError>;

const DEFAULT_MEMORY_MB: u32 = 512;
const DEFAULT_DRAIN: Duration = Duration::from_secs(1);
/// Two more jobs of two ranks with the default window, or half a job of five.
const DEFAULT_SPARE: u32 = 1024;
const MOST_SPARE: u32 = 1 << 24;
const DEFAULT_NAP: Duration = Duration::from_micros(100);
/// From when on results say that there is congestion here.
const MARK_FRAMES: u16 = 64;
const MARK_SHARE: f64 = 0.9;
const MOST_NAP: Duration = Duration::from_millis(100);

/// Checks one file's contents.
pub(super) struct Accept<'a> {
    pub(super) file: &'a Path,
    pub(super) text: &'a str,
    /// No port leads anywhere.
    pub(super) no_wire: bool,
    pub(super) scene: Scene,
}

/// Where a file is read, and when.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scene {
    /// The files that it names are on this machine.
    pub(super) here: bool,
    /// All but the jobs is in force already: some of it may be for jobs that are gone.
    pub(super) runs: bool,
    /// The keys of all jobs are on this machine, not only of those with a server of another process.
    pub(super) all_keys: bool,
}

/// On the appliance's machine, before it starts.
pub(super) const HERE: Scene = Scene { here: true, runs: false, all_keys: true };

/// What the jobs do not share is set apart for regions.
fn reserving(pool: PoolConfig, shared_sets: usize) -> PoolConfig {
    PoolConfig { reserved: pool.slots.saturating_sub(shared_sets * pool.ways), ..pool }
}

impl Accept<'_> {
    fn error<T>(&self, at: &Spanned<T>, message: impl fmt::Display, remedy: &str) -> ConfigError {
        ConfigError {
            file: self.file.to_owned(),
            place: Some(Place::of(self.text, at.span().start)),
            message: message.to_string(),
            remedy: remedy.to_owned(),
            not_yet: false,
        }
    }

    fn locate<T, U>(&self, at: &Spanned<T>, value: U) -> Located<U> {
        Located { value, place: Place::of(self.text, at.span().start) }
    }

    pub(super) fn config(&self, raw: raw::Raw, written: toml::Table) -> Checked<Config> {
        let raw::Raw { appliance, dataplane, ports, pool, jobs, admission, ps, telemetry, admin } = raw;
        let addresses = self.addresses(&appliance.addresses)?;
        let (udp_ports, dscp) = self.recognised(&appliance)?;
        let memory_mb = self.memory(&dataplane);
        let dataplane = dataplane.into_inner();
        let cores = self.cores(&dataplane)?;
        let spare =
            self.within(pool.spare_packets.as_ref(), DEFAULT_SPARE, 0, MOST_SPARE, "spare_packets")?;
        let marks = self.marks(&dataplane, &pool)?;
        let pool = self.pool(pool)?;
        let (ports, written_ports) = (self.ports(&ports)?, ports);
        let mode = self.ps_mode(ps.as_ref(), &addresses, udp_ports.first())?;
        let listen = telemetry.listen.as_ref().map(|listen| self.listen(listen)).transpose()?;
        let api = admin.as_ref().map(|admin| self.admin(admin)).transpose()?;
        let page = telemetry.listen.as_ref().zip(listen.as_ref().map(|listen| listen.value));
        let api_at = admin.as_ref().map(Spanned::get_ref).zip(api.as_ref());
        self.listens_apart(&addresses, page, api_at, (&jobs, udp_ports))?;
        self.jobs_apart(&jobs, &addresses)?;
        let joins = admission.as_ref().map(|written| self.joins(written)).transpose()?.flatten();
        let max_update = super::max_update(&addresses, &ports);
        let scope = kind::Scope { pool: &pool, ps: mode.value, max_update, own: &addresses };
        let (apart, layout) = self.jobs(&jobs, scope)?;
        let jobs = self.parents(&jobs, apart, &ports, (&addresses, udp_ports.first(), dscp))?;
        self.queues_are_used(written_ports.get_ref(), &jobs)?;
        let admitted = joins.map(|joins| self.admission(joins, &layout, mode.value)).transpose()?;
        let max_payload = super::max_payload(&addresses, &ports);
        let ps =
            self.ps(ps.as_ref(), mode, &jobs, admitted.as_ref(), written_ports.get_ref(), max_payload)?;
        let config = Config {
            file: self.file.to_owned(),
            name: self.appliance_name(&appliance)?,
            addresses,
            udp_ports,
            dscp,
            main_core: self.locate(&dataplane.main_core, *dataplane.main_core.get_ref()),
            float: dataplane.float,
            idle: self.idle(&dataplane)?,
            hugepages: word(dataplane.hugepages.as_ref()).unwrap_or_default(),
            memory_mb,
            drain: self.duration(dataplane.drain.as_ref(), DEFAULT_DRAIN)?,
            in_line: self.in_line(&dataplane)?,
            marks,
            ports,
            jobs,
            admission: admitted,
            verified: None,
            ps,
            pool: reserving(pool, layout.shared_sets() as usize),
            spare_packets: spare as usize,
            shared_sets: layout.shared_sets(),
            cores,
            listen,
            hosts: self.hosts(telemetry.hosts.as_deref().unwrap_or_default())?,
            dpdk_telemetry: telemetry.dpdk,
            admin: api,
            written,
        };
        config.check_memory()?;
        self.verified(config, admission.as_ref())
    }

    fn memory(&self, dataplane: &Spanned<raw::Dataplane>) -> Located<u32> {
        match &dataplane.get_ref().memory_mb {
            Some(memory) => self.locate(memory, *memory.get_ref()),
            None => self.locate(dataplane, DEFAULT_MEMORY_MB),
        }
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
                    "give every lcore a core of its own, or set float = true to let lcores share the \
                        listed cores",
                ));
            }
        }
        Ok(self.locate(cores, cores.get_ref().iter().map(|core| *core.get_ref()).collect()))
    }

    /// 0 stands for never.
    fn marks(&self, dataplane: &raw::Dataplane, pool: &raw::Pool) -> Checked<Marks> {
        let most = u16::try_from(STAGE).unwrap_or(u16::MAX);
        let frames = self.within(dataplane.mark_from.as_ref(), MARK_FRAMES, 0, most, "mark_from")?;
        let share = get(pool.mark_from.as_ref()).unwrap_or(MARK_SHARE);
        if let Some(written) = pool.mark_from.as_ref().filter(|_| !(0.0..=1.0).contains(&share)) {
            let message = format!("mark_from = {share} is no share of the slots");
            return Err(self.error(written, message, "write a number from 0 (never) to 1, e.g. 0.9"));
        }
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 1000")]
        let permille = (share * 1000.0) as u32;
        Ok(Marks {
            frames: if frames == 0 { Marks::NEVER.frames } else { frames.into() },
            slots: if permille == 0 { Marks::NEVER.slots } else { permille },
        })
    }

    fn idle(&self, dataplane: &raw::Dataplane) -> Checked<IdlePolicy> {
        let longest_nap = self.duration(dataplane.longest_nap.as_ref(), DEFAULT_NAP)?;
        if let (Some(written), true) = (&dataplane.longest_nap, longest_nap > MOST_NAP) {
            let message = format!("longest_nap = {longest_nap:?}: rings would run over meanwhile");
            return Err(self.error(written, message, &format!("choose at most \"{MOST_NAP:?}\"")));
        }
        Ok(match word(dataplane.idle.as_ref()) {
            None | Some(Idle::Backoff) => IdlePolicy::Backoff { longest_nap },
            Some(Idle::Spin) => IdlePolicy::Spin,
        })
    }

    fn pool(&self, written: raw::Pool) -> Checked<PoolConfig> {
        let raw::Pool { slots, ways, age_limit, .. } = written;
        let default = PoolConfig::default();
        let pool = PoolConfig {
            slots: get(slots.as_ref()).unwrap_or(default.slots),
            ways: get(ways.as_ref()).unwrap_or(default.ways),
            age_limit: self.duration(age_limit.as_ref(), default.age_limit)?,
            ..default
        };
        match pool.check() {
            Ok(()) => Ok(pool),
            Err(error) => {
                let at = match error {
                    PoolConfigError::Slots(_) | PoolConfigError::Reserved(_) => slots.or(ways),
                    PoolConfigError::Ways(_) => ways,
                };
                // The defaults are right, so whatever is wrong was written.
                let at = at.unwrap_or_else(|| Spanned::new(0..0, 0));
                Err(self.error(&at, error, "e.g. slots = 4096 and ways = 4"))
            }
        }
    }
}
