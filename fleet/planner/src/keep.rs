//! Adding or removing a job while the others keep their routes.

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::Instant;

use serde::Deserialize;

use crate::model::{Channel, End, Flows, Instance, Network, Task};
use crate::plan::{Plan, TaskPlan};
use crate::replay::count;
use crate::routes::{Budgets, routes};
use crate::solve::{self, Options, Solver, alone, even};
use crate::{PlanError, milp, rates};

/// The routes of an earlier plan, as its JSON has them.
#[derive(Debug, Clone, Deserialize)]
pub struct Former {
    tasks: Vec<FormerTask>,
}

#[derive(Debug, Clone, Deserialize)]
struct FormerTask {
    task: String,
    job: String,
    server: String,
    routes: HashMap<String, Vec<String>>,
    /// The link numbers of ways that do not take the first of several links between two places, hop by hop.
    #[serde(default)]
    parallel: HashMap<String, Vec<usize>>,
}

/// Which tasks have kept their routes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// Tasks with the same routes as before.
    pub kept: Vec<String>,
    /// Tasks planned before that have other routes now.
    pub moved: Vec<String>,
    /// Tasks that are new, or have other workers than before.
    pub new: Vec<String>,
}

impl Former {
    /// Reads the output of [`crate::to_json`].
    ///
    /// # Errors
    /// [`PlanError::Input`] if it is no such JSON.
    pub fn read(text: &str) -> Result<Self, PlanError> {
        serde_json::from_str(text).map_err(|error| {
            PlanError::input(
                "the earlier plan",
                error.to_string(),
                "give what `pascaline-fleet plan --json` wrote",
            )
        })
    }

    /// The earlier routes of a task, if it is unchanged.
    fn of(&self, instance: &Instance, task: &Task) -> Result<Option<TaskPlan>, PlanError> {
        let (network, job) = (&instance.network, &instance.jobs[task.job].name);
        let same = |former: &&FormerTask| {
            former.task == task.name
                && former.job == *job
                && former.server == network.servers[task.server].name
                && former.routes.len() == task.workers.len()
                && task
                    .workers
                    .iter()
                    .all(|&worker| former.routes.contains_key(&network.servers[worker].name))
        };
        let Some(former) = self.tasks.iter().find(same) else { return Ok(None) };
        let path = |&worker: &usize| {
            let name = &network.servers[worker].name;
            let nth = former.parallel.get(name).map_or(&[][..], Vec::as_slice);
            path(network, worker, &former.routes[name], nth).ok_or_else(|| {
                PlanError::input(
                    format!("the earlier plan, task {}", task.name),
                    format!("the way of {name} is not there any more"),
                    "plan without --keep, or leave the task out of the earlier plan",
                )
            })
        };
        let paths = task.workers.iter().map(path).collect::<Result<_, _>>()?;
        let mut planned = TaskPlan { rate: 1.0, flows: Vec::new(), paths };
        planned.flows = count(network, task, &planned).map_err(|why| {
            PlanError::input("the earlier plan", why, "plan without --keep: the network has changed")
        })?;
        Ok(Some(planned))
    }
}

/// The channels along named places; of several links between two of them the first, or the one in `nth`.
fn path(network: &Network, worker: usize, places: &[String], nth: &[usize]) -> Option<Vec<Channel>> {
    let mut path = vec![network.from_server(worker)];
    let mut here = End::Switch { switch: network.servers[worker].switch, pipeline: 0 };
    let name = |end: End| match end {
        End::Switch { switch, .. } => network.switches[switch].name.clone(),
        End::Server(server) => network.servers[server].name.clone(),
        End::Appliance(switch) => format!("{}'s appliance", network.switches[switch].name),
    };
    if places.first() != Some(&name(here)) {
        return None;
    }
    for (hop, place) in places[1..].iter().enumerate() {
        let joins = |&channel: &Channel| {
            let (from, to) = network.ends(channel);
            let leaves = match (from, here) {
                (End::Switch { switch: a, .. }, End::Switch { switch: b, .. })
                | (End::Appliance(a), End::Appliance(b)) => a == b,
                _ => false,
            };
            leaves && network.capacity(channel) > 0.0 && name(to) == *place
        };
        let channel = (0..network.channels()).filter(joins).nth(nth.get(hop).copied().unwrap_or(0))?;
        path.push(channel);
        here = network.ends(channel).1;
    }
    Some(path)
}

/// Plans an instance whose tasks keep the routes of an earlier plan, except for the number that may move;
/// their rates are set anew. The exact program finds the routes of the others beside them. The plan's bound
/// is that of plans in which all tasks may move, so the gap is the cost of staying.
///
/// # Errors
/// As [`crate::plan()`], and [`PlanError::Input`] if the network does not have the ways of the earlier plan.
pub fn extend(
    instance: &Instance,
    former: &Former,
    moves: usize,
    options: &Options,
) -> Result<(Plan, Kept), PlanError> {
    let started = Instant::now();
    solve::reachable(instance)?;
    if !matches!(options.solver, Solver::Auto | Solver::Milp) {
        let why = "beside routes that stay the exact program alone finds others";
        return Err(PlanError::input("--solver", why, "leave it out, or name milp"));
    }
    let deadline = options.deadline(started);
    let staying: Vec<Option<TaskPlan>> =
        instance.tasks.iter().map(|task| former.of(instance, task)).collect::<Result<_, _>>()?;
    let mut fixed = staying.clone();
    let mut best = beside(instance, &fixed, deadline)?;
    for _ in 0..moves {
        let least = best.as_ref().map_or(0.0, |(_, tasks)| objective(instance, tasks)) * (1.0 + 1e-9);
        let mut moved = false;
        for task in 0..fixed.len() {
            if fixed[task].is_none() || moved || Instant::now() >= deadline {
                continue;
            }
            let stayed = fixed[task].take();
            match beside(instance, &fixed, deadline)?.filter(|(_, tasks)| objective(instance, tasks) > least)
            {
                Some(better) => (best, moved) = (Some(better), true),
                None => fixed[task] = stayed,
            }
        }
        if !moved {
            break;
        }
    }
    let Some((timed_out, tasks)) = best else {
        return Err(PlanError::Time { limit: options.time_limit, bound: solve::alone_at_most(instance) });
    };
    let (_, bound) = rates::bound(instance, &alone(instance, options.solver, deadline)?, f64::INFINITY)?;
    let names = |chosen: &dyn Fn(usize) -> bool| {
        let tasks = instance.tasks.iter().enumerate();
        tasks.filter(|(at, _)| chosen(*at)).map(|(_, task)| task.name.clone()).collect()
    };
    let kept = Kept {
        kept: names(&|at| fixed[at].is_some()),
        moved: names(&|at| fixed[at].is_none() && staying[at].is_some()),
        new: names(&|at| staying[at].is_none()),
    };
    let binding = solve::fullest(instance, &tasks, "the routes that are kept bound the rest");
    // Tasks that might have moved, and bounds, may be left open when the time is over.
    let open = objective(instance, &tasks) < bound * (1.0 - 1e-9) && Instant::now() >= deadline;
    let timed_out = timed_out || open;
    let found = solve::Found { solver: "keep", tasks, bound, binding, timed_out };
    Ok((solve::checked(instance, found, started)?, kept))
}

fn objective(instance: &Instance, tasks: &[TaskPlan]) -> f64 {
    instance.objective(tasks.iter().map(|task| task.rate))
}

/// Routes for the tasks that have none, and rates for all; none if the time was too short.
fn beside(
    instance: &Instance,
    fixed: &[Option<TaskPlan>],
    deadline: Instant,
) -> Result<Option<(bool, Vec<TaskPlan>)>, PlanError> {
    let weights = even(instance);
    let free = fixed.iter().any(Option::is_none);
    let solved = if free {
        milp::solve(&milp::Question { instance, weights: &weights, enough: None, deadline, fixed })?
    } else {
        milp::Solved { flows: Some(vec![Flows::new(); fixed.len()]), least: 0.0, timed_out: false }
    };
    let Some(flows) = solved.flows else { return Ok(None) };
    let mut tasks = (instance.tasks.iter().zip(fixed).zip(flows))
        .map(|((task, fixed), flows)| match fixed {
            Some(fixed) => Ok(fixed.clone()),
            None => routes(instance, task, 1.0, Budgets::new(&instance.network, flows)),
        })
        .collect::<Result<Vec<_>, _>>()?;
    let factor =
        1.0 / rates::overload(instance, &tasks, &weights.iter().map(|w| w * 1e9).collect::<Vec<_>>());
    let common: Vec<f64> = weights.iter().map(|weight| weight * 1e9 * factor).collect();
    let best = rates::best(instance, &tasks)?;
    let better = best.iter().all(|&rate| rate > 0.0)
        && instance.objective(best.iter().copied()) > instance.objective(common.iter().copied());
    for (task, rate) in tasks.iter_mut().zip(if better { best } else { common }) {
        task.rate = rate;
    }
    Ok(Some((solved.timed_out, tasks)))
}
