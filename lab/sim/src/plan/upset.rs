//! Single incidents, and the operations that may fail for them.

use core::time::Duration;

use pascaline_wire::control::Action;

use super::besides::Part;
use super::job::JobPlan;
use super::{MICRO, MILLI};
use crate::outside::Away;
use crate::random::Random;

/// A single incident.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Upset {
    RestartAppliance {
        node: usize,
        down: u64,
    },
    /// The parameter server loses its memory, and perhaps the packets in its queue.
    RestartServer {
        down: u64,
        queue_too: bool,
    },
    /// The separate parameter server is killed or stopped, and comes back.
    ServerAway {
        how: Away,
        down: u64,
    },
    /// A part is stopped, and resumes.
    Pause {
        part: Part,
        down: u64,
    },
    /// Nothing gets through between a worker and an appliance.
    CutOff {
        worker: usize,
        node: usize,
        down: u64,
    },
    /// A rank's process is started, if there is none, and waits this long for the others.
    Start {
        worker: usize,
        patience: Duration,
    },
    /// One of many runs ends.
    Curtain,
    /// All of `SwitchML`'s clients are started again.
    ClientsAgain,
    /// The appliance gets another key for a job.
    Rekey {
        job: usize,
    },
    /// A rank gets it.
    Renew {
        worker: usize,
    },
    Kill {
        worker: usize,
    },
    Restart {
        worker: usize,
        down: u64,
    },
    /// A member sends a command (iSwitch, Table 2); `value` is SetH's threshold or FBcast's PSN.
    Command {
        worker: usize,
        action: Action,
        value: u32,
    },
}

/// Other keys for some of the jobs whose packets are sealed, first for the appliance or for a rank.
pub(super) fn draw_keys(random: &mut Random, jobs: &[JobPlan]) -> Vec<(u64, Upset)> {
    let (mut upsets, mut first) = (Vec::new(), 0);
    for (job, plan) in jobs.iter().enumerate() {
        let next = first + usize::from(plan.ranks);
        if plan.sealed.is_some() && random.chance(500_000) {
            let from = random.below(120 * MILLI);
            upsets.push((from + random.below(20 * MILLI), Upset::Rekey { job }));
            upsets.extend(
                (first..next).map(|worker| (from + random.below(60 * MILLI), Upset::Renew { worker })),
            );
        }
        first = next;
    }
    upsets
}

/// The incidents and their times. Their excuses are noted in the jobs.
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
            0 => Upset::RestartAppliance { node: 0, down: down(random) },
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
                Upset::RestartServer { .. }
                | Upset::ServerAway { .. }
                | Upset::Pause { .. }
                | Upset::CutOff { .. }
                | Upset::Start { .. }
                | Upset::Curtain
                | Upset::ClientsAgain
                | Upset::Rekey { .. }
                | Upset::Renew { .. }
                | Upset::Command { .. } => {}
                Upset::Kill { .. } => job.excuse.kill |= mine,
                Upset::Restart { .. } => job.excuse.restart |= mine,
            }
            first = next;
        }
    }
    upsets
}

/// Longer than any schedule takes.
pub(super) const FOR_GOOD: u64 = 3_600_000 * MILLI;

/// When a separate parameter server is away: longer than it takes to be missed, or not, or for good. And
/// how long jobs may wait for it in all.
pub(super) fn draw_absences(random: &mut Random) -> (Vec<(u64, Upset)>, u64) {
    let (mut absences, mut waiting) = (Vec::new(), 0);
    let mut at = random.below(60 * MILLI);
    for _ in 0..random.pick(&[1, 1, 2_u64]) {
        let how = if random.chance(700_000) { Away::Killed } else { Away::Stopped };
        let (short, long) = (random.below(700 * MILLI), random.between(900 * MILLI, 2500 * MILLI));
        let down = random.pick(&[short, long, FOR_GOOD]);
        absences.push((at, Upset::ServerAway { how, down }));
        waiting += down.min(long);
        at += down + random.below(1500 * MILLI);
    }
    (absences, waiting)
}

/// Commands that end running operations: a Reset, or a Halt, mostly followed by a Reset.
pub(super) fn draw_resets(random: &mut Random, jobs: &mut [JobPlan]) -> Vec<(u64, Upset)> {
    let mut commands = Vec::new();
    let mut first = 0;
    for job in jobs {
        let worker = first + random.index(usize::from(job.ranks));
        first += usize::from(job.ranks);
        if !random.chance(100_000) {
            continue;
        }
        let before = commands.len();
        let command = |action| Upset::Command { worker, action, value: 0 };
        let at = random.below(80 * MILLI);
        if random.chance(500_000) {
            commands.push((at, command(Action::Halt)));
        }
        // More than one: the worker may not be a member at the time, and the network may lose the command.
        for _ in 0..random.pick(&[0, 1, 3_u64]) {
            commands.push((at + random.below(100 * MILLI), command(Action::Reset)));
        }
        job.excuse.reset = commands.len() > before;
    }
    commands
}

/// Commands of a job whose results may be partial: another threshold, or a PSN sent out as it is.
pub(super) fn draw_partials(random: &mut Random, jobs: &[JobPlan]) -> Vec<(u64, Upset)> {
    let mut commands = Vec::new();
    let mut first = 0;
    for job in jobs {
        let ranks = u64::from(job.ranks);
        for _ in 0..if job.threshold.is_some() { random.below(12) } else { 0 } {
            let worker = first + random.index(usize::from(job.ranks));
            let (action, most) =
                if random.chance(300_000) { (Action::SetH, ranks) } else { (Action::FBcast, 16) };
            let value = u32::try_from(random.below(most + 1)).unwrap_or(0);
            commands.push((random.below(80 * MILLI), Upset::Command { worker, action, value }));
        }
        first += usize::from(job.ranks);
    }
    commands
}
