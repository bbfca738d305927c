//! A plan as JSON and as lines of text.

use std::fmt;

use serde_json::{Map, Value, json};

use crate::keep::Kept;
use crate::model::{Channel, End, Instance, Network};
use crate::place::Placement;
use crate::plan::{Plan, Proof, TaskPlan};

/// A plan as JSON; docs/planning.md has its keys.
pub fn to_json(instance: &Instance, plan: &Plan) -> Value {
    let network = &instance.network;
    let nth = network.nth_links();
    let tasks = instance.tasks.iter().zip(&plan.tasks).map(|(task, planned)| {
        let routes = task.workers.iter().zip(&planned.paths).map(|(&worker, path)| {
            (network.servers[worker].name.clone(), path.iter().map(|&at| end_name(network, at)).collect())
        });
        let mut all = json!({
            "task": task.name,
            "job": instance.jobs[task.job].name,
            "server": network.servers[task.server].name,
            "rate_gbps": planned.rate,
            "flows": upward(network, std::iter::once(planned)),
            "routes": routes.collect::<Map<String, Value>>(),
        });
        let taken = |path: &[Channel]| -> Vec<usize> {
            path[1..].iter().map(|&channel| nth.get(channel / 2).copied().unwrap_or(0)).collect()
        };
        let links: Map<String, Value> = (task.workers.iter().zip(&planned.paths))
            .map(|(&worker, path)| (network.servers[worker].name.clone(), taken(path)))
            .filter(|(_, taken)| taken.iter().any(|&nth| nth > 0))
            .map(|(name, taken)| (name, json!(taken)))
            .collect();
        if !links.is_empty() {
            all["parallel"] = Value::Object(links);
        }
        all
    });
    let mut loads: Vec<(Channel, f64)> = plan.loads().into_iter().collect();
    loads.sort_by_key(|(channel, _)| *channel);
    let links = loads.iter().map(|&(channel, gbps)| {
        let (link, capacity) = (network.channel_name(channel), network.capacity(channel));
        json!({ "link": link, "gbps": gbps, "capacity_gbps": capacity })
    });
    json!({
        "k": plan.k,
        "throughput_gbps": plan.objective,
        "proof": plan.proof,
        "bound": plan.bound.is_finite().then_some(plan.bound),
        "gap": plan.bound.is_finite().then(|| plan.gap()),
        "seconds": plan.seconds,
        "timed_out": plan.timed_out,
        "solver": plan.solver,
        "binding": plan.binding.kind,
        "why": plan.binding.why,
        "binding_links": plan.binding.channels.iter().map(|&at| network.channel_name(at)).collect::<Vec<_>>(),
        "flows": upward(network, plan.tasks.iter()),
        "tasks": tasks.collect::<Vec<_>>(),
        "links": links.collect::<Vec<_>>(),
    })
}

/// The same with the placement of its aggregators, and the tasks that kept their routes.
pub fn to_json_with(
    instance: &Instance,
    plan: &Plan,
    placement: Option<&Placement>,
    kept: Option<&Kept>,
) -> Value {
    let mut all = to_json(instance, plan);
    if let Some(Placement { chosen, candidates, tried, bound, proof }) = placement {
        let names: Vec<&str> = chosen.iter().map(|&at| instance.network.switches[at].name.as_str()).collect();
        all["placement"] = json!({
            "chosen": names, "candidates": candidates, "tried": tried, "bound": bound, "proof": proof,
        });
    }
    if let Some(Kept { kept, moved, new }) = kept {
        all["routes"] = json!({ "kept": kept, "moved": moved, "new": new });
    }
    all
}

/// Flows on the channels that lead up, by the labels of their switches.
fn upward<'a>(network: &Network, tasks: impl Iterator<Item = &'a TaskPlan>) -> Map<String, Value> {
    let mut flows = Map::new();
    for &(channel, number) in tasks.flat_map(|task| &task.flows) {
        if let (End::Switch { switch: from, .. }, End::Switch { switch: to, .. }) = network.ends(channel)
            && network.switches[to].tier > network.switches[from].tier
        {
            let label = |switch: usize| &network.switches[switch].label;
            let entry = flows.entry(format!("{}-{}", label(from), label(to))).or_insert(json!(0));
            *entry = json!(entry.as_u64().unwrap_or(0) + u64::from(number));
        }
    }
    flows
}

fn end_name(network: &Network, channel: Channel) -> Value {
    match network.ends(channel).1 {
        End::Switch { switch, .. } => json!(network.switches[switch].name),
        End::Server(server) => json!(network.servers[server].name),
        End::Appliance(switch) => json!(format!("{}'s appliance", network.switches[switch].name)),
    }
}

/// A plan in a few lines, for people.
pub struct Summary<'a>(pub &'a Instance, pub &'a Plan);

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(instance, plan) = self;
        if !instance.name.is_empty() {
            writeln!(f, "{}", instance.name)?;
        }
        let proof = match plan.proof {
            Proof::Optimal => "proven optimal".into(),
            _ if plan.bound.is_finite() => {
                format!("at most {:.3} possible, gap {:.2} %", plan.bound, plan.gap() * 100.0)
            }
            _ => "no bound".into(),
        };
        let (gbps, k) = (plan.objective, plan.k);
        writeln!(f, "  throughput  {gbps:.3} Gbit/s, at most {k} flows on a link: {proof}")?;
        writeln!(f, "  solver      {}, {:.3} ms", plan.solver, plan.seconds * 1e3)?;
        if !plan.binding.why.is_empty() {
            writeln!(f, "  binding     {}: {}", plan.binding.kind, plan.binding.why)?;
        }
        if plan.tasks.len() > 1 {
            for (task, planned) in instance.tasks.iter().zip(&plan.tasks) {
                let (job, workers) = (&instance.jobs[task.job].name, task.workers.len());
                let (name, rate) = (&task.name, planned.rate);
                writeln!(f, "  task {name} of {job}: {workers} workers at {rate:.3} Gbit/s")?;
            }
        }
        Ok(())
    }
}

/// The placement of aggregators, in a line for people.
pub struct Placed<'a>(pub &'a Instance, pub &'a Placement);

impl fmt::Display for Placed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(instance, Placement { chosen, candidates, tried, bound, proof }) = self;
        let names: Vec<&str> = chosen.iter().map(|&at| instance.network.switches[at].name.as_str()).collect();
        write!(f, "  placed      {} of {candidates}: {}; ", chosen.len(), names.join(", "))?;
        match proof {
            Proof::Optimal => writeln!(f, "no choice is better ({tried} tried)"),
            _ if bound.is_finite() => {
                writeln!(f, "{tried} choices tried, none can have more than {bound:.3} Gbit/s")
            }
            _ => writeln!(f, "{tried} choices tried; the method has no bound for the others"),
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, names) in [("kept", &self.kept), ("moved", &self.moved), ("new", &self.new)] {
            if !names.is_empty() {
                writeln!(f, "  {what:<11} {}", names.join(", "))?;
            }
        }
        Ok(())
    }
}
