//! Jobs, and where in the pool each has its place.

use std::net::IpAddr;
use std::time::Duration;

use pascaline_aggregator::Region;
use pascaline_pipelines::membership::JobSpec;
use pascaline_wire::frame::Address;
use pascaline_wire::{CongestionControl, MAX_RANKS};
use pascaline_worker::session::HEARTBEAT;
use toml::Spanned;

use super::kind::Scope;
use super::values::{get, word};
use super::{Accept, Checked};
use crate::config::job::JobConfig;
use crate::config::kind::Tag;
use crate::config::layout::Layout;
use crate::config::raw;

/// The widest default window, in packets.
const DEFAULT_WINDOW: u16 = 512;
/// Packets that all ranks of a job together may have in flight with the default window: more ranks get a
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

/// A job's region with the window that fits it.
#[derive(Debug, Clone, Copy)]
struct Reserved {
    region: Region,
    slots: u32,
}

/// Whether each slot that the job's workers name has a set of its own: those of SwitchML's clients.
fn has_sets(job: &raw::Job) -> bool {
    job.kind_name().tag() == Tag::Switchml
}

/// The slots of a region: the written number, or twice the window, within which all PSNs in flight and all
/// results lie that a rank may still lack.
fn region_slots(job: &raw::Job, ways: u32) -> u32 {
    let written = get(job.slots());
    written.unwrap_or_else(|| {
        let window = get(job.window.as_ref()).unwrap_or_else(|| default_window(*job.fan_in.get_ref()));
        let slots = if has_sets(job) { ways } else { 2 };
        (slots * u32::from(window).next_power_of_two()).max(ways)
    })
}

/// The widest window of a job that has these slots, and the widest that leaves room for results.
fn widest(job: &raw::Job, place: Option<&Reserved>, slots: u32) -> (u16, u16) {
    let packets = |slots| u16::try_from(slots).unwrap_or(u16::MAX).min(MOST_WINDOW);
    match place {
        None => (packets(slots), packets(slots)),
        Some(place) if has_sets(job) => (packets(place.region.sets), packets(place.region.sets)),
        // Results must stay in a region while somebody may lack them: half of it is for them.
        Some(_) => (packets(slots), (packets(slots) / 2).max(1)),
    }
}

impl Accept<'_> {
    /// The jobs, and what their regions leave of the pool.
    pub(super) fn jobs(
        &self,
        written: &[Spanned<raw::Job>],
        scope: Scope<'_>,
    ) -> Checked<(Vec<JobConfig>, Layout)> {
        let mut layout = Layout::new(scope.pool);
        // Regions first: what they leave bounds the others.
        let mut placed: Vec<(&raw::Job, u16, Option<Reserved>)> = Vec::new();
        for job in written.iter().map(Spanned::get_ref) {
            let id = *job.id.get_ref();
            if placed.iter().any(|(other, ..)| *other.id.get_ref() == id) {
                let message = format!("two jobs have the number {id}");
                return Err(self.error(&job.id, message, "give each job a number of its own"));
            }
            let fan_in = self.within(Some(&job.fan_in), 0, 1, MAX_RANKS, "fan_in")?;
            let place = match self.kind_name(job)?.tag() {
                Tag::Region | Tag::Early | Tag::Switchml => Some(self.region(job, &mut layout)?),
                Tag::Shared | Tag::Updates => None,
            };
            placed.push((job, fan_in, place));
        }
        let shared_slots = layout.slots(layout.shared_sets());
        let jobs = placed.iter().map(|(job, fan_in, place)| {
            let accepted = self.job(job, *fan_in, place.as_ref(), shared_slots, scope)?;
            let multicast = self.multicast(job, written, scope.own)?;
            Ok(JobConfig { spec: JobSpec { multicast, ..accepted.spec }, ..accepted })
        });
        Ok((jobs.collect::<Checked<_>>()?, layout))
    }

    fn region(&self, job: &raw::Job, layout: &mut Layout) -> Checked<Reserved> {
        let ways = layout.slots(1);
        if let Some(slots) = job.slots()
            && (!slots.get_ref().is_power_of_two() || *slots.get_ref() < ways)
        {
            let message = format_args!("slots = {} cannot be a region", slots.get_ref());
            let remedy = format!("choose a power of two, at least `ways`, which is {ways}");
            return Err(self.error(slots, message, &remedy));
        }
        let slots = region_slots(job, ways);
        if let Some(region) = layout.take(slots) {
            return Ok(Reserved { region, slots });
        }
        let left = layout.slots(layout.shared_sets());
        let message = format!("a region of {slots} slots does not fit: {left} slots of the pool are left");
        let remedy = "raise [pool] slots, set a smaller window or fewer slots (by default twice the window), \
            or let the job share the pool: kind = \"dsa\"";
        Err(match job.slots() {
            Some(slots) => self.error(slots, message, remedy),
            None => self.error(&job.id, message, remedy),
        })
    }

    fn job(
        &self,
        job: &raw::Job,
        fan_in: u16,
        place: Option<&Reserved>,
        shared_slots: u32,
        scope: Scope<'_>,
    ) -> Checked<JobConfig> {
        let (id, tag) = (*job.id.get_ref(), job.kind_name().tag());
        let slots = place.map_or(shared_slots, |place| place.slots);
        if slots == 0 && tag != Tag::Updates {
            let remedy = "raise [pool] slots, or give this job slots of its own, too: kind = \"region\"";
            return Err(self.error(&job.id, "the regions of other jobs leave no slot of the pool", remedy));
        }
        self.names_enough(job, scope.pool)?;
        // What finds no slot goes to the parameter server, which has updates anyway; without one it would
        // only be refused.
        let spills = match tag {
            Tag::Shared => self.server(job, scope.ps)?,
            Tag::Updates => job.parent.is_none(),
            Tag::Region | Tag::Early | Tag::Switchml => false,
        };
        let (most, fitting) = if spills { (MOST_WINDOW, MOST_WINDOW) } else { widest(job, place, slots) };
        let default = default_window(fan_in).min(fitting);
        let window = self.within(job.window.as_ref(), default, 1, most, "window")?;
        let spec = JobSpec {
            window,
            admitted: job.members.as_ref().map(|members| self.members(members, fan_in)).transpose()?,
            max_ranks_per_host: self.ranks_per_host(job)?,
            kind: match place {
                Some(place) => self.kind_in(job, fan_in, place.region, scope)?,
                None => self.kind_beside(job, (window, slots), scope)?,
            },
            share: self.within(job.share.as_ref(), DEFAULT_SHARE, 1, MOST_SHARE, "share")?,
            dead_after: if tag == Tag::Switchml { None } else { self.dead_after(job)? },
            on_death: word(job.on_death.as_ref()).unwrap_or_default(),
            control: word(job.control.as_ref()).unwrap_or_default(),
            congestion: Some(word(job.congestion.as_ref()).unwrap_or(DEFAULT_CONGESTION)),
            ..JobSpec::new(id, fan_in)
        };
        Ok(JobConfig {
            name: job.name.as_ref().map_or_else(|| format!("job{id}"), |name| name.get_ref().clone()),
            spec,
            controller: job
                .switchml
                .as_ref()
                .map(|table| self.listen(&table.get_ref().controller))
                .transpose()?,
        })
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
        let after = self.duration_or_never(job.dead_after.as_ref(), JobSpec::DEAD_AFTER)?;
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

    fn members(&self, written: &Spanned<Vec<Spanned<String>>>, fan_in: u16) -> Checked<Vec<Address>> {
        let members = written.get_ref();
        if members.len() == usize::from(fan_in) {
            return members.iter().map(|member| Ok(self.address(member)?.into())).collect();
        }
        let message = format!("{} members, but fan_in = {fan_in}", members.len());
        Err(self.error(written, message, "list one address per rank, or leave members out"))
    }
}
