//! One worker of a job: the life of a process that joins, combines and leaves, with the real core inside.

use core::time::Duration;

use pascaline_seal::MemberEnd;
use pascaline_wire::header;
use pascaline_worker::{
    Event, Failure, Hints, Identity, Join, JoinFailure, Left, Places, Request, Session, StartError,
};

use crate::attacker;
use crate::host::Host;
use crate::oracle::Contributor;
use crate::plan::JobPlan;
use crate::wheel::Alarm;

mod ending;
mod generation;
mod group;
pub(crate) use ending::Ending;
use group::{Datagram, Ear};

/// The rank of a worker among all, and its rank at its appliance with the ranks there.
pub(crate) type Who = (u16, (u16, u16));

/// The stage of a worker's life.
#[allow(clippy::large_enum_variant, reason = "there are few of them")]
pub(crate) enum Phase {
    Joining(Join),
    /// Busy with other work: the socket is not read, or only rarely.
    Pausing,
    Running,
    /// Its part of an operation is done, or it has none: other trees have the rest.
    Beside,
    Leaving,
    /// Dead, to be restarted.
    Away,
    Over(Ending),
}

/// A milestone of a worker.
#[derive(Debug)]
pub(crate) enum Milestone {
    Joined(u16),
    Completed,
    JoinFailed(JoinFailure),
    Failed(Failure),
    Left(Left),
}

pub(crate) struct Worker {
    pub(crate) host: Host,
    /// Index of its job in the plan.
    pub(crate) job: usize,
    /// Of all workers, from the left.
    pub(crate) rank: u16,
    /// Its rank at its appliance, and the ranks there.
    place: (u16, u16),
    /// Counts its processes.
    pub(crate) life: u32,
    /// Counts how often it has begun from the first PSN, in all its lives: each time with other values.
    pub(crate) take: u32,
    /// The take has values, but no generation yet.
    fresh: bool,
    /// The appliances that it may turn to: the first one's number, and how many there are.
    pub(crate) places: Places,
    pub(crate) nodes: (usize, usize),
    pub(crate) phase: Phase,
    /// Counts its stages, so that an audit knows whether it is still in the one that it was made for.
    pub(crate) stage: u64,
    /// When this stage began.
    pub(crate) since: u64,
    pub(crate) wake: Alarm,
    /// The operation, counted from where PSNs began.
    pub(crate) operation: usize,
    /// Whether it has sent PSNs of the upper half in it, and of the lower.
    pub(crate) halves: [bool; 2],
    /// It has finished all operations.
    pub(crate) done: bool,
    pub(crate) session: Option<Session>,
    /// The generations that this life was admitted to, in order.
    pub(crate) epochs: Vec<u16>,
    /// The generation in which its PSNs began.
    pub(crate) root: u16,
    /// How often its session had resumed at the last check.
    pub(crate) resumed: u64,
    pub(crate) killed: Option<u64>,
    /// When its present life began, and how long it waits for others to join, if other than the job's time.
    pub(crate) started: u64,
    /// When it had finished all operations.
    pub(crate) finished: u64,
    pub(crate) patience: Option<Duration>,
    /// Between two operations it reads arriving datagrams.
    tends: bool,
    pub(crate) hints: Hints,
    pub(crate) tensor: Vec<u8>,
    /// The first element that it has of an operation: not 0 where another tree has those before.
    pub(crate) from: usize,
    inbox: Vec<Datagram>,
    ear: Ear,
    /// Its end of the path, where its job's packets are sealed, and its session there.
    pub(crate) sealed: Option<(MemberEnd, u64)>,
    /// The appliance whose keys it has.
    pub(crate) keyed: usize,
    /// It has the job's other key.
    pub(crate) renewed: bool,
    /// The end of the time for which its process is stopped, and the datagrams that have arrived since.
    pub(crate) stopped: Option<u64>,
    pub(crate) socket: Vec<Datagram>,
}

impl Worker {
    pub(crate) fn new(host: Host, job: usize, (rank, place): Who, tends: bool, hints: Hints) -> Self {
        Self {
            host,
            job,
            rank,
            place,
            life: 0,
            take: 0,
            fresh: false,
            places: Places::default(),
            nodes: (0, 1),
            phase: Phase::Away,
            stage: 0,
            since: 0,
            wake: Alarm::default(),
            operation: 0,
            halves: [false; 2],
            done: false,
            session: None,
            epochs: Vec::new(),
            root: 0,
            resumed: 0,
            killed: None,
            started: 0,
            finished: 0,
            patience: None,
            tends,
            hints,
            tensor: Vec::new(),
            from: 0,
            inbox: Vec::new(),
            ear: Ear::default(),
            sealed: None,
            keyed: 0,
            renewed: false,
            stopped: None,
            socket: Vec::new(),
        }
    }

    pub(crate) const fn who(&self, job: u16) -> Contributor {
        Contributor { job, rank: self.rank, take: self.take }
    }

    /// It has no process.
    pub(crate) const fn is_away(&self) -> bool {
        matches!(self.phase, Phase::Away | Phase::Over(_))
    }

    /// Its process ended without leaving the job.
    pub(crate) const fn is_dead(&self) -> bool {
        matches!(self.phase, Phase::Away | Phase::Over(Ending::Killed | Ending::Failed | Ending::JoinFailed))
    }

    /// It will do nothing any more, whether or not it has announced that.
    pub(crate) const fn is_gone(&self) -> bool {
        matches!(self.phase, Phase::Away | Phase::Over(_)) || self.done
    }

    /// It has an operation in flight.
    pub(crate) const fn is_running(&self) -> bool {
        matches!(self.phase, Phase::Running)
    }

    pub(crate) fn enter(&mut self, phase: Phase, now: u64) {
        self.phase = phase;
        self.stage += 1;
        self.since = now;
    }

    /// Begins a life: another process, with another socket and a larger session.
    pub(crate) fn start(&mut self, plan: &JobPlan, now: u64, time: Duration) {
        self.life += 1;
        self.host.open(self.life);
        self.session = None;
        self.epochs.clear();
        self.fresh = false;
        self.resumed = 0;
        self.done = false;
        self.inbox.clear();
        self.wake.cancel();
        let (rank, ranks) = self.place;
        let identity = Identity { job: plan.id, rank, ranks, payload: plan.payload };
        let number = 1000 * u64::from(self.life) + u64::from(self.rank);
        let holder = attacker::holder(plan, (self.keyed, rank), self.renewed);
        self.sealed = holder.map(|holder| (MemberEnd::new(holder, number), number));
        let join =
            Join::new(identity, number, plan.window, time, self.patience.unwrap_or(plan.join_deadline));
        self.started = now;
        self.enter(Phase::Joining(join.among(self.places)), now);
    }

    /// Ends a life.
    pub(crate) fn end(&mut self, phase: Phase, now: u64) {
        self.enter(phase, now);
        self.session = None;
        self.inbox.clear();
        self.socket.clear();
        self.stopped = None;
    }

    /// Its message when it gives up joining, if another rank may count on it.
    pub(crate) fn farewell(&mut self) -> Option<Vec<u8>> {
        let Phase::Joining(join) = &mut self.phase else { return None };
        let packet = join.farewell()?;
        let (head, body) = packet.split_first_chunk::<{ header::LEN }>()?;
        Some(self.host.send(head, body))
    }

    /// Ends the pause: the next operation, or the end of all of them. `Completed` if it is done at once.
    ///
    /// # Errors
    /// If the session refuses to begin.
    pub(crate) fn begin(
        &mut self,
        plan: &JobPlan,
        now: u64,
        time: Duration,
    ) -> Result<Option<Milestone>, StartError> {
        if self.session.is_none() {
            return Ok(None);
        }
        let mut started = self.begin_operation(plan, time);
        if let Some(Err(StartError::Ended { got, .. })) = started {
            // All others learn of it and begin with the first operation. It may have joined them already.
            if self.epochs.last() == Some(&got) {
                self.renew();
            }
            started = self.begin_operation(plan, time);
        }
        let Some(started) = started else {
            self.leave(plan, now, time);
            return Ok(None);
        };
        let started = started?;
        self.enter(Phase::Running, now);
        Ok((!started).then_some(Milestone::Completed))
    }

    /// Begins to leave: all operations are done.
    pub(crate) fn leave(&mut self, plan: &JobPlan, now: u64, time: Duration) {
        self.tensor.clear();
        self.session.iter_mut().for_each(|session| session.leave(time, plan.linger));
        (self.done, self.finished) = (true, now);
        self.enter(Phase::Leaving, now);
    }

    /// The part that it has of an operation that has begun.
    pub(crate) fn carry(&mut self, part: Vec<u8>) {
        (self.tensor, self.halves) = (part, [false; 2]);
    }

    /// Begins the next operation; `None` if all are done.
    fn begin_operation(&mut self, plan: &JobPlan, time: Duration) -> Option<Result<bool, StartError>> {
        let who = self.who(plan.id);
        let (elements, op) = plan.call(self.rank, self.operation).filter(|_| !self.done)?;
        self.tensor.clear();
        self.halves = [false; 2];
        for index in 0..elements {
            plan.values().contribute(who, self.operation, index, &mut self.tensor);
        }
        let request = Request {
            bytes: self.tensor.len(),
            dtype: plan.element.dtype,
            op,
            deadline: plan.deadline,
            hints: self.hints,
        };
        Some(self.session.as_mut()?.start_with(time, &request))
    }

    /// A datagram has been read from the socket.
    pub(crate) fn handle(
        &mut self,
        now: Duration,
        plan: &JobPlan,
        (datagram, by_group): (&[u8], bool),
    ) -> Option<Milestone> {
        match &mut self.phase {
            _ if by_group => self.hear(now, datagram),
            Phase::Joining(join) => match join.handle_datagram(datagram)? {
                Ok(membership) => {
                    let session = Session::new(membership, plan.in_flight).among(*join.places());
                    self.session = Some(if plan.accept_partial { session.accept_partial() } else { session });
                    self.begin_anew(membership.epoch);
                    Some(Milestone::Joined(membership.epoch))
                }
                Err(failure) => Some(Milestone::JoinFailed(failure)),
            },
            // A worker that leaves has no tensor any more.
            Phase::Running | Phase::Leaving => {
                let event = self.session.as_mut()?.handle_datagram(now, datagram, &mut self.tensor)?;
                milestone(event)
            }
            // The same as in `tend`.
            Phase::Pausing => {
                self.session.as_mut()?.handle_datagram(now, datagram, &mut []).and_then(milestone)
            }
            // How the operation ends does not depend on it any more.
            Phase::Beside => {
                self.session.as_mut()?.handle_datagram(now, datagram, &mut []);
                None
            }
            Phase::Away | Phase::Over(_) => None,
        }
    }

    /// Handles the timers that are due.
    pub(crate) fn handle_timeout(&mut self, now: Duration) -> Option<Milestone> {
        match &mut self.phase {
            Phase::Joining(join) => join.handle_timeout(now).map(Milestone::JoinFailed),
            Phase::Running | Phase::Leaving => {
                let session = self.session.as_mut()?;
                if session.poll_timeout().is_none_or(|due| due > now) {
                    return None;
                }
                session.handle_timeout(now).and_then(milestone)
            }
            Phase::Beside => {
                self.session.as_mut()?.handle_timeout(now);
                None
            }
            Phase::Pausing | Phase::Away | Phase::Over(_) => None,
        }
    }

    /// The next frame that this worker sends, with its header.
    pub(crate) fn poll_transmit(&mut self, now: Duration) -> Option<Vec<u8>> {
        if let Phase::Joining(join) = &mut self.phase {
            let request = join.poll_transmit(now)?.to_vec();
            let (first, nodes) = self.nodes;
            self.host.aim((first + join.places().at()) % nodes);
            let (head, body) = request.split_first_chunk::<{ header::LEN }>()?;
            return Some(self.host.send(head, body));
        }
        if !matches!(self.phase, Phase::Running | Phase::Beside | Phase::Leaving | Phase::Pausing) {
            return None;
        }
        self.follow();
        let session = self.session.as_mut()?;
        let transmit = session.poll_transmit(now)?;
        if let Some(psn) = transmit.psn() {
            self.halves[usize::from(psn < 1 << 31)] = true;
        }
        self.host.aim((self.nodes.0 + session.places().at()) % self.nodes.1);
        let (payload, trailer) = (session.payload(&transmit, &self.tensor), session.trailer(&transmit));
        Some(self.host.send(&transmit.header, &[payload, trailer].concat()))
    }

    /// Its next timer.
    pub(crate) fn poll_timeout(&self) -> Option<Duration> {
        match &self.phase {
            Phase::Joining(join) => Some(join.poll_timeout()),
            Phase::Running | Phase::Beside | Phase::Leaving => self.session.as_ref()?.poll_timeout(),
            Phase::Pausing | Phase::Away | Phase::Over(_) => None,
        }
    }

    /// Its activity and time limit, if it has one.
    pub(crate) fn stage(&self, plan: &JobPlan) -> Option<(&'static str, Duration)> {
        match self.phase {
            Phase::Joining(_) => Some(("joining", self.patience.unwrap_or(plan.join_deadline))),
            Phase::Running => Some(("in an allreduce", plan.deadline)),
            Phase::Leaving => Some(("leaving", plan.linger.saturating_add(plan.deadline))),
            Phase::Beside | Phase::Pausing | Phase::Away | Phase::Over(_) => None,
        }
    }
}

/// `None` for the outcome of a command: the harness sends those outside the sessions.
fn milestone(event: Event) -> Option<Milestone> {
    match event {
        Event::Completed => Some(Milestone::Completed),
        Event::Left(left) => Some(Milestone::Left(left)),
        Event::Failed(failure) => Some(Milestone::Failed(failure)),
        Event::Commanded(_) => None,
    }
}
