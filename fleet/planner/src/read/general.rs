//! `pascaline-plan-v1`: any Clos network, any number of jobs. docs/plan.schema.json is its schema.

use std::collections::HashMap;

use serde::Deserialize;

use crate::PlanError;
use crate::model::{Aggregates, Instance, Job, Link, Network, PortMap, Server, Task};

pub(super) const FORMAT: &str = "pascaline-plan-v1";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(rename = "format")]
    _format: String,
    #[serde(default)]
    name: String,
    topology: Topology,
    jobs: Vec<JobEntry>,
    #[serde(default = "small")]
    mu: f64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum Topology {
    LeafSpine(LeafSpine),
    FatTree(FatTree),
    Clos(Clos),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LeafSpine {
    leaves: usize,
    spines: usize,
    servers_per_leaf: usize,
    gbps: f64,
    #[serde(default)]
    aggregating: Vec<Aggregating>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FatTree {
    ports: usize,
    gbps: f64,
    #[serde(default)]
    aggregating: Vec<Aggregating>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Aggregating {
    switch: String,
    #[serde(default)]
    pipelines: Option<u16>,
    #[serde(default)]
    port_map: Option<PortMap>,
    #[serde(default)]
    appliance_gbps: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Clos {
    switches: Vec<SwitchEntry>,
    links: Vec<LinkEntry>,
    servers: Vec<ServerEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SwitchEntry {
    name: String,
    tier: u8,
    #[serde(default)]
    pipelines: Option<u16>,
    #[serde(default)]
    appliance_gbps: Option<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LinkEntry {
    lower: String,
    upper: String,
    gbps: f64,
    #[serde(default)]
    down_gbps: Option<f64>,
    #[serde(default)]
    lower_pipeline: u16,
    #[serde(default)]
    upper_pipeline: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ServerEntry {
    name: String,
    switch: String,
    gbps: f64,
    #[serde(default)]
    pipeline: u16,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct JobEntry {
    name: String,
    #[serde(default = "one")]
    weight: f64,
    tasks: Vec<TaskEntry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TaskEntry {
    #[serde(default)]
    name: Option<String>,
    server: String,
    workers: Vec<String>,
}

fn small() -> f64 {
    0.001
}

fn one() -> f64 {
    1.0
}

/// The most switches on a side, or ports of a fat tree's switch.
const MOST: usize = 2_048;

pub(super) fn read(file: File) -> Result<Instance, PlanError> {
    let network = match file.topology {
        Topology::LeafSpine(shape) => {
            for (key, value) in [
                ("leaves", shape.leaves),
                ("spines", shape.spines),
                ("servers_per_leaf", shape.servers_per_leaf),
            ] {
                within(&format!("topology.leaf_spine.{key}"), value, 1..=MOST)?;
            }
            let network = Network::leaf_spine(shape.leaves, shape.spines, shape.servers_per_leaf, shape.gbps);
            aggregating(network, "topology.leaf_spine", &shape.aggregating)?
        }
        Topology::FatTree(shape) => {
            within("topology.fat_tree.ports", shape.ports, 2..=128)?;
            if shape.ports % 2 == 1 {
                let problem = format!("{} is odd", shape.ports);
                return Err(PlanError::input("topology.fat_tree.ports", problem, "half of them point up"));
            }
            let network = Network::fat_tree(shape.ports, shape.gbps);
            aggregating(network, "topology.fat_tree", &shape.aggregating)?
        }
        Topology::Clos(clos) => clos.read()?,
    };
    let servers = names("servers", network.servers.iter().map(|server| server.name.as_str()))?;
    names("jobs", file.jobs.iter().map(|job| job.name.as_str()))?;
    let (mut jobs, mut tasks) = (Vec::new(), Vec::new());
    for (job, entry) in file.jobs.into_iter().enumerate() {
        let own = |(at, task): (usize, &TaskEntry)| {
            task.name.clone().unwrap_or_else(|| format!("{}.{at}", entry.name))
        };
        let called: Vec<String> = entry.tasks.iter().enumerate().map(own).collect();
        names(&format!("jobs[{job}].tasks"), called.iter().map(String::as_str))?;
        for ((at, task), name) in entry.tasks.iter().enumerate().zip(called) {
            let place = format!("jobs[{job}].tasks[{at}]");
            let find = |key: &str, name: &str| find(&servers, "server", &format!("{place}.{key}"), name);
            tasks.push(Task {
                name,
                job,
                server: find("server", &task.server)?,
                workers: (task.workers.iter().enumerate())
                    .map(|(at, name)| find(&format!("workers[{at}]"), name))
                    .collect::<Result<_, _>>()?,
            });
        }
        if entry.tasks.is_empty() {
            return Err(PlanError::input(format!("jobs[{job}].tasks"), "it is empty", "a job has a task"));
        }
        jobs.push(Job { name: entry.name, weight: entry.weight });
    }
    Ok(Instance { name: file.name, network, jobs, tasks, mu: file.mu })
}

fn within(place: &str, value: usize, bounds: std::ops::RangeInclusive<usize>) -> Result<(), PlanError> {
    if bounds.contains(&value) {
        return Ok(());
    }
    let remedy = format!("it is {} to {}", bounds.start(), bounds.end());
    Err(PlanError::input(place, format!("{value} is out of range"), remedy))
}

fn aggregating(mut network: Network, place: &str, entries: &[Aggregating]) -> Result<Network, PlanError> {
    let switches: HashMap<String, usize> =
        network.switches.iter().enumerate().map(|(at, switch)| (switch.name.clone(), at)).collect();
    names(&format!("{place}.aggregating"), entries.iter().map(|entry| entry.switch.as_str()))?;
    for (at, entry) in entries.iter().enumerate() {
        let place = format!("{place}.aggregating[{at}]");
        let switch = *switches.get(&entry.switch).ok_or_else(|| {
            let (first, last) =
                (&network.switches[0].name, &network.switches[network.switches.len() - 1].name);
            let problem = format!("no switch is called {:?}", entry.switch);
            PlanError::input(format!("{place}.switch"), problem, format!("names are {first:?} to {last:?}"))
        })?;
        match role(&place, entry.pipelines, entry.appliance_gbps)? {
            Aggregates::Inside { pipelines } => {
                network.aggregate(switch, pipelines, entry.port_map.unwrap_or(PortMap::Block));
            }
            role @ Aggregates::Beside { .. } => network.switches[switch].aggregates = role,
            Aggregates::No => {
                return Err(PlanError::input(
                    place,
                    "neither pipelines nor appliance_gbps is given: the switch adds nothing",
                    "give one of them, or leave the switch out",
                ));
            }
        }
    }
    Ok(network)
}

fn role(place: &str, pipelines: Option<u16>, appliance: Option<f64>) -> Result<Aggregates, PlanError> {
    match (pipelines, appliance) {
        (Some(pipelines), None) => Ok(Aggregates::Inside { pipelines }),
        (None, Some(gbps)) => Ok(Aggregates::Beside { gbps }),
        (None, None) => Ok(Aggregates::No),
        _ => Err(PlanError::input(
            place,
            "both pipelines and appliance_gbps are given",
            "a switch adds itself (pipelines), or has an appliance beside it (appliance_gbps)",
        )),
    }
}

impl Clos {
    fn read(self) -> Result<Network, PlanError> {
        let switches =
            names("topology.clos.switches", self.switches.iter().map(|entry| entry.name.as_str()))?;
        let mut network = Network::default();
        for (at, entry) in self.switches.iter().enumerate() {
            let switch = network.add_switch(entry.name.clone(), entry.name.clone(), entry.tier);
            let place = format!("topology.clos.switches[{at}]");
            network.switches[switch].aggregates = role(&place, entry.pipelines, entry.appliance_gbps)?;
        }
        for (at, entry) in self.links.iter().enumerate() {
            let end = |key: &str, name: &str| {
                find(&switches, "switch", &format!("topology.clos.links[{at}].{key}"), name)
            };
            network.links.push(Link {
                lower: end("lower", &entry.lower)?,
                upper: end("upper", &entry.upper)?,
                up_gbps: entry.gbps,
                down_gbps: entry.down_gbps.unwrap_or(entry.gbps),
                lower_pipeline: entry.lower_pipeline,
                upper_pipeline: entry.upper_pipeline,
            });
        }
        for (at, entry) in self.servers.into_iter().enumerate() {
            let place = format!("topology.clos.servers[{at}].switch");
            let switch = find(&switches, "switch", &place, &entry.switch)?;
            network.servers.push(Server {
                name: entry.name,
                switch,
                gbps: entry.gbps,
                pipeline: entry.pipeline,
            });
        }
        Ok(network)
    }
}

/// The index of each name, if none occurs twice.
fn names<'a>(place: &str, all: impl Iterator<Item = &'a str>) -> Result<HashMap<String, usize>, PlanError> {
    let mut found = HashMap::new();
    for (at, name) in all.enumerate() {
        if let Some(before) = found.insert(name.to_owned(), at) {
            let problem = format!("{name:?} is the name of {before} as well");
            return Err(PlanError::input(format!("{place}[{at}]"), problem, "names are unique"));
        }
    }
    Ok(found)
}

fn find(all: &HashMap<String, usize>, kind: &str, place: &str, name: &str) -> Result<usize, PlanError> {
    all.get(name).copied().ok_or_else(|| {
        PlanError::input(
            place,
            format!("no {kind} is called {name:?}"),
            format!("it names a {kind} of the topology"),
        )
    })
}
