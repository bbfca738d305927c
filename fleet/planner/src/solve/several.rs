//! Several tasks: rates that differ, and bounds for their sum and their minimum.

use std::time::Instant;

use super::{Answer, Solver, common, fullest};
use crate::model::Instance;
use crate::plan::TaskPlan;
use crate::routes::{Budgets, routes};
use crate::{PlanError, rates};

/// The best plan for jobs of one or several tasks; none if the time was too short for any.
///
/// Rates in a given ratio have a best plan, which [`common`] finds. The ratios tried are: all jobs and all
/// their tasks alike, and the one that would be best if tasks met at workers' links alone. Then each plan's
/// rates are set anew, for its routes, by a linear program. The bound is what workers' links, and the tasks'
/// best rates alone, allow; with one task in each job the smallest job's part of it is exact.
pub(super) fn answer(
    instance: &Instance,
    solver: Solver,
    deadline: Instant,
) -> Result<Option<Answer>, PlanError> {
    let Some(first) = common(instance, &even(instance), solver, deadline)? else { return Ok(None) };
    let one_each = (0..instance.jobs.len()).all(|job| tasks_of(instance, job) == 1);
    let smallest = if one_each && instance.jobs.len() > 1 {
        first.bound * instance.jobs[instance.tasks[0].job].weight
    } else {
        f64::INFINITY
    };
    let alone = alone(instance, solver, deadline)?;
    let (wanted, bound) = rates::bound(instance, &alone, smallest)?;
    let mut best = improve(instance, first)?;
    if best.objective(instance) < bound * (1.0 - 1e-9) && wanted.iter().all(|&rate| rate > 0.0) && !one_each {
        let left = Instant::now() < deadline;
        if let Some(other) = if left { common(instance, &wanted, solver, deadline)? } else { None } {
            let timed_out = other.timed_out;
            let other = improve(instance, other)?;
            if other.objective(instance) > best.objective(instance) {
                best = other;
            }
            best.timed_out |= timed_out;
        }
    }
    // The gap may be due to the time limit: better rates, or a lower bound, may exist.
    best.timed_out |= best.objective(instance) < bound * (1.0 - 1e-9) && Instant::now() >= deadline;
    best.bound = bound;
    if best.objective(instance) < bound * (1.0 - 1e-6) && best.binding.kind != "unknown" {
        best.binding.why.push_str("; the bound is that of workers' links and of each task alone");
    }
    Ok(Some(best))
}

fn tasks_of(instance: &Instance, job: usize) -> usize {
    instance.tasks.iter().filter(|task| task.job == job).count()
}

/// Rates in the ratio in which all jobs and all their tasks have the same.
pub(crate) fn even(instance: &Instance) -> Vec<f64> {
    let share = |job: usize| 1.0 / instance.jobs[job].weight / tasks_of(instance, job) as f64;
    let first = instance.tasks.first().map_or(1.0, |task| share(task.job));
    instance.tasks.iter().map(|task| share(task.job) / first).collect()
}

/// The largest rate of each task alone.
pub(crate) fn alone(instance: &Instance, solver: Solver, deadline: Instant) -> Result<Vec<f64>, PlanError> {
    (0..instance.tasks.len())
        .map(|task| {
            let mut single = Instance {
                tasks: vec![instance.tasks[task].clone()],
                jobs: vec![instance.jobs[instance.tasks[task].job].clone()],
                ..instance.clone()
            };
            single.tasks[0].job = 0;
            let found = common(&single, &[1.0], solver, deadline)?;
            Ok(found.map_or_else(|| alone_at_most(&single), |answer| answer.bound))
        })
        .collect()
}

/// A bound that costs nothing: the slowest link of a worker.
pub(crate) fn alone_at_most(instance: &Instance) -> f64 {
    let network = &instance.network;
    let slowest = |task: &crate::model::Task| {
        task.workers.iter().map(|&worker| network.servers[worker].gbps).fold(f64::INFINITY, f64::min)
    };
    instance.objective(instance.tasks.iter().map(slowest))
}

impl Answer {
    fn objective(&self, instance: &Instance) -> f64 {
        instance.objective(self.rates.iter().copied())
    }
}

/// The same routes with the best rates for them.
pub(crate) fn improve(instance: &Instance, answer: Answer) -> Result<Answer, PlanError> {
    let mut planned = (instance.tasks.iter().zip(&answer.flows).zip(&answer.rates))
        .map(|((task, flows), &rate)| {
            routes(instance, task, rate, Budgets::new(&instance.network, flows.iter().copied()))
        })
        .collect::<Result<Vec<TaskPlan>, _>>()?;
    let rates = rates::best(instance, &planned)?;
    let better = rates.iter().all(|&rate| rate > 0.0)
        && instance.objective(rates.iter().copied()) > answer.objective(instance);
    if !better {
        return Ok(answer);
    }
    planned.iter_mut().zip(&rates).for_each(|(task, &rate)| task.rate = rate);
    // Links that were full with other rates may not be full now.
    let binding = match answer.binding.kind {
        "unknown" => answer.binding,
        _ => fullest(instance, &planned, "these routes have no better rates"),
    };
    Ok(Answer { rates, binding, ..answer })
}
