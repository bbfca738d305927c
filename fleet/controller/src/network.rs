//! The network: switches, appliances and hosts at them, and distances.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

/// All of it. Places are indices into the lists.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// Switches.
    pub switches: Vec<Switch>,
    /// Appliances, in the file's order.
    pub appliances: Vec<Appliance>,
    /// Machines of workers.
    pub hosts: Vec<Host>,
}

/// A switch.
#[derive(Debug, Clone)]
pub struct Switch {
    /// Its name.
    pub name: String,
    /// The switches that it is linked to, each link at both ends.
    pub links: Vec<usize>,
}

/// An appliance.
#[derive(Debug, Clone)]
pub struct Appliance {
    /// Its name.
    pub name: String,
    /// Its switch.
    pub at: usize,
    /// The address of its packets.
    pub address: SocketAddr,
    /// Its admin API.
    pub admin: String,
    /// The file with the token that the API asks for.
    pub token_file: Option<PathBuf>,
    /// The certificates that one with TLS is signed by.
    pub ca: Option<PathBuf>,
    /// MAC of its port, for appliances in its own Ethernet segment.
    pub mac: Option<String>,
    /// MAC of the router beside it, by which it reaches appliances elsewhere.
    pub router: Option<String>,
    /// The port that leads to parents.
    pub port: Option<String>,
    /// Has no part in a tree until another one fails.
    pub spare: bool,
}

impl Appliance {
    /// Whether it can reach another one as its parent.
    pub(crate) fn reaches(&self, above: &Self) -> bool {
        self.router.is_some() || above.mac.is_some()
    }
}

/// A machine of workers.
#[derive(Debug, Clone)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its switch.
    pub at: usize,
    /// Its address.
    pub address: IpAddr,
}

impl Network {
    /// An appliance's place by its name.
    pub fn appliance(&self, name: &str) -> Option<usize> {
        self.appliances.iter().position(|appliance| appliance.name == name)
    }

    /// An appliance by its name.
    pub fn named(&self, name: &str) -> Option<&Appliance> {
        self.appliances.iter().find(|appliance| appliance.name == name)
    }

    /// Links from a switch to each other one; `usize::MAX` without a way.
    pub fn distances(&self, from: usize) -> Vec<usize> {
        let mut far = vec![usize::MAX; self.switches.len()];
        let mut next = VecDeque::from([from]);
        far[from] = 0;
        while let Some(at) = next.pop_front() {
            for &to in &self.switches[at].links {
                if far[to] == usize::MAX {
                    far[to] = far[at] + 1;
                    next.push_back(to);
                }
            }
        }
        far
    }

    /// The appliance nearest to a switch among those that `may`; the first in the file among equals.
    pub fn nearest(&self, switch: usize, may: impl Fn(usize) -> bool) -> Option<usize> {
        let far = self.distances(switch);
        let reached = |&at: &usize| may(at) && far[self.appliances[at].at] < usize::MAX;
        (0..self.appliances.len()).filter(reached).min_by_key(|&at| far[self.appliances[at].at])
    }
}
