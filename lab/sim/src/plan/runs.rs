//! Many runs of one job in a row: its ranks start at random times, give up, die and return.

use core::time::Duration;

use super::job::{Excuse, JobPlan};
use super::{LinkPlan, MILLI, Plan, Turns, Upset};
use crate::clock::Drift;
use crate::link::Conditions;
use crate::random::Random;

/// From the start of one run to that of the next: processes that have not ended by then are killed.
const EACH: u64 = 30_000 * MILLI;

impl Plan {
    /// This many runs.
    pub(crate) fn of_runs(random: &mut Random, runs: u64) -> Self {
        let mut plan = Self::draw(random);
        let mut job = JobPlan::draw(random, 0);
        job.ranks = random.pick(&[2, 3, 4]);
        job.dead_after = Some(Duration::from_secs(5));
        job.excuse = Excuse { runs: true, ..Excuse::default() };
        (job.formed, job.admitted, job.policy.region) = (random.chance(300_000), false, None);
        job.policy.server = false;
        (job.deadline, job.linger) = (Duration::from_secs(8), Duration::from_secs(1));
        job.lives = u32::MAX;
        let workers = usize::from(job.ranks);
        let conditions = Conditions::slightly_bad();
        let link = LinkPlan { up: conditions, down: conditions, dark: Vec::new() };
        (plan.links, plan.clocks) = (vec![link; workers], vec![Drift::default(); workers]);
        (plan.cluster, plan.clients) = (None, None);
        (plan.server, plan.outside, plan.turns) = (None, false, Turns::default());
        plan.jobs = vec![job];
        plan.upsets = (0..runs).flat_map(|run| acts(random, run * EACH, workers)).collect();
        plan
    }
}

/// The events of one run.
fn acts(random: &mut Random, from: u64, workers: usize) -> Vec<(u64, Upset)> {
    let mut acts = Vec::new();
    for worker in 0..workers {
        let mut at = from + random.below(3_000 * MILLI);
        // Impatient, or not.
        let patience = random.pick(&[500, 2_000, 10_000, 10_000, 10_000]);
        let patience = Duration::from_millis(patience);
        acts.push((at, Upset::Start { worker, patience }));
        while random.chance(250_000) {
            at += random.below(4_000 * MILLI);
            acts.push((at, Upset::Kill { worker }));
            at += random.below(1_500 * MILLI);
            acts.push((at, Upset::Start { worker, patience }));
        }
    }
    acts.push((from + EACH - MILLI, Upset::Curtain));
    acts
}
