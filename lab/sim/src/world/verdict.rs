//! Judges how a worker ended.

use core::time::Duration;

use pascaline_worker::{Failure, JoinFailure, Left, RankSet, Reason};

use super::World;
use crate::attacker;
use crate::clock::DRIFT;
use crate::faults::Reach;
use crate::oracle::{Contributor, decode};
use crate::plan::{Dispute, Excuse, JobPlan, MILLI};
use crate::violation::Violation;
use crate::wheel::nanos;
use crate::worker::{Ending, Milestone, Phase, Worker};

impl World<'_> {
    /// A result must be the sum of one contribution of each take of the generation in which the worker's PSNs
    /// began.
    ///
    /// All ranks must have the same. If ranks are missing from it, the worker must name them.
    pub(super) fn check_result(&mut self, number: usize) -> Result<(), Violation> {
        let (Some(plan), Some(worker)) = (self.job(number), self.workers.get(number)) else { return Ok(()) };
        let Some(session) = &worker.session else { return Ok(()) };
        if plan.dispute.is_some_and(|one| worker.operation >= one.operation) {
            let why = "has finished what the ranks call differently".to_owned();
            return Err(Violation::Unexcused { job: plan.id, rank: worker.rank, why });
        }
        let partial = session.report().partial;
        let contributors = self.contributors(plan, worker);
        let missing = partial.map_or(RankSet::EMPTY, |partial| partial.missing);
        let sets = self.check_sums(plan, worker, &contributors, &missing)?;
        self.reached.add(Reach::Partial, u64::from(partial.is_some()));
        let wrong = |why: String| {
            let (job, rank, operation) = (plan.id, worker.rank, worker.operation);
            Err(Violation::WrongReport { job, rank, operation, why })
        };
        if let Some(partial) = partial {
            let fewer: Vec<&RankSet> = sets.iter().filter(|set| !set.is_empty()).collect();
            let all = fewer.iter().fold(RankSet::EMPTY, |all, set| all | **set);
            let most = fewer.iter().map(|set| set.len()).max().unwrap_or(0);
            let least = plan.ranks - most;
            if (fewer.len() as u64, least, all)
                != (u64::from(partial.results), partial.least_count, partial.missing)
            {
                return wrong(format!("{partial:?}, but its results lack {sets:?}"));
            }
            // A rank that is present must not be missing, except by a threshold.
            let lost = |rank: u16| self.losses(worker.job).any(|ranks| ranks.contains(&rank));
            if !plan.excuse.threshold
                && let Some(there) = missing.iter().find(|&rank| !lost(rank))
            {
                return wrong(format!("rank {there} is missing, but was never lost"));
            }
        }
        let (job, root, operation) = (worker.job, worker.root, worker.operation);
        // A result that only dead ranks had is made again, without them; so is one of ranks that were taken
        // for dead and are not in the others' generation. So is a result of a rank that was done when a Reset
        // made all join again, if the others have lost it.
        let lost = |rank: u16| self.losses(worker.job).any(|ranks| ranks.contains(&rank));
        let apart = |one: &Worker, other: &Worker| {
            lost(one.rank) && other.epochs.last().is_some_and(|epoch| !one.epochs.contains(epoch))
        };
        let stranded = |other: &Worker| other.done && plan.excuse.reset && lost(other.rank);
        let out = |other: &Worker| {
            other.is_dead() || stranded(other) || apart(worker, other) || apart(other, worker)
        };
        let alive = |rank: u16| self.others(number).all(|other| other.rank != rank || !out(other));
        let same = self.results.iter().filter(|(what, ..)| *what == (job, root, operation));
        for (_, one, tensor) in same.filter(|(_, one, _)| alive(*one)) {
            differ(plan, operation, (*one, tensor), (worker.rank, &worker.tensor))?;
        }
        self.results.push(((job, root, operation), worker.rank, worker.tensor.clone()));
        Ok(())
    }

    /// The takes in a worker's results, by rank.
    fn contributors(&self, plan: &JobPlan, worker: &Worker) -> Vec<Option<Contributor>> {
        let takes = self.generations.takes(plan.id, worker.root);
        let contributor = |rank: u16| {
            let take = takes.get(usize::from(rank)).copied().flatten()?;
            Some(Contributor { job: plan.id, rank, take })
        };
        (0..plan.ranks).map(contributor).collect()
    }

    /// Checks the elements of each packet; returns, for each, which of the ranks in `missing` it lacks.
    fn check_sums(
        &self,
        plan: &JobPlan,
        worker: &Worker,
        contributors: &[Option<Contributor>],
        missing: &RankSet,
    ) -> Result<Vec<RankSet>, Violation> {
        let (values, operation) = (plan.values(), worker.operation);
        let size = values.element.dtype.size();
        let fits = |set: &RankSet, first: usize, packet: &[u8]| {
            let mut elements = (first..).zip(packet.chunks(size));
            let wrong = elements
                .find(|&(index, got)| !values.fits(without(contributors, set), operation, index, got));
            wrong.map_or(Ok(()), |(index, _)| Err(index))
        };
        let absent: RankSet = (0..plan.ranks)
            .zip(contributors)
            .filter(|(_, who)| who.is_none())
            .map(|(rank, _)| rank)
            .collect();
        let mut sets = Vec::new();
        // Packets hold whole elements.
        let payload = usize::from(plan.payload) / size * size;
        for (at, packet) in worker.tensor.chunks(payload).enumerate() {
            let first = worker.from + at * payload / size;
            let whole = fits(&RankSet::EMPTY, first, packet);
            let set: Vec<RankSet> = match whole {
                Ok(()) if absent.is_empty() => vec![RankSet::EMPTY],
                // A rank that cannot have contributed is not inside.
                _ => subsets(missing)
                    .filter(|set| set.includes(&absent) && fits(set, first, packet).is_ok())
                    .collect(),
            };
            if set.is_empty() {
                let (job, rank, elements) = (plan.id, worker.rank, worker.tensor.len() / size);
                if let (Some(missing), Ok(())) = (absent.iter().next(), whole) {
                    return Err(Violation::Incomplete { job, rank, operation, epoch: worker.root, missing });
                }
                let index = whole.err().unwrap_or(first);
                let place = worker.tensor.chunks(size).nth(index - worker.from).unwrap_or_default();
                let got = decode(values.element, place);
                let expected = values.expected(without(contributors, &RankSet::EMPTY), operation, index);
                return Err(Violation::WrongSum { job, rank, operation, index, elements, got, expected });
            }
            sets.push(set);
        }
        Ok(settled(&sets, missing))
    }

    /// The ranks that a job has lost, each time.
    fn losses(&self, job: usize) -> impl Iterator<Item = &Vec<u16>> {
        self.jobs.get(job).into_iter().flat_map(|job| &job.losses)
    }

    /// No operation may fail without an excuse.
    pub(super) fn check_excuse(&mut self, number: usize, milestone: &Milestone) -> Result<(), Violation> {
        let (Some(plan), Some(worker)) = (self.job(number), self.workers.get(number)) else { return Ok(()) };
        let why = match milestone {
            Milestone::Joined(_) | Milestone::Completed | Milestone::Left(Left::Everyone) => return Ok(()),
            Milestone::JoinFailed(failure) => failure.to_string(),
            Milestone::Failed(failure) => failure.to_string(),
            Milestone::Left(Left::Lingered) => "left before the others".to_owned(),
        };
        if let Milestone::Failed(Failure::Rejected { rejection, .. })
        | Milestone::JoinFailed(JoinFailure::Rejected(rejection)) = milestone
            && let Reason::RanksLost(ranks) = &rejection.reason
        {
            self.check_names(plan, number, worker, ranks)?;
        }
        if let (Some(dispute), Milestone::Failed(Failure::Rejected { rejection, .. })) =
            (plan.dispute, milestone)
        {
            self.check_dispute(plan, (number, worker), dispute, &rejection.reason)?;
            self.reached.count(Reach::Disagreed);
            return Ok(());
        }
        if self.is_excused(plan, number, worker, milestone) {
            return Ok(());
        }
        Err(Violation::Unexcused { job: plan.id, rank: worker.rank, why })
    }

    /// A rank learns of a disagreement in time, and which rank disagrees.
    fn check_dispute(
        &self,
        plan: &JobPlan,
        (number, worker): (usize, &Worker),
        dispute: Dispute,
        reason: &Reason,
    ) -> Result<(), Violation> {
        const IN_TIME: u64 = 2_000 * MILLI;
        const BAD_NEWS: Duration = Duration::from_millis(500);
        let (job, rank) = (plan.id, worker.rank);
        let named = match reason {
            // With only two ranks, each differs from the other.
            Reason::Operations(Some(two)) => [two.most.rank, two.differing.rank].contains(&dispute.rank),
            // A rank that learns of it leaves.
            Reason::RanksLeft(left) => !left.as_slice().is_empty(),
            // The answer that explains gets lost in a bad network, for long enough.
            Reason::Operations(None) | Reason::Element | Reason::Payload => plan.news > BAD_NEWS,
            _ => false,
        };
        let before = worker.operation < dispute.operation && !self.is_left_behind(plan, number, worker);
        if !named || before {
            return Err(Violation::Unexcused { job, rank, why: format!("its reason is {reason:?}") });
        }
        let all = self.workers.iter().filter(|other| other.job == worker.job);
        let since = all.map(|other| other.since).max().unwrap_or(0);
        let (waited, limit) = (self.now - since, IN_TIME + nanos(plan.news));
        if waited > limit {
            let (waited_ms, limit_ms) = (waited / MILLI, limit / MILLI);
            return Err(Violation::LateNews { job, rank, waited_ms, limit_ms });
        }
        Ok(())
    }

    fn is_excused(&self, plan: &JobPlan, number: usize, worker: &Worker, milestone: &Milestone) -> bool {
        let Excuse { appliance, restart, kill, reset, threshold, runs } = plan.excuse;
        if runs {
            return !milestone.is_taken();
        }
        if self.is_over_trees_excused(plan.excuse) {
            return true;
        }
        let begun_anew = self.jobs.get(worker.job).is_some_and(|job| job.begun_anew);
        // A rank that has ended does not begin again with those that must.
        let stranded = restart || reset || kill && appliance || begun_anew;
        let gone = self.others(number).any(Worker::is_gone);
        // A rank that was taken for dead has no generation to resume, even if the appliance has forgotten
        // that.
        let dead = kill && self.losses(worker.job).any(|ranks| ranks.contains(&worker.rank));
        match milestone {
            Milestone::Failed(Failure::Rejected { rejection, .. }) => match &rejection.reason {
                Reason::Generation => {
                    let [got, expected] = [rejection.got, rejection.expected].map(u16::try_from);
                    let epochs = got.ok().zip(expected.ok());
                    let early = self.is_disturbed(worker.job);
                    reset || dead || early || epochs.is_some_and(|(from, to)| self.is_new(number, from, to))
                }
                Reason::Halted => reset,
                Reason::Overtaken => threshold,
                // A rank that gave up had its own excuse.
                Reason::RanksLeft(named) => {
                    let node = self.plan.node_of(number);
                    named.as_slice().iter().any(|report| {
                        let ranks = self.plan.ranks_of(node, &[report.rank]);
                        let gone = |other: &Worker| other.is_dead() || other.life > 1;
                        self.others(number).any(|other| ranks.contains(&other.rank) && gone(other))
                    }) || {
                        // An appliance has left, since one of its ranks is lost, or gave up for a dead one.
                        let lost = self.losses(worker.job).next().is_some();
                        self.plan.tree.is_some() && (lost || self.others(number).any(Worker::is_dead))
                    }
                }
                Reason::RanksLost(_) | Reason::TakenForDead => kill || stranded || threshold,
                _ => false,
            },
            Milestone::Failed(Failure::Deadline(_)) => {
                threshold && gone
                    || kill && plan.dead_after.is_none()
                    || (stranded || dead) && gone
                    || self.is_left_behind(plan, number, worker)
            }
            // Recorded packets of a rank's former life let it pass for alive.
            taken if taken.is_taken() => plan.sealed.is_some() && worker.life > 1,
            Milestone::JoinFailed(failure) => match failure {
                JoinFailure::Incomplete { .. } => kill || stranded,
                JoinFailure::Rejected(rejection) if rejection.reason == Reason::Halted => reset,
                JoinFailure::Rejected(rejection)
                    if matches!(rejection.reason, Reason::RanksLost(_) | Reason::TakenForDead) =>
                {
                    kill || stranded
                }
                _ => false,
            },
            Milestone::Left(Left::Lingered) if plan.dispute.is_some() => true,
            Milestone::Left(Left::Lingered) => {
                // For an appliance that has forgotten that some have left, they are missing.
                let nobody_needs_it = self.others(number).all(Worker::is_gone);
                kill || stranded || threshold || appliance && nobody_needs_it
            }
            // Every path here takes every length, and refuses nothing.
            Milestone::Failed(Failure::Unreachable(_) | Failure::TooLong { .. }) => false,
            Milestone::Joined(_) | Milestone::Completed | Milestone::Left(Left::Everyone) => true,
        }
    }

    /// True if all others have given up a disputed operation, and left at once, while a rank lacked results
    /// of one before it (protocol, section 9, "Giving up").
    fn is_left_behind(&self, plan: &JobPlan, number: usize, worker: &Worker) -> bool {
        let before = plan.dispute.is_some_and(|dispute| worker.operation < dispute.operation);
        let gave_up = |other: &Worker| matches!(other.phase, Phase::Over(Ending::Failed));
        before && self.others(number).all(gave_up)
    }

    /// True if there are two appliances, and something happened to one while ranks were joining: it may think
    /// of some as newcomers that are members elsewhere by then.
    pub(super) fn is_disturbed(&self, job: usize) -> bool {
        let formed = self.jobs.get(job).and_then(|job| job.formed);
        let first = self.plan.upsets.iter().map(|&(at, _)| at).min();
        self.plan.has_backup() && first.is_some_and(|first| formed.is_none_or(|formed| first <= formed))
    }

    /// The other ranks of a worker's job.
    fn others(&self, number: usize) -> impl Iterator<Item = &Worker> {
        let job = self.workers.get(number).map(|worker| worker.job);
        let others = self.workers.iter().enumerate().filter(move |(other, _)| *other != number);
        others.map(|(_, other)| other).filter(move |other| Some(other.job) == job)
    }

    /// True if some rank cannot have asked to resume the generation `from` when `to` began.
    ///
    /// It has started afresh, did not have `from`, or had a later generation.
    fn is_new(&self, number: usize, from: u16, to: u16) -> bool {
        let wanted = |other: &Worker| {
            let mut after = other.epochs.iter().skip_while(|&&epoch| epoch != from);
            let told = after.next().is_some();
            told && after.next().is_none_or(|&next| next == to)
        };
        // A killed rank may have asked before, and one that began anew may have given up since; no other gone
        // rank has asked.
        let over = |other: &Worker| matches!(other.phase, Phase::Over(ending) if !ending.is_sudden());
        let asked = |other: &&Worker| !over(other) || other.life > 1;
        self.others(number).filter(asked).any(|other| !wanted(other))
    }

    /// A worker learns of the right lost ranks, and in time.
    fn check_names(
        &self,
        plan: &JobPlan,
        number: usize,
        worker: &Worker,
        named: &RankSet,
    ) -> Result<(), Violation> {
        let (job, rank) = (plan.id, worker.rank);
        let local: Vec<u16> = named.iter().collect();
        let all: RankSet = self.plan.ranks_of(self.plan.node_of(number), &local).into_iter().collect();
        let same = |ranks: &Vec<u16>| ranks.iter().copied().collect::<RankSet>() == all;
        if !self.losses(worker.job).any(same) {
            let lost = self.losses(worker.job).cloned().collect();
            return Err(Violation::Misnamed { job, rank, named: named.to_string(), lost });
        }
        let Some(dead_after) = plan.dead_after else { return Ok(()) };
        // The others announced it before they left, or were not in the generation.
        let only_killed = plan.excuse == Excuse { kill: true, ..Excuse::default() };
        let named = self.others(number).filter(|other| all.contains(other.rank));
        let died: Option<Vec<u64>> = named.map(|other| other.killed).collect();
        let Some(died) = died.filter(|_| only_killed) else { return Ok(()) };
        let since = died.into_iter().max().unwrap_or(0).max(worker.since);
        let (waited, limit) = (self.now - since, nanos(dead_after + plan.news));
        // Recorded packets of a dead rank let it pass for alive.
        let limit = limit + plan.sealed.map_or(0, |_| attacker::LATEST);
        // By either clock.
        let limit = limit + limit / 1_000_000 * 2 * u64::from(DRIFT);
        if waited > limit {
            let (waited_ms, limit_ms) = (waited / MILLI, limit / MILLI);
            return Err(Violation::LateNews { job, rank, waited_ms, limit_ms });
        }
        Ok(())
    }

    /// Every worker must have ended.
    pub(super) fn check_end(&self, number: usize) -> Result<(), Violation> {
        let (Some(plan), Some(worker)) = (self.job(number), self.workers.get(number)) else { return Ok(()) };
        let (job, rank) = (plan.id, worker.rank);
        match worker.phase {
            Phase::Over(Ending::Left) if worker.done => Ok(()),
            // Each such end has had its excuse.
            Phase::Over(Ending::Killed | Ending::Failed | Ending::JoinFailed) => Ok(()),
            Phase::Over(ending) => Err(Violation::Unexcused { job, rank, why: format!("{ending:?}") }),
            _ => Err(Violation::Overdue { job, rank, stage: "at work" }),
        }
    }
}

/// For each packet, the ranks that it lacks, out of the sets that fit its elements. Where several fit, since
/// a single element may be equal at two ranks, it is a rank that is missing and that no other packet lacks.
fn settled(sets: &[Vec<RankSet>], missing: &RankSet) -> Vec<RankSet> {
    let certain = sets.iter().filter(|fitting| fitting.len() == 1).flatten();
    let known = certain.fold(RankSet::EMPTY, |all, set| all | *set);
    let open = |set: &&RankSet| set.iter().any(|rank| missing.contains(rank) && !known.contains(rank));
    let one = |fitting: &Vec<RankSet>| fitting.iter().find(open).or(fitting.first()).copied();
    sets.iter().filter_map(one).collect()
}

/// The contributors that are not in a set of ranks.
fn without(all: &[Option<Contributor>], set: &RankSet) -> impl Iterator<Item = Contributor> {
    all.iter().flatten().filter(|who| !set.contains(who.rank)).copied()
}

/// Two ranks that have finished the same operation must have the same bits.
fn differ(
    plan: &JobPlan,
    operation: usize,
    (one, mine): (u16, &[u8]),
    (other, theirs): (u16, &[u8]),
) -> Result<(), Violation> {
    let size = plan.element.dtype.size();
    let mut pairs = mine.chunks(size).zip(theirs.chunks(size)).enumerate();
    let Some((index, (mine, theirs))) = pairs.find(|(_, (mine, theirs))| mine != theirs) else {
        return Ok(());
    };
    let (mine, theirs) = (decode(plan.element, mine), decode(plan.element, theirs));
    Err(Violation::Differs { job: plan.id, one, other, operation, index, mine, theirs })
}

/// All sets of these ranks except the empty one, roughly the smallest first.
fn subsets(ranks: &RankSet) -> impl Iterator<Item = RankSet> {
    let ranks: Vec<u16> = ranks.iter().collect();
    (1..1_u32 << ranks.len().min(16)).map(move |mask| {
        ranks.iter().enumerate().filter(|(at, _)| mask & (1 << at) != 0).map(|(_, &rank)| rank).collect()
    })
}
