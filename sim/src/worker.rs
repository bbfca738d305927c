//! One worker of a job: the life of a process that joins, sums and leaves, with the real core inside.

use core::time::Duration;

use pascaline_wire::header;
use pascaline_worker::{Event, Failure, Identity, Join, JoinFailure, Leave, Left, Session, Transmit};

use crate::host::Host;
use crate::oracle::{Contributor, encode};
use crate::plan::JobPlan;

/// Where a worker is in its life.
pub(crate) enum Phase {
    Joining(Join),
    /// Busy with something else: nobody reads the socket.
    Pausing,
    Running,
    Leaving(Leave),
    /// Dead, and to be started again.
    Away,
    Over(Ending),
}

/// How a worker's story ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    Left,
    JoinFailed,
    Failed,
    Killed,
}

/// Something that a worker has come to.
#[derive(Debug)]
pub(crate) enum Milestone {
    Joined(u8),
    Completed,
    JoinFailed(JoinFailure),
    Failed(Failure),
    Left(Left),
}

pub(crate) struct Worker {
    pub(crate) host: Host,
    /// Index of its job in the plan.
    pub(crate) job: usize,
    pub(crate) rank: u16,
    pub(crate) life: u32,
    pub(crate) phase: Phase,
    /// Counts its stages, so that an audit knows whether it is still in the one that it was made for.
    pub(crate) stage: u64,
    pub(crate) wake: Option<u64>,
    pub(crate) operation: usize,
    pub(crate) session: Option<Session>,
    pub(crate) tensor: Vec<u8>,
    inbox: Vec<Vec<u8>>,
}

impl Worker {
    pub(crate) const fn new(host: Host, job: usize, rank: u16) -> Self {
        Self {
            host,
            job,
            rank,
            life: 0,
            phase: Phase::Away,
            stage: 0,
            wake: None,
            operation: 0,
            session: None,
            tensor: Vec::new(),
            inbox: Vec::new(),
        }
    }

    pub(crate) const fn who(&self, job: u16) -> Contributor {
        Contributor { job, rank: self.rank, life: self.life }
    }

    /// Begins a life: another process, with another socket and a larger session.
    pub(crate) fn start(&mut self, plan: &JobPlan, now: Duration) {
        self.life += 1;
        self.stage += 1;
        self.host.open(self.life);
        self.session = None;
        self.operation = 0;
        self.inbox.clear();
        self.wake = None;
        let identity = Identity { job: plan.id, rank: self.rank, ranks: plan.ranks, payload: plan.payload };
        let number = 1000 * u64::from(self.life) + u64::from(self.rank);
        self.phase = Phase::Joining(Join::new(identity, number, plan.window, now, plan.join_deadline));
    }

    /// Ends a life.
    pub(crate) fn end(&mut self, phase: Phase) {
        self.stage += 1;
        self.phase = phase;
        self.session = None;
        self.inbox.clear();
    }

    /// Ends the pause: the next operation, or the end of all of them. `Completed` if it is done at once.
    pub(crate) fn begin(&mut self, plan: &JobPlan, now: Duration) -> Option<Milestone> {
        let who = self.who(plan.id);
        let session = self.session.as_mut()?;
        self.stage += 1;
        let Some(&elements) = plan.operations.get(self.operation) else {
            self.tensor.clear();
            self.phase = Phase::Leaving(Leave::new(*session.membership(), now, plan.linger));
            return None;
        };
        self.tensor.clear();
        for index in 0..elements {
            self.tensor.extend(encode(plan.element, who.value(self.operation, index)));
        }
        self.phase = Phase::Running;
        let started = session.start(now, self.tensor.len(), plan.element, plan.deadline);
        (started == Ok(false)).then_some(Milestone::Completed)
    }

    /// Puts aside what nobody reads now. True if it did.
    pub(crate) fn set_aside(&mut self, datagram: &[u8]) -> bool {
        let pausing = matches!(self.phase, Phase::Pausing);
        if pausing {
            self.inbox.push(datagram.to_vec());
        }
        pausing
    }

    /// What was put aside.
    pub(crate) fn take_inbox(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.inbox)
    }

    /// A datagram has been read from the socket.
    pub(crate) fn handle(&mut self, now: Duration, in_flight: u16, datagram: &[u8]) -> Option<Milestone> {
        match &mut self.phase {
            Phase::Joining(join) => match join.handle_datagram(datagram)? {
                Ok(membership) => {
                    self.session = Some(Session::new(membership, in_flight, 0));
                    Some(Milestone::Joined(membership.epoch))
                }
                Err(failure) => Some(Milestone::JoinFailed(failure)),
            },
            Phase::Running => {
                let event = self.session.as_mut()?.handle_datagram(now, datagram, &mut self.tensor)?;
                Some(milestone(event))
            }
            Phase::Leaving(leave) => {
                if let Some(left) = leave.handle_datagram(datagram) {
                    return Some(Milestone::Left(left));
                }
                if !leave.is_answer(datagram) {
                    let event = self.session.as_mut()?.handle_datagram(now, datagram, &mut [])?;
                    return Some(milestone(event));
                }
                None
            }
            Phase::Pausing | Phase::Away | Phase::Over(_) => None,
        }
    }

    /// The time has come for whatever is due.
    pub(crate) fn handle_timeout(&mut self, now: Duration) -> Option<Milestone> {
        match &mut self.phase {
            Phase::Joining(join) => join.handle_timeout(now).map(Milestone::JoinFailed),
            Phase::Leaving(leave) => leave.handle_timeout(now).map(Milestone::Left),
            Phase::Running => {
                let session = self.session.as_mut()?;
                if session.poll_timeout().is_none_or(|due| due > now) {
                    return None;
                }
                session.handle_timeout(now).map(milestone)
            }
            Phase::Pausing | Phase::Away | Phase::Over(_) => None,
        }
    }

    /// The next frame that this worker sends, with its header.
    pub(crate) fn poll_transmit(&mut self, now: Duration) -> Option<Vec<u8>> {
        let request = match &mut self.phase {
            Phase::Joining(join) => join.poll_transmit(now),
            Phase::Leaving(leave) => leave.poll_transmit(now),
            _ => None,
        };
        if let Some((head, body)) = request.and_then(<[u8]>::split_first_chunk::<{ header::LEN }>) {
            return Some(self.host.send(head, body));
        }
        if !matches!(self.phase, Phase::Running | Phase::Leaving(_) | Phase::Pausing) {
            return None;
        }
        let session = self.session.as_mut()?;
        let transmit: Transmit = session.poll_transmit(now)?;
        let payload = session.payload(&transmit, &self.tensor);
        Some(self.host.send(&transmit.header, payload))
    }

    /// When it wants to be woken.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Joining(join) => Some(join.poll_timeout()),
            Phase::Leaving(leave) => Some(leave.poll_timeout()),
            Phase::Running => self.session.as_ref()?.poll_timeout(),
            Phase::Pausing | Phase::Away | Phase::Over(_) => None,
        }
    }

    /// What it is doing, if that has a deadline, and how long it may.
    pub(crate) const fn stage(&self, plan: &JobPlan) -> Option<(&'static str, Duration)> {
        match self.phase {
            Phase::Joining(_) => Some(("joining", plan.join_deadline)),
            Phase::Running => Some(("in an allreduce", plan.deadline)),
            Phase::Leaving(_) => Some(("leaving", plan.linger)),
            Phase::Pausing | Phase::Away | Phase::Over(_) => None,
        }
    }
}

const fn milestone(event: Event) -> Milestone {
    match event {
        Event::Completed => Milestone::Completed,
        Event::Failed(failure) => Milestone::Failed(failure),
    }
}
