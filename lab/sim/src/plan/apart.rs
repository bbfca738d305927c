//! One job over several trees: appliances that know nothing of each other, at each of which each rank has a
//! session. Where one does not answer, the next one stands in for it.

use core::time::Duration;

use pascaline_pipelines::membership::OnDeath;

use super::job::JobPlan;
use super::upset::FOR_GOOD;
use super::{MICRO, MILLI, Part, Plan, Tree, Upset, epochs, link, longest_dark, pool};
use crate::clock::Drift;
use crate::link::Conditions;
use crate::random::Random;

/// Longer tensors go over two trees, and over three from half as many more on.
const TWO: u64 = 32 << 10;

/// How long the ranks may take to meet again at another appliance, as with a backup.
const TOGETHER: Duration = Duration::from_secs(12);

/// The additional time of operations that have some hundred packets, a few at a time, on a bad network.
const LONG: Duration = Duration::from_secs(40);

impl Plan {
    /// A schedule of one job over this many trees.
    pub(crate) fn of_trees(random: &mut Random, trees: usize) -> Self {
        let other = |salt| Random::new(random.clone().next() ^ salt);
        let [mut groups, mut round] = [super::GROUPS, super::EPOCHS].map(other);
        let mut plan = Self::draw_of(random, 0, None);
        let mut job = JobPlan::draw(random, 0);
        (job.formed, job.admitted, job.on_death) = (false, false, OnDeath::Fail);
        (job.policy.server, job.policy.partial_after) = (false, 0);
        job.whole = true;
        lengthen(random, &mut job);
        let mut tree = Tree::apart(random, epochs::near(&mut round), trees, job.ranks);
        let ranks = usize::from(job.ranks);
        let (upsets, longer) = upsets(random, &mut job, (ranks, trees));
        // Each tree is a job of its own.
        let mut jobs: Vec<_> =
            (0..).take(trees).map(|at| JobPlan { id: job.id + at, ..job.clone() }).collect();
        plan.pool = pool(random, &mut jobs);
        let conditions = Conditions::draw(random);
        plan.links = (0..ranks * trees).map(|_| link(conditions.vary(random), random)).collect();
        let news = conditions.news(plan.turns.starved, longest_dark(&plan.links));
        let mut like = random.clone();
        for job in &mut jobs {
            // All alike.
            *random = like.clone();
            job.settle(random, news);
            job.endure(longer + LONG);
            if job.excuse.appliance {
                // A rank that does not come to one appliance may be at another one.
                job.dead_after = None;
            }
            job.lives = 4;
        }
        like = random.clone();
        let drifts = like.chance(300_000);
        let mut clock = || if drifts { Drift::draw(&mut like) } else { Drift::default() };
        plan.clock = clock();
        tree.clocks = (0..trees).map(|_| clock()).collect();
        let hosts: Vec<Drift> = (0..ranks).map(|_| clock()).collect();
        // All sockets of a rank are on one host.
        plan.clocks = hosts.iter().copied().cycle().take(ranks * trees).collect();
        *random = like;
        (plan.cluster, plan.server, plan.outside, plan.ports, plan.v6) = (None, None, false, 1, false);
        (plan.jobs, plan.upsets, plan.tree, plan.trees) = (jobs, upsets, Some(tree), trees);
        plan.with_groups(&mut groups, None)
    }

    /// The appliance that a worker of a job turns to first, if there are several.
    pub(crate) const fn home_of(&self, job: usize) -> usize {
        if self.trees > 1 { job } else { 0 }
    }
}

/// Some operations become long enough for several trees; the others take turns.
fn lengthen(random: &mut Random, job: &mut JobPlan) {
    let size = job.element.dtype.size();
    job.payload = random.pick(&[512, 1024, 1400]);
    job.operations.clear();
    for _ in 0..random.between(1, 5) {
        let few = random.between(1, 4 * u64::from(job.payload));
        let bytes = if random.chance(400_000) { few } else { random.between(TWO / 2, 2 * TWO) };
        job.operations.push(usize::try_from(bytes).unwrap_or(0).div_ceil(size));
    }
}

/// The incidents, and the additional time for them.
fn upsets(
    random: &mut Random,
    job: &mut JobPlan,
    (ranks, trees): (usize, usize),
) -> (Vec<(u64, Upset)>, Duration) {
    let (mut upsets, mut longer, mut gone) = (Vec::new(), 0, None);
    for _ in 0..random.pick(&[0, 0, 1, 1, 2, 3]) {
        let (node, worker) = (random.index(trees), random.index(ranks));
        // While ranks join, and while operations run.
        let (early, late) = (random.below(80 * MILLI), random.below(1_000 * MILLI));
        let at = random.pick(&[early, early, late]);
        let brief = random.between(50 * MICRO, 30 * MILLI);
        let long = random.between(300 * MILLI, 2_500 * MILLI);
        let down = random.pick(&[brief, long]);
        let kind = random.below(10);
        job.excuse.appliance |= !(4..7).contains(&kind);
        let upset = match kind {
            0 => Upset::Pause { part: Part::Appliance(node), down },
            1 => Upset::Pause { part: Part::Worker(worker), down },
            2 => Upset::CutOff { worker, node, down },
            // The others stand in for it.
            3 if gone.is_none_or(|gone| gone == node) => {
                gone = Some(node);
                upsets.push((at, Upset::RestartAppliance { node, down: FOR_GOOD }));
                continue;
            }
            4 => {
                job.excuse.kill = true;
                Upset::Kill { worker }
            }
            5 | 6 => {
                job.excuse.restart = true;
                Upset::Restart { worker, down: brief }
            }
            _ => Upset::RestartAppliance { node, down },
        };
        longer += down;
        upsets.push((at, upset));
    }
    let together = if upsets.is_empty() { Duration::ZERO } else { TOGETHER };
    (upsets, Duration::from_nanos(longer) + 2 * together)
}
