//! Jobs, and where in the pool each has its place.

use std::net::IpAddr;

use pascaline_aggregator::Region;
use pascaline_wire::MAX_RANKS;
use toml::Spanned;

use super::job::Job;
use super::kind::Scope;
use super::values::get;
use super::{Accept, Checked};
use crate::config::job::JobConfig;
use crate::config::kind::Tag;
use crate::config::layout::Layout;

/// The widest default window, in packets.
const DEFAULT_WINDOW: u16 = 512;
/// Packets that all ranks of a job together may have in flight with the default window: more ranks get a
/// narrower one. It also bounds what a job keeps whose partials keep every contribution's packet.
const UNDER_WAY: u16 = 32_768;
/// The widest window of all.
pub(super) const MOST_WINDOW: u16 = 1 << 14;

/// The default window of a job, in packets: at least 32.
pub(super) fn default_window(fan_in: u16) -> u16 {
    DEFAULT_WINDOW.min(UNDER_WAY / fan_in.clamp(1, MAX_RANKS))
}

/// A job's region with the window that fits it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reserved {
    pub(super) region: Region,
    pub(super) slots: u32,
}

/// Whether each slot that the job's workers name has a set of its own: those of SwitchML's clients.
fn has_sets(job: &Job) -> bool {
    job.kind_name().tag() == Tag::Switchml
}

/// The slots of a region: the written number, or twice the window, within which all PSNs in flight and all
/// results lie that a rank may still lack.
fn region_slots(job: &Job, ways: u32) -> u32 {
    let written = get(job.slots());
    written.unwrap_or_else(|| {
        let window = get(job.window.as_ref()).unwrap_or_else(|| default_window(*job.fan_in.get_ref()));
        let slots = if has_sets(job) { ways } else { 2 };
        (slots * u32::from(window).next_power_of_two()).max(ways)
    })
}

/// The widest window of a job that has these slots, and the widest that leaves room for results.
pub(super) fn widest(job: &Job, place: Option<&Reserved>, slots: u32) -> (u16, u16) {
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
        written: &[Spanned<Job>],
        scope: Scope<'_>,
    ) -> Checked<(Vec<JobConfig>, Layout)> {
        let mut layout = Layout::new(scope.pool);
        // Regions first: what they leave bounds the others.
        let mut placed: Vec<(&Job, u16, Option<Reserved>)> = Vec::new();
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
            self.job(job, written, *fan_in, (place.as_ref(), shared_slots), scope)
        });
        Ok((jobs.collect::<Checked<_>>()?, layout))
    }

    fn region(&self, job: &Job, layout: &mut Layout) -> Checked<Reserved> {
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

    /// What can be said about each job alone.
    pub(super) fn jobs_apart(&self, jobs: &[Spanned<Job>], own: &[IpAddr]) -> Checked<()> {
        self.job_names(jobs)?;
        for job in jobs.iter().map(Spanned::get_ref) {
            self.within(job.window.as_ref(), 1, 1, MOST_WINDOW, "window")?;
            for (rank, member) in job.members.iter().flat_map(Spanned::get_ref).enumerate() {
                self.peer(member, own, &format!("rank {rank}"))?;
            }
        }
        Ok(())
    }
}
