//! The parameter server, and jobs that are formed by Joins alone.

use core::ops::RangeInclusive;
use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use pascaline_aggregator::Order;
use pascaline_pipelines::membership::{Admission, JobKind, JobSpec};
use pascaline_wire::MAX_RANKS;
use toml::Spanned;

use super::jobs::default_window;
use super::values::word;
use super::{Accept, Checked};
use crate::config::ServerLimits;
use crate::config::job::{JobConfig, PsConfig, PsMode};
use crate::config::kind::{KindName, Tag};
use crate::config::layout::Layout;
use crate::config::words::ServerMode;
use crate::config::{Located, raw};

const DEFAULT_PORT: u16 = 16421;
const DEFAULT_MEMORY_MB: u32 = 256;
const DEFAULT_MAX_JOBS: u16 = 16;
const DEFAULT_MAX_FAN_IN: u16 = 16;
const DEFAULT_SLOTS_PER_JOB: u32 = 256;

/// Jobs that may be formed by Joins, as written.
pub(super) struct Joins<'a> {
    written: &'a Spanned<raw::Admission>,
    jobs: &'a Spanned<String>,
    from: &'a Spanned<Vec<Spanned<String>>>,
}

impl Accept<'_> {
    pub(super) fn ps_mode(
        &self,
        written: Option<&Spanned<raw::Ps>>,
        addresses: &[IpAddr],
        udp_port: u16,
    ) -> Checked<Located<PsMode>> {
        let Some(table) = written else { return Ok(self.locate(&Spanned::new(0..0, ()), PsMode::Embedded)) };
        let raw::Ps { mode, address, port, listen, memory_mb, .. } = table.get_ref();
        let chosen = word(mode.as_ref()).unwrap_or(ServerMode::Embedded);
        if chosen == ServerMode::External {
            return self.external(table, addresses, udp_port);
        }
        let remedy = "leave it out, or set mode = \"external\"";
        let only = |key: &str| format!("{key} is for a parameter server of mode \"external\"");
        match (address, port, listen) {
            (Some(written), ..) => return Err(self.error(written, only("address"), remedy)),
            (_, Some(written), _) => return Err(self.error(written, only("port"), remedy)),
            (.., Some(written)) => return Err(self.error(written, only("listen"), remedy)),
            (None, None, None) => {}
        }
        if let (ServerMode::None, Some(memory)) = (chosen, memory_mb) {
            let remedy = "leave memory_mb out, or set mode = \"embedded\" or \"external\"";
            return Err(self.error(memory, "memory_mb of a parameter server that does not run", remedy));
        }
        let value = if chosen == ServerMode::None { PsMode::None } else { PsMode::Embedded };
        Ok(match mode {
            Some(mode) => self.locate(mode, value),
            None => self.locate(table, value),
        })
    }

    fn external(
        &self,
        table: &Spanned<raw::Ps>,
        addresses: &[IpAddr],
        udp_port: u16,
    ) -> Checked<Located<PsMode>> {
        let raw::Ps { mode, address, port, .. } = table.get_ref();
        let Some(written) = address else {
            let remedy = "set address to that of the host where `pascaline ps` runs";
            let message = "a parameter server of mode \"external\" needs an address";
            return Err(match mode {
                Some(mode) => self.error(mode, message, remedy),
                None => self.error(table, message, remedy),
            });
        };
        let address = self.peer(written, addresses, "a parameter server")?;
        let port = port.as_ref().map_or(Ok(DEFAULT_PORT), |port| self.udp_port(port))?;
        // There is one: `peer` has seen to it.
        let appliance = addresses.iter().find(|other| other.is_ipv4() == address.is_ipv4());
        let appliance = SocketAddr::new(*appliance.unwrap_or(&address), udp_port);
        let address = SocketAddr::new(address, port);
        let external = PsMode::External { address, appliance };
        Ok(match mode {
            Some(mode) => self.locate(mode, external),
            None => self.locate(table, external),
        })
    }

    /// The whole of the table, once it is known what the server is for.
    pub(super) fn ps(
        &self,
        written: Option<&Spanned<raw::Ps>>,
        mode: Located<PsMode>,
        jobs: &[JobConfig],
        admission: Option<&Admission>,
        ports: &[Spanned<raw::Port>],
        max_payload: u16,
    ) -> Checked<PsConfig> {
        let table = written.map(Spanned::get_ref);
        let memory = table.and_then(|table| table.memory_mb.as_ref());
        let memory_mb = self.within(memory, DEFAULT_MEMORY_MB, 1, 1 << 20, "memory_mb")?;
        let served = jobs.iter().filter(|job| job.serves_sums());
        let windows = served.clone().map(|job| job.spec.window);
        let admitted = admission.filter(|admission| admission.like.kind.has_server());
        let limits = ServerLimits::new(
            memory_mb,
            served.clone().count() + admitted.map_or(0, |admission| admission.max_jobs),
            windows.chain(admitted.map(|admission| admission.like.window)).max().unwrap_or(1),
        );
        let needs = served.map(|job| (job.spec.fan_in, job.spec.kind.order()));
        let needs = needs.chain(admitted.map(|admission| (admission.max_fan_in, Order::Arrival)));
        for (fan_in, order) in needs {
            let (entry, share) = (limits.entry_bytes(fan_in, order, max_payload), limits.share.bytes);
            if entry > share {
                let message = format!(
                    "the parameter server has {share} bytes for each job, but one PSN of {fan_in} ranks \
                        takes {entry}"
                );
                let remedy = format!("raise memory_mb in [ps], which is {memory_mb}");
                return Err(match memory {
                    Some(memory) => self.error(memory, message, &remedy),
                    None => self.error(&Spanned::new(0..0, ()), message, &remedy),
                });
            }
        }
        let listen = table.and_then(|table| table.listen.as_ref());
        Ok(PsConfig {
            mode,
            listen: listen.map(|listen| self.listen(listen)).transpose()?,
            limits,
            training: self.training(table, ports, jobs)?,
            checkpoint: self.checkpoint(table)?,
        })
    }

    /// Which jobs may be formed by Joins, and from where: none, if the table has nothing but `verify`.
    pub(super) fn joins<'a>(&self, written: &'a Spanned<raw::Admission>) -> Checked<Option<Joins<'a>>> {
        let raw::Admission { jobs, from, verify, slots_per_job, .. } = written.get_ref();
        let raw::Admission { max_jobs, max_jobs_per_host, max_ranks_per_host, max_fan_in, .. } =
            written.get_ref();
        let numbers = [max_jobs_per_host, max_ranks_per_host, max_jobs, max_fan_in]
            .iter()
            .any(|number| number.is_some());
        match (jobs, from) {
            (Some(jobs), Some(from)) => Ok(Some(Joins { written, jobs, from })),
            (None, None) if verify.is_some() && !numbers && slots_per_job.is_none() => Ok(None),
            (jobs, _) => {
                let (key, example) =
                    if jobs.is_none() { ("jobs", "\"1000-1999\"") } else { ("from", "[\"10.77.0.0/24\"]") };
                let message = format!("this table lacks the key {key}");
                Err(self.error(written, message, &format!("add e.g. {key} = {example}")))
            }
        }
    }

    pub(super) fn admission(
        &self,
        Joins { written, jobs, from }: Joins<'_>,
        layout: &Layout,
        mode: PsMode,
    ) -> Checked<Admission> {
        let shared_slots = layout.slots(layout.shared_sets());
        if shared_slots == 0 {
            let remedy = "raise [pool] slots, or leave [admission] out";
            return Err(self.error(written, "the jobs' regions leave no slot of the pool", remedy));
        }
        let raw::Admission { max_jobs, max_jobs_per_host, max_fan_in, slots_per_job, .. } = written.get_ref();
        let ranks = written.get_ref().max_ranks_per_host.as_ref();
        if from.get_ref().is_empty() {
            let remedy = "list networks, e.g. [\"10.77.0.0/24\"], or leave [admission] out";
            return Err(self.error(from, "no host may form a job", remedy));
        }
        let default = DEFAULT_SLOTS_PER_JOB.min(shared_slots);
        let quota = self.within(slots_per_job.as_ref(), default, 1, shared_slots, "slots_per_job")?;
        let max_fan_in = self.within(max_fan_in.as_ref(), DEFAULT_MAX_FAN_IN, 1, MAX_RANKS, "max_fan_in")?;
        let max_jobs = self.within(max_jobs.as_ref(), DEFAULT_MAX_JOBS, 1, u16::MAX, "max_jobs")?;
        // Enough for a machine on which many are tried, and others have as much.
        let half = max_jobs.div_ceil(2);
        let per_host = self.within(max_jobs_per_host.as_ref(), half, 1, max_jobs, "max_jobs_per_host")?;
        let ranks_per_host = self.within(ranks, max_fan_in, 1, max_fan_in, "max_ranks_per_host")?;
        let conflict = KindName::Plain(Tag::Shared).conflict(mode != PsMode::None);
        Ok(Admission {
            jobs: self.range(jobs)?,
            from: from.get_ref().iter().map(|network| self.network(network)).collect::<Checked<_>>()?,
            max_jobs: max_jobs.into(),
            max_jobs_per_host: per_host.into(),
            max_fan_in,
            like: JobSpec {
                window: default_window(max_fan_in).min(u16::try_from(quota).unwrap_or(u16::MAX)),
                max_ranks_per_host: ranks_per_host,
                kind: JobKind::Shared { conflict, order: Order::Arrival, quota, server: mode.server() },
                // Number and fan-in are those of the Join that forms the job.
                ..JobSpec::new(0, 0)
            },
            idle: Admission::IDLE,
        })
    }

    fn range(&self, written: &Spanned<String>) -> Checked<RangeInclusive<u16>> {
        let text = written.get_ref().as_str();
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        match (first.trim().parse(), last.trim().parse()) {
            (Ok(first), Ok(last)) if first <= last => Ok(first..=last),
            _ => {
                let message = format_args!("{text:?} is no range of job numbers");
                Err(self.error(
                    written,
                    message,
                    "write the first and the last number, 0 to 65535, e.g. \"1000-1999\"",
                ))
            }
        }
    }

    fn network(&self, written: &Spanned<String>) -> Checked<IpNet> {
        let text = written.get_ref().as_str();
        text.parse().or_else(|_| text.parse::<IpAddr>().map(IpNet::from)).map_err(|error| {
            let message = format_args!("{text:?}: {error}");
            self.error(
                written,
                message,
                "write an address with prefix length, e.g. \"10.77.0.0/24\" or \"fd77::/64\"",
            )
        })
    }
}
