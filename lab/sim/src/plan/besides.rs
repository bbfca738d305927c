//! Additions to half of the schedules: clocks that differ, parts that are stopped for a while, and ranks
//! that disagree.

use core::time::Duration;

use super::job::JobPlan;
use super::{MILLI, Upset};
use crate::clock::Drift;
use crate::random::Random;

/// How many schedules have any of these, in millionths.
const SHARE: u32 = 500_000;

/// A part that can be stopped and resumed, as by SIGSTOP.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Part {
    /// The whole process of an appliance, the root's being 0.
    Appliance(usize),
    /// One of its lcores.
    Lcore(usize, usize),
    /// The parameter server in the appliance.
    Server,
    Worker(usize),
}

/// The additions to a schedule.
#[derive(Debug, Default)]
pub(super) struct Besides {
    any: bool,
    /// The parts' clocks differ.
    pub(super) clocks: bool,
    pub(super) upsets: Vec<(u64, Upset)>,
    /// The additional time.
    pub(super) longer: Duration,
}

impl Besides {
    /// To be drawn before the jobs settle: it may be that a worker is taken for dead.
    pub(super) fn draw(random: &mut Random, jobs: &mut [JobPlan], workers: usize) -> Self {
        let mut besides = Self::default();
        if !random.chance(SHARE) {
            return besides;
        }
        besides.any = true;
        besides.clocks = random.chance(500_000);
        if random.chance(400_000) {
            besides.draw_pauses(random, jobs, workers);
        }
        besides
    }

    fn draw_pauses(&mut self, random: &mut Random, jobs: &mut [JobPlan], workers: usize) {
        let mut total = 0;
        let kind = random.below(4);
        for _ in 0..random.pick(&[1, 1, 2_u64]) {
            let (part, down) = match kind {
                // Not noticed, or several times as long as ranks may be silent.
                0 => (Part::Appliance(0), up_to(random, 240, 7000)),
                1 => (Part::Lcore(0, random.index(2)), up_to(random, 240, 5000)),
                2 => (Part::Server, up_to(random, 2000, 2000)),
                _ => (Part::Worker(random.index(workers)), up_to(random, 800, 5000)),
            };
            total += down;
            self.upsets.push((random.below(120 * MILLI), Upset::Pause { part, down }));
            let mut first = 0;
            for job in jobs.iter_mut() {
                let mine = first..first + usize::from(job.ranks);
                first = mine.end;
                match part {
                    // Ranks may be silent for two seconds: enough heartbeats for any network here.
                    Part::Appliance(_) | Part::Lcore(..) => {
                        job.dead_after = job.dead_after.map(|_| Duration::from_secs(2));
                    }
                    Part::Worker(worker) if mine.contains(&worker) => job.excuse.kill |= down > 800 * MILLI,
                    _ => {}
                }
            }
        }
        self.longer = Duration::from_nanos(total);
    }

    /// Ranks that disagree.
    pub(super) fn draw_disputes(&self, random: &mut Random, jobs: &mut [JobPlan]) {
        for job in jobs.iter_mut().filter(|_| self.any) {
            if random.chance(150_000) {
                job.disagree(random);
            }
        }
    }

    /// The clocks of this many parts.
    pub(super) fn draw_clocks(&self, random: &mut Random, parts: usize) -> Vec<Drift> {
        let draw = |_| if self.clocks { Drift::draw(random) } else { Drift::default() };
        (0..parts).map(draw).collect()
    }
}

/// This many milliseconds at most: one or the other.
fn up_to(random: &mut Random, short: u64, long: u64) -> u64 {
    let most = random.pick(&[short, long]);
    random.between(MILLI, most * MILLI)
}
