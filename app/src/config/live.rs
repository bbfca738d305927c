//! Whether other jobs fit an appliance that runs already, whose pool, packets and memory are what they were
//! made for.

use pascaline_aggregator::{ConflictPolicy, RankSet, Region};
use pascaline_pipelines::membership::{Admission, JobKind, JobSpec, ServerMode};

use super::{Config, JobConfig, PsMode};

/// Why jobs do not fit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct Misfit {
    pub(crate) message: String,
    pub(crate) remedy: &'static str,
}

impl Misfit {
    fn new(message: String, remedy: &'static str) -> Self {
        Self { message, remedy }
    }
}

impl Config {
    /// Puts the jobs of this configuration into the appliance that was started with `start` and runs with
    /// `running` now: a region that is as large as it was stays where it was, new ones take what is free
    /// behind the shared part, whose size is that of the start. Jobs that Joins form do without the parameter
    /// server if none was started.
    ///
    /// # Errors
    /// What does not fit, in words; `self` is of no use then.
    pub(crate) fn settle(&mut self, start: &Self, running: &Self) -> Result<(), Misfit> {
        self.pool = start.pool;
        self.shared_sets = start.shared_sets;
        self.ps.limits = start.ps.limits;
        self.check_foreign(start)?;
        self.place_regions(start, running)?;
        let serves = |admission: &Admission| admission.like.kind.has_server();
        let had = running.admission.as_ref().is_some_and(serves);
        if !had && let Some(admission) = self.admission.as_mut().filter(|admission| serves(admission)) {
            // Its memory is divided among those who were there at the start.
            admission.like.kind = without_server(admission.like.kind);
        }
        self.check_shared(start)?;
        self.check_server(start)?;
        self.check_packets(start)
    }

    /// The widest rank sets that jobs can need.
    pub(crate) fn most_ranks(&self) -> u16 {
        let admitted = self.admission.as_ref().map(|admission| admission.max_fan_in);
        self.jobs.iter().map(|job| job.spec.fan_in).chain(admitted).max().unwrap_or(0)
    }

    fn place_regions(&mut self, start: &Self, running: &Self) -> Result<(), Misfit> {
        let kept = |id: u16, sets: u32| {
            let job = running.jobs.iter().find(|job| job.spec.id == id)?;
            job.spec.kind.place().filter(|region| region.sets == sets)
        };
        let regions = self.jobs.iter().filter_map(|job| kept(job.spec.id, job.spec.kind.place()?.sets));
        let mut taken: Vec<Region> = regions.collect();
        let end = u32::try_from(start.pool.slots / start.pool.ways.max(1)).unwrap_or(u32::MAX);
        for job in &mut self.jobs {
            let JobSpec { id, ref mut kind, .. } = job.spec;
            let Some(wanted) = kind.place() else { continue };
            if let Some(region) = kept(id, wanted.sets) {
                *kind = kind.placed(region);
                continue;
            }
            let Some(first) = gap(&taken, start.shared_sets, end, wanted.sets) else {
                let ways = start.pool.ways as u64;
                let message = format!(
                    "job {id}: no room for a region of {} slots in the {} that were set aside for regions at \
                        the start",
                    u64::from(wanted.sets) * ways,
                    u64::from(end - start.shared_sets) * ways
                );
                let remedy = "restart the appliance, give the job a smaller window or fewer slots, or let it \
                    share the pool: kind = \"dsa\"";
                return Err(Misfit::new(message, remedy));
            };
            let region = Region { first, sets: wanted.sets };
            taken.push(region);
            *kind = kind.placed(region);
        }
        Ok(())
    }

    /// The shared part may be smaller than a start with these jobs would make it.
    fn check_shared(&self, start: &Self) -> Result<(), Misfit> {
        let slots = start.shared_sets as usize * start.pool.ways;
        for job in self.jobs.iter().filter(|job| job.spec.kind.place().is_none() && !job.updates()) {
            let JobSpec { id, window, .. } = job.spec;
            if slots == 0 || !job.serves_sums() && usize::from(window) > slots {
                let message = format!(
                    "job {id}: a window of {window} does not fit the {slots} slots that are shared since the \
                        start"
                );
                return Err(Misfit::new(message, "restart the appliance, or give a smaller window"));
            }
        }
        Ok(())
    }

    fn check_packets(&self, start: &Self) -> Result<(), Misfit> {
        let needed = Self { spare_packets: 0, ..self.clone() }.packet_buffers();
        let there = start.packet_buffers();
        if needed.frames > there.frames || needed.headers > there.headers {
            let message = format!(
                "the jobs need {} packet buffers, and the appliance has had {} since its start",
                needed.frames, there.frames
            );
            let remedy = "give jobs a smaller window, quota or fan_in, or raise [pool] spare_packets and \
                restart the appliance";
            return Err(Misfit::new(message, remedy));
        }
        let narrow = |config: &Self| config.most_ranks() <= RankSet::<1>::CAPACITY;
        if narrow(start) && !narrow(self) {
            let message = format!(
                "{} ranks, and the appliance was started for jobs of at most {}",
                self.most_ranks(),
                RankSet::<1>::CAPACITY
            );
            return Err(Misfit::new(message, "restart the appliance"));
        }
        Ok(())
    }

    /// What listens to SwitchML's clients, and the queues that updates wait in, are made at the start.
    fn check_foreign(&self, start: &Self) -> Result<(), Misfit> {
        let queues =
            |config: &Self| config.jobs.iter().filter(|job| job.updates()).map(|job| job.spec.id).max();
        let place = |job: &JobConfig| job.switchml().map(|(at, registry)| (at.value, registry.udp_port));
        let listened = |job: &JobConfig| {
            let before = start.jobs.iter().find(|before| before.spec.id == job.spec.id);
            before.is_some_and(|before| place(before) == place(job))
        };
        if let Some(job) = self.jobs.iter().find(|job| job.switchml().is_some() && !listened(job)) {
            let message = format!(
                "job {}: a controller for SwitchML's clients is listened at from the start on",
                job.spec.id
            );
            return Err(Misfit::new(message, "restart the appliance"));
        }
        match (queues(self), queues(start)) {
            (Some(job), None) => {
                let message = format!(
                    "job {job} has kind = \"updates\", and the appliance was started without such a job: its \
                        ports have no queues of updates"
                );
                Err(Misfit::new(message, "restart the appliance"))
            }
            (Some(job), Some(last)) if job > last => {
                let message = format!(
                    "job {job} has kind = \"updates\", and the queues of updates were made for jobs up to \
                        {last} at the start"
                );
                Err(Misfit::new(message, "restart the appliance, or give the job a lower number"))
            }
            _ => Ok(()),
        }
    }

    fn check_server(&self, start: &Self) -> Result<(), Misfit> {
        if matches!(start.ps.mode.value, PsMode::Embedded) && self.embeds_server() && !start.embeds_server() {
            let message = "a job whose sums a server completes, and the appliance was started without a \
                parameter server";
            return Err(Misfit::new(
                message.to_owned(),
                "restart the appliance, or set server = false in [jobs.shared]",
            ));
        }
        // The memory of another process is divided there; updates are no sums that would be kept in it.
        if !matches!(start.ps.mode.value, PsMode::Embedded) {
            return Ok(());
        }
        let limits = &start.ps.limits;
        let served = self.jobs.iter().filter(|job| job.serves_sums());
        let admitted = self.admission.as_ref();
        let admitted = admitted.filter(|admission| admission.like.kind.has_server());
        let jobs = served.clone().count() + admitted.map_or(0, |admission| admission.max_jobs);
        if jobs > limits.jobs {
            let message = format!(
                "{jobs} jobs whose sums a server completes, and the parameter server's memory was divided \
                    among {} at the start",
                limits.jobs
            );
            return Err(Misfit::new(
                message,
                "restart the appliance, or set server = false in [jobs.shared]",
            ));
        }
        let kept = limits.config.cached;
        for job in served {
            let JobSpec { id, fan_in, window, kind, .. } = job.spec;
            let entry = limits.entry_bytes(fan_in, kind.order(), self.max_payload());
            if entry > limits.share.bytes || u32::from(window) > kept {
                let message = format!(
                    "job {id}: the parameter server was started with {} bytes for each job and windows of up \
                        to {kept}",
                    limits.share.bytes
                );
                return Err(Misfit::new(message, "restart the appliance, or set a smaller window or fan_in"));
            }
        }
        Ok(())
    }
}

/// Without server, a holder that loses would begin anew; and again.
fn without_server(kind: JobKind) -> JobKind {
    match kind {
        JobKind::Shared { order, quota, .. } => {
            let (conflict, server) = (ConflictPolicy::FirstCome, ServerMode::None);
            JobKind::Shared { conflict, server, order, quota }
        }
        other => other,
    }
}

/// The first set of a gap of as many sets, the last one that there is.
fn gap(taken: &[Region], start: u32, end: u32, sets: u32) -> Option<u32> {
    let mut end = end;
    let mut by_end: Vec<&Region> = taken.iter().collect();
    by_end.sort_unstable_by_key(|region| core::cmp::Reverse(region.first));
    for region in by_end {
        let above = region.first.saturating_add(region.sets);
        if end.checked_sub(sets).is_some_and(|first| first >= above) {
            break;
        }
        end = end.min(region.first);
    }
    end.checked_sub(sets).filter(|&first| first >= start)
}

#[cfg(test)]
mod tests;
