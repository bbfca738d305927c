//! Sealed requests and their answers, and how keys change.

use core::time::Duration;
use std::sync::Arc;

use pascaline_seal::{Holder, JobKeys};

use pascaline_wire::control::SERVER_RANK;

use super::Membership;
use super::job::{JobRecord, seals_of};
use super::reply::ControlRequest;
use super::spec::JobSpec;
use super::uplink::Upward;
use crate::seals::Sealing;

/// How often it is looked at which ranks have used new keys.
const LOOKS: Duration = Duration::from_millis(100);
/// For how long packets with the keys before are taken after all ranks have used the new ones: they are on
/// their way.
const LATE: Duration = Duration::from_secs(1);

impl JobRecord {
    /// True if operations in flight can end with the keys of these terms: they protect in the same way.
    pub(super) fn keeps_protection(&self, spec: &JobSpec) -> bool {
        let protection = |spec: &JobSpec| spec.keys.as_ref().map(|keys| keys.protection());
        let above = |spec: &JobSpec| spec.keys_above.first().map(Holder::protection);
        protection(&self.spec) == protection(spec) && above(&self.spec) == above(spec)
    }

    /// Takes the keys of other terms: beside those in force where it `goes_on`, so that ranks can change one
    /// after the other.
    pub(super) fn change_keys(&mut self, spec: &JobSpec, goes_on: bool) {
        let same = self.spec.keys == spec.keys;
        if same && self.spec.fan_in == spec.fan_in {
            return;
        }
        self.renewed = None;
        self.seals = match (&self.seals, &spec.keys) {
            (Some(seals), Some(keys)) if goes_on => Some(Arc::new(seals.renewed(keys))),
            _ => seals_of(spec, self.secret),
        };
    }

    /// The ranks that are here and have not used the job's keys since these changed; and the server, if it
    /// has not.
    pub(super) fn with_former_keys(&self) -> Vec<u16> {
        let Some(seals) = self.seals.as_ref().filter(|seals| seals.is_changing()) else { return Vec::new() };
        let server = self.server.filter(|_| self.served.is_some()).map(|_| SERVER_RANK);
        let here = self.present().map(|(rank, _)| rank).chain(server);
        here.filter(|&rank| !seals.has_renewed(rank)).collect()
    }

    /// Ends the change of keys, once all ranks that are here have used the new ones. True if lcores need a
    /// new table.
    pub(super) fn settle_keys(&mut self, now: Duration) -> bool {
        let Some(seals) = self.seals.as_ref().filter(|seals| seals.is_changing()) else { return false };
        match self.renewed {
            None if self.with_former_keys().is_empty() => {
                seals.use_for_results();
                self.renewed = Some(now);
                false
            }
            Some(since) if since.saturating_add(LATE) <= now => self.drop_former_keys(),
            _ => false,
        }
    }

    /// Takes no packet with the keys before any more. True if there were some.
    pub(super) fn drop_former_keys(&mut self) -> bool {
        self.renewed = None;
        let changing = self.seals.as_ref().filter(|seals| seals.is_changing());
        let settled = changing.map(|seals| Arc::new(seals.settled()));
        let dropped = settled.is_some();
        self.seals = settled.or(self.seals.take());
        dropped
    }

    /// When to look again, while keys change.
    pub(super) fn keys_due(&self, now: Duration) -> Option<Duration> {
        let changing = self.seals.as_ref().is_some_and(|seals| seals.is_changing());
        changing.then(|| self.renewed.map_or(now.saturating_add(LOOKS), |since| since.saturating_add(LATE)))
    }

    /// True if the packets of the job are sealed, and this request is not newer than the latest one of its
    /// session: it was recorded and sent again, or was overtaken. Each sending of a rank has a number of its
    /// own. Notes the number otherwise.
    pub(super) fn repeats(&mut self, request: &ControlRequest) -> bool {
        let (rank, session) = (request.header.rank, request.control.session);
        let latest = self.ranks.get_mut(usize::from(rank)).and_then(|rank| rank.latest.as_mut());
        let latest = latest.map(|latest| (latest.session, &mut latest.number));
        let server = self.server.as_mut().filter(|_| rank == SERVER_RANK);
        let latest = latest.or(server.map(|server| (server.session, &mut server.number)));
        let Some((_, latest)) = latest.filter(|(of, _)| *of == session && self.seals.is_some()) else {
            return false;
        };
        let number = request.control.number;
        let newer = *latest == 0 || (1..1 << 31).contains(&number.wrapping_sub(*latest));
        if newer {
            *latest = number;
        }
        !newer
    }
}

impl Membership {
    /// The ranks of a job that are here and still use the keys before, while its keys change; and
    /// [`SERVER_RANK`], if its server does.
    #[must_use]
    pub fn with_former_keys(&self, job: u16) -> Vec<u16> {
        self.jobs.get(&job).map_or_else(Vec::new, JobRecord::with_former_keys)
    }

    /// Gives a configured job other keys, which protect as those before: beside these, until all ranks use
    /// them. False if there is no such job, or these are its keys.
    pub fn rekey(&mut self, now: Duration, job: u16, keys: Arc<JobKeys>) -> bool {
        self.respecify(now, job, |spec| spec.keys = Some(keys))
    }

    /// Gives a configured job other keys at its parent and each backup, to be used once the parent has them.
    /// False if there is no such job, or these are its keys.
    pub fn rekey_above(&mut self, now: Duration, job: u16, keys: Vec<Holder>) -> bool {
        self.respecify(now, job, |spec| spec.keys_above = keys)
    }

    fn respecify(&mut self, now: Duration, job: u16, change: impl FnOnce(&mut JobSpec)) -> bool {
        let Some(job) = self.jobs.get_mut(&job).filter(|job| job.founder.is_none()) else { return false };
        let mut spec = JobSpec::clone(&job.spec);
        change(&mut spec);
        job.reconfigure(now, spec).is_some()
    }

    /// Takes no packet of a job with the keys before the present ones any more. True if there were some.
    pub fn end_former_keys(&mut self, job: u16) -> bool {
        self.jobs.get_mut(&job).is_some_and(JobRecord::drop_former_keys)
    }

    /// The seal of a request to a parent; `None` where packets have none.
    pub(crate) fn sealing_above(&self, ask: &Upward) -> Option<Sealing<'_>> {
        self.jobs.get(&ask.header.job)?.uplink.as_ref()?.sealing(ask, &self.numbers)
    }

    /// The seal of the answer to a request; `None` where packets have none.
    pub(crate) fn sealing(&mut self, request: &ControlRequest) -> Option<Sealing<'_>> {
        let seals = self.jobs.get(&request.header.job)?.seals.as_ref()?;
        self.sealed += 1;
        seals.answering(request.header.rank, request.control.session, self.secret.answer(self.sealed))
    }
}
