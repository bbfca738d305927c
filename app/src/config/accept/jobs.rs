//! Jobs, and where in the pool each has its place.

use std::net::IpAddr;
use std::time::Duration;

use pascaline_aggregator::{Order, Policy, PoolConfig, Region};
use pascaline_pipelines::Mode;
use pascaline_wire::{CongestionControl, MAX_RANKS};
use pascaline_worker::session::HEARTBEAT;
use toml::Spanned;

use super::policy::Chosen;
use super::switchml::is_switchml;
use super::values::{get, word};
use super::{Accept, Checked};
use crate::config::job::{DEFAULT_DEAD_AFTER, JobConfig, PsMode};
use crate::config::layout::Layout;
use crate::config::profile::Addressing;
use crate::config::raw;

/// The widest default window, in packets.
const DEFAULT_WINDOW: u16 = 512;
/// Packets that all ranks of a job together may have under way with the default window: more ranks get a
/// narrower one. It also bounds what a job keeps whose partials keep every contribution's packet.
const UNDER_WAY: u16 = 32_768;
/// The share of a job that says nothing of it, and the largest.
const DEFAULT_SHARE: u16 = 1;
const MOST_SHARE: u16 = 1000;
/// The congestion control of a job that names none: it needs nothing of the network.
const DEFAULT_CONGESTION: CongestionControl = CongestionControl::Delay;
/// The widest window of all.
const MOST_WINDOW: u16 = 1 << 14;
/// Three heartbeats: one may be lost, and one may be on its way.
const LEAST_DEAD_AFTER: Duration = HEARTBEAT.saturating_mul(3);

/// The default window of a job, in packets: at least 32.
pub(super) fn default_window(fan_in: u16) -> u16 {
    DEFAULT_WINDOW.min(UNDER_WAY / fan_in.clamp(1, MAX_RANKS))
}

fn nanos(after: Duration) -> u64 {
    u64::try_from(after.as_nanos()).unwrap_or(u64::MAX)
}

/// A job's region with the window that fits it.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    region: Region,
    slots: u32,
}

/// A region of the size that is written, or else of twice the window: PSNs that are under way and results
/// that somebody may still lack lie within that many.
fn region_slots(job: &raw::Job, ways: u32) -> u32 {
    let written = get(job.region_slots.as_ref());
    written.unwrap_or_else(|| {
        let window = get(job.window.as_ref()).unwrap_or_else(|| default_window(*job.fan_in.get_ref()));
        // Of SwitchML's slots each has a set of its own.
        let slots = if is_switchml(job) { ways } else { 2 };
        (slots * u32::from(window).next_power_of_two()).max(ways)
    })
}

/// The widest window of a job that has these slots, and the widest that leaves room for results.
fn widest(job: &raw::Job, place: Option<&Reserved>, slots: u32) -> (u16, u16) {
    let packets = |slots| u16::try_from(slots).unwrap_or(u16::MAX).min(MOST_WINDOW);
    match place {
        None => (packets(slots), packets(slots)),
        // Each slot that SwitchML's clients may name has a set of its own, with room for results.
        Some(place) if is_switchml(job) => (packets(place.region.sets), packets(place.region.sets)),
        // Results must stay in a region while somebody may lack them: half of it is for them.
        Some(_) => (packets(slots), (packets(slots) / 2).max(1)),
    }
}

impl Accept<'_> {
    /// The jobs, and what their regions leave of the pool.
    pub(super) fn jobs(
        &self,
        written: &[Spanned<raw::Job>],
        pool: &PoolConfig,
        ps: PsMode,
        admission: bool,
        (max_update, own): (u16, &[IpAddr]),
    ) -> Checked<(Vec<JobConfig>, Layout)> {
        let default = self.default_addressing(written, pool, admission)?;
        let mut layout = Layout::new(pool);
        // Regions first: what they leave bounds the others.
        let mut placed: Vec<(&raw::Job, u16, Mode, Chosen, Option<Reserved>)> = Vec::new();
        for job in written.iter().map(Spanned::get_ref) {
            let id = *job.id.get_ref();
            if placed.iter().any(|(other, ..)| *other.id.get_ref() == id) {
                let message = format!("two jobs have the number {id}");
                return Err(self.error(&job.id, message, "give each job a number of its own"));
            }
            let fan_in = self.within(Some(&job.fan_in), 0, 1, MAX_RANKS, "fan_in")?;
            let mode = self.mode(job)?;
            let chosen = match mode {
                Mode::Sync => self.chosen(job, fan_in, ps, default)?,
                Mode::Olaf => self.olaf(job, fan_in, ps, max_update)?,
            };
            let place = match (chosen.addressing, &job.region_slots) {
                (Addressing::Region, _) => Some(self.region(job, &mut layout)?),
                (Addressing::Shared, None) => None,
                (Addressing::Shared, Some(slots)) => {
                    let remedy = "set addressing = \"region\", or leave region_slots out";
                    return Err(self.error(slots, "region_slots of a job in the shared pool", remedy));
                }
            };
            placed.push((job, fan_in, mode, chosen, place));
        }
        let shared_slots = layout.slots(layout.shared_sets());
        let jobs = placed.iter().map(|(job, fan_in, mode, chosen, place)| {
            let switchml = self.switchml(job, pool, own)?;
            let accepted = self.job(job, *fan_in, *mode, chosen, place.as_ref(), shared_slots)?;
            let multicast = self.multicast(job, written, own)?;
            Ok(JobConfig { switchml, multicast, ..accepted })
        });
        Ok((jobs.collect::<Checked<_>>()?, layout))
    }

    /// Where jobs have their place whose keys leave it open: in regions, as long as there is room for all of
    /// them, and, if others share the pool, half of it is left for these.
    fn default_addressing(
        &self,
        written: &[Spanned<raw::Job>],
        pool: &PoolConfig,
        admission: bool,
    ) -> Checked<Addressing> {
        let mut layout = Layout::new(pool);
        let all = layout.shared_sets();
        let (mut sharing, mut fit) = (admission, true);
        for job in written.iter().map(Spanned::get_ref) {
            if self.mode(job)? == Mode::Olaf {
                continue;
            }
            match Self::addressing(job) {
                Some(Addressing::Shared) => sharing = true,
                Some(Addressing::Region) | None => {
                    fit &= layout.take(region_slots(job, layout.slots(1))).is_some();
                }
            }
        }
        let least = if sharing { all.div_ceil(2) } else { 0 };
        Ok(if fit && layout.shared_sets() >= least { Addressing::Region } else { Addressing::Shared })
    }

    fn region(&self, job: &raw::Job, layout: &mut Layout) -> Checked<Reserved> {
        let ways = layout.slots(1);
        if let Some(slots) = &job.region_slots
            && (!slots.get_ref().is_power_of_two() || *slots.get_ref() < ways)
        {
            let message = format_args!("region_slots = {} cannot be a region", slots.get_ref());
            let remedy = format!("choose a power of two, at least `ways`, which is {ways}");
            return Err(self.error(slots, message, &remedy));
        }
        let slots = region_slots(job, ways);
        if let Some(region) = layout.take(slots) {
            return Ok(Reserved { region, slots });
        }
        let left = layout.slots(layout.shared_sets());
        let message = format!("a region of {slots} slots does not fit: {left} slots of the pool are left");
        let remedy = "raise [pool] slots, or give smaller region_slots (by default twice the window)";
        Err(match &job.region_slots {
            Some(slots) => self.error(slots, message, remedy),
            None => self.error(&job.id, message, remedy),
        })
    }

    fn job(
        &self,
        job: &raw::Job,
        fan_in: u16,
        mode: Mode,
        chosen: &Chosen,
        place: Option<&Reserved>,
        shared_slots: u32,
    ) -> Checked<JobConfig> {
        let id = *job.id.get_ref();
        let slots = place.map_or(shared_slots, |place| place.slots);
        if slots == 0 && mode == Mode::Sync {
            let remedy = "raise [pool] slots, or give this job a region of its own, too";
            return Err(self.error(&job.id, "the regions of other jobs leave no slot of the pool", remedy));
        }
        // What finds no slot goes to the parameter server; without one it would only be refused.
        let spills = place.is_none() && chosen.server;
        let (most, fitting) = if spills { (MOST_WINDOW, MOST_WINDOW) } else { widest(job, place, slots) };
        let default = default_window(fan_in).min(fitting);
        let window = self.within(job.window.as_ref(), default, 1, most, "window")?;
        let policy = Policy {
            conflict: chosen.conflict,
            order: chosen.order,
            region: place.map(|place| place.region),
            quota: self.quota(job, chosen, window, slots)?,
            partial_after: chosen.partial_after.map_or(0, nanos),
            server: chosen.server,
        };
        Ok(JobConfig {
            id,
            name: job.name.as_ref().map_or_else(|| format!("job{id}"), |name| name.get_ref().clone()),
            fan_in,
            window,
            members: job.members.as_ref().map(|members| self.members(members, fan_in)).transpose()?,
            max_ranks_per_host: self.ranks_per_host(job)?,
            mode,
            movable: mode == Mode::Sync && job.server.is_none() && Self::addressing(job).is_none(),
            policy,
            share: self.within(job.share.as_ref(), DEFAULT_SHARE, 1, MOST_SHARE, "share")?,
            needed: chosen.needed,
            refused: None,
            partials: chosen.partials,
            dead_after: if is_switchml(job) { None } else { self.dead_after(job)? },
            on_death: word(job.on_death.as_ref()).unwrap_or_default(),
            control: word(job.control.as_ref()).unwrap_or_default(),
            congestion: word(job.congestion.as_ref()).unwrap_or(DEFAULT_CONGESTION),
            multicast: None,
            switchml: None,
            parent: None,
            backups: Vec::new(),
        })
    }

    fn quota(&self, job: &raw::Job, chosen: &Chosen, window: u16, slots: u32) -> Checked<u32> {
        // A partial in the order of ranks keeps all its packets: there is no such job without a bound.
        let (least, bound) = match chosen.order {
            Order::Arrival => (0, 0),
            Order::Rank => (1, u32::from(window)),
        };
        let quota = self.within(job.quota.as_ref(), bound, least, slots, "quota")?;
        match &job.quota {
            Some(written) if chosen.partials && quota > 0 => {
                let message = "quota and results that may lack ranks exclude each other: younger PSNs, which \
                    nothing empties, would use it up permanently";
                let remedy = "leave quota out: the job takes no more than its region, see region_slots";
                Err(self.error(written, message, remedy))
            }
            _ => Ok(quota),
        }
    }

    /// The most ranks that one address may have: all, unless it is written.
    fn ranks_per_host(&self, job: &raw::Job) -> Checked<u16> {
        let fan_in = *job.fan_in.get_ref();
        self.within(job.max_ranks_per_host.as_ref(), fan_in, 1, fan_in, "max_ranks_per_host")
    }

    /// What can be said about each job alone.
    pub(super) fn jobs_apart(&self, jobs: &[Spanned<raw::Job>], own: &[IpAddr]) -> Checked<()> {
        self.job_names(jobs)?;
        for job in jobs.iter().map(Spanned::get_ref) {
            self.within(job.window.as_ref(), 1, 1, MOST_WINDOW, "window")?;
            for (rank, member) in job.members.iter().flat_map(Spanned::get_ref).enumerate() {
                self.peer(member, own, &format!("rank {rank}"))?;
            }
        }
        Ok(())
    }

    fn dead_after(&self, job: &raw::Job) -> Checked<Option<Duration>> {
        let after = self.duration_or_never(job.dead_after.as_ref(), DEFAULT_DEAD_AFTER)?;
        match (&job.dead_after, after) {
            (Some(written), Some(short)) if short < LEAST_DEAD_AFTER => {
                let message = format!(
                    "dead_after = {short:?}: workers say every {HEARTBEAT:?} that they are there, and such a \
                        packet may be lost"
                );
                let remedy = format!("choose at least \"{LEAST_DEAD_AFTER:?}\", or \"0s\" for never");
                Err(self.error(written, message, &remedy))
            }
            _ => Ok(after),
        }
    }

    fn members(&self, written: &Spanned<Vec<Spanned<String>>>, fan_in: u16) -> Checked<Vec<IpAddr>> {
        let members = written.get_ref();
        if members.len() == usize::from(fan_in) {
            return members.iter().map(|member| self.address(member)).collect();
        }
        let message = format!("{} members, but fan_in = {fan_in}", members.len());
        Err(self.error(written, message, "list one address per rank, or leave members out"))
    }
}
