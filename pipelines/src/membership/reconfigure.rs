//! Other jobs than before, while lcores run.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use pascaline_wire::frame::Address;

use super::Membership;
use super::job::{JobRecord, uplink_of};
use super::rank::Rank;
use super::spec::{Admission, JobSpec};

/// What has become of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reconfigured {
    /// It is new.
    Added,
    /// It has other terms; its members go on with what they have under way.
    Changed,
    /// It has other terms, under which what is under way cannot go on: its next generation begins, without
    /// members.
    Reformed,
    /// It is no more.
    Removed,
}

impl Membership {
    /// Puts other jobs, and another admission, in place of those that were configured, and says of each job
    /// what has become of it, by number; of those that stay as they are it says nothing. Of jobs with the
    /// same number, the last counts.
    ///
    /// Jobs that were formed by Joins go on as they were formed while the admission allows their number, and
    /// no configured job takes it.
    ///
    /// If anything is said, lcores need a new [`table`](Self::table).
    pub fn reconfigure(
        &mut self,
        now: Duration,
        specs: Vec<JobSpec>,
        admission: Option<Admission>,
    ) -> BTreeMap<u16, Reconfigured> {
        self.admission = admission;
        let specs: BTreeMap<u16, JobSpec> = specs.into_iter().map(|spec| (spec.id, spec)).collect();
        let mut done = BTreeMap::new();
        let stays = |job: &JobRecord| {
            let admitted = self.admission.as_ref().is_some_and(|a| a.jobs.contains(&job.spec.id));
            specs.contains_key(&job.spec.id) || job.founder.is_some() && admitted
        };
        let gone: Vec<u16> = self.jobs.values().filter(|job| !stays(job)).map(|job| job.spec.id).collect();
        for id in gone {
            if let Some(job) = self.jobs.remove(&id) {
                // Should it come back, packets of this generation must not be taken for its own.
                self.next_epochs.insert(id, job.epoch.wrapping_add(1));
                done.insert(id, Reconfigured::Removed);
            }
        }
        for (id, spec) in specs {
            let tenant = self.free_tenant();
            let change = match self.jobs.get_mut(&id) {
                Some(job) => {
                    job.told.set(None);
                    let change = job.reconfigure(now, spec);
                    // Another number of ranks has other counts.
                    if job.cells.ranks() != job.spec.fan_in {
                        job.count_by(self.lcores);
                    }
                    change
                }
                None => {
                    let epoch = self.next_epochs.get(&id).copied().unwrap_or(self.first_epoch);
                    let mut job = JobRecord::new(spec, self.secret, epoch, now);
                    job.tenant = tenant;
                    job.count_by(self.lcores);
                    self.jobs.insert(id, job);
                    Some(Reconfigured::Added)
                }
            };
            if let Some(change) = change {
                done.insert(id, change);
            }
        }
        done
    }
}

impl JobRecord {
    /// Gives the job other terms.
    pub(super) fn reconfigure(&mut self, now: Duration, spec: JobSpec) -> Option<Reconfigured> {
        let configured = self.founder.take().is_none();
        if configured && *self.spec == spec {
            return None;
        }
        let goes_on = configured && self.goes_on_under(&spec);
        // What SetH has said holds, unless the configuration says something else than before.
        let threshold = spec.kind.threshold();
        if !goes_on || self.spec.kind.threshold() != threshold {
            self.threshold = threshold;
        }
        if self.spec.multicast != spec.multicast {
            self.ranks.iter_mut().filter_map(|rank| rank.joined.as_mut()).for_each(|it| it.hears = false);
        }
        self.change_keys(&spec, goes_on);
        self.spec = Arc::new(spec);
        self.due = Some(now);
        if goes_on {
            if let (Some(uplink), Some(parent)) = (&mut self.uplink, self.spec.parent) {
                uplink.replace(parent, &self.spec.backups, &self.spec.keys_above);
            }
            return Some(Reconfigured::Changed);
        }
        self.unresumable.set(self.epoch, true);
        self.halted = false;
        self.next_generation(false);
        let session = self.secret.session(self.spec.id, self.generations, 0);
        self.uplink = uplink_of(&self.spec, session);
        self.ranks.resize(usize::from(self.spec.fan_in), Rank::default());
        Some(Reconfigured::Reformed)
    }

    /// Whether the parent in force stays.
    fn stays_below(&self, spec: &JobSpec) -> bool {
        match (&self.uplink, &spec.parent) {
            (Some(uplink), Some(parent)) => uplink.stays_with(parent, &spec.backups),
            (uplink, parent) => uplink.is_none() && parent.is_none(),
        }
    }

    /// Whether what members have under way can be completed under other terms: PSNs have the same ranks, are
    /// summed the same way and in the same place, fit the packets, and come from members that are still
    /// admitted.
    fn goes_on_under(&self, spec: &JobSpec) -> bool {
        let old = &self.spec;
        let admits = |at: usize, address: Address| {
            spec.admitted.as_ref().is_none_or(|listed| listed.get(at) == Some(&address))
        };
        old.fan_in == spec.fan_in
            && old.kind.goes_on_as(&spec.kind)
            && self.keeps_protection(spec)
            && self.stays_below(spec)
            && self.payload <= spec.limit()
            && self.members().all(|(at, joined)| admits(at.into(), joined.endpoint.address))
    }
}
