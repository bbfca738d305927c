//! Networks by their shape.

use super::{Aggregates, Link, Network, Server, Switch};

/// How the ports of an aggregating switch are wired to its input pipelines. The paper does not specify it,
/// but it matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum PortMap {
    /// Neighbouring ports share a pipeline.
    Block,
    /// Port n is wired to pipeline n mod P.
    RoundRobin,
}

impl PortMap {
    /// The pipeline of port `port` of `ports`.
    pub fn pipeline(self, port: usize, ports: usize, pipelines: u16) -> u16 {
        let pipelines = usize::from(pipelines.max(1));
        let pipeline = match self {
            Self::Block => port * pipelines / ports.max(1),
            Self::RoundRobin => port % pipelines,
        };
        u16::try_from(pipeline).unwrap_or(0)
    }
}

impl Network {
    /// Adds a switch without a role yet; returns its index.
    pub(crate) fn add_switch(&mut self, name: String, label: String, tier: u8) -> usize {
        self.switches.push(Switch { name, label, tier, aggregates: Aggregates::No });
        self.switches.len() - 1
    }

    /// A leaf-spine network: each leaf has `servers` servers and a link to each spine, all of `gbps`. Leaves
    /// are the switches `0..leaves`, spines follow; link `l × spines + s` joins leaf l and spine s, server
    /// `l × servers + h` is the h-th of leaf l. Nothing aggregates, every port is in pipeline 0.
    pub fn leaf_spine(leaves: usize, spines: usize, servers: usize, gbps: f64) -> Self {
        let mut network = Self::default();
        for leaf in 0..leaves {
            network.add_switch(format!("leaf {leaf}"), leaf.to_string(), 0);
        }
        for spine in 0..spines {
            network.add_switch(format!("spine {spine}"), spine.to_string(), 1);
        }
        for lower in 0..leaves {
            network.links.extend((leaves..leaves + spines).map(|upper| link(lower, upper, gbps)));
            network.add_servers(lower, servers, gbps);
        }
        network
    }

    /// A fat tree of three tiers made of switches with `ports` ports (an even number): `ports` pods of
    /// `ports / 2` leaves and as many aggregation switches, `ports² / 4` cores; `ports / 2` servers at each
    /// leaf. Aggregation switch a of each pod is linked to the a-th group of cores. Names: `leaf P.L`,
    /// `aggregation P.A`, `core A.C`.
    pub fn fat_tree(ports: usize, gbps: f64) -> Self {
        let half = ports / 2;
        let mut network = Self::default();
        for (tier, kind) in [(0, "leaf"), (1, "aggregation")] {
            for pod in 0..ports {
                for at in 0..half {
                    network.add_switch(format!("{kind} {pod}.{at}"), format!("{kind}{pod}.{at}"), tier);
                }
            }
        }
        for group in 0..half {
            for at in 0..half {
                network.add_switch(format!("core {group}.{at}"), format!("core{group}.{at}"), 2);
            }
        }
        let (middle, cores) = (ports * half, 2 * ports * half);
        for pod in 0..ports {
            for a in 0..half {
                let upper = middle + pod * half + a;
                network.links.extend((0..half).map(|leaf| link(pod * half + leaf, upper, gbps)));
                network.links.extend((0..half).map(|core| link(upper, cores + a * half + core, gbps)));
            }
        }
        (0..middle).for_each(|leaf| network.add_servers(leaf, half, gbps));
        network
    }

    fn add_servers(&mut self, switch: usize, servers: usize, gbps: f64) {
        let name = &self.switches[switch].name;
        let at = name.rsplit(' ').next().unwrap_or(name).to_owned();
        self.servers.extend((0..servers).map(|server| Server {
            name: format!("server {at}.{server}"),
            switch,
            gbps,
            pipeline: 0,
        }));
    }

    /// Lets a switch add, with its ports wired as `map` says: first those of servers, then those down, then
    /// those up, each in the order of the network.
    pub fn aggregate(&mut self, switch: usize, pipelines: u16, map: PortMap) {
        self.switches[switch].aggregates = Aggregates::Inside { pipelines };
        let ports = self.servers.iter().filter(|server| server.switch == switch).count()
            + self.links.iter().filter(|link| link.lower == switch || link.upper == switch).count();
        let mut next = (0..ports).map(|port| map.pipeline(port, ports, pipelines));
        let mut wire = |pipeline: &mut u16| *pipeline = next.next().unwrap_or(0);
        for server in self.servers.iter_mut().filter(|server| server.switch == switch) {
            wire(&mut server.pipeline);
        }
        self.links.iter_mut().filter(|link| link.upper == switch).for_each(|link| {
            wire(&mut link.upper_pipeline);
        });
        self.links.iter_mut().filter(|link| link.lower == switch).for_each(|link| {
            wire(&mut link.lower_pipeline);
        });
    }
}

fn link(lower: usize, upper: usize, gbps: f64) -> Link {
    Link { lower, upper, up_gbps: gbps, down_gbps: gbps, lower_pipeline: 0, upper_pipeline: 0 }
}
