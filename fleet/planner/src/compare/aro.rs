//! ARO's own way: rates in steps (QSR), and with ARO-ACC fewer candidates (APP) in two stages (SRO).

use std::time::Instant;

use crate::PlanError;
use crate::fast::{self, Found, Verdict, View};
use crate::milp;
use crate::model::{Channel, Flows, Instance};
use crate::plan::{Plan, Proof};
use crate::solve::{Answer, Options, Solver, finish, plan as exact};

/// N: how many steps of rates there are.
const STEPS: f64 = 100.0;
/// α: which part of the alternative aggregators a task may use.
const KEPT: f64 = 0.6;

/// Equations 4 to 10 with rates in steps of b̄/N. The optimum of that program is the exact one, rounded down
/// to a step: the same flows carry every smaller rate.
pub(super) fn plan(instance: &Instance, options: &Options, started: Instant) -> Result<Plan, PlanError> {
    let best = exact(instance, &Options { solver: Solver::Auto, ..*options })?;
    let mut binding = best.binding.clone();
    binding.why.push_str("; so it is at the optimum, which is rounded down to steps");
    let answer = Answer {
        solver: "aro",
        rates: best.tasks.iter().map(|task| step(instance, task.rate)).collect(),
        flows: best.tasks.iter().map(|task| task.flows.clone()).collect(),
        bound: f64::INFINITY,
        binding,
        timed_out: best.timed_out,
    };
    in_steps(&answer)?;
    finish(instance, answer, started).map(|plan| Plan { proof: Proof::None, ..plan })
}

/// Whether the steps are fine enough for all rates.
fn in_steps(answer: &Answer) -> Result<(), PlanError> {
    if answer.rates.iter().all(|&rate| rate > 0.0) {
        return Ok(());
    }
    let remedy = "use another solver: the steps are a hundredth of the largest capacity";
    Err(PlanError::input(format!("--solver {}", answer.solver), "a rate is below the first step", remedy))
}

/// The largest step that is no faster.
fn step(instance: &Instance, rate: f64) -> f64 {
    let largest = (0..2 * instance.network.links.len()).map(|at| instance.network.capacity(at));
    let largest = largest.fold(0.0, f64::max);
    ((rate * STEPS / largest + 1e-9).floor() * largest / STEPS).min(rate)
}

/// With APP, then the two stages of SRO: first without spines that only forward, which yields the useful
/// inputs of adding spines; then with them and those inputs alone.
pub(super) fn accelerated(view: &View<'_>, options: &Options, started: Instant) -> Result<Plan, PlanError> {
    let instance = view.instance;
    let deadline = options.deadline(started);
    let search = |view: &View<'_>| -> Option<Found> {
        let single = instance.tasks.len() == 1;
        let mut program = |caps: &fast::Caps| {
            if single { milp::pipelines::decide(view, caps, deadline) } else { Verdict::Unknown }
        };
        fast::search(view, &mut program, deadline)
    };
    let kept = keep(view);
    let first = view.only(|_, spine| view.adds(spine) && kept.contains(&spine));
    let used = search(&first).map(|found| inputs(view, &found.flows));
    let second = view.only(|leaf, spine| {
        !view.adds(spine)
            || (kept.contains(&spine)
                && used.as_ref().is_none_or(|used| used.contains(&(spine, view.enters(leaf, spine)))))
    });
    let found = search(&second).or_else(|| search(&first));
    let timed_out = Instant::now() >= deadline;
    let found = found.ok_or_else(|| {
        if timed_out {
            return PlanError::Time { limit: options.time_limit, bound: f64::INFINITY };
        }
        let why = "the spines that it keeps do not reach every leaf";
        PlanError::input("--solver aro-acc", why, "use another solver")
    })?;
    let answer = Answer {
        solver: "aro-acc",
        rates: vec![step(instance, found.rate); instance.tasks.len()],
        flows: found.flows,
        bound: f64::INFINITY,
        binding: found.binding,
        timed_out,
    };
    in_steps(&answer)?;
    finish(instance, answer, started).map(|plan| Plan { proof: Proof::None, ..plan })
}

/// APP: the adding spines whose inputs may get the most equal loads, for all tasks in turn.
fn keep(view: &View<'_>) -> Vec<usize> {
    let adding: Vec<usize> = (0..view.spines.len()).filter(|&spine| view.adds(spine)).collect();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a small number")]
    let each = ((adding.len() as f64 * KEPT + 1e-9).floor() as usize).max(1).min(adding.len());
    let mut kept = Vec::new();
    let mut left: Vec<usize> = Vec::new();
    for demand in &view.demands {
        let variance = |spine: usize| {
            let pipelines = view.instance.network.pipelines(view.spines[spine]).unwrap_or(1);
            let mut scores = vec![0.0; usize::from(pipelines)];
            for (leaf, &flows) in demand.flows.iter().enumerate() {
                scores[usize::from(view.enters(leaf, spine))] += f64::from(flows);
            }
            let mean = scores.iter().sum::<f64>() / f64::from(pipelines);
            scores.iter().map(|score| (score - mean).powi(2)).sum::<f64>()
        };
        for _ in 0..each {
            if left.is_empty() {
                left.clone_from(&adding);
            }
            let best = (0..left.len()).min_by(|&a, &b| variance(left[a]).total_cmp(&variance(left[b])));
            kept.extend(best.map(|at| left.swap_remove(at)));
        }
    }
    kept
}

/// The inputs of adding spines that flows enter.
fn inputs(view: &View<'_>, flows: &[Flows]) -> Vec<(usize, u16)> {
    let used: Vec<Channel> = flows.iter().flatten().map(|&(channel, _)| channel).collect();
    let pairs =
        (0..view.leaves.len()).flat_map(|leaf| (0..view.spines.len()).map(move |spine| (leaf, spine)));
    let entered = pairs.filter(|&(leaf, spine)| {
        view.adds(spine)
            && view.link(leaf, spine).is_some_and(|(link, _)| used.contains(&view.instance.network.up(link)))
    });
    entered.map(|(leaf, spine)| (spine, view.enters(leaf, spine))).collect()
}
