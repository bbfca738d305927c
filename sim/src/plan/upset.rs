//! What goes wrong once, and whose operations may fail for it.

use super::MICRO;
use super::MILLI;
use super::job::JobPlan;
use crate::random::Random;

/// Something that goes wrong once.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Upset {
    RestartAppliance {
        down: u64,
    },
    /// The parameter server loses its memory, and perhaps what is in its queue.
    RestartServer {
        down: u64,
        queue_too: bool,
    },
    Kill {
        worker: usize,
    },
    Restart {
        worker: usize,
        down: u64,
    },
}

/// When what goes wrong. What it excuses is noted in the jobs.
pub(super) fn draw(random: &mut Random, jobs: &mut [JobPlan], workers: usize) -> Vec<(u64, Upset)> {
    let mut upsets = Vec::new();
    // The first operations begin when the second round of Joins has been answered, after 20 ms.
    let at = |random: &mut Random| random.below(80 * MILLI);
    let down = |random: &mut Random| random.between(50 * MICRO, 30 * MILLI);
    if jobs.iter().any(|job| job.policy.server) && random.chance(300_000) {
        for _ in 0..random.pick(&[1, 1, 2_u64]) {
            let upset = Upset::RestartServer { down: down(random), queue_too: random.chance(500_000) };
            upsets.push((at(random), upset));
        }
    }
    if random.chance(500_000) {
        return upsets;
    }
    for _ in 0..random.pick(&[1, 1, 2_u64]) {
        let worker = random.index(workers);
        let upset = match random.below(3) {
            0 => Upset::RestartAppliance { down: down(random) },
            1 => Upset::Kill { worker },
            _ => Upset::Restart { worker, down: down(random) },
        };
        upsets.push((at(random), upset));
        let mut first = 0;
        for job in jobs.iter_mut() {
            let next = first + usize::from(job.ranks);
            let mine = (first..next).contains(&worker);
            match upset {
                Upset::RestartAppliance { .. } => job.excuse.appliance = true,
                Upset::RestartServer { .. } => {}
                Upset::Kill { .. } => job.excuse.kill |= mine,
                Upset::Restart { .. } => job.excuse.restart |= mine,
            }
            first = next;
        }
    }
    upsets
}
