//! From an instance to a replayed plan.

mod several;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

pub(crate) use self::several::{alone, alone_at_most, even, improve};
use crate::fast::{self, Verdict, View};
use crate::model::{Channel, Flows, Instance, Network};
use crate::plan::{Binding, Plan, Proof, TaskPlan};
use crate::routes::{Budgets, routes};
use crate::{PlanError, compare, milp, replay};

/// Links times tasks above which the exact program does not run if the fast way has found a plan: it would
/// take minutes.
const LARGE: usize = 20_000;

/// How a plan is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
pub enum Solver {
    /// The fast way if it applies; if it does not, or leaves a question open, the exact program: for large
    /// networks, of more than 20,000 links times tasks, only if there is no plan yet.
    #[default]
    Auto,
    /// The fast way alone. An open question is a gap.
    Fast,
    /// The exact program alone.
    Milp,
    /// ARO: the exact optimum in steps of rates (QSR, N = 100).
    Aro,
    /// ARO with APP (α = 0.6), SRO and QSR.
    AroAcc,
    /// All flows of a leaf over one random spine that adds (ATP).
    Random,
    /// Each flow is added up once (GRID).
    Grid,
    /// A leaf's flows over all spines, as evenly as possible (AggTree).
    #[cfg_attr(feature = "clap", value(name = "aggtree"))]
    AggTree,
    /// Flows over the adding spines in turn.
    RoundRobin,
    /// Adding spines first, plain ones for the rest, whatever the pipelines.
    Spread,
}

/// The time limit, and the solver.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// How the plan is found.
    pub solver: Solver,
    /// When the search ends with the best that it has.
    pub time_limit: Duration,
    /// The seed of methods that draw at random.
    pub seed: u64,
}

impl Default for Options {
    fn default() -> Self {
        Self { solver: Solver::Auto, time_limit: Duration::from_secs(60), seed: 1 }
    }
}

impl Options {
    /// The deadline of a search that began then. A limit beyond all clocks is none.
    pub(crate) fn deadline(&self, started: Instant) -> Instant {
        const NEVER: Duration = Duration::from_secs(1 << 31);
        started.checked_add(self.time_limit).unwrap_or(started + NEVER)
    }
}

/// A search's result: rates and flows for every task, and a bound on better ones.
pub(crate) struct Answer {
    pub(crate) solver: &'static str,
    pub(crate) rates: Vec<f64>,
    pub(crate) flows: Vec<Flows>,
    pub(crate) bound: f64,
    pub(crate) binding: Binding,
    pub(crate) timed_out: bool,
}

/// Plans an instance: the best rates, routes for every worker, and a proof or a gap. The plan has passed
/// [`crate::replay()`].
///
/// # Errors
///
/// [`PlanError::Input`] if a worker has no way to its parameter server, or the solver asked for does not
/// apply; [`PlanError::Time`] if the time limit came before any plan.
pub fn plan(instance: &Instance, options: &Options) -> Result<Plan, PlanError> {
    let started = Instant::now();
    reachable(instance)?;
    let deadline = options.deadline(started);
    if !matches!(options.solver, Solver::Auto | Solver::Fast | Solver::Milp) {
        return compare::plan(instance, options, started);
    }
    let answer = match (options.solver, instance.tasks.len()) {
        (solver, _) if !applies(instance, solver) => {
            let remedy = "it takes leaf-spine networks, parameter servers at different leaves, which add: \
                          --solver auto takes all";
            return Err(PlanError::input("--solver fast", "it does not apply to this file", remedy));
        }
        (solver, 1) => common(instance, &[1.0], solver, deadline)?,
        (solver, _) => several::answer(instance, solver, deadline)?,
    };
    let answer = answer
        .ok_or_else(|| PlanError::Time { limit: options.time_limit, bound: alone_at_most(instance) })?;
    finish(instance, answer, started)
}

/// Whether a solver accepts an instance.
pub(crate) fn applies(instance: &Instance, solver: Solver) -> bool {
    matches!(solver, Solver::Auto | Solver::Milp) || View::new(instance).is_some()
}

/// The best plan whose tasks have rates in the ratio of `weights`; none if the time was too short for any.
/// Its bound is that of the common factor.
fn common(
    instance: &Instance,
    weights: &[f64],
    solver: Solver,
    deadline: Instant,
) -> Result<Option<Answer>, PlanError> {
    let equal = weights.iter().all(|&weight| weight == 1.0);
    let view = if equal && solver != Solver::Milp { View::new(instance) } else { None };
    let mut found = None;
    if let Some(view) = &view {
        let single = instance.tasks.len() == 1 && solver == Solver::Auto;
        let mut solver = "fast";
        let mut exact = |caps: &fast::Caps| {
            if !single {
                return Verdict::Unknown;
            }
            solver = "fast+milp";
            milp::pipelines::decide(view, caps, deadline)
        };
        found = fast::search(view, &mut exact, deadline).map(|found| Answer {
            solver,
            rates: vec![found.rate; weights.len()],
            flows: found.flows,
            bound: found.bound,
            binding: found.binding,
            timed_out: found.bound > found.rate && Instant::now() >= deadline,
        });
    }
    let open = found.as_ref().is_none_or(|answer| answer.bound > answer.rates[0] * (1.0 + 1e-9));
    let size: usize = instance.network.links.len() * instance.tasks.len();
    if !open || solver == Solver::Fast || (found.is_some() && size > LARGE) {
        return Ok(found);
    }
    let enough = found.as_ref().map(|answer| 1.0 / answer.rates[0]);
    let solved = milp::solve(&milp::Question { instance, weights, enough, deadline, fixed: &[] })?;
    let bound = 1.0 / solved.least;
    let Some(flows) = solved.flows else {
        return Ok(found.map(|answer| Answer {
            bound: answer.bound.min(bound),
            timed_out: answer.timed_out || solved.timed_out,
            ..answer
        }));
    };
    let factor = factor(instance, weights, &flows)?;
    Ok(Some(Answer {
        solver: if found.is_some() { "fast+milp" } else { "milp" },
        rates: weights.iter().map(|weight| weight * factor).collect(),
        binding: full(instance, weights, &flows, factor)?,
        flows,
        bound: bound.min(found.map_or(f64::INFINITY, |answer| answer.bound)),
        timed_out: solved.timed_out,
    }))
}

/// The load of each channel if every task has its weight as its rate.
fn asked(instance: &Instance, weights: &[f64], flows: &[Flows]) -> Result<Vec<f64>, PlanError> {
    let mut loads = vec![0.0; instance.network.channels()];
    for ((task, &weight), flows) in instance.tasks.iter().zip(weights).zip(flows) {
        let budgets = Budgets::new(&instance.network, flows.iter().copied());
        for (channel, number) in routes(instance, task, weight, budgets)?.flows {
            loads[channel] += weight * f64::from(number);
        }
    }
    Ok(loads)
}

/// The largest common factor of the weights with which these flows fit.
pub(crate) fn factor(instance: &Instance, weights: &[f64], flows: &[Flows]) -> Result<f64, PlanError> {
    let loads = asked(instance, weights, flows)?;
    let full = loads.iter().enumerate().filter(|(_, load)| **load > 0.0);
    Ok(full.map(|(channel, load)| instance.network.capacity(channel) / load).fold(f64::INFINITY, f64::min))
}

/// The links that are full.
fn full(instance: &Instance, weights: &[f64], flows: &[Flows], factor: f64) -> Result<Binding, PlanError> {
    let loads: Vec<f64> = asked(instance, weights, flows)?.into_iter().map(|load| load * factor).collect();
    Ok(filled(&instance.network, &loads, "the program of whole numbers bounds the rest"))
}

/// The links that these routes and rates fill.
pub(crate) fn fullest(instance: &Instance, tasks: &[TaskPlan], rest: &str) -> Binding {
    let mut loads = vec![0.0; instance.network.channels()];
    for task in tasks {
        task.flows.iter().for_each(|&(channel, flows)| loads[channel] += f64::from(flows) * task.rate);
    }
    filled(&instance.network, &loads, rest)
}

fn filled(network: &Network, loads: &[f64], rest: &str) -> Binding {
    // As near as a solver comes with its tolerance.
    let is_full = |&channel: &Channel| loads[channel] >= network.capacity(channel) * (1.0 - 1e-6);
    let channels: Vec<Channel> = (0..loads.len()).filter(|at| loads[*at] > 0.0).filter(is_full).collect();
    let first = channels.first().map_or(String::new(), |&channel| network.channel_name(channel));
    let why = format!("{first} is full, {} other links are; {rest}", channels.len().saturating_sub(1));
    Binding { kind: "capacity", why, channels }
}

/// Makes the paths, and has them replayed.
pub(crate) fn finish(instance: &Instance, answer: Answer, started: Instant) -> Result<Plan, PlanError> {
    let network = &instance.network;
    let tasks = (instance.tasks.iter().zip(&answer.rates).zip(answer.flows))
        .map(|((task, &rate), flows)| routes(instance, task, rate, Budgets::new(network, flows)))
        .collect::<Result<Vec<_>, _>>()?;
    let Answer { solver, bound, binding, timed_out, .. } = answer;
    checked(instance, Found { solver, tasks, bound, binding, timed_out }, started)
}

/// Routes with their rates, and a bound on better ones.
pub(crate) struct Found {
    pub(crate) solver: &'static str,
    pub(crate) tasks: Vec<TaskPlan>,
    pub(crate) bound: f64,
    pub(crate) binding: Binding,
    pub(crate) timed_out: bool,
}

/// The plan of these routes, once the replay has accepted it.
pub(crate) fn checked(instance: &Instance, found: Found, started: Instant) -> Result<Plan, PlanError> {
    let Found { solver, tasks, bound, binding, timed_out } = found;
    let mut all = vec![0; instance.network.channels()];
    for (channel, flows) in tasks.iter().flat_map(|task| &task.flows) {
        all[*channel] += flows;
    }
    let objective = instance.objective(tasks.iter().map(|task| task.rate));
    let bound = bound.max(objective);
    let proof = if bound <= objective * (1.0 + 1e-6) { Proof::Optimal } else { Proof::Gap };
    let (k, seconds) = (all.into_iter().max().unwrap_or(0), started.elapsed().as_secs_f64());
    let plan = Plan { solver, tasks, k, objective, bound, proof, binding, seconds, timed_out };
    replay(instance, &plan).map_err(PlanError::Refused)?;
    Ok(plan)
}

/// An error that names a worker without a way to its parameter server, up and then down, if there is one.
pub(crate) fn reachable(instance: &Instance) -> Result<(), PlanError> {
    let network = &instance.network;
    for task in &instance.tasks {
        let reached = crate::unfold::distances(network, network.servers[task.server].switch);
        if let Some(&cut) = task.workers.iter().find(|&&w| reached[network.servers[w].switch].is_none()) {
            let (worker, server) = (&network.servers[cut], &network.servers[task.server]);
            return Err(PlanError::input(
                format!("task {}: worker {}", task.name, worker.name),
                format!(
                    "no way leads from {} up and then down to {} of {}",
                    network.switches[worker.switch].name, network.switches[server.switch].name, server.name
                ),
                "the topology is cut: add a link, or leave the worker out",
            ));
        }
    }
    Ok(())
}
