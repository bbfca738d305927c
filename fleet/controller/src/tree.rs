//! Trees of appliances, and their planners.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::config::Job;
use crate::network::Network;

/// Why there is no such tree, with the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The reason.
    pub message: String,
    /// The remedy.
    pub remedy: String,
}

impl Refusal {
    pub(crate) fn new(message: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { message: message.into(), remedy: remedy.into() }
    }
}

/// Plans the trees of jobs. Each way to plan implements this.
pub trait Planner: Send {
    /// The tree of a job over appliances that `may` have a part in one.
    ///
    /// In words, if there is none.
    fn plan(&self, network: &Network, job: &Job, may: &dyn Fn(usize) -> bool) -> Result<Tree, Refusal>;
}

/// A job's appliances.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Each with the one above it; the order is that of ranks at a parent.
    pub nodes: Vec<Node>,
}

/// An appliance's part.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The appliance.
    pub appliance: String,
    /// The one above; none for the root.
    pub parent: Option<String>,
    /// Ranks of the job that send to it, in order.
    pub ranks: Vec<u16>,
    /// Appliances with the same part ready, in the order in which those below turn to them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backups: Vec<String>,
    /// A backup has the part now, and ranks may not have turned to it yet.
    #[serde(default, skip_serializing_if = "core::ops::Not::not")]
    pub gathering: bool,
}

impl Node {
    /// Whether an appliance stands by for this part.
    pub(crate) fn is_backed_by(&self, appliance: &str) -> bool {
        self.backups.iter().any(|backup| backup == appliance)
    }
}

impl Tree {
    /// The part that has no parent.
    pub fn root(&self) -> Option<&Node> {
        self.nodes.iter().find(|node| node.parent.is_none())
    }

    /// The part of an appliance.
    pub fn node(&self, appliance: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.appliance == appliance)
    }

    /// The part that an appliance has, or stands by for.
    pub fn part(&self, appliance: &str) -> Option<&Node> {
        self.nodes.iter().find(|node| node.appliance == appliance || node.is_backed_by(appliance))
    }

    /// The appliances below one, in the order of their ranks there.
    pub fn children(&self, appliance: &str) -> impl Iterator<Item = &Node> {
        self.nodes.iter().filter(move |node| node.parent.as_deref() == Some(appliance))
    }

    /// How many ranks an appliance has: workers first, then the appliances below.
    pub fn fan_in(&self, node: &Node) -> usize {
        node.ranks.len() + self.children(&node.appliance).count()
    }

    /// How many ranks the job has.
    pub fn workers(&self) -> usize {
        self.nodes.iter().map(|node| node.ranks.len()).sum()
    }

    /// An appliance's rank at the one above it.
    pub fn rank_above(&self, node: &Node) -> Option<usize> {
        let parent = self.node(node.parent.as_deref()?)?;
        let place = self.children(&parent.appliance).position(|child| child.appliance == node.appliance)?;
        Some(parent.ranks.len() + place)
    }

    /// The part that a rank of the job sends to, and its rank there.
    pub fn place(&self, rank: u16) -> Option<(&Node, usize)> {
        self.nodes.iter().find_map(|node| Some((node, node.ranks.iter().position(|&at| at == rank)?)))
    }

    /// One appliance takes another one's part: all ranks stay the same.
    pub fn replace(&mut self, failed: &str, by: &str) {
        for node in &mut self.nodes {
            if node.appliance == failed {
                by.clone_into(&mut node.appliance);
            }
            if node.parent.as_deref() == Some(failed) {
                node.parent = Some(by.to_owned());
            }
        }
    }

    /// Orders the backups for one of them to [replace](Self::replace) the appliance that has the part. Those
    /// below turn from each to the next one, and after the last to the first: so workers that have joined
    /// before and those that ask now meet at the same ones.
    pub(crate) fn hand_over(&mut self, failed: &str, by: &str) {
        let Some(node) = self.nodes.iter_mut().find(|node| node.appliance == failed) else { return };
        let Some(place) = node.backups.iter().position(|backup| backup == by) else { return };
        node.backups.insert(0, failed.to_owned());
        node.backups.rotate_left(place + 1);
        node.backups.remove(0);
        node.gathering = true;
    }

    /// Whether every appliance can reach its parent.
    pub(crate) fn check_links(&self, network: &Network) -> Result<(), Refusal> {
        for node in &self.nodes {
            let above = node.parent.as_deref().and_then(|parent| network.named(parent));
            let (Some(below), Some(above)) = (network.named(&node.appliance), above) else { continue };
            if !below.reaches(above) {
                let message =
                    format!("nothing says how appliance {:?} reaches {:?} above it", below.name, above.name);
                let remedy = "give the lower one `router`, or the upper one `mac`, if they share a segment";
                return Err(Refusal::new(message, remedy));
            }
            if below.address.is_ipv4() != above.address.is_ipv4() {
                let (one, other) = (&below.name, &above.name);
                let message =
                    format!("one of appliance {one:?} and {other:?} above it is at an IPv6 address");
                return Err(Refusal::new(message, "give both an IPv4 address, or both an IPv6 one"));
            }
            if network.distances(below.at)[above.at] == usize::MAX {
                let message =
                    format!("no links lead from appliance {:?} to {:?} above it", below.name, above.name);
                return Err(Refusal::new(message, "add the links between their switches"));
            }
        }
        Ok(())
    }

    /// A tree by its edges from below to above and the appliance of each rank. Appliances without ranks are
    /// left out.
    ///
    /// # Errors If it is no tree: an appliance with two parents, a loop, two roots, a rank without a place.
    pub(crate) fn build(
        network: &Network,
        edges: &BTreeSet<(usize, usize)>,
        places: &[usize],
    ) -> Result<Self, Refusal> {
        let name = |at: usize| network.appliances[at].name.clone();
        let mut above = BTreeMap::new();
        for &(below, to) in edges {
            if let Some(other) = above.insert(below, to) {
                let [below, one, other] = [below, other, to].map(name);
                let message = format!("appliance {below:?} has two parents, {one:?} and {other:?}");
                return Err(Refusal::new(message, "name one parent for each appliance"));
            }
        }
        // The way up from every rank's appliance ends at the same root.
        let mut depth = BTreeMap::new();
        let mut root = None;
        for &place in places {
            let mut way = vec![place];
            let mut at = place;
            while let Some(&to) = above.get(&at) {
                if way.contains(&to) {
                    let message = format!("the parents of appliance {:?} go round in a loop", name(to));
                    return Err(Refusal::new(message, "leave one appliance without a parent: the root"));
                }
                way.push(to);
                at = to;
            }
            if let Some(other) = root.replace(at).filter(|&other| other != at) {
                let message = format!("there are two roots, {:?} and {:?}", name(other), name(at));
                return Err(Refusal::new(message, "give all appliances but one a parent"));
            }
            for (height, &on) in way.iter().rev().enumerate() {
                depth.insert(on, height);
            }
        }
        let mut order: Vec<usize> = depth.keys().copied().collect();
        order.sort_by_key(|at| (depth[at], *at));
        let ranks =
            |at: usize| (0..).zip(places).filter(move |(_, place)| **place == at).map(|(rank, _)| rank);
        let nodes = order.iter().map(|&at| Node {
            appliance: name(at),
            parent: above.get(&at).map(|&to| name(to)),
            ranks: ranks(at).collect(),
            ..Node::default()
        });
        Ok(Self { nodes: nodes.collect() })
    }
}

/// Each rank at the nearest appliance; above them the one that is nearest to all of these, by the number of
/// its switch's links among equals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Nearest;

impl Planner for Nearest {
    fn plan(&self, network: &Network, job: &Job, may: &dyn Fn(usize) -> bool) -> Result<Tree, Refusal> {
        let places = places(network, job, may)?;
        let leaves: BTreeSet<usize> = places.iter().copied().collect();
        let far: Vec<Vec<usize>> =
            leaves.iter().map(|&leaf| network.distances(network.appliances[leaf].at)).collect();
        let cost = |at: usize| {
            let switch = network.appliances[at].at;
            let way = far.iter().fold(0, |sum: usize, far| sum.saturating_add(far[switch]));
            // With one appliance for all ranks there is none above it.
            let alone = leaves.len() == 1 && leaves.contains(&at);
            (!alone, way, usize::MAX - network.switches[switch].links.len())
        };
        let root = (0..network.appliances.len()).filter(|&at| may(at)).min_by_key(|&at| cost(at));
        let edges = leaves.iter().filter(|&&leaf| Some(leaf) != root);
        Tree::build(network, &edges.filter_map(|&leaf| Some((leaf, root?))).collect(), &places)
    }
}

/// A tree that is written in the file.
#[derive(Debug, Clone)]
pub(crate) struct Written(pub(crate) BTreeSet<(usize, usize)>);

impl Planner for Written {
    fn plan(&self, network: &Network, job: &Job, may: &dyn Fn(usize) -> bool) -> Result<Tree, Refusal> {
        let part = |at: usize| self.0.iter().any(|&(below, above)| at == below || at == above);
        let places = places(network, job, &|at| part(at))?;
        if let Some(down) = (0..network.appliances.len()).find(|&at| part(at) && !may(at)) {
            let message = format!("appliance {:?} of the tree is not there", network.appliances[down].name);
            return Err(Refusal::new(message, "start it, or add an appliance with spare = true"));
        }
        Tree::build(network, &self.0, &places)
    }
}

/// The nearest appliance of each rank.
fn places(network: &Network, job: &Job, may: &dyn Fn(usize) -> bool) -> Result<Vec<usize>, Refusal> {
    let place = |&host: &usize| {
        let host = &network.hosts[host];
        network.nearest(host.at, may).ok_or_else(|| {
            let message = format!("no appliance that is up can be reached from host {:?}", host.name);
            Refusal::new(message, "start one, or add the links that lead to one")
        })
    };
    job.ranks.iter().map(place).collect()
}

#[cfg(test)]
mod tests;
