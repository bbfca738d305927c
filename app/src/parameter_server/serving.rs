//! What all drivers of the server share.

use std::collections::BTreeMap;
use std::time::Duration;

use pascaline_pipelines::jobs::ServedJob;
use pascaline_ps::{Outcome, RejectReason, Server};
use pascaline_wire::Header;
use tracing::{info, warn};

use super::snapshot::{Count, Snapshot};
use crate::config::ServerLimits;

/// Least time between two rounds of requests: with 64 in each, a late job cannot take more of its network
/// than 640,000 short packets a second, however fast the machine is.
const PACE: Duration = Duration::from_micros(100);

/// A server without a clock and without a network.
///
/// To be driven like the state machine that it contains: after [`receive`](Self::receive) and
/// [`advance`](Self::advance), [`next_datagram`](Self::next_datagram) until there is none; then wait for a
/// datagram, or until [`next_wake`](Self::next_wake). Times are monotonic, from any origin.
#[derive(Debug)]
pub(crate) struct ServerLoop {
    server: Server,
    limits: ServerLimits,
    served: BTreeMap<u16, ServedJob>,
    /// Jobs that could not be accepted, so that each is reported once.
    failed: BTreeMap<u16, ServedJob>,
    jobs_refused: u64,
    may_advance: Duration,
}

impl ServerLoop {
    pub(crate) fn new(limits: ServerLimits) -> Self {
        Self {
            server: Server::new(limits.config),
            limits,
            served: BTreeMap::new(),
            failed: BTreeMap::new(),
            jobs_refused: 0,
            may_advance: Duration::ZERO,
        }
    }

    /// Serves these jobs and no others, in the appliance: here it is told of each generation before anything
    /// is sent in it. What is served already as it is here goes on undisturbed.
    pub(crate) fn set_jobs(&mut self, jobs: &[ServedJob]) {
        let gone = |id: &u16| jobs.iter().all(|job| job.job != *id);
        let gone: Vec<u16> = self.served.keys().chain(self.failed.keys()).copied().filter(gone).collect();
        for job in gone {
            self.remove_job(job);
        }
        for job in jobs {
            if self.served.get(&job.job).is_none_or(|served| served.epoch != job.epoch) {
                self.server.witness(job.job);
            }
            self.set_job(job);
        }
    }

    /// Serves a job, or its next generation, or what has changed about it, which forgets all that was
    /// collected.
    pub(crate) fn set_job(&mut self, job: &ServedJob) {
        let &ServedJob { job: id, fan_in, epoch, needed, order, payload } = job;
        if self.served.get(&id) == Some(job) || self.failed.get(&id) == Some(job) {
            return;
        }
        match self.server.set_job(id, self.limits.params(job)) {
            Ok(()) => {
                info!(job = id, epoch, ranks = fan_in, needed, ?order, payload, "serving");
                self.failed.remove(&id);
                self.served.insert(id, *job);
            }
            Err(error) => {
                warn!(job = id, epoch, ranks = fan_in, needed, payload, %error, "cannot serve");
                self.jobs_refused += 1;
                // What was before is over, whatever becomes of this.
                self.server.remove_job(id);
                self.served.remove(&id);
                self.failed.insert(id, *job);
            }
        }
    }

    /// Forgets a job of which nothing is known to have been sent: its next generation will be seen from the
    /// beginning.
    pub(crate) fn await_job(&mut self, job: u16) {
        self.remove_job(job);
        self.server.witness(job);
    }

    /// Forgets a job.
    pub(crate) fn remove_job(&mut self, job: u16) {
        self.failed.remove(&job);
        if self.served.remove(&job).is_some() {
            info!(job, "no longer serving");
        }
        self.server.remove_job(job);
    }

    /// Handles a datagram: header, payload and trailer. Tells the number of the job if it belongs to none, or
    /// to no generation of it, that is served.
    pub(crate) fn receive(&mut self, now: Duration, datagram: &[u8]) -> Option<u16> {
        match self.server.handle_datagram(now, datagram) {
            Outcome::Rejected { reason: RejectReason::UnknownJob | RejectReason::WrongEpoch, .. } => {
                Header::parse(datagram).ok().map(|(header, _)| header.job)
            }
            _ => None,
        }
    }

    /// Does what is due.
    pub(crate) fn advance(&mut self, now: Duration) {
        if self.next_wake().is_some_and(|at| at <= now) {
            self.server.handle_timeout(now);
            self.may_advance = now.saturating_add(PACE);
        }
    }

    /// When something is due next.
    pub(crate) fn next_wake(&self) -> Option<Duration> {
        Some(self.server.poll_timeout()?.max(self.may_advance))
    }

    /// Puts the next datagram to send, all of which go to the appliance, in place of what `into` holds. False
    /// if there is none.
    pub(crate) fn next_datagram(&mut self, into: &mut Vec<u8>) -> bool {
        let Some(action) = self.server.poll_action() else { return false };
        into.clear();
        into.resize(action.len(), 0);
        // Just made long enough.
        action.write(into).is_ok()
    }

    /// What the server has done and holds, with what its driver has counted.
    pub(crate) fn snapshot(&self, driver: Vec<Count>) -> Snapshot {
        let usage = |&job: &u16| Some((job, self.server.usage(job)?));
        Snapshot {
            counters: *self.server.counters(),
            jobs_refused: self.jobs_refused,
            jobs: self.served.keys().filter_map(usage).collect(),
            driver,
            asynchronous: None,
        }
    }
}

#[cfg(test)]
mod tests;
