//! Several trees for one job: the first as its planner has found it, each further one with another root.
//!
//! A worker has one rank for all of its trees. So each is like the first one, with appliances exchanged: the
//! ranks of each part stay the same.

use crate::config::Job;
use crate::network::Network;
use crate::tree::Tree;

/// The most trees of a job: a worker has no more.
pub(crate) const MOST: u16 = 8;

/// The trees of a job, in its number. With roots for fewer, some share one: better than none after failures,
/// but refused in a file.
pub(crate) fn all(network: &Network, job: &Job, first: Tree, may: &dyn Fn(usize) -> bool) -> Vec<Tree> {
    let mut trees = vec![first];
    while trees.len() < usize::from(job.trees) {
        let Some(next) = next(network, job, &trees, may) else { break };
        trees.push(next);
    }
    let roots = trees.len();
    for place in roots..job.trees.into() {
        trees.push(trees[place % roots].clone());
    }
    trees
}

/// A tree like the first one, with another root and, at switches with two appliances, the other one.
fn next(network: &Network, job: &Job, trees: &[Tree], may: &dyn Fn(usize) -> bool) -> Option<Tree> {
    let first = trees.first()?;
    let old = &first.root()?.appliance;
    let all = || (0..network.appliances.len()).filter(|&at| may(at));
    let cost = |by: &usize| cost(network, job, trees, *by);
    let mut roots: Vec<usize> = all().filter(|by| cost(by).is_some()).collect();
    roots.sort_by_key(cost);
    let mut tree = roots.into_iter().find_map(|by| exchanged(network, first, old, by))?;
    for node in first.nodes.iter().filter(|node| node.parent.is_some()) {
        let switch = network.named(&node.appliance)?.at;
        let unused = |name: &str| trees.iter().chain([&tree]).all(|tree| tree.node(name).is_none());
        let here = |at: &usize| {
            let other = &network.appliances[*at];
            other.at == switch && unused(&other.name)
        };
        let other = all().filter(here).find_map(|by| exchanged(network, &tree, &node.appliance, by));
        tree = other.unwrap_or(tree);
    }
    Some(tree)
}

/// The cost of an appliance as the next root: links to all that send to it, then whether trees have an
/// appliance beside it, then how few links its switch has. None if it cannot be one.
fn cost(network: &Network, job: &Job, trees: &[Tree], by: usize) -> Option<(usize, bool, usize)> {
    let (first, appliance) = (trees.first()?, &network.appliances[by]);
    let root = first.root()?;
    let is_root = |tree: &Tree| tree.root().is_some_and(|root| root.appliance == appliance.name);
    if first.node(&appliance.name).is_some() || trees.iter().any(is_root) {
        return None;
    }
    let below = first.children(&root.appliance).filter_map(|node| network.named(&node.appliance));
    let below = below.map(|it| it.at);
    let hosts = root.ranks.iter().map(|&rank| network.hosts[job.ranks[usize::from(rank)]].at);
    let far = network.distances(appliance.at);
    let way = below.chain(hosts).try_fold(0, |sum: usize, switch| sum.checked_add(far[switch]));
    let mut others = trees.iter().flat_map(|tree| &tree.nodes);
    let beside = others.any(|node| network.named(&node.appliance).is_some_and(|it| it.at == appliance.at));
    let links = network.switches[appliance.at].links.len();
    way.filter(|&way| way < usize::MAX).map(|way| (way, beside, usize::MAX - links))
}

/// A tree with another appliance in one's place, if all below and above can reach each other.
fn exchanged(network: &Network, tree: &Tree, old: &str, by: usize) -> Option<Tree> {
    let (before, after) = (network.named(old)?, &network.appliances[by]);
    let mut tree = tree.clone();
    tree.replace(old, &after.name);
    let fits = before.address.is_ipv4() == after.address.is_ipv4() && tree.check_links(network).is_ok();
    fits.then_some(tree)
}

#[cfg(test)]
mod tests;
