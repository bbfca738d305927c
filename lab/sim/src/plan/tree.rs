//! Appliances below appliances: one job, whose workers are at the lowest level.

use core::time::Duration;

use pascaline_pipelines::Membership;
use pascaline_pipelines::membership::{JobSpec, OnDeath, Parent, Secret, ServerMode};

use super::job::{JobPlan, narrow};
use super::upset::{FOR_GOOD, draw_resets};
use super::{Cell, LinkPlan, MICRO, MILLI, Part, Plan, Upset, epochs, link, longest_dark, pool};
use crate::attacker;
use crate::clock::Drift;
use crate::host::{Host, parent_of};
use crate::link::Conditions;
use crate::random::Random;

/// Between the first numbers of an appliance and of its replacement: no number of one becomes one of the
/// other.
const APART: u16 = 0x8000;

/// An appliance's place.
#[derive(Debug, Clone, Copy)]
struct Place {
    /// The number of its parent, and its rank there.
    parent: Option<(usize, u16)>,
    /// Its own ranks.
    ranks: u16,
}

/// All appliances, the root first.
#[derive(Debug, Clone)]
pub(crate) struct Tree {
    places: Vec<Place>,
    /// Of each worker: its appliance, and its rank there.
    leaves: Vec<(usize, u16)>,
    /// Appliances that replace others for those below.
    spares: Vec<(usize, usize)>,
    /// No appliance has these in its configuration.
    secret: bool,
    first_epochs: Vec<u16>,
    pub(super) clocks: Vec<Drift>,
    /// Between each appliance and its parent; the root's is not used.
    pub(crate) links: Vec<LinkPlan>,
}

impl Tree {
    /// This many levels of appliances, with two to eight workers below.
    fn draw(random: &mut Random, levels: usize) -> Self {
        let mut places = vec![Place { parent: None, ranks: 0 }];
        let mut lowest = vec![0];
        for level in 1..levels {
            let mut below = Vec::new();
            for parent in lowest {
                for rank in 0..if level == 1 { 2 } else { narrow(random.between(1, 2)) } {
                    below.push(places.len());
                    places.push(Place { parent: Some((parent, rank)), ranks: 0 });
                    places[parent].ranks += 1;
                }
            }
            lowest = below;
        }
        let mut leaves = Vec::new();
        let most = 8 / lowest.len() as u64;
        for leaf in lowest {
            places[leaf].ranks = narrow(random.between(1, most));
            leaves.extend((0..places[leaf].ranks).map(|rank| (leaf, rank)));
        }
        let mut first_epochs: Vec<u16> = places.iter().map(|_| narrow(random.next() & 0xffff)).collect();
        let mut spares = Vec::new();
        if random.chance(500_000) {
            // One for the root, or for one of those in the middle.
            let of = if levels > 2 { random.index(3) } else { 0 };
            spares.push((places.len(), of));
            places.push(places[of]);
            first_epochs.push(first_epochs[of].wrapping_add(APART));
        }
        let clocks = vec![Drift::default(); places.len()];
        Self { places, leaves, spares, secret: false, first_epochs, clocks, links: Vec::new() }
    }

    /// Replacements for an appliance's parent.
    fn backups_of(&self, node: usize) -> impl Iterator<Item = usize> {
        let parent = self.parent_of(node);
        let spares = self.spares.iter().filter(move |(_, of)| Some(*of) == parent);
        spares.map(|(spare, _)| *spare)
    }

    /// True if one is the parent of the other, or its replacement.
    pub(crate) fn is_above(&self, upper: usize, node: usize) -> bool {
        self.parent_of(node) == Some(upper) || self.backups_of(node).any(|spare| spare == upper)
    }

    /// Hides all spare appliances from those that might need them.
    pub(crate) const fn forget_spares(&mut self) {
        self.secret = true;
    }

    pub(crate) fn parent_of(&self, node: usize) -> Option<usize> {
        Some(self.places.get(node)?.parent?.0)
    }

    /// A worker's rank at an appliance; `None` if it is not below.
    fn rank_at(&self, worker: usize, node: usize) -> Option<u16> {
        let node = self.keyed(node);
        let &(mut at, mut rank) = self.leaves.get(worker)?;
        while at != node {
            (at, rank) = self.places.get(at)?.parent?;
        }
        Some(rank)
    }

    /// Several appliances without a parent, each for all of this many workers.
    pub(super) fn apart(random: &mut Random, last: Option<u16>, count: usize, ranks: u16) -> Self {
        let first = last.unwrap_or(narrow(random.next() & 0xffff));
        let step = narrow(0x1_0000 / count as u64);
        Self {
            places: vec![Place { parent: None, ranks }; count],
            leaves: (0..ranks).map(|rank| (0, rank)).collect(),
            first_epochs: (0..).take(count).map(|at| step.wrapping_mul(at).wrapping_add(first)).collect(),
            clocks: vec![Drift::default(); count],
            spares: Vec::new(),
            secret: false,
            links: Vec::new(),
        }
    }

    /// Some appliances begin close to the last generation number.
    fn come_round(&mut self, random: &mut Random, jobs: &mut [JobPlan], upsets: &mut Vec<(u64, Upset)>) {
        let Some(last) = epochs::draw(random, jobs, upsets) else { return };
        let one = random.index(self.first_epochs.len());
        for (node, epoch) in self.first_epochs.iter_mut().enumerate() {
            *epoch = if node == one { last } else { epochs::near(random).unwrap_or(*epoch) };
        }
        for &(spare, of) in &self.spares {
            self.first_epochs[spare] = self.first_epochs[of].wrapping_add(APART);
        }
    }

    /// The number of appliances.
    pub(crate) const fn len(&self) -> usize {
        self.places.len()
    }

    /// True if one of them stands in for another.
    const fn has_backup(&self) -> bool {
        matches!(self.places.as_slice(), [_, Place { parent: None, .. }, ..])
    }

    /// The appliance whose keys one has: a spare has those of the one whose place it takes.
    fn keyed(&self, node: usize) -> usize {
        self.spares.iter().find(|(spare, _)| *spare == node).map_or(node, |(_, of)| *of)
    }

    /// The job's configuration in an appliance.
    pub(crate) fn membership<'a>(
        &self,
        (plan, node): (&Plan, usize),
        hosts: impl Iterator<Item = &'a Host>,
        (first_epoch, secret): (u16, Secret),
    ) -> Membership {
        let below = hosts.zip(&self.leaves).filter(|(_, (leaf, _))| *leaf == node || self.has_backup());
        let addresses: Vec<_> = below.map(|(host, _)| host.address).collect();
        let place = self.places.get(node).copied().unwrap_or(Place { parent: None, ranks: 0 });
        let above = |(parent, rank): (usize, u16)| {
            parent_of((node, parent), rank, self.places.get(parent).map_or(0, |place| place.ranks))
        };
        let parent = place.parent.map(above);
        let rank = place.parent.map_or(0, |(_, rank)| rank);
        let spares = self.backups_of(node).filter(|_| !self.secret);
        let backups: Vec<Parent> = spares.map(|spare| above((spare, rank))).collect();
        let ranks = || parent.iter().chain(&backups).map(|parent| parent.rank);
        let above_keyed = place.parent.map_or(0, |(parent, _)| self.keyed(parent));
        let spec = plan.jobs.iter().map(|job| JobSpec {
            fan_in: place.ranks,
            keys: job.keys(self.keyed(node), false),
            keys_above: ranks()
                .filter_map(|rank| attacker::holder(job, (above_keyed, rank), false))
                .collect(),
            admitted: (job.admitted && !addresses.is_empty()).then(|| addresses.clone()),
            parent,
            backups: backups.clone(),
            ..job.spec(ServerMode::None)
        });
        Membership::new(spec.collect(), secret, first_epoch).counted_by(plan.lcores)
    }
}

/// How long it may take until all are below a spare appliance: each notices, and comes too late for another,
/// or waits alone, a few times.
const TOGETHER: u64 = 12_000 * MILLI;

impl Plan {
    /// A schedule of one job below this many levels of appliances.
    pub(crate) fn of_tree(random: &mut Random, levels: usize, cell: Option<&Cell>) -> Self {
        let other = |salt| Random::new(random.clone().next() ^ salt);
        let [mut groups, mut round] = [super::GROUPS, super::EPOCHS].map(other);
        let mut plan = Self::draw_of(random, 0, None);
        let mut tree = Tree::draw(random, levels);
        let mut job = JobPlan::draw(random, 0);
        job.ranks = narrow(tree.leaves.len() as u64);
        (job.formed, job.on_death) = (false, OnDeath::Fail);
        (job.policy.server, job.policy.region, job.policy.partial_after) = (false, None, 0);
        job.whole = true;
        cell.into_iter().for_each(|cell| cell.force(&mut job));
        let dtype = job.element.dtype;
        // Each level rounds them.
        if dtype.sums_wide() || dtype.is_block() {
            job.travel_as(pascaline_wire::DType::F32);
        }
        let workers = tree.leaves.len();
        let (mut upsets, longer) = upsets(random, &mut job, &tree);
        let mut jobs = vec![job];
        tree.come_round(&mut round, &mut jobs, &mut upsets);
        plan.pool = pool(random, &mut jobs);
        let conditions = Conditions::draw(random);
        plan.links = (0..workers).map(|_| link(conditions.vary(random), random)).collect();
        tree.links = tree.places.iter().map(|_| link(conditions.intact().vary(random), random)).collect();
        let dark = longest_dark(&plan.links).max(longest_dark(&tree.links));
        // From a worker to the root, and to another one.
        let hops = u32::try_from(2 * levels - 1).unwrap_or(1);
        let news = conditions.news(plan.turns.starved, dark) * hops;
        let settle = |random: &mut Random, job: &mut JobPlan| {
            job.settle(random, news);
            job.endure(longer);
            // If each hop loses an eighth, the slowest of some packets takes about a second for each.
            job.deadline += Duration::from_secs(u64::from(hops));
        };
        for job in &mut jobs {
            settle(random, job);
            if !tree.spares.is_empty() {
                // A rank that does not come to a spare appliance may be below the other one.
                job.dead_after = None;
            }
        }
        let drifts = random.chance(300_000);
        let mut clock = || if drifts { Drift::draw(random) } else { Drift::default() };
        (plan.clock, plan.clocks) = (clock(), (0..workers).map(|_| clock()).collect());
        tree.clocks = tree.places.iter().map(|_| clock()).collect();
        (plan.cluster, plan.server, plan.outside, plan.ports) = (None, None, false, 1);
        // Drawn last, so that other schedules stay the same.
        if upsets.is_empty() {
            upsets = ends(random, &mut jobs, &tree);
            jobs.iter_mut().filter(|_| !upsets.is_empty()).for_each(|job| settle(random, job));
        }
        (plan.jobs, plan.upsets, plan.tree) = (jobs, upsets, Some(tree));
        plan.with_groups(&mut groups, cell)
    }

    /// The clock of an appliance's machine.
    pub(crate) fn clock_of(&self, node: usize) -> Drift {
        let clock = self.tree.as_ref().and_then(|tree| tree.clocks.get(node));
        clock.copied().unwrap_or(self.clock)
    }

    /// The first generation of each appliance.
    pub(crate) fn first_epochs(&self) -> impl Iterator<Item = u16> {
        let tree = self.tree.as_ref();
        let only = tree.is_none().then_some(self.first_epoch);
        tree.into_iter().flat_map(|tree| tree.first_epochs.iter().copied()).chain(only)
    }

    /// The appliance of a host.
    pub(crate) fn node_of(&self, host: usize) -> usize {
        self.tree.as_ref().and_then(|tree| tree.leaves.get(host)).map_or(0, |(leaf, _)| *leaf)
    }

    /// The rank of a job's worker at its appliance, and the ranks there.
    pub(crate) fn place_of(&self, rank: u16, ranks: u16) -> (u16, u16) {
        let Some(tree) = &self.tree else { return (rank, ranks) };
        let leaf = tree.leaves.get(usize::from(rank)).copied();
        let (leaf, rank) = leaf.unwrap_or_default();
        (rank, tree.places.get(leaf).map_or(0, |place| place.ranks))
    }

    /// True if an appliance stands in for another.
    pub(crate) fn has_backup(&self) -> bool {
        self.tree.as_ref().is_some_and(Tree::has_backup)
    }

    /// The workers that an appliance's ranks stand for.
    pub(crate) fn ranks_of(&self, node: usize, ranks: &[u16]) -> Vec<u16> {
        let Some(tree) = self.tree.as_ref().filter(|tree| !tree.has_backup()) else { return ranks.to_vec() };
        let below = |&worker: &usize| tree.rank_at(worker, node).is_some_and(|rank| ranks.contains(&rank));
        (0..tree.leaves.len()).filter(below).map(|worker| narrow(worker as u64)).collect()
    }
}

/// The end of a job without other incidents: ranks die, one or all below a leaf, or a member commands.
fn ends(random: &mut Random, jobs: &mut [JobPlan], tree: &Tree) -> Vec<(u64, Upset)> {
    if random.chance(500_000) {
        let draws = core::iter::repeat_with(|| draw_resets(random, jobs));
        return draws.take(5).find(|commands| !commands.is_empty()).unwrap_or_default();
    }
    jobs.iter_mut().for_each(|job| job.excuse.kill = true);
    let first = random.index(tree.leaves.len());
    let (whole, at) = (random.chance(500_000), random.below(80 * MILLI));
    let leaf = |worker: usize| tree.leaves.get(worker).map(|(leaf, _)| *leaf);
    let dies = |&worker: &usize| worker == first || whole && leaf(worker) == leaf(first);
    (0..tree.leaves.len()).filter(dies).map(|worker| (at, Upset::Kill { worker })).collect()
}

/// The incidents, and the additional time for them.
fn upsets(random: &mut Random, job: &mut JobPlan, tree: &Tree) -> (Vec<(u64, Upset)>, Duration) {
    let (mut upsets, mut longer) = (Vec::new(), 0);
    let at = |random: &mut Random| random.below(300 * MILLI);
    let short = |random: &mut Random| random.between(50 * MICRO, 30 * MILLI);
    // One that has a spare may be gone for good.
    if let Some(&(_, node)) = tree.spares.get(random.index(tree.spares.len().max(1))) {
        job.excuse.appliance = true;
        longer += TOGETHER;
        upsets.push((at(random), Upset::RestartAppliance { node, down: FOR_GOOD }));
    }
    for _ in 0..random.pick(&[0, 1, 1, 2, 3]) {
        let node = random.index(tree.places.len());
        let worker = random.index(tree.leaves.len());
        let mut pause = |random: &mut Random, part| {
            let down = random.between(MILLI, 240 * MILLI);
            longer += down;
            Upset::Pause { part, down }
        };
        let upset = match random.below(10) {
            0 => pause(random, Part::Appliance(node)),
            1 => pause(random, Part::Lcore(node, 0)),
            2 => pause(random, Part::Worker(worker)),
            3 => {
                job.excuse.restart = true;
                Upset::Restart { worker, down: short(random) }
            }
            // As long as a real one takes, or almost no time.
            kind => {
                job.excuse.appliance = true;
                let down = if kind < 6 { random.between(300 * MILLI, 2_000 * MILLI) } else { short(random) };
                longer += down;
                Upset::RestartAppliance { node, down }
            }
        };
        upsets.push((at(random), upset));
    }
    (upsets, Duration::from_nanos(longer))
}
