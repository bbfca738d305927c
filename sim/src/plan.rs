//! One schedule: everything about it that is decided before it begins, drawn from its seed.

use core::time::Duration;

use pascaline_aggregator::PoolConfig;
use pascaline_wire::Element;

use crate::link::Conditions;
use crate::random::Random;

pub(crate) const MICRO: u64 = 1_000;
pub(crate) const MILLI: u64 = 1_000_000;

/// A job and what its workers do.
#[derive(Debug, Clone)]
pub(crate) struct JobPlan {
    pub(crate) id: u16,
    pub(crate) ranks: u16,
    pub(crate) payload: u16,
    pub(crate) in_flight: u16,
    pub(crate) window: u16,
    pub(crate) element: Element,
    /// Elements of each allreduce.
    pub(crate) operations: Vec<usize>,
    /// Whether the appliance knows the members' addresses beforehand.
    pub(crate) admitted: bool,
    pub(crate) excuse: Excuse,
    /// How often a worker may join; more than once only where it can help.
    pub(crate) lives: u32,
    pub(crate) join_deadline: Duration,
    pub(crate) deadline: Duration,
    pub(crate) linger: Duration,
}

/// What may make a job's allreduces fail. If nothing does, every one has to succeed.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Excuse {
    /// The appliance or a worker starts anew. What was running may be refused; joining again is the remedy.
    pub(crate) restart: bool,
    /// A worker never comes back. What was running may come to its deadline.
    pub(crate) kill: bool,
}

/// Something that goes wrong once.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Upset {
    RestartAppliance { down: u64 },
    Kill { worker: usize },
    Restart { worker: usize, down: u64 },
}

/// What can happen to the lcores' turns, in millionths.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turns {
    pub(crate) held_up: u32,
    pub(crate) stalled: u32,
    pub(crate) starved: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) jobs: Vec<JobPlan>,
    pub(crate) pool: PoolConfig,
    pub(crate) lcores: usize,
    /// Packets go to any lcore, instead of to the one that the NIC would choose by address and port.
    pub(crate) spray: bool,
    /// Two ports are each other's peer.
    pub(crate) ports: usize,
    pub(crate) multi_segment: bool,
    pub(crate) v6: bool,
    pub(crate) first_epoch: u8,
    /// Longest pause between two operations.
    pub(crate) pause: u64,
    pub(crate) turns: Turns,
    /// What links do to frames, and when each is down: one for each worker, both ways.
    pub(crate) links: Vec<(Conditions, Vec<(u64, u64)>)>,
    pub(crate) upsets: Vec<(u64, Upset)>,
}

impl Plan {
    /// The schedule of a seed.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut jobs: Vec<JobPlan> = Vec::new();
        for at in 0..random.pick(&[1, 1, 1, 2, 2, 3_u16]) {
            jobs.push(job(random, 100 * at));
        }
        let workers: usize = jobs.iter().map(|job| usize::from(job.ranks)).sum();
        let upsets = upsets(random, &mut jobs, workers);
        let ways: usize = random.pick(&[1, 2, 4, 8]);
        let slots: usize = random.pick(&[1, 2, 4, 8, 16, 32, 64]);
        let pool = PoolConfig {
            slots: slots.max(ways),
            ways,
            // Well above the time in which a reminder brings all contributions to a PSN together; else two PSNs that
            // want one slot could displace each other for ever.
            age_limit: Duration::from_millis(random.pick(&[20, 50, 100, 500])),
            ..PoolConfig::default()
        };
        let forgets = upsets.iter().any(|(_, upset)| matches!(upset, Upset::RestartAppliance { .. }));
        let conditions = Conditions::draw(random, forgets);
        let links = (0..workers).map(|_| (conditions.vary(random), blackouts(random))).collect();
        Self {
            jobs,
            pool,
            lcores: random.pick(&[1, 2]),
            spray: random.chance(300_000),
            ports: random.pick(&[1, 1, 2]),
            multi_segment: random.chance(700_000),
            v6: random.chance(150_000),
            first_epoch: random.next().to_le_bytes()[0],
            pause: random.pick(&[0, 50 * MICRO, MILLI, 5 * MILLI]),
            turns: Turns {
                held_up: often(random, 50_000),
                stalled: often(random, 50_000),
                starved: often(random, 20_000),
            },
            links,
            upsets,
        }
    }
}

/// Half of the time never, else up to `most` in a million.
pub(crate) fn often(random: &mut Random, most: u64) -> u32 {
    if random.chance(500_000) { 0 } else { u32::try_from(random.below(most)).unwrap_or(0) }
}

fn narrow(value: u64) -> u16 {
    u16::try_from(value).unwrap_or(u16::MAX)
}

fn job(random: &mut Random, base: u16) -> JobPlan {
    let ranks = random.pick(&[2, 2, 3, 3, 4, 5, 6, 8]);
    let payload = random.pick(&[8, 8, 16, 16, 24, 32, 48, 64]);
    let window = narrow(random.between(1, 24));
    let operations = (0..random.between(1, 3)).map(|_| {
        let packets = random.between(1, 10);
        // The last packet may be shorter.
        let elements = packets * u64::from(payload) / 4 - random.below(u64::from(payload) / 4);
        usize::from(narrow(elements))
    });
    JobPlan {
        operations: operations.collect(),
        id: base + narrow(random.below(100)),
        ranks,
        payload,
        window,
        in_flight: narrow(random.between(1, u64::from(window))),
        element: if random.chance(500_000) { Element::F32_SUM } else { Element::I32_SUM },
        admitted: random.chance(500_000),
        excuse: Excuse::default(),
        lives: 1,
        join_deadline: Duration::from_secs(20),
        deadline: Duration::from_secs(20),
        linger: Duration::from_secs(60),
    }
}

/// When a link is down.
fn blackouts(random: &mut Random) -> Vec<(u64, u64)> {
    let mut down = Vec::new();
    while random.chance(150_000) {
        let from = random.below(60 * MILLI);
        down.push((from, from + random.between(100 * MICRO, 60 * MILLI)));
    }
    down
}

/// What goes wrong once, and whose operations may fail for it.
fn upsets(random: &mut Random, jobs: &mut [JobPlan], workers: usize) -> Vec<(u64, Upset)> {
    let mut upsets = Vec::new();
    if random.chance(500_000) {
        return upsets;
    }
    for _ in 0..random.pick(&[1, 1, 2_u64]) {
        let worker = random.index(workers);
        // The first operations begin when the second round of Joins has been answered, after 20 ms.
        let at = random.below(80 * MILLI);
        let down = random.between(50 * MICRO, 30 * MILLI);
        let upset = match random.below(3) {
            0 => Upset::RestartAppliance { down },
            1 => Upset::Kill { worker },
            _ => Upset::Restart { worker, down },
        };
        upsets.push((at, upset));
        let mut first = 0;
        for job in jobs.iter_mut() {
            let next = first + usize::from(job.ranks);
            let mine = (first..next).contains(&worker);
            match upset {
                Upset::RestartAppliance { .. } => job.excuse.restart = true,
                Upset::Kill { .. } => job.excuse.kill |= mine,
                Upset::Restart { .. } => job.excuse.restart |= mine,
            }
            first = next;
        }
    }
    for job in jobs {
        match job.excuse {
            Excuse { kill: true, .. } => {
                job.join_deadline = Duration::from_secs(1);
                job.deadline = Duration::from_millis(700);
                job.linger = Duration::from_millis(500);
            }
            // Those who have come to their end before the restart do not join again, and the others wait in vain.
            Excuse { restart: true, .. } => {
                job.lives = 8;
                job.join_deadline = Duration::from_secs(5);
            }
            _ => {}
        }
    }
    upsets
}
