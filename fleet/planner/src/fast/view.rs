//! The fast way's view of an instance: leaves, spines, and numbers of flows.

use crate::model::{Aggregates, Instance, Link};
use crate::plan::Binding;

/// A leaf-spine network with its tasks.
pub(crate) struct View<'a> {
    pub(crate) instance: &'a Instance,
    /// The leaves and the spines, as indices of switches.
    pub(crate) leaves: Vec<usize>,
    pub(crate) spines: Vec<usize>,
    links: Vec<Option<usize>>,
    pub(crate) demands: Vec<Demand>,
    /// How many tasks the busiest worker of each capacity takes part in, with that capacity.
    workers: Vec<(f64, u32, usize)>,
}

/// One task's demand on the network.
#[derive(Clone)]
pub(crate) struct Demand {
    /// The leaf of its parameter server, and how many pipelines that has.
    pub(crate) leaf: usize,
    pub(crate) pipelines: u32,
    /// Flows that leave each leaf upwards; 0 at the parameter server's own.
    pub(crate) flows: Vec<u32>,
    /// The pipelines of the parameter server's leaf that its own workers use.
    pub(crate) local: u64,
    pub(crate) total: u32,
}

/// How many flows of a rate each link carries.
pub(crate) struct Caps {
    pub(crate) rate: f64,
    spines: usize,
    up: Vec<u32>,
    /// `[task][spine]`, down to the parameter server's leaf.
    down: Vec<u32>,
    /// `[task]`, to the parameter server.
    pub(crate) server: Vec<u32>,
}

impl Caps {
    pub(crate) fn up(&self, leaf: usize, spine: usize) -> u32 {
        self.up[leaf * self.spines + spine]
    }

    pub(crate) fn down(&self, task: usize, spine: usize) -> u32 {
        self.down[task * self.spines + spine]
    }
}

/// How many flows of `rate` a link carries. A flow that is missing only by rounding counts.
pub(crate) fn whole(gbps: f64, rate: f64) -> u32 {
    let flows = (gbps / rate + 1e-9).floor();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
    let flows = flows.clamp(0.0, 1e9) as u32;
    flows
}

impl<'a> View<'a> {
    /// The view, if the fast way applies: two tiers, servers below the lower one, at most one link between
    /// two switches, no appliances beside switches, at most 64 pipelines, and parameter servers at different
    /// leaves, which add.
    pub(crate) fn new(instance: &'a Instance) -> Option<Self> {
        let network = &instance.network;
        let mut place = vec![0; network.switches.len()];
        let (mut leaves, mut spines) = (Vec::new(), Vec::new());
        for (at, switch) in network.switches.iter().enumerate() {
            let side = match switch.tier {
                0 => &mut leaves,
                1 => &mut spines,
                _ => return None,
            };
            match switch.aggregates {
                Aggregates::Beside { .. } => return None,
                Aggregates::Inside { pipelines } if pipelines > 64 => return None,
                _ => {}
            }
            place[at] = side.len();
            side.push(at);
        }
        if network.servers.iter().any(|server| network.switches[server.switch].tier != 0) {
            return None;
        }
        let mut links = vec![None; leaves.len() * spines.len()];
        for (at, link) in network.links.iter().enumerate() {
            let between = &mut links[place[link.lower] * spines.len() + place[link.upper]];
            if between.replace(at).is_some() {
                return None;
            }
        }
        let mut view = Self { instance, leaves, spines, links, demands: Vec::new(), workers: Vec::new() };
        view.demands = instance.tasks.iter().map(|task| view.demand(task, &place)).collect::<Option<_>>()?;
        let mut taken = vec![false; view.leaves.len()];
        if view.demands.iter().any(|demand| std::mem::replace(&mut taken[demand.leaf], true)) {
            return None;
        }
        view.workers = view.busiest();
        Some(view)
    }

    fn demand(&self, task: &crate::model::Task, place: &[usize]) -> Option<Demand> {
        let network = &self.instance.network;
        let target = network.servers[task.server].switch;
        let pipelines = u32::from(network.pipelines(target)?);
        let mut masks = vec![0u64; self.leaves.len()];
        let mut flows = vec![0; self.leaves.len()];
        for server in task.workers.iter().map(|&worker| &network.servers[worker]) {
            let leaf = place[server.switch];
            match network.pipelines(server.switch) {
                Some(_) => masks[leaf] |= 1 << server.pipeline,
                None => flows[leaf] += 1,
            }
        }
        let leaf = place[target];
        for (flows, mask) in flows.iter_mut().zip(&masks) {
            *flows += mask.count_ones();
        }
        flows[leaf] = 0;
        let total = flows.iter().sum();
        Some(Demand { leaf, pipelines, flows, local: masks[leaf], total })
    }

    fn busiest(&self) -> Vec<(f64, u32, usize)> {
        let network = &self.instance.network;
        let mut tasks = vec![0; network.servers.len()];
        let workers = self.instance.tasks.iter().flat_map(|task| &task.workers);
        workers.for_each(|&worker| tasks[worker] += 1);
        let mut busiest: Vec<(f64, u32, usize)> = Vec::new();
        for (server, &tasks) in tasks.iter().enumerate().filter(|(_, tasks)| **tasks > 0) {
            let gbps = network.servers[server].gbps;
            match busiest.iter_mut().find(|(capacity, ..)| *capacity == gbps) {
                Some(entry) if entry.1 >= tasks => {}
                Some(entry) => *entry = (gbps, tasks, server),
                None => busiest.push((gbps, tasks, server)),
            }
        }
        busiest
    }

    /// The same with only those links that `open` names by leaf and spine; the parameter servers' leaves keep
    /// theirs, over which no flows go up.
    pub(crate) fn only(&self, open: impl Fn(usize, usize) -> bool) -> Self {
        let mut view = Self {
            instance: self.instance,
            leaves: self.leaves.clone(),
            spines: self.spines.clone(),
            links: self.links.clone(),
            demands: self.demands.clone(),
            workers: self.workers.clone(),
        };
        for leaf in
            (0..self.leaves.len()).filter(|leaf| self.demands.iter().all(|demand| demand.leaf != *leaf))
        {
            for spine in (0..self.spines.len()).filter(|&spine| !open(leaf, spine)) {
                view.links[leaf * self.spines.len() + spine] = None;
            }
        }
        view
    }

    /// The link between a leaf and a spine.
    pub(crate) fn link(&self, leaf: usize, spine: usize) -> Option<(usize, &'a Link)> {
        let at = self.links[leaf * self.spines.len() + spine]?;
        Some((at, &self.instance.network.links[at]))
    }

    /// The pipeline of a leaf that a spine's flows arrive in.
    pub(crate) fn arrives(&self, leaf: usize, spine: usize) -> u16 {
        self.link(leaf, spine).map_or(0, |(_, link)| link.lower_pipeline)
    }

    /// The pipeline of a spine that a leaf's flows arrive in.
    pub(crate) fn enters(&self, leaf: usize, spine: usize) -> u16 {
        self.link(leaf, spine).map_or(0, |(_, link)| link.upper_pipeline)
    }

    pub(crate) fn adds(&self, spine: usize) -> bool {
        self.instance.network.pipelines(self.spines[spine]).is_some()
    }

    pub(crate) fn caps(&self, rate: f64) -> Caps {
        let network = &self.instance.network;
        let up = self.links.iter().map(|link| link.map_or(0, |at| whole(network.links[at].up_gbps, rate)));
        let down = self.demands.iter().flat_map(|demand| {
            let capacity = |spine| self.link(demand.leaf, spine).map_or(0.0, |(_, link)| link.down_gbps);
            (0..self.spines.len()).map(move |spine| whole(capacity(spine), rate))
        });
        let server = |task: &crate::model::Task| whole(network.servers[task.server].gbps, rate);
        Caps {
            rate,
            spines: self.spines.len(),
            up: up.collect(),
            down: down.collect(),
            server: self.instance.tasks.iter().map(server).collect(),
        }
    }

    /// A worker whose own link does not carry its tasks at this rate.
    pub(crate) fn slow_worker(&self, rate: f64) -> Option<Binding> {
        let &(gbps, tasks, server) =
            self.workers.iter().find(|&&(gbps, tasks, _)| whole(gbps, rate) < tasks)?;
        let network = &self.instance.network;
        Some(Binding {
            kind: "worker_link",
            why: format!(
                "{} sends {tasks} flows over its link of {gbps} Gbit/s",
                network.servers[server].name
            ),
            channels: vec![network.from_server(server)],
        })
    }

    /// The limit at the fastest of all rates.
    pub(crate) fn fastest(&self) -> Binding {
        self.slow_worker(f64::MAX).unwrap_or_default()
    }
}
