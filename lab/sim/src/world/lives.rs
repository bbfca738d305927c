//! Events of workers.

use pascaline_wire::{Header, Kind};
use pascaline_worker::{Failure, Reason};

use super::World;
use super::event::What;
use crate::faults::{Fault, Reach};
use crate::plan::{MICRO, MILLI};
use crate::sabotage::Sabotage;
use crate::violation::Violation;
use crate::wheel::nanos;
use crate::worker::{Ending, Milestone, Phase, Worker};

impl World<'_> {
    /// A worker begins its next life.
    pub(super) fn start_worker(&mut self, number: usize) -> Result<(), Violation> {
        let (Some(plan), now, time) = (self.job(number), self.now, self.time_of(number)) else {
            return Ok(());
        };
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        if !matches!(worker.phase, Phase::Away) {
            return Ok(());
        }
        worker.start(plan, now, time);
        let life = worker.life;
        self.trace.note(self.now, 20, &[], || format!("worker {number} begins life {life}"));
        self.arrange_audit(number);
        self.settle(number)
    }

    /// Ends a worker's life from outside, for good or not. False if it is over already.
    pub(super) fn kill(&mut self, number: usize, for_good: bool) -> bool {
        let now = self.now;
        if self.workers.get(number).is_none_or(Worker::is_away) {
            return false;
        }
        for number in self.siblings(number) {
            let Some(worker) = self.workers.get_mut(number) else { continue };
            worker.killed = Some(now);
            worker.end(if for_good { Phase::Over(Ending::Killed) } else { Phase::Away }, now);
        }
        true
    }

    /// A frame reaches a worker's host.
    pub(super) fn deliver(&mut self, number: usize, frame: &[u8]) -> Result<(), Violation> {
        self.trace.note(self.now, 21, frame, || {
            format!("worker {number} receives {}", super::network::words(frame))
        });
        if self.outside(number).is_some() {
            return self.deliver_outside(frame);
        }
        if let Some(host) = self.client(number) {
            return self.deliver_to_client(host, frame);
        }
        if let Some(host) = number.checked_sub(self.workers.len()) {
            return self.deliver_to_cluster(host, frame);
        }
        let confused = self.saboteur.what == Sabotage::MistakeForGroup;
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        let Some((datagram, by_group)) = worker.receive(frame) else { return Ok(()) };
        let datagram = (&datagram[..], by_group || confused && worker.joined().is_some());
        if let Some(kept) = self.workers.get_mut(number).and_then(|worker| worker.keep(datagram)) {
            self.faults.add(Fault::Overrun, u64::from(!kept));
            return Ok(());
        }
        self.look_at(number, datagram)?;
        self.settle(number)
    }

    /// A datagram is in a worker's socket, and the worker runs.
    pub(super) fn look_at(&mut self, number: usize, datagram: (&[u8], bool)) -> Result<(), Violation> {
        if self.answers_command(datagram.0) {
            return Ok(());
        }
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        if worker.set_aside(datagram) { Ok(()) } else { self.read(number, datagram) }
    }

    /// A worker reads a datagram from its socket.
    fn read(&mut self, number: usize, datagram: (&[u8], bool)) -> Result<(), Violation> {
        let (Some(plan), now) = (self.job(number), self.time_of(number)) else { return Ok(()) };
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        let milestone = worker.handle(now, plan, datagram);
        let results = matches!(Header::parse(datagram.0), Ok((header, _)) if header.kind == Kind::Result);
        self.reached.add(Reach::ByGroup, u64::from(datagram.1 && results));
        self.follow(number)?;
        milestone.map_or(Ok(()), |milestone| self.reach(number, milestone))
    }

    /// Notes that a worker has moved to another generation.
    fn follow(&mut self, number: usize) -> Result<(), Violation> {
        let Some(plan) = self.job(number) else { return Ok(()) };
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        let before = worker.epochs.last().copied();
        let Some(moved) = worker.moved() else { return Ok(()) };
        self.reached.add(Reach::Around, u64::from(before.is_some_and(|before| before > moved.to)));
        self.trace.note(self.now, 24, &[], || format!("worker {number}: {moved:?}"));
        self.reached.count(if moved.resumed { Reach::Resumed } else { Reach::BegunAnew });
        if let Some(job) = self.jobs.get_mut(worker.job) {
            job.begun_anew |= !moved.resumed;
        }
        self.generations.admit(worker.who(plan.id), plan.ranks, moved.to, worker.root)
    }

    pub(super) fn wake(&mut self, number: usize) -> Result<(), Violation> {
        if let Some(worker) = self.workers.get_mut(number) {
            worker.wake.ring(self.now);
        }
        self.settle(number)
    }

    /// Handles what is due, sends pending packets, and arranges to be woken.
    pub(super) fn settle(&mut self, number: usize) -> Result<(), Violation> {
        self.settle_alone(number)?;
        self.settle_beside(number)
    }

    pub(super) fn settle_alone(&mut self, number: usize) -> Result<(), Violation> {
        let (clock, now) = (self.clock_of(number), self.time_of(number));
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        if worker.stopped.is_some() {
            return Ok(());
        }
        if let Some(milestone) = worker.handle_timeout(now) {
            self.reach(number, milestone)?;
        }
        self.flush(number)?;
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        let Some(due) = worker.poll_timeout().map(|due| clock.global(nanos(due))) else { return Ok(()) };
        if let Some(at) = worker.wake.set_earlier(due, due.max(self.now))
            && (self.saboteur.what != Sabotage::LoseTimers || !self.random.chance(100_000))
        {
            self.wheel.push(at, What::Wake { worker: number });
        }
        Ok(())
    }

    pub(super) fn flush(&mut self, number: usize) -> Result<(), Violation> {
        let now = self.time_of(number);
        while let Some(worker) = self.workers.get_mut(number)
            && let Some(frame) = worker.poll_transmit(now)
        {
            if let (true, rank, Some(plan)) = (worker.pretends(&frame), worker.rank, self.job(number)) {
                return Err(Violation::Pretended { job: plan.id, rank });
            }
            self.send_up(number, frame);
        }
        Ok(())
    }

    /// A worker ends its pause.
    pub(super) fn begin(&mut self, number: usize, stage: u64) -> Result<(), Violation> {
        let (Some(plan), now, time) = (self.job(number), self.now, self.time_of(number)) else {
            return Ok(());
        };
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        if !matches!(worker.phase, Phase::Pausing) || worker.stage != stage {
            return Ok(());
        }
        if let Some(until) = worker.stopped {
            self.wheel.push(until + 1, What::Begin { worker: number, stage });
            return Ok(());
        }
        if self.plan.trees > 1 {
            return self.begin_over_trees(number);
        }
        let rank = worker.rank;
        let begun = worker.begin(plan, now, time);
        let begun =
            begun.map_err(|error| Violation::Unexcused { job: plan.id, rank, why: error.to_string() })?;
        if let Some(milestone) = begun {
            self.reach(number, milestone)?;
        }
        let operation = self.workers.get(number).map_or(0, |worker| worker.operation);
        self.trace.note(self.now, 22, &[], || format!("worker {number} begins operation {operation}"));
        if self.saboteur.what == Sabotage::CutLink && number == 0 {
            self.up.iter_mut().take(1).for_each(|link| link.cut(self.now));
        }
        #[expect(clippy::panic, reason = "a defect on purpose")]
        if self.saboteur.what == Sabotage::Panic && number == 1 {
            panic!("on purpose");
        }
        self.begun(number)
    }

    /// A worker has begun something, and reads what has come meanwhile.
    pub(super) fn begun(&mut self, number: usize) -> Result<(), Violation> {
        self.arrange_audit(number);
        let inbox = self.workers.get_mut(number).map(|worker| worker.take_inbox()).unwrap_or_default();
        for (datagram, by_group) in inbox {
            let datagram = (&*datagram, by_group);
            // The operation may end with one of them.
            let pausing = self.workers.get_mut(number).is_some_and(|worker| worker.set_aside(datagram));
            if !pausing {
                self.read(number, datagram)?;
            }
        }
        self.settle(number)
    }

    /// A worker has reached a milestone.
    fn reach(&mut self, number: usize, milestone: Milestone) -> Result<(), Violation> {
        self.trace.note(self.now, 23, &[], || format!("worker {number}: {milestone:?}"));
        self.check_excuse(number, &milestone)?;
        let (Some(plan), now) = (self.job(number), self.now) else { return Ok(()) };
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        match milestone {
            Milestone::Joined(epoch) => {
                self.generations.admit(worker.who(plan.id), plan.ranks, epoch, epoch)?;
                self.note_formed(number);
                self.joined(number)?;
            }
            Milestone::Completed => {
                self.check_result(number)?;
                self.finished += 1;
                let wrapped = self.workers.get(number).is_some_and(|worker| worker.halves == [true; 2]);
                self.reached.add(Reach::Wrapped, u64::from(wrapped));
                // The operation's last packets go out before the tensor goes back to its owner.
                self.flush(number)?;
                self.finish(number);
            }
            Milestone::JoinFailed(_) => {
                // Twice: this message is never answered.
                let farewells: Vec<_> = (0..2).filter_map(|_| worker.farewell()).collect();
                worker.end(Phase::Over(Ending::JoinFailed), now);
                farewells.into_iter().for_each(|frame| self.send_up(number, frame));
                self.give_up(number, Again::Not, Ending::JoinFailed)?;
            }
            Milestone::Left(_) => {
                let stayed = now - worker.since > nanos(plan.linger);
                worker.end(Phase::Over(Ending::Left), now);
                self.reached.add(Reach::StayedOn, u64::from(stayed));
            }
            Milestone::Failed(failure) => {
                self.failed += 1;
                // It announces that it gives up.
                self.flush(number)?;
                let again = self.again(number, &failure);
                if self.plan.trees > 1 {
                    return self.give_up(number, again, Ending::Failed);
                }
                let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
                let can_start = worker.life < plan.lives;
                if again == Again::SameSession {
                    worker.renew();
                }
                if again == Again::SameSession && !(can_start && self.random.chance(300_000)) {
                    self.rest(number);
                } else if again != Again::Not && can_start {
                    worker.end(Phase::Away, now);
                    let at = self.now + self.random.below(5 * MILLI);
                    self.wheel.push(at, What::WorkerBack { worker: number });
                } else {
                    worker.end(Phase::Over(Ending::Failed), now);
                }
            }
        }
        Ok(())
    }

    /// The user's next step after a failure.
    fn again(&mut self, number: usize, failure: &Failure) -> Again {
        let again = match failure {
            Failure::Rejected { rejection, .. } => Again::after(&rejection.reason),
            Failure::Deadline(_) | Failure::Unreachable(_) | Failure::TooLong { .. } => Again::Not,
        };
        let Some(worker) = self.workers.get(number) else { return again };
        // Its generation has ended, for instance before the first result: the next one is for all ranks
        // again, including those that have died since.
        let ended = again == Again::SameSession;
        if let Some(job) = self.jobs.get_mut(worker.job) {
            job.begun_anew |= ended;
        }
        // Refused at a backup: this session cannot resume the others' generation there or elsewhere.
        let over = worker.session.as_ref().is_some_and(pascaline_worker::Session::is_over);
        if ended && over { Again::NewSession } else { again }
    }

    /// Notes when all ranks of a job have joined.
    fn note_formed(&mut self, number: usize) {
        let Some(job) = self.workers.get(number).map(|worker| worker.job) else { return };
        let mut all = self.workers.iter().filter(|worker| worker.job == job);
        if all.all(|worker| worker.session.is_some() || worker.life > 1)
            && let Some(story) = self.jobs.get_mut(job)
        {
            story.formed.get_or_insert(self.now);
        }
    }

    pub(super) fn rest(&mut self, number: usize) {
        let at = self.now + self.random.below(self.plan.pause);
        let Some(worker) = self.workers.get_mut(number) else { return };
        worker.enter(Phase::Pausing, self.now);
        self.wheel.push(at, What::Begin { worker: number, stage: worker.stage });
    }

    /// Schedules the check that a stage ends by its deadline.
    fn arrange_audit(&mut self, number: usize) {
        let (Some(plan), Some(worker)) = (self.job(number), self.workers.get(number)) else { return };
        if let Some((_, limit)) = worker.stage(plan) {
            let local = nanos(self.time_of(number).saturating_add(limit));
            // A timer comes some nanoseconds late, where the clock goes faster than time does.
            let at = self.clock_of(number).global(local).saturating_add(MICRO);
            self.wheel.push(at, What::Audit { worker: number, stage: worker.stage });
        }
    }

    pub(super) fn audit(&mut self, number: usize, stage: u64) -> Result<(), Violation> {
        let (Some(plan), Some(worker)) = (self.job(number), self.workers.get(number)) else { return Ok(()) };
        if let Some(until) = worker.stopped {
            self.wheel.push(until + 1, What::Audit { worker: number, stage });
            return Ok(());
        }
        match worker.stage(plan) {
            Some((doing, _)) if worker.stage == stage => {
                Err(Violation::Overdue { job: plan.id, rank: worker.rank, stage: doing })
            }
            _ => Ok(()),
        }
    }
}

/// A user's next step after an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    /// Begin with the first operation, in the present session.
    SameSession,
    /// Join again.
    NewSession,
    Not,
}

impl Again {
    const fn after(reason: &Reason) -> Self {
        match reason {
            Reason::Generation => Self::SameSession,
            Reason::TakenForDead => Self::NewSession,
            _ => Self::Not,
        }
    }
}
