//! What happens to workers.

use core::time::Duration;

use pascaline_worker::{Failure, JoinFailure, Left, Refusal};

use super::World;
use crate::oracle::{Violation, decode, encode};
use crate::plan::{Excuse, MILLI};
use crate::queue::What;
use crate::sabotage::Sabotage;
use crate::worker::{Ending, Milestone, Phase};

impl World<'_> {
    /// A worker begins its next life.
    pub(super) fn start_worker(&mut self, number: usize) -> Result<(), Violation> {
        let (Some(plan), now) = (self.job(number), self.time()) else { return Ok(()) };
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        if !matches!(worker.phase, Phase::Away) {
            return Ok(());
        }
        worker.start(plan, now);
        let life = worker.life;
        self.trace.note(self.now, 20, &[], || format!("worker {number} begins life {life}"));
        self.arrange_audit(number);
        self.settle(number)
    }

    /// Ends a worker's life from outside. False if it is over already.
    pub(super) fn kill(&mut self, number: usize, phase: Phase) -> bool {
        match self.workers.get_mut(number) {
            Some(worker) if !matches!(worker.phase, Phase::Away | Phase::Over(_)) => {
                worker.end(phase);
                true
            }
            _ => false,
        }
    }

    /// A frame reaches a worker's host.
    pub(super) fn deliver(&mut self, number: usize, frame: &[u8]) -> Result<(), Violation> {
        self.trace.note(self.now, 21, frame, || {
            format!("worker {number} receives {}", super::network::words(frame))
        });
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        let Some(datagram) = worker.host.receive(frame) else { return Ok(()) };
        if worker.set_aside(datagram) {
            return Ok(());
        }
        self.read(number, datagram)?;
        self.settle(number)
    }

    /// A worker reads a datagram from its socket.
    fn read(&mut self, number: usize, datagram: &[u8]) -> Result<(), Violation> {
        let (Some(plan), now) = (self.job(number), self.time()) else { return Ok(()) };
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        match worker.handle(now, plan.in_flight, datagram) {
            Some(milestone) => self.reach(number, milestone),
            None => Ok(()),
        }
    }

    pub(super) fn wake(&mut self, number: usize) -> Result<(), Violation> {
        if let Some(worker) = self.workers.get_mut(number) {
            worker.wake = None;
        }
        self.settle(number)
    }

    /// Handles what is due, sends what is to be sent, and arranges to be woken.
    fn settle(&mut self, number: usize) -> Result<(), Violation> {
        let now = self.time();
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        if let Some(milestone) = worker.handle_timeout(now) {
            self.reach(number, milestone)?;
        }
        self.flush(number);
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        let Some(due) = worker.poll_timeout().map(nanos) else { return Ok(()) };
        if worker.wake.is_none_or(|wake| due < wake) {
            worker.wake = Some(due);
            if self.saboteur.what != Sabotage::LoseTimers || !self.random.chance(100_000) {
                self.queue.push(due.max(self.now), What::Wake { worker: number });
            }
        }
        Ok(())
    }

    fn flush(&mut self, number: usize) {
        let now = self.time();
        while let Some(frame) = self.workers.get_mut(number).and_then(|worker| worker.poll_transmit(now)) {
            self.send_up(number, frame);
        }
    }

    /// A worker ends its pause.
    pub(super) fn begin(&mut self, number: usize, life: u32) -> Result<(), Violation> {
        let (Some(plan), now) = (self.job(number), self.time()) else { return Ok(()) };
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        if !matches!(worker.phase, Phase::Pausing) || worker.life != life {
            return Ok(());
        }
        if let Some(milestone) = worker.begin(plan, now) {
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
        self.arrange_audit(number);
        for datagram in self.workers.get_mut(number).map(|worker| worker.take_inbox()).unwrap_or_default() {
            // The operation may end with one of them.
            let pausing = self.workers.get_mut(number).is_some_and(|worker| worker.set_aside(&datagram));
            if !pausing {
                self.read(number, &datagram)?;
            }
        }
        self.settle(number)
    }

    /// A worker has come to something.
    fn reach(&mut self, number: usize, milestone: Milestone) -> Result<(), Violation> {
        self.trace.note(self.now, 23, &[], || format!("worker {number}: {milestone:?}"));
        let Some(plan) = self.job(number) else { return Ok(()) };
        let Some(worker) = self.workers.get_mut(number) else { return Ok(()) };
        match milestone {
            Milestone::Joined(epoch) => {
                self.generations.admit(worker.who(plan.id), plan.ranks, epoch)?;
                self.pause(number);
            }
            Milestone::Completed => {
                self.check_sum(number)?;
                self.finished += 1;
                // What the operation wanted to send at the end is sent before the tensor goes back to its owner.
                self.flush(number);
                if let Some(worker) = self.workers.get_mut(number) {
                    worker.operation += 1;
                }
                self.pause(number);
            }
            Milestone::JoinFailed(_) => worker.end(Phase::Over(Ending::JoinFailed)),
            Milestone::Left(_) => worker.end(Phase::Over(Ending::Left)),
            Milestone::Failed(_) => {
                self.failed += 1;
                if worker.life < plan.lives {
                    worker.end(Phase::Away);
                    let at = self.now + self.random.below(5 * MILLI);
                    self.queue.push(at, What::WorkerBack { worker: number });
                } else {
                    worker.end(Phase::Over(Ending::Failed));
                }
            }
        }
        self.check_excuse(number, &milestone)
    }

    fn pause(&mut self, number: usize) {
        let at = self.now + self.random.below(self.plan.pause);
        let Some(worker) = self.workers.get_mut(number) else { return };
        worker.phase = Phase::Pausing;
        worker.stage += 1;
        self.queue.push(at, What::Begin { worker: number, life: worker.life });
    }

    /// Sees to it that a stage that goes on beyond its deadline is noticed.
    fn arrange_audit(&mut self, number: usize) {
        let (Some(plan), Some(worker)) = (self.job(number), self.workers.get(number)) else { return };
        if let Some((_, limit)) = worker.stage(plan) {
            let at = self.now.saturating_add(nanos(limit)) + 1;
            self.queue.push(at, What::Audit { worker: number, stage: worker.stage });
        }
    }

    pub(super) fn audit(&self, number: usize, stage: u64) -> Result<(), Violation> {
        let (Some(plan), Some(worker)) = (self.job(number), self.workers.get(number)) else { return Ok(()) };
        match worker.stage(plan) {
            Some((doing, _)) if worker.stage == stage => {
                Err(Violation::Overdue { job: plan.id, rank: worker.rank, stage: doing })
            }
            _ => Ok(()),
        }
    }

    /// The sum must be that of the lives that make up the worker's generation, each counted once.
    fn check_sum(&self, number: usize) -> Result<(), Violation> {
        let (Some(plan), Some(worker)) = (self.job(number), self.workers.get(number)) else { return Ok(()) };
        let (job, rank, operation) = (plan.id, worker.rank, worker.operation);
        let Some(session) = &worker.session else { return Ok(()) };
        let epoch = session.membership().epoch;
        let mut contributors = Vec::with_capacity(usize::from(plan.ranks));
        let lives = self.generations.lives(job, epoch);
        for other in 0..plan.ranks {
            let Some(life) = lives.get(usize::from(other)).copied().flatten() else {
                return Err(Violation::Incomplete { job, rank, operation, epoch, missing: other });
            };
            contributors.push(crate::oracle::Contributor { job, rank: other, life });
        }
        let (elements, _) = worker.tensor.as_chunks::<4>();
        for (index, &got) in elements.iter().enumerate() {
            let expected = contributors.iter().map(|who| who.value(operation, index)).sum();
            if got != encode(plan.element, expected) {
                let (elements, got) = (elements.len(), decode(plan.element, got));
                return Err(Violation::WrongSum { job, rank, operation, index, elements, got, expected });
            }
        }
        Ok(())
    }

    /// Nothing may fail that nothing excuses.
    fn check_excuse(&self, number: usize, milestone: &Milestone) -> Result<(), Violation> {
        let (Some(plan), Some(worker)) = (self.job(number), self.workers.get(number)) else { return Ok(()) };
        let Excuse { restart, kill } = plan.excuse;
        let anew = matches!(
            milestone,
            Milestone::Failed(Failure::Refused {
                refusal: Refusal::Generation { .. } | Refusal::NotMember { .. },
                ..
            })
        );
        let alone = matches!(milestone, Milestone::JoinFailed(JoinFailure::Incomplete { .. }));
        let late =
            matches!(milestone, Milestone::Failed(Failure::Deadline(_)) | Milestone::Left(Left::Lingered));
        if restart && anew || kill && late || (restart || kill) && alone {
            return Ok(());
        }
        let why = match milestone {
            Milestone::Joined(_) | Milestone::Completed | Milestone::Left(Left::Everyone) => return Ok(()),
            Milestone::JoinFailed(failure) => failure.to_string(),
            Milestone::Failed(failure) => failure.to_string(),
            Milestone::Left(Left::Lingered) => "left before the others".to_owned(),
        };
        Err(Violation::Unexcused { job: plan.id, rank: worker.rank, why })
    }

    /// Everyone must have come to an end.
    pub(super) fn check_end(&self, number: usize) -> Result<(), Violation> {
        let (Some(plan), Some(worker)) = (self.job(number), self.workers.get(number)) else { return Ok(()) };
        let (job, rank) = (plan.id, worker.rank);
        match worker.phase {
            Phase::Over(Ending::Left) if worker.operation == plan.operations.len() => Ok(()),
            Phase::Over(_) if plan.excuse.restart || plan.excuse.kill => Ok(()),
            Phase::Over(ending) => Err(Violation::Unexcused { job, rank, why: format!("{ending:?}") }),
            _ => Err(Violation::Overdue { job, rank, stage: "at work" }),
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}
