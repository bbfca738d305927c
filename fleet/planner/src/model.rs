//! The input of a plan: a Clos network, and the tasks that aggregate over it.

mod build;
mod check;

pub use self::build::PortMap;

use std::collections::HashMap;
use std::fmt::Write as _;

/// Where a switch's flows are added.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aggregates {
    /// Nowhere: every flow is forwarded.
    No,
    /// In the switch, separately in each of its input pipelines (ARO, Figure 5).
    Inside {
        /// How many input pipelines it has. Ports of one pipeline are added up, others are not.
        pipelines: u16,
    },
    /// In a server with one link to the switch, as Pascaline's appliances are: flows may make the detour.
    Beside {
        /// Capacity of that link in each direction, Gbit/s.
        gbps: f64,
    },
}

/// A switch. Links join switches of neighbouring tiers; tier 0 is the lowest.
#[derive(Debug, Clone, PartialEq)]
pub struct Switch {
    /// Its name in messages.
    pub name: String,
    /// Its name in the keys of a plan's flows.
    pub label: String,
    /// Its tier.
    pub tier: u8,
    /// Where flows are added there.
    pub aggregates: Aggregates,
}

/// A link between two switches. Capacities in Gbit/s.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// The switch of the lower tier.
    pub lower: usize,
    /// The switch of the next tier.
    pub upper: usize,
    /// Capacity towards the upper switch.
    pub up_gbps: f64,
    /// Capacity towards the lower switch.
    pub down_gbps: f64,
    /// Input pipeline of the port at the lower switch.
    pub lower_pipeline: u16,
    /// Input pipeline of the port at the upper switch.
    pub upper_pipeline: u16,
}

/// A server and its link to a switch.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// Its name.
    pub name: String,
    /// The switch that it is connected to.
    pub switch: usize,
    /// Capacity of its link, in each direction, Gbit/s.
    pub gbps: f64,
    /// Input pipeline of the switch's port.
    pub pipeline: u16,
}

/// One aggregation: workers whose sums end at one parameter server.
#[derive(Debug, Clone, PartialEq)]
pub struct Task {
    /// Its name.
    pub name: String,
    /// The job that it belongs to.
    pub job: usize,
    /// The parameter server: an index into [`Network::servers`].
    pub server: usize,
    /// The workers: indices into [`Network::servers`], each once.
    pub workers: Vec<usize>,
}

/// A training job: one task, or several with different parameter servers.
#[derive(Debug, Clone, PartialEq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// β of ARO's equation 3: the factor of the sum of its tasks' rates.
    pub weight: f64,
}

/// A Clos network.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Network {
    /// The switches.
    pub switches: Vec<Switch>,
    /// The links between switches.
    pub links: Vec<Link>,
    /// The servers with their links.
    pub servers: Vec<Server>,
}

/// A network and the jobs that aggregate over it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Instance {
    /// Its name.
    pub name: String,
    /// The network.
    pub network: Network,
    /// The jobs.
    pub jobs: Vec<Job>,
    /// The tasks of all jobs.
    pub tasks: Vec<Task>,
    /// μ of ARO's equation 3: the weight of the jobs' total beside the smallest job.
    pub mu: f64,
}

/// One direction of a link: an index into the network's directed links.
///
/// Links between switches come first, up and down in turn, then servers' links, then those of appliances
/// beside switches, both towards the network's edge in the second place.
pub type Channel = usize;

/// How many flows of a task channels carry.
pub type Flows = Vec<(Channel, u32)>;

/// Where a channel ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// At a port of a switch.
    Switch {
        /// Which switch.
        switch: usize,
        /// The port's input pipeline.
        pipeline: u16,
    },
    /// At a server.
    Server(usize),
    /// At the appliance beside a switch.
    Appliance(usize),
}

impl Network {
    /// The channel of a link towards its upper switch.
    pub fn up(&self, link: usize) -> Channel {
        2 * link
    }

    /// The channel of a link towards its lower switch.
    pub fn down(&self, link: usize) -> Channel {
        2 * link + 1
    }

    /// The channel from a server into the network.
    pub fn from_server(&self, server: usize) -> Channel {
        2 * (self.links.len() + server)
    }

    /// The channel from the network to a server.
    pub fn to_server(&self, server: usize) -> Channel {
        self.from_server(server) + 1
    }

    /// The channel from the appliance beside a switch back to the switch.
    pub fn from_appliance(&self, switch: usize) -> Channel {
        2 * (self.links.len() + self.servers.len() + switch)
    }

    /// The channel from a switch to the appliance beside it.
    pub fn to_appliance(&self, switch: usize) -> Channel {
        self.from_appliance(switch) + 1
    }

    /// The number of channels, including those of appliances that do not exist.
    pub fn channels(&self) -> usize {
        2 * (self.links.len() + self.servers.len() + self.switches.len())
    }

    /// Capacity of a channel, Gbit/s. 0 for an appliance that does not exist.
    ///
    /// # Panics
    ///
    /// If there is no such channel.
    pub fn capacity(&self, channel: Channel) -> f64 {
        let (at, first) = (channel / 2, channel.is_multiple_of(2));
        match at.checked_sub(self.links.len()) {
            None if first => self.links[at].up_gbps,
            None => self.links[at].down_gbps,
            Some(at) => match at.checked_sub(self.servers.len()) {
                None => self.servers[at].gbps,
                Some(switch) => match self.switches[switch].aggregates {
                    Aggregates::Beside { gbps } => gbps,
                    _ => 0.0,
                },
            },
        }
    }

    /// Where a channel begins and where it ends.
    ///
    /// # Panics
    ///
    /// If there is no such channel.
    pub fn ends(&self, channel: Channel) -> (End, End) {
        let (at, first) = (channel / 2, channel.is_multiple_of(2));
        let (one, other) = match at.checked_sub(self.links.len()) {
            None => {
                let link = &self.links[at];
                (
                    End::Switch { switch: link.lower, pipeline: link.lower_pipeline },
                    End::Switch { switch: link.upper, pipeline: link.upper_pipeline },
                )
            }
            Some(at) => match at.checked_sub(self.servers.len()) {
                None => {
                    let server = &self.servers[at];
                    (End::Server(at), End::Switch { switch: server.switch, pipeline: server.pipeline })
                }
                Some(switch) => (End::Appliance(switch), End::Switch { switch, pipeline: 0 }),
            },
        };
        if first { (one, other) } else { (other, one) }
    }

    /// The number of each link among those between the same two switches, from 0 on.
    pub(crate) fn nth_links(&self) -> Vec<usize> {
        let mut before: HashMap<(usize, usize), usize> = HashMap::new();
        let mut nth = |link: &Link| {
            let count = before.entry((link.lower, link.upper)).or_default();
            core::mem::replace(count, *count + 1)
        };
        self.links.iter().map(&mut nth).collect()
    }

    /// A channel in words.
    pub fn channel_name(&self, channel: Channel) -> String {
        let (from, to) = self.ends(channel);
        let mut name = String::new();
        for (at, end) in [("", from), (" → ", to)] {
            name.push_str(at);
            let _ = match end {
                End::Switch { switch, .. } => write!(name, "{}", self.switches[switch].name),
                End::Server(server) => write!(name, "{}", self.servers[server].name),
                End::Appliance(switch) => write!(name, "the appliance of {}", self.switches[switch].name),
            };
        }
        name
    }

    /// Input pipelines of a switch that adds itself.
    pub fn pipelines(&self, switch: usize) -> Option<u16> {
        match self.switches[switch].aggregates {
            Aggregates::Inside { pipelines } => Some(pipelines),
            _ => None,
        }
    }
}
