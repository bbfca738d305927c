//! Backups for the appliances of a tree.
//!
//! A backup has the same part, ready for those below, which turn to it by themselves. It is in the tree, so
//! that the new holder of a failed part is the one that they have turned to.

use std::time::Duration;

use super::{Core, Health};
use crate::tree::{Node, Tree};

/// Backups of one part: former holders are among them, and may return.
const MOST: usize = 3;

impl Core {
    /// Finds a backup for each part without one that may answer, the nearest pairs first. An appliance has
    /// one part in a tree, ready or in force.
    pub(super) fn back_up(&mut self, now: Duration) {
        let jobs = self.jobs.iter().filter(|job| job.backups);
        let jobs: Vec<u16> = jobs.flat_map(crate::Job::numbers).collect();
        for job in jobs {
            while let Some((place, by)) = self.pair(job) {
                let by = self.network.appliances[by].name.clone();
                let Some(tree) = self.trees.get_mut(&job) else { break };
                let node = &mut tree.nodes[place];
                let text = format!("job {job}: {by} stands by for {}", node.appliance);
                node.backups.push(by);
                if node.backups.len() > MOST {
                    // All others are down: the first is the one that has been for longest.
                    node.backups.remove(0);
                }
                self.propose(now, text);
                self.changed(job, now);
            }
        }
    }

    /// A part without a backup and an appliance without a part, spare ones first: the pair for which a move
    /// lengthens the ways between appliances least, the nearest among equals, and then the one with the
    /// fewest parts in the job's other trees. So one at another spine stands by for the root, though racks
    /// are nearer.
    fn pair(&self, job: u16) -> Option<(usize, usize)> {
        let (network, tree) = (&self.network, self.trees.get(&job)?);
        let there = |name: &str| network.appliance(name).is_some_and(|at| self.is_there(at));
        let bare = |(_, node): &(usize, &Node)| !node.backups.iter().any(|name| there(name));
        let others: Vec<&Tree> =
            self.job(job)?.numbers().filter_map(|other| self.trees.get(&other)).collect();
        let parts = |at: usize| {
            others.iter().filter(|tree| tree.part(&network.appliances[at].name).is_some()).count()
        };
        let free: Vec<(usize, usize)> = (0..self.seen.len())
            .filter(|&at| self.is_there(at) && tree.part(&network.appliances[at].name).is_none())
            .map(|at| (parts(at), at))
            .collect();
        let far: Vec<Vec<usize>> =
            free.iter().map(|&(_, at)| network.distances(network.appliances[at].at)).collect();
        let pairs = tree.nodes.iter().enumerate().filter(bare).flat_map(|(place, node)| {
            let own = network.named(&node.appliance).map(|it| it.at);
            let near = own.map(|own| network.distances(own)).unwrap_or_default();
            let far = &far;
            free.iter().zip(far).filter_map(move |(&(parts, at), far)| {
                let links = far.get(own?).copied().filter(|&links| links < usize::MAX)?;
                let longer = self.longer(tree, node, &near, far);
                let spare = network.appliances[at].spare;
                self.can_take(tree, node, at).then_some((!spare, longer, links, place, parts, at))
            })
        });
        pairs.min().map(|(_, _, _, place, _, at)| (place, at))
    }

    /// How many links the ways of a part to the appliances below and above grow by, if an appliance at
    /// distances `far` from the switches has it in place of one at distances `near`.
    fn longer(&self, tree: &Tree, node: &Node, near: &[usize], far: &[usize]) -> usize {
        let below = tree.children(&node.appliance).map(|child| &*child.appliance);
        let others = below.chain(node.parent.as_deref()).filter_map(|name| self.network.named(name));
        let switches = others.map(|other| other.at);
        switches.map(|at| far[at].saturating_sub(near[at])).fold(0, usize::saturating_add)
    }

    /// Whether an appliance may answer: unknown before its first answer.
    fn is_there(&self, at: usize) -> bool {
        self.seen[at].health != Health::Down
    }

    /// Whether those below a part can reach another appliance in its place, and that one the part above.
    pub(super) fn can_take(&self, tree: &Tree, node: &Node, by: usize) -> bool {
        let network = &self.network;
        let (Some(own), Some(by)) = (network.named(&node.appliance), network.appliances.get(by)) else {
            return false;
        };
        let all = |of: &Node, fits: &dyn Fn(&crate::Appliance) -> bool| {
            core::iter::once(&of.appliance)
                .chain(&of.backups)
                .filter_map(|name| network.named(name))
                .all(fits)
        };
        let above = node.parent.as_deref().and_then(|parent| tree.node(parent));
        own.address.is_ipv4() == by.address.is_ipv4()
            && above.is_none_or(|above| all(above, &|up| by.reaches(up)))
            && tree.children(&node.appliance).all(|child| all(child, &|below| below.reaches(by)))
    }

    /// The first backup of a part that answers: those below have turned to it already.
    pub(super) fn standing_by(&self, failed: &str, job: u16) -> Option<usize> {
        let backups = &self.trees.get(&job)?.node(failed)?.backups;
        let mut places = backups.iter().filter_map(|name| self.network.appliance(name));
        places.find(|&at| self.seen[at].health == Health::Up)
    }

    /// An appliance takes the part of one that has failed.
    pub(super) fn take_part(&mut self, job: u16, failed: &str, by: &str) {
        let backups = self.job(job).is_some_and(|job| job.backups);
        let Some(tree) = self.trees.get_mut(&job) else { return };
        for node in &mut tree.nodes {
            let own = node.appliance == failed;
            if own && backups && !node.is_backed_by(by) {
                // Those below see it as one more backup, and continue.
                node.backups.insert(0, by.to_owned());
                node.backups.truncate(MOST);
            } else if !own {
                node.backups.retain(|backup| backup != by);
            }
        }
        tree.hand_over(failed, by);
        tree.replace(failed, by);
    }

    /// Once a backup has the part and all ranks have joined it, no rank can be at another one.
    pub(super) fn gathered(&mut self, appliance: &str, job: u16, joined: u64, now: Duration) {
        if !self.leadership.leads() {
            return;
        }
        let Some(tree) = self.trees.get_mut(&job) else { return };
        let Some(place) = tree.nodes.iter().position(|node| node.appliance == appliance) else { return };
        if !tree.nodes[place].gathering || joined < tree.fan_in(&tree.nodes[place]) as u64 {
            return;
        }
        tree.nodes[place].gathering = false;
        self.decided(job);
        self.moved(now, format!("job {job}: all ranks have come to {appliance}"));
        if let Some(at) = self.network.appliance(appliance) {
            self.again(at, now);
        }
    }
}
