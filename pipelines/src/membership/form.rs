//! Jobs that are formed by their workers' Joins.

use core::time::Duration;

use pascaline_wire::control::{Action, Status};
use pascaline_wire::frame::Address;

use super::Membership;
use super::answer::Shown;
use super::contest::Occupancy;
use super::job::{Decision, JobRecord};
use super::rank::Epochs;
use super::reply::ControlRequest;
use super::spec::{Admission, JobSpec};

impl Membership {
    /// Decides on a request for a job that does not exist: a Join may form it. To a Leave it makes a
    /// difference whether it has been here: then all have left. Else the appliance has been started anew, and
    /// others may need what the one that wants to leave has kept.
    pub(super) fn form(
        &mut self,
        now: Duration,
        request: &ControlRequest,
        proposed: &mut Option<JobRecord>,
    ) -> Result<Decision, Decision> {
        let ControlRequest { header, control, from, .. } = request;
        let (id, fan_in) = (header.job, header.fan_in);
        let unknown = Decision::new(Status::UnknownJob, 0, u32::from(id));
        let admission = self.admission.as_ref().filter(|admission| admission.jobs.contains(&id));
        let joins = control.action == Action::Join;
        let Some(admission) = admission.filter(|_| joins || control.action == Action::Leave) else {
            return Err(unknown);
        };
        if !admission.admits(from.address) {
            return Err(Decision::new(Status::SourceRefused, 0, u32::from(header.rank)));
        }
        if fan_in > admission.max_fan_in || fan_in > pascaline_wire::MAX_RANKS {
            return Err(Decision::new(Status::Quota, u32::from(admission.max_fan_in), u32::from(fan_in)));
        }
        if joins {
            self.has_room(admission, from.address)?;
        }
        let epoch = self.next_epochs.get(&id).copied().unwrap_or(self.first_epoch);
        let spec = JobSpec { id, fan_in, admitted: None, ..admission.like.clone() };
        let proven = joins && control.cookie == self.secret.cookie(request, epoch, 0);
        let make = if proven { JobRecord::new } else { JobRecord::bare };
        let mut job = make(spec, self.secret, epoch, now);
        job.founder = Some(from.address);
        let known = self.next_epochs.contains_key(&id);
        if known {
            // Whoever was a member here has left or was lost, and the others have gone on without it. One
            // that was a member elsewhere may go on here: its appliance is gone.
            job.unresumable = Epochs::before(self.first_epoch, epoch);
        }
        let decision = match (joins, known) {
            (true, _) if proven => job.join(now, request, Some(admission)),
            (true, _) => job.admits(request, Some(admission)).map(|_| {
                // As of a free rank of a job that there is.
                Decision { shown: Shown::Always, ..Decision::of(Status::Pending) }
            }),
            (false, true) => Ok(Decision::of(Status::Ok)),
            (false, false) => Err(Decision::new(Status::NotMember, 0, u32::from(header.rank))),
        };
        if decision.is_ok_and(|decision| decision.changed) {
            job.tenant = self.free_tenant();
            job.count_by(self.lcores);
            self.jobs.insert(id, job);
        } else {
            *proposed = Some(job);
        }
        decision
    }

    /// True for a Join that wants another number of ranks than a job has that Joins have formed.
    pub(super) fn is_rival(&self, request: &ControlRequest) -> bool {
        let formed = |job: &JobRecord| job.founder.is_some() && job.spec.fan_in != request.header.fan_in;
        request.control.action == Action::Join && self.jobs.get(&request.header.job).is_some_and(formed)
    }

    /// Decides on such a Join: it forms the job anew if all members of the present one are gone. A program
    /// that continues with fewer processes finds a job of those that died.
    pub(super) fn form_anew(
        &mut self,
        now: Duration,
        request: &ControlRequest,
        proposed: &mut Option<JobRecord>,
    ) -> Result<Decision, Decision> {
        let ControlRequest { header, control, from, .. } = request;
        let Some(job) = self.jobs.get_mut(&header.job) else {
            return self.form(now, request, proposed);
        };
        let differs = Decision::new(Status::FanInMismatch, job.spec.fan_in.into(), header.fan_in.into());
        let epoch = job.epoch.wrapping_add(1);
        let proven = control.cookie == self.secret.cookie(request, epoch, 0);
        let occupancy =
            if proven { job.occupancy(now, from.address, &mut self.asks) } else { Occupancy::Unknown };
        match occupancy {
            Occupancy::Alive => Err(differs),
            Occupancy::Deserted => {
                self.forget_if(header.job, |_, _| true);
                self.changed = true;
                self.form(now, request, proposed)
            }
            Occupancy::Unknown => {
                // The cookie that it gets is that of the job which it may form.
                let spec = JobSpec { fan_in: header.fan_in, ..JobSpec::clone(&job.spec) };
                *proposed = Some(JobRecord::bare(spec, self.secret, epoch, now));
                Ok(Decision { shown: Shown::Always, ..Decision::of(Status::Pending) })
            }
        }
    }

    /// Whether a host may form one more job. Without a limit for each, one could keep out all others.
    fn has_room(&self, admission: &Admission, host: Address) -> Result<(), Decision> {
        let founders = || self.jobs.values().filter_map(|job| job.founder);
        let own = founders().filter(|founder| *founder == host).count();
        let most = admission.max_jobs_per_host;
        let told = |jobs: usize| u32::try_from(jobs).unwrap_or(u32::MAX);
        if own >= most {
            return Err(Decision::new(Status::JobsOfHost, told(most), told(own)));
        }
        let room = founders().count() < admission.max_jobs;
        room.then_some(()).ok_or(Decision::new(Status::Quota, 0, 1))
    }
}

#[cfg(test)]
mod tests;
