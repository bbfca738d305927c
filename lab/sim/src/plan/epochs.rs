//! Generation numbers that come round: appliances begin close to the last one, and ranks form several more.

use super::job::JobPlan;
use super::{MICRO, MILLI, Upset};
use crate::random::Random;

/// How many schedules have these, in millionths, and among how many last numbers they begin.
const SHARE: u32 = 100_000;
const LAST: u64 = 4;

/// One of the last numbers, in some schedules. Then ranks of a job restart several times.
pub(super) fn draw(random: &mut Random, jobs: &mut [JobPlan], upsets: &mut Vec<(u64, Upset)>) -> Option<u16> {
    let last = near(random)?;
    upsets.extend(restarts(random, jobs));
    Some(last)
}

/// One of the last numbers, in some schedules.
pub(super) fn near(random: &mut Random) -> Option<u16> {
    let before = random.chance(SHARE).then(|| random.below(LAST))?;
    Some(u16::MAX - u16::try_from(before).unwrap_or(0))
}

/// Restarts of ranks of one job, each of which begins a generation.
fn restarts(random: &mut Random, jobs: &mut [JobPlan]) -> Vec<(u64, Upset)> {
    let which = random.index(jobs.len());
    let first: usize = jobs.iter().take(which).map(|job| usize::from(job.ranks)).sum();
    let Some(job) = jobs.get_mut(which) else { return Vec::new() };
    job.excuse.restart = true;
    let (times, mut at) = (random.between(2, 6), random.below(40 * MILLI));
    let restart = |_| {
        at += random.between(2 * MILLI, 40 * MILLI);
        let worker = first + random.index(usize::from(job.ranks));
        (at, Upset::Restart { worker, down: random.between(50 * MICRO, 3 * MILLI) })
    };
    (0..times).map(restart).collect()
}
