//! `aro-sjst-v1`: one task on a leaf-spine network whose links are all alike.

use serde::Deserialize;

use crate::PlanError;
use crate::model::{Aggregates, Instance, Job, Network, Task};

pub(super) const FORMAT: &str = "aro-sjst-v1";

/// Keys that are not here (`optimal` above all) are not read.
#[derive(Deserialize)]
pub(super) struct File {
    #[serde(default)]
    name: String,
    n_leaf: usize,
    n_spine: usize,
    servers_per_leaf: usize,
    link_capacity_gbps: f64,
    pipelines: u16,
    ina_leaf: Vec<usize>,
    ina_spine: Vec<usize>,
    leaf_server_port_pipeline: Vec<Vec<u16>>,
    leaf_uplink_port_pipeline: Vec<Vec<u16>>,
    spine_port_pipeline: Vec<Vec<u16>>,
    ps: [usize; 2],
    workers: Vec<[usize; 2]>,
}

const MOST: usize = 1 << 22;

pub(super) fn read(file: File) -> Result<Instance, PlanError> {
    file.check()?;
    let (leaves, spines, servers) = (file.n_leaf, file.n_spine, file.servers_per_leaf);
    let mut network = Network::leaf_spine(leaves, spines, servers, file.link_capacity_gbps);
    for switch in file.ina_leaf.iter().copied().chain(file.ina_spine.iter().map(|spine| leaves + spine)) {
        network.switches[switch].aggregates = Aggregates::Inside { pipelines: file.pipelines };
    }
    for &leaf in &file.ina_leaf {
        for (server, &pipeline) in file.leaf_server_port_pipeline[leaf].iter().enumerate() {
            network.servers[leaf * servers + server].pipeline = pipeline;
        }
        for (spine, &pipeline) in file.leaf_uplink_port_pipeline[leaf].iter().enumerate() {
            network.links[leaf * spines + spine].lower_pipeline = pipeline;
        }
    }
    for &spine in &file.ina_spine {
        for (leaf, &pipeline) in file.spine_port_pipeline[spine].iter().enumerate() {
            network.links[leaf * spines + spine].upper_pipeline = pipeline;
        }
    }
    let at = |[leaf, server]: [usize; 2]| leaf * servers + server;
    Ok(Instance {
        name: file.name,
        network,
        jobs: vec![Job { name: "job".into(), weight: 1.0 }],
        tasks: vec![Task {
            name: "task".into(),
            job: 0,
            server: at(file.ps),
            workers: file.workers.into_iter().map(at).collect(),
        }],
        mu: 0.0,
    })
}

impl File {
    fn check(&self) -> Result<(), PlanError> {
        for (key, value) in [("n_leaf", self.n_leaf), ("servers_per_leaf", self.servers_per_leaf)] {
            if value == 0 {
                return Err(PlanError::input(key, "0 leaves nothing to plan", "give at least 1"));
            }
        }
        let links = self.n_leaf.checked_mul(self.n_spine.max(self.servers_per_leaf));
        if links.is_none_or(|links| links > MOST) {
            let problem = format!("more than {MOST} links");
            return Err(PlanError::input("n_leaf", problem, "plan a smaller network"));
        }
        self.table("leaf_server_port_pipeline", &self.leaf_server_port_pipeline, &self.ina_leaf)?;
        self.table("leaf_uplink_port_pipeline", &self.leaf_uplink_port_pipeline, &self.ina_leaf)?;
        self.table("spine_port_pipeline", &self.spine_port_pipeline, &self.ina_spine)?;
        self.server("ps", self.ps)?;
        (self.workers.iter().enumerate())
            .try_for_each(|(at, &worker)| self.server(&format!("workers[{at}]"), worker))
    }

    /// A table of ports' pipelines has a row for each switch, and right entries in those that matter.
    fn table(&self, key: &str, rows: &[Vec<u16>], aggregating: &[usize]) -> Result<(), PlanError> {
        let (list, switches, ports) = match key {
            "leaf_server_port_pipeline" => ("ina_leaf", self.n_leaf, self.servers_per_leaf),
            "leaf_uplink_port_pipeline" => ("ina_leaf", self.n_leaf, self.n_spine),
            _ => ("ina_spine", self.n_spine, self.n_leaf),
        };
        if let Some((at, switch)) = aggregating.iter().enumerate().find(|&(_, &switch)| switch >= switches) {
            let remedy = format!("there are {switches}, counted from 0");
            return Err(PlanError::input(format!("{list}[{at}]"), format!("no switch {switch}"), remedy));
        }
        for &switch in aggregating {
            let place = format!("{key}[{switch}]");
            let Some(row) = rows.get(switch) else {
                return Err(PlanError::input(place, "it is missing", format!("give {switches} rows")));
            };
            if row.len() != ports {
                let problem = format!("{} ports", row.len());
                return Err(PlanError::input(place, problem, format!("this switch has {ports} of them")));
            }
            if let Some((port, pipeline)) = row.iter().enumerate().find(|(_, p)| **p >= self.pipelines) {
                return Err(PlanError::input(
                    format!("{place}[{port}]"),
                    format!("pipeline {pipeline} of {}", self.pipelines),
                    "pipelines count from 0",
                ));
            }
        }
        Ok(())
    }

    fn server(&self, place: &str, [leaf, server]: [usize; 2]) -> Result<(), PlanError> {
        if leaf < self.n_leaf && server < self.servers_per_leaf {
            return Ok(());
        }
        let problem = format!("there is no server [{leaf}, {server}]");
        let remedy = format!("leaves are 0..{}, ports 0..{}", self.n_leaf, self.servers_per_leaf);
        Err(PlanError::input(place, problem, remedy))
    }
}
