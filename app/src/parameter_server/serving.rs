//! What all drivers of the server share.

use std::collections::BTreeMap;
use std::time::Duration;

use pascaline_ps::{Outcome, Refused, Server};
use pascaline_wire::Header;
use tracing::{info, warn};

use super::snapshot::{Count, Snapshot};
use crate::config::{ServedJob, ServerLimits};

/// Least time between two rounds of requests: with 64 in each, a late job cannot take more of its network than 640,000
/// short packets a second, however fast the machine is.
const PACE: Duration = Duration::from_micros(100);

/// A server without a clock and without a network.
///
/// To be driven like the state machine that it contains: after [`receive`](Self::receive) and
/// [`advance`](Self::advance), [`next_datagram`](Self::next_datagram) until there is none; then wait for a datagram, or
/// until [`next_wake`](Self::next_wake). Times are monotonic, from any origin.
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

    /// Serves these jobs and no others, in the appliance: here it is told of each generation before anything is sent in it. What is
    /// served already as it is here goes on undisturbed.
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

    /// Serves a job, or its next generation, or what has changed about it, which forgets all that was collected.
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

    /// Forgets a job of which nothing is known to have been sent: its next generation will be seen from the beginning.
    pub(crate) fn await_job(&mut self, job: u16) {
        self.remove_job(job);
        self.server.witness(job);
    }

    /// Forgets a job.
    pub(crate) fn remove_job(&mut self, job: u16) {
        self.failed.remove(&job);
        if self.served.remove(&job).is_some() {
            info!(job, "no longer serving");
            self.server.remove_job(job);
        }
    }

    /// Handles a datagram: header, payload and trailer. Tells the number of the job if it belongs to none, or to no
    /// generation of it, that is served.
    pub(crate) fn receive(&mut self, now: Duration, datagram: &[u8]) -> Option<u16> {
        match self.server.handle_datagram(now, datagram) {
            Outcome::Refused { reason: Refused::UnknownJob | Refused::WrongEpoch, .. } => {
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

    /// Puts the next datagram to send, all of which go to the appliance, in place of what `into` holds. False if there
    /// is none.
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
mod tests {
    use pascaline_aggregator::Order;
    use pascaline_wire::{Element, Flags, Kind};

    use super::*;

    fn datagram(job: u16, epoch: u8) -> Vec<u8> {
        let header = Header {
            kind: Kind::Gradient,
            flags: Flags::BYPASS,
            element: Element::F32_SUM,
            job,
            rank: 0,
            psn: 0,
            fan_in: 2,
            count: 1,
            priority: 0,
            wnd_cap: 0,
            tree: 0,
            epoch,
        };
        [&header.to_bytes()[..], &1.0_f32.to_le_bytes()].concat()
    }

    #[test]
    fn packets_of_what_is_not_served_are_told() {
        let mut server = ServerLoop::new(ServerLimits::new(1, 1, 8));
        let now = Duration::ZERO;
        assert_eq!(server.receive(now, &datagram(1, 5)), Some(1));
        let job = ServedJob { job: 1, fan_in: 2, epoch: 5, needed: 2, order: Order::Arrival, payload: 64 };
        server.set_job(&job);
        assert_eq!(server.receive(now, &datagram(1, 5)), None, "served");
        assert_eq!(server.receive(now, &datagram(1, 4)), Some(1), "another generation");
        assert_eq!(server.receive(now, &datagram(2, 5)), Some(2), "another job");
        assert_eq!(server.receive(now, &datagram(1, 5)[..20]), None, "nobody knows whose");
        server.remove_job(1);
        assert_eq!(server.receive(now, &datagram(1, 5)), Some(1));
    }

    #[test]
    fn a_job_that_becomes_impossible_is_no_longer_served() {
        let mut server = ServerLoop::new(ServerLimits::new(1, 1, 8));
        let job = ServedJob { job: 1, fan_in: 2, epoch: 5, needed: 2, order: Order::Arrival, payload: 64 };
        server.set_job(&job);
        server.set_job(&ServedJob { epoch: 6, needed: 3, ..job });
        assert_eq!(server.receive(Duration::ZERO, &datagram(1, 5)), Some(1));
        let snapshot = server.snapshot(Vec::new());
        assert_eq!((snapshot.jobs_refused, snapshot.jobs.len()), (1, 0));
        server.set_job(&job);
        assert_eq!(server.receive(Duration::ZERO, &datagram(1, 5)), None, "possible again");
    }
}
