//! Ranks of a job that goes over several trees: each has a worker at each tree, and these share what the rank
//! does. They join one after the other, and begin and end operations together.

use core::time::Duration;

use pascaline_worker::{Collective, Request, Session, StartError, deal};

use super::World;
use super::event::What;
use super::lives::Again;
use crate::plan::{Excuse, MILLI};
use crate::sabotage::Sabotage;
use crate::violation::Violation;
use crate::worker::{Ending, Phase};

impl World<'_> {
    /// All workers of a worker's rank in the order of their trees: itself where there is only one.
    pub(super) fn siblings(&self, number: usize) -> impl Iterator<Item = usize> + use<> {
        let ranks = self.ranks();
        (0..self.plan.trees).map(move |tree| number % ranks + tree * ranks)
    }

    /// The first of them.
    pub(super) fn first_of(&self, number: usize) -> usize {
        number % self.ranks()
    }

    /// The ranks of all jobs, where there is one tree.
    pub(super) fn ranks(&self) -> usize {
        self.workers.len() / self.plan.trees
    }

    /// A worker has joined: the rank joins over the next tree, or its operations begin.
    pub(super) fn joined(&mut self, number: usize) -> Result<(), Violation> {
        let (next, now) = (number + self.ranks(), self.now);
        let first = self.first_of(number);
        if let Some(worker) = self.workers.get_mut(number) {
            worker.enter(Phase::Beside, now);
        }
        if next >= self.workers.len() {
            for number in self.siblings(number) {
                self.workers.get_mut(number).into_iter().for_each(|one| one.enter(Phase::Pausing, now));
            }
            self.rest(first);
            return Ok(());
        }
        let started = self.workers.get(first).map_or(0, |worker| worker.started);
        let (Some(plan), Some(worker)) = (self.job(next), self.workers.get_mut(next)) else { return Ok(()) };
        let waited = Duration::from_nanos(now - started);
        worker.patience = Some(plan.join_deadline.saturating_sub(waited));
        self.start_worker(next)
    }

    /// A worker has finished its part of an operation: the next one begins once the others have theirs.
    pub(super) fn finish(&mut self, number: usize) {
        let now = self.now;
        if let Some(worker) = self.workers.get_mut(number) {
            worker.enter(Phase::Beside, now);
        }
        let busy = |worker: usize| matches!(self.workers.get(worker), Some(one) if one.is_running());
        if self.siblings(number).any(busy) {
            return;
        }
        for number in self.siblings(number) {
            let time = self.time_of(number);
            let Some(worker) = self.workers.get_mut(number) else { continue };
            worker.session.iter_mut().for_each(|session| session.attend(time, false));
            worker.operation += 1;
            worker.enter(Phase::Pausing, now);
        }
        self.rest(self.first_of(number));
    }

    /// A rank that serves one tree serves those that have nothing to do as well: they show that it is alive.
    pub(super) fn settle_beside(&mut self, number: usize) -> Result<(), Violation> {
        for one in self.siblings(number).filter(|&one| one != number) {
            if self.workers.get(one).is_some_and(|one| matches!(one.phase, Phase::Beside)) {
                self.settle_alone(one)?;
            }
        }
        Ok(())
    }

    /// A rank begins its next operation over its trees, or leaves all of them.
    pub(super) fn begin_over_trees(&mut self, first: usize) -> Result<(), Violation> {
        let Some((plan, one)) = self.job(first).zip(self.workers.get(first)) else { return Ok(()) };
        let (operation, rank, hints) = (one.operation, one.rank, one.hints);
        let (now, time) = (self.now, self.time_of(first));
        let Some(&elements) = plan.operations.get(operation) else {
            for number in self.siblings(first) {
                let Some(worker) = self.workers.get_mut(number) else { continue };
                worker.leave(plan, now, time);
                self.begun(number)?;
            }
            return Ok(());
        };
        let differs = self.saboteur.what == Sabotage::DealOtherwise && rank == 0;
        let call = operation as u64 + u64::from(differs);
        let mut tensor = self.values_over_trees(first, (operation, elements), call);
        let (op, dtype, deadline) = (plan.element.op, plan.element.dtype, plan.deadline);
        let request = Request { bytes: tensor.len(), dtype, op, deadline, hints };
        let ranks = self.ranks();
        let mine = self.workers.iter_mut().skip(first).step_by(ranks);
        let mut sessions: Vec<&mut Session> = mine.filter_map(|worker| worker.session.as_mut()).collect();
        let allreduce = Collective::Allreduce(op);
        let work = match deal::start(&mut sessions, time, call, &request, &allreduce, &mut tensor) {
            Ok(work) => work,
            // As after a failure: they have given up.
            Err(StartError::Ended { .. }) => return self.give_up(first, Again::NewSession, Ending::Failed),
            Err(error) => {
                return Err(Violation::Unexcused { job: plan.id, rank, why: error.to_string() });
            }
        };
        for (number, part) in self.siblings(first).zip(work) {
            let Some(worker) = self.workers.get_mut(number) else { continue };
            worker.enter(if part.is_some() { Phase::Running } else { Phase::Beside }, now);
            worker.carry(part.map(|part| part.to_vec()).unwrap_or_default());
        }
        self.trace.note(now, 22, &[], || format!("worker {first} begins operation {operation}"));
        self.siblings(first).try_for_each(|number| self.begun(number))
    }

    /// What a rank contributes to an operation, each part as a value of its tree's job.
    fn values_over_trees(
        &mut self,
        first: usize,
        (operation, elements): (usize, usize),
        call: u64,
    ) -> Vec<u8> {
        let mut tensor = Vec::new();
        let Some(size) = self.job(first).map(|plan| plan.element.dtype.size()) else { return tensor };
        for (tree, run) in deal::runs(elements * size, size, self.plan.trees, call) {
            let number = first + tree * self.ranks();
            let (Some(plan), Some(worker)) = (self.job(number), self.workers.get_mut(number)) else { break };
            worker.from = run.start / size;
            let who = worker.who(plan.id);
            for index in worker.from..run.end / size {
                plan.values().contribute(who, operation, index, &mut tensor);
            }
        }
        tensor
    }

    /// A rank that fails over one tree does so over all, and the others learn of it at each. One that has
    /// joined over a tree does not look for another appliance there before it has joined over all.
    pub(super) fn is_over_trees_excused(&self, excuse: Excuse) -> bool {
        let early = || (0..self.jobs.len()).any(|job| self.is_disturbed(job));
        self.plan.trees > 1 && (excuse.kill || excuse.restart || early())
    }

    /// A rank is done with all trees, since one has failed it: it says so, and may join again.
    pub(super) fn give_up(&mut self, number: usize, again: Again, ending: Ending) -> Result<(), Violation> {
        let (first, now, time) = (self.first_of(number), self.now, self.time_of(number));
        let lives = self.job(first).map_or(0, |plan| plan.lives);
        let back = again != Again::Not && self.workers.get(first).is_some_and(|one| one.life < lives);
        for number in self.siblings(number) {
            let Some(worker) = self.workers.get_mut(number) else { continue };
            if matches!(worker.phase, Phase::Over(_)) {
                continue;
            }
            worker.session.iter_mut().for_each(|session| session.abandon(time));
            self.flush(number)?;
            let Some(worker) = self.workers.get_mut(number) else { continue };
            worker.end(if back { Phase::Away } else { Phase::Over(ending) }, now);
        }
        if back {
            let at = now + self.random.below(5 * MILLI);
            self.wheel.push(at, What::WorkerBack { worker: first });
        }
        Ok(())
    }
}
