//! The independent check of every worker's path on the links, for any solver.
//!
//! It does not depend on how plans are made. A flow is named by the place where it was last added up, or by
//! its worker; the flows of a link are the different names that cross it.

#[cfg(test)]
mod tests;

use std::collections::HashMap;

use crate::model::{Aggregates, Channel, End, Flows, Instance, Network, Task};
use crate::plan::{Plan, TaskPlan};

/// The tolerated relative difference: sums of floats.
const TOLERANCE: f64 = 1e-9;

/// A place that adds up, or the worker that a flow comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum Origin {
    Worker(usize),
    Pipeline(usize, u16),
    Appliance(usize),
}

/// Checks a plan by walking every path: that each leads from its worker to the task's parameter server, up
/// and then down; that flows that meet in a pipeline continue together; that each link carries the plan's
/// number of flows, and no more than its capacity; and that k and the objective follow from that.
///
/// # Errors
///
/// The first violation, in words.
pub fn replay(instance: &Instance, plan: &Plan) -> Result<(), String> {
    if plan.tasks.len() != instance.tasks.len() {
        return Err(format!("{} tasks are planned, of {}", plan.tasks.len(), instance.tasks.len()));
    }
    let network = &instance.network;
    let (mut loads, mut flows) = (vec![0.0; network.channels()], vec![0u32; network.channels()]);
    for (task, planned) in instance.tasks.iter().zip(&plan.tasks) {
        if !(planned.rate.is_finite() && planned.rate > 0.0) {
            return Err(format!("task {} has a rate of {} Gbit/s", task.name, planned.rate));
        }
        let counted = count(network, task, planned)?;
        if counted != planned.flows {
            return Err(difference(network, task, &counted, &planned.flows));
        }
        for (channel, number) in counted {
            flows[channel] += number;
            loads[channel] += f64::from(number) * planned.rate;
        }
    }
    for (channel, &load) in loads.iter().enumerate().filter(|(_, load)| **load > 0.0) {
        let capacity = network.capacity(channel);
        if load > capacity * (1.0 + TOLERANCE) {
            let name = network.channel_name(channel);
            return Err(format!("{name} carries {load:.6} Gbit/s, its capacity is {capacity}"));
        }
    }
    let k = flows.iter().copied().max().unwrap_or(0);
    if k != plan.k {
        return Err(format!("a link carries {k} flows, the plan says {}", plan.k));
    }
    let objective = instance.objective(plan.tasks.iter().map(|task| task.rate));
    if (objective - plan.objective).abs() > objective.abs() * TOLERANCE {
        return Err(format!("the rates come to {objective} Gbit/s, the plan says {}", plan.objective));
    }
    if plan.objective > plan.bound * (1.0 + 1e-6) {
        return Err(format!("{} Gbit/s is above the bound of {}", plan.objective, plan.bound));
    }
    Ok(())
}

/// How many flows each channel carries, ascending by channel.
pub(crate) fn count(network: &Network, task: &Task, planned: &TaskPlan) -> Result<Flows, String> {
    if planned.paths.len() != task.workers.len() {
        let (paths, workers) = (planned.paths.len(), task.workers.len());
        return Err(format!("task {} has {paths} paths for {workers} workers", task.name));
    }
    let mut onward: HashMap<Origin, &[Channel]> = HashMap::new();
    let mut crossing = Vec::new();
    for (&worker, path) in task.workers.iter().zip(&planned.paths) {
        check_path(network, task, worker, path)?;
        let mut origin = Origin::Worker(worker);
        for (at, &channel) in path.iter().enumerate() {
            crossing.push((channel, origin));
            let Some(met) = adds(network, network.ends(channel).1) else { continue };
            origin = met;
            let rest = &path[at + 1..];
            if *onward.entry(met).or_insert(rest) != rest {
                let place = network.channel_name(channel);
                return Err(format!(
                    "task {}: what is added up behind {place} does not go on together",
                    task.name
                ));
            }
        }
    }
    crossing.sort_unstable();
    crossing.dedup();
    let mut counted: Flows = Vec::new();
    for (channel, _) in crossing {
        match counted.last_mut() {
            Some((last, number)) if *last == channel => *number += 1,
            _ => counted.push((channel, 1)),
        }
    }
    Ok(counted)
}

fn adds(network: &Network, end: End) -> Option<Origin> {
    match end {
        End::Switch { switch, pipeline } => match network.switches[switch].aggregates {
            Aggregates::Inside { .. } => Some(Origin::Pipeline(switch, pipeline)),
            _ => None,
        },
        End::Appliance(switch) => Some(Origin::Appliance(switch)),
        End::Server(_) => None,
    }
}

/// From the worker to the parameter server without a break, and never up once it went down.
fn check_path(network: &Network, task: &Task, worker: usize, path: &[Channel]) -> Result<(), String> {
    let wrong =
        |what: &str| Err(format!("task {}: the path of {} {what}", task.name, network.servers[worker].name));
    let mut here = Node::of(End::Server(worker));
    let mut downwards = false;
    for &channel in path {
        if channel >= network.channels() || network.capacity(channel) <= 0.0 {
            return wrong("uses a link that is not there");
        }
        let (from, to) = network.ends(channel);
        if Node::of(from) != here {
            return wrong("has a break");
        }
        here = Node::of(to);
        if let (End::Switch { switch: from, .. }, End::Switch { switch: to, .. }) = (from, to) {
            let up = network.switches[to].tier > network.switches[from].tier;
            if up && downwards {
                return wrong("goes up after it went down");
            }
            downwards |= !up;
        }
    }
    if here != Node::of(End::Server(task.server)) {
        return wrong("does not end at the parameter server");
    }
    Ok(())
}

/// Where a channel ends, whatever the port.
#[derive(PartialEq)]
enum Node {
    Switch(usize),
    Server(usize),
    Appliance(usize),
}

impl Node {
    fn of(end: End) -> Self {
        match end {
            End::Switch { switch, .. } => Self::Switch(switch),
            End::Server(server) => Self::Server(server),
            End::Appliance(switch) => Self::Appliance(switch),
        }
    }
}

fn difference(
    network: &Network,
    task: &Task,
    counted: &[(Channel, u32)],
    stated: &[(Channel, u32)],
) -> String {
    let of = |flows: &[(Channel, u32)], channel| {
        flows.iter().find(|(at, _)| *at == channel).map_or(0, |&(_, number)| number)
    };
    let channel = (counted.iter().chain(stated).map(|&(channel, _)| channel))
        .find(|&channel| of(counted, channel) != of(stated, channel));
    match channel {
        Some(channel) => format!(
            "task {}: {} carries {} flows, the plan says {}",
            task.name,
            network.channel_name(channel),
            of(counted, channel),
            of(stated, channel)
        ),
        None => format!("task {}: its flows are not in the order of channels", task.name),
    }
}
