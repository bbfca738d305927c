//! Two appliances for one job: the second resumes operations of the first one, and the other way round.

use core::time::Duration;

use pascaline_pipelines::membership::OnDeath;
use pascaline_worker::{Places, places};

use super::job::JobPlan;
use super::upset::FOR_GOOD;
use super::{Cell, MICRO, MILLI, Part, Plan, Tree, Upset, epochs, link, longest_dark, pool};
use crate::clock::Drift;
use crate::link::Conditions;
use crate::random::Random;

/// How long the ranks may take to meet again after an incident at an appliance: each notices, waits at one,
/// looks at the other, and comes too late for another, a few times.
const TOGETHER: Duration = Duration::from_secs(12);

impl Plan {
    /// A schedule of one job at an appliance that has a backup.
    pub(crate) fn of_backup(random: &mut Random, cell: Option<&Cell>) -> Self {
        let other = |salt| Random::new(random.clone().next() ^ salt);
        let [mut groups, mut round] = [super::GROUPS, super::EPOCHS].map(other);
        let mut plan = Self::draw_of(random, 0, None);
        let mut job = JobPlan::draw(random, 0);
        (job.formed, job.on_death) = (false, OnDeath::Fail);
        (job.policy.server, job.policy.region, job.policy.partial_after) = (false, None, 0);
        job.whole = true;
        cell.into_iter().for_each(|cell| cell.force(&mut job));
        let mut tree = Tree::apart(random, epochs::near(&mut round), 2, job.ranks);
        let ranks = usize::from(job.ranks);
        let (upsets, longer) = upsets(random, &mut job, ranks);
        let mut jobs = vec![job];
        plan.pool = pool(random, &mut jobs);
        let conditions = Conditions::draw(random);
        plan.links = (0..ranks).map(|_| link(conditions.vary(random), random)).collect();
        let news = conditions.news(plan.turns.starved, longest_dark(&plan.links));
        for job in &mut jobs {
            job.settle(random, news);
            job.endure(longer + TOGETHER);
            // A rank that does not come to a backup may be at the first one.
            job.dead_after = None;
            // A rank that is refused at a backup begins a new session.
            job.lives = 3;
        }
        let drifts = random.chance(300_000);
        let mut clock = || if drifts { Drift::draw(random) } else { Drift::default() };
        (plan.clock, plan.clocks) = (clock(), (0..ranks).map(|_| clock()).collect());
        tree.clocks = vec![clock(), clock()];
        (plan.cluster, plan.server, plan.outside, plan.ports, plan.v6) = (None, None, false, 1, false);
        (plan.jobs, plan.upsets, plan.tree) = (jobs, upsets, Some(tree));
        plan.with_groups(&mut groups, cell)
    }

    /// The appliances that a worker may turn to.
    pub(crate) fn places(&self) -> Places {
        Places::new(self.nodes(), places::SILENCE)
    }

    /// The number of these.
    pub(crate) fn nodes(&self) -> usize {
        self.tree.as_ref().filter(|_| self.has_backup()).map_or(1, Tree::len)
    }
}

/// The incidents, and the additional time for them.
fn upsets(random: &mut Random, job: &mut JobPlan, ranks: usize) -> (Vec<(u64, Upset)>, Duration) {
    let (mut upsets, mut longer) = (Vec::new(), 0);
    let mut gone = None;
    job.excuse.appliance = true;
    for _ in 0..random.pick(&[1, 1, 2, 2, 3, 4]) {
        let node = usize::from(random.chance(300_000));
        // While ranks join, while operations run, or while ranks look for each other.
        let soon = random.between(40 * MILLI, 200 * MILLI);
        let (early, late) = (random.below(80 * MILLI), random.below(2_500 * MILLI));
        let at = random.pick(&[early, soon, soon, late]);
        let brief = random.between(50 * MICRO, 30 * MILLI);
        let long = random.between(300 * MILLI, 2_500 * MILLI);
        let down = random.pick(&[brief, long, long]);
        let worker = random.index(ranks);
        let upset = match random.below(10) {
            0..3 => Upset::Pause { part: Part::Appliance(node), down },
            3 => Upset::Pause { part: Part::Worker(worker), down },
            4 | 5 => Upset::CutOff { worker, node, down },
            // One of them is there in the end.
            6 | 7 if gone.is_none_or(|gone| gone == node) => {
                gone = Some(node);
                upsets.push((at, Upset::RestartAppliance { node, down: FOR_GOOD }));
                continue;
            }
            _ => Upset::RestartAppliance { node, down },
        };
        longer += down;
        upsets.push((at, upset));
    }
    (upsets, Duration::from_nanos(longer) + TOGETHER)
}
