//! Methods for comparison: ARO's own (ARO's paper, section III.C) and that paper's baselines (IV.A).
//!
//! Each accepts the leaf-spine networks of the fast way. Routes of several tasks are made for each alone and
//! combined, and get the best rates for them. A replay checks each like any plan.

mod aro;

use std::time::Instant;

use crate::PlanError;
use crate::fast::{self, View, assign, usable};
use crate::model::{Aggregates, Flows, Instance};
use crate::plan::{Binding, Plan, Proof};
use crate::solve::{Answer, Options, Solver, factor, finish, improve};

/// Plans by a method that proves nothing.
pub(crate) fn plan(instance: &Instance, options: &Options, started: Instant) -> Result<Plan, PlanError> {
    let view = View::new(instance).ok_or_else(|| {
        let remedy = "these take leaf-spine networks, parameter servers at different leaves, which add";
        PlanError::input("--solver", "the method does not apply to this file", remedy)
    })?;
    let random = &mut fastrand::Rng::with_seed(options.seed);
    match options.solver {
        Solver::Aro => aro::plan(instance, options, started),
        Solver::AroAcc => aro::accelerated(&view, options, started),
        Solver::Grid => grid(instance, random, started),
        solver => {
            let flows = (0..view.demands.len()).map(|task| flows(&view, task, solver, random));
            overlaid(instance, name(solver), flows.collect::<Result<_, _>>()?, started)
        }
    }
}

fn name(solver: Solver) -> &'static str {
    match solver {
        Solver::Random => "random",
        Solver::AggTree => "aggtree",
        Solver::RoundRobin => "round-robin",
        _ => "spread",
    }
}

/// One task's routes.
fn flows(
    view: &View<'_>,
    task: usize,
    solver: Solver,
    random: &mut fastrand::Rng,
) -> Result<Flows, PlanError> {
    let (adding, plain) = usable_alone(view, task);
    if solver == Solver::Spread {
        return spread(view, task);
    }
    let all: Vec<usize> = adding.iter().chain(&plain).copied().collect();
    // ATP uses a switch that adds; if there is none, any.
    let favoured = if adding.is_empty() { &all } else { &adding };
    let mut turn = 0;
    let mut flows = Vec::new();
    let mut into = vec![0u32; view.spines.len()];
    for (leaf, &number) in view.demands[task].flows.iter().enumerate().filter(|(_, number)| **number > 0) {
        let mut up = vec![0u32; view.spines.len()];
        let linked = |spines: &[usize]| -> Vec<usize> {
            spines.iter().copied().filter(|&spine| view.link(leaf, spine).is_some()).collect()
        };
        let mut candidates = linked(if solver == Solver::AggTree { &all } else { favoured });
        if candidates.is_empty() {
            candidates = linked(&all);
        }
        if candidates.is_empty() {
            return Err(PlanError::Refused(format!("leaf {leaf} has no spine")));
        }
        match solver {
            // All flows of a leaf have one destination, and go over one spine.
            Solver::Random => up[candidates[random.usize(..candidates.len())]] = number,
            // Where a leaf's own link has most left, at random among equals.
            Solver::AggTree => {
                random.shuffle(&mut candidates);
                (0..number as usize).for_each(|flow| up[candidates[flow % candidates.len()]] += 1);
            }
            _ => {
                for _ in 0..number {
                    up[candidates[turn % candidates.len()]] += 1;
                    turn += 1;
                }
            }
        }
        for (spine, &number) in up.iter().enumerate().filter(|(_, number)| **number > 0) {
            let (link, _) =
                view.link(leaf, spine).ok_or_else(|| PlanError::Refused("a link is gone".into()))?;
            flows.push((view.instance.network.up(link), number));
            into[spine] += number;
        }
    }
    for (spine, &number) in into.iter().enumerate().filter(|(_, number)| **number > 0) {
        if let Some((link, _)) = view.link(view.demands[task].leaf, spine) {
            flows.push((view.instance.network.down(link), number));
        }
    }
    Ok(flows)
}

/// The spines on ways of a task, whatever the rate.
fn usable_alone(view: &View<'_>, task: usize) -> (Vec<usize>, Vec<usize>) {
    usable(view, &view.caps(f64::MIN_POSITIVE), task, u64::MAX)
}

/// The rule without a solver: the best rate with which each leaf fills its links to adding spines and sends
/// the rest over plain ones, as if pipelines did not matter; optimal if they do not.
fn spread(view: &View<'_>, task: usize) -> Result<Flows, PlanError> {
    let found = fast::rates(view.instance).into_iter().find_map(|rate| {
        let caps = view.caps(rate);
        let (adding, plain) = usable(view, &caps, task, u64::MAX);
        assign(view, &caps, task, &fast::Chosen::everything(&adding), &plain)
    });
    found.ok_or_else(|| PlanError::Refused("no rate is low enough".into()))
}

/// Combines several tasks' routes, with the best rates.
fn overlaid(
    instance: &Instance,
    solver: &'static str,
    flows: Vec<Flows>,
    started: Instant,
) -> Result<Plan, PlanError> {
    let weights = vec![1.0; flows.len()];
    let factor = factor(instance, &weights, &flows)?;
    let mut answer = Answer {
        solver,
        rates: vec![factor; flows.len()],
        flows,
        bound: f64::INFINITY,
        binding: Binding { kind: "unknown", why: "the method proves nothing".into(), channels: Vec::new() },
        timed_out: false,
    };
    if instance.tasks.len() > 1 {
        answer = improve(instance, answer)?;
    }
    finish(instance, answer, started).map(|plan| Plan { proof: Proof::None, ..plan })
}

/// GRID: every flow is added up once, at the worker's own leaf if that adds, else at a random adding spine
/// (the relaxed program treats them alike, and rounding is random). Pipelines are ignored.
///
/// A flow that was added up once is only forwarded by spines and the parameter server's leaf. So the plan is
/// one for a network in which they do; with several tasks the leaf of each one's server, for all of them: the
/// workers there are flows of their own.
fn grid(instance: &Instance, random: &mut fastrand::Rng, started: Instant) -> Result<Plan, PlanError> {
    let view = View::new(instance).ok_or_else(|| PlanError::Refused("no leaf-spine network".into()))?;
    let mut once = instance.clone();
    for demand in &view.demands {
        once.network.switches[view.leaves[demand.leaf]].aggregates = Aggregates::No;
    }
    let mut flows = Vec::new();
    for (task, demand) in view.demands.iter().enumerate() {
        let (adding, plain) = usable_alone(&view, task);
        let mut own = Vec::new();
        let mut into = vec![0u32; view.spines.len()];
        for (leaf, &number) in demand.flows.iter().enumerate() {
            let switch = view.leaves[leaf];
            let adds = once.network.pipelines(switch).is_some();
            let here = |&&worker: &&usize| once.network.servers[worker].switch == switch;
            let number = match instance.network.pipelines(switch) {
                Some(_) if !adds && number > 0 => instance.tasks[task].workers.iter().filter(here).count(),
                _ => number as usize,
            };
            let linked = |of: &[usize]| -> Vec<usize> {
                of.iter().copied().filter(|&spine| view.link(leaf, spine).is_some()).collect()
            };
            let (adding, plain) = (linked(&adding), linked(&plain));
            let candidates = if plain.is_empty() || !adds && !adding.is_empty() { adding } else { plain };
            for _ in 0..number {
                let spine = candidates[random.usize(..candidates.len())];
                if let Some((link, _)) = view.link(leaf, spine) {
                    own.push((instance.network.up(link), 1));
                    into[spine] += 1;
                }
            }
        }
        for (spine, &number) in into.iter().enumerate().filter(|(_, number)| **number > 0) {
            own.extend(view.link(demand.leaf, spine).map(|(link, _)| (instance.network.down(link), number)));
        }
        flows.push(own);
    }
    overlaid(&once, "grid", flows, started)
}
