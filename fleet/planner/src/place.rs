//! Where to add: which of the possible places should have an aggregator.

#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use crate::model::{Aggregates, Instance};
use crate::plan::Plan;
use crate::solve::{self, Options, plan};
use crate::{PlanError, Proof};

/// Up to this number of choices all are tried.
const MOST_CHOICES: u64 = 300;

/// The places that were chosen.
#[derive(Debug, Clone, PartialEq)]
pub struct Placement {
    /// The switches that add, or that have an appliance: indices, ascending.
    pub chosen: Vec<usize>,
    /// How many there were to choose from.
    pub candidates: usize,
    /// How many choices were planned.
    pub tried: usize,
    /// No choice is better than this, Gbit/s: that of all candidates together.
    pub bound: f64,
    /// Optimal if every choice was tried and each plan is optimal, or the bound is reached.
    pub proof: Proof,
}

/// Chooses `count` of the switches that can add, so that the plan with these alone is the best: few choices
/// are all tried; otherwise the switches with the largest gain are taken one after the other, and then
/// exchanged while that improves the plan. Between choices of the same objective, the one that loads links
/// less wins.
///
/// Returns the instance with the others as plain switches, its plan, and the bound of better choices.
///
/// # Errors [`PlanError::Input`] if there are fewer, or as [`plan()`].
pub fn place(
    instance: &Instance,
    count: usize,
    options: &Options,
) -> Result<(Instance, Plan, Placement), PlanError> {
    let switches = instance.network.switches.iter().enumerate();
    let candidates: Vec<usize> =
        switches.filter(|(_, switch)| switch.aggregates != Aggregates::No).map(|(at, _)| at).collect();
    if count > candidates.len() {
        let problem = format!("{count} of {} switches that can add", candidates.len());
        return Err(PlanError::input(
            "--place",
            problem,
            "choose fewer, or let more switches of the file add",
        ));
    }
    let mut search = Search {
        instance,
        options: *options,
        deadline: options.deadline(Instant::now()),
        tried: 0,
        optimal: true,
        cut: false,
        best: None,
    };
    let all = plan(instance, options)?;
    let bound = all.bound;
    let needed = search.needed(&candidates);
    if count < needed.len() {
        return Err(PlanError::input(
            "--place",
            format!("--solver takes choices of {} or more: {}", needed.len(), names(instance, &needed)),
            "choose more, or plan with --solver auto",
        ));
    }
    search.run(&candidates, needed, count, bound)?;
    let Search { best, tried, optimal, cut, .. } = search;
    let Some(Choice { chosen, mut plan, .. }) = best else {
        return Err(PlanError::Time { limit: options.time_limit, bound });
    };
    plan.timed_out |= cut || all.timed_out;
    let all =
        choices(candidates.len(), count) <= MOST_CHOICES && tried as u64 == choices(candidates.len(), count);
    let proven = all && optimal || plan.objective >= bound * (1.0 - 1e-6);
    let proof = if proven { Proof::Optimal } else { Proof::Gap };
    let placement = Placement { candidates: candidates.len(), tried, bound, proof, chosen };
    Ok((only(instance, &placement.chosen), plan, placement))
}

fn names(instance: &Instance, switches: &[usize]) -> String {
    let names: Vec<&str> = switches.iter().map(|&at| instance.network.switches[at].name.as_str()).collect();
    names.join(", ")
}

struct Choice {
    chosen: Vec<usize>,
    plan: Plan,
    load: f64,
}

struct Search<'a> {
    instance: &'a Instance,
    options: Options,
    deadline: Instant,
    tried: usize,
    /// Every plan was.
    optimal: bool,
    /// The time was over before all choices were tried.
    cut: bool,
    best: Option<Choice>,
}

impl Search<'_> {
    /// The candidates without which the solver does not apply.
    fn needed(&self, candidates: &[usize]) -> Vec<usize> {
        let without = |out: usize| candidates.iter().copied().filter(|&at| at != out).collect::<Vec<_>>();
        let is_needed =
            |&&out: &&usize| !solve::applies(&only(self.instance, &without(out)), self.options.solver);
        match solve::applies(&only(self.instance, &[]), self.options.solver) {
            true => Vec::new(),
            false => candidates.iter().filter(is_needed).copied().collect(),
        }
    }

    /// `needed` are in every choice that is planned.
    fn run(
        &mut self,
        candidates: &[usize],
        needed: Vec<usize>,
        count: usize,
        bound: f64,
    ) -> Result<(), PlanError> {
        if choices(candidates.len(), count) <= MOST_CHOICES {
            let mut chosen: Vec<usize> = (0..count).collect();
            loop {
                self.consider(chosen.iter().map(|&at| candidates[at]).collect())?;
                if !next(&mut chosen, candidates.len()) || self.is_over() {
                    return Ok(());
                }
            }
        }
        let mut chosen = needed;
        if chosen.len() == count {
            return self.consider(chosen).map(drop);
        }
        while chosen.len() < count && !self.is_over() {
            self.best = None;
            for &more in candidates.iter().filter(|more| !chosen.contains(more)) {
                if self.is_over() {
                    break;
                }
                self.consider([chosen.as_slice(), &[more]].concat())?;
            }
            match &self.best {
                Some(best) => chosen.clone_from(&best.chosen),
                None => break,
            }
        }
        if chosen.len() < count {
            // The time is over: take the present ones, and the first of the rest.
            let rest: Vec<usize> = candidates.iter().copied().filter(|at| !chosen.contains(at)).collect();
            chosen.extend(rest.into_iter().take(count - chosen.len()));
            self.best = None;
            return self.consider(chosen).map(drop);
        }
        self.exchange(candidates, bound)
    }

    /// Exchanges one for another while that improves the plan.
    fn exchange(&mut self, candidates: &[usize], bound: f64) -> Result<(), PlanError> {
        let reached = |search: &Self| {
            search.best.as_ref().is_some_and(|best| best.plan.objective >= bound * (1.0 - 1e-6))
        };
        'again: loop {
            let chosen = self.best.as_ref().map_or(Vec::new(), |best| best.chosen.clone());
            for out in 0..chosen.len() {
                for &other in candidates.iter().filter(|at| !chosen.contains(at)) {
                    if reached(self) || self.is_over() {
                        return Ok(());
                    }
                    let mut exchanged = chosen.clone();
                    exchanged[out] = other;
                    if self.consider(exchanged)? {
                        continue 'again;
                    }
                }
            }
            return Ok(());
        }
    }

    /// Called only while there is more to try.
    fn is_over(&mut self) -> bool {
        self.cut |= Instant::now() >= self.deadline;
        self.cut
    }

    /// Plans a choice; true if it is the best so far.
    fn consider(&mut self, mut chosen: Vec<usize>) -> Result<bool, PlanError> {
        chosen.sort_unstable();
        let left = self.deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(10));
        let options = Options { time_limit: left, ..self.options };
        let instance = only(self.instance, &chosen);
        if !solve::applies(&instance, options.solver) {
            self.optimal = false;
            return Ok(false);
        }
        self.tried += 1;
        let plan = match plan(&instance, &options) {
            Ok(plan) => plan,
            Err(PlanError::Time { .. }) => {
                self.optimal = false;
                return Ok(false);
            }
            Err(error) => return Err(error),
        };
        self.optimal &= plan.proof == Proof::Optimal;
        let load = plan.loads().values().sum::<f64>() / plan.objective;
        let better = self.best.as_ref().is_none_or(|best| {
            let gain = plan.objective / best.plan.objective - 1.0;
            gain > 1e-9 || gain > -1e-9 && load < best.load * (1.0 - 1e-9)
        });
        if better {
            self.best = Some(Choice { chosen, plan, load });
        }
        Ok(better)
    }
}

/// The instance in which these switches alone add.
fn only(instance: &Instance, chosen: &[usize]) -> Instance {
    let mut instance = instance.clone();
    for (at, switch) in instance.network.switches.iter_mut().enumerate() {
        if !chosen.contains(&at) {
            switch.aggregates = Aggregates::No;
        }
    }
    instance
}

/// n over k, or the largest number.
pub(crate) fn choices(n: usize, k: usize) -> u64 {
    (0..k.min(n - k) as u64).fold(1, |all: u64, at| all.saturating_mul(n as u64 - at) / (at + 1))
}

/// The next ascending choice of the same number out of `n`, in place; false after the last one.
fn next(chosen: &mut [usize], n: usize) -> bool {
    let count = chosen.len();
    let Some(at) = (0..count).rev().find(|&at| chosen[at] < n - count + at) else { return false };
    chosen[at] += 1;
    for later in at + 1..count {
        chosen[later] = chosen[later - 1] + 1;
    }
    true
}
