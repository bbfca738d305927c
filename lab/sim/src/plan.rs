//! One schedule: all that is decided before it begins, drawn from its seed.

use core::time::Duration;

use pascaline_aggregator::{PoolConfig, Region};
use pascaline_seal::Protection;

use crate::clock::Drift;
use crate::cluster::ClusterPlan;
use crate::link::Conditions;
use crate::random::Random;

mod apart;
mod backup;
mod besides;
mod cell;
mod clients;
mod epochs;
mod group;
mod job;
mod runs;
mod tree;
mod upset;

use besides::Besides;
pub(crate) use besides::Part;
pub use cell::Cell;
pub(crate) use clients::ClientsPlan;
pub(crate) use group::GroupPlan;
use job::narrow;
pub(crate) use job::{Dispute, Excuse, JobPlan, WIDEST};
pub(crate) use tree::Tree;
pub(crate) use upset::Upset;

pub(crate) const MICRO: u64 = 1_000;
pub(crate) const MILLI: u64 = 1_000_000;

/// How many of the jobs that can have rough values do, in millionths.
const ROUGH: u32 = 500_000;

/// Rough values are drawn apart, by this number, so that the rest of a schedule does not depend on them.
const APART: u64 = 1442;

/// The same for asynchronous jobs and commands.
const EXTRA: u64 = 7;

/// The same for a separate parameter server.
const OUTSIDE: u64 = 60;

/// The same for [`besides`].
const BESIDES: u64 = 6129;

/// The same for PSNs that begin again at 0.
const END: u64 = 32;

/// The same for groups of multicast.
const GROUPS: u64 = 239;

/// The same for `SwitchML`'s clients.
const CLIENTS: u64 = 48_865;
const KEYS: u64 = 77_031;

/// The same for generation numbers that come round.
const EPOCHS: u64 = 256;

/// How many schedules have these, in millionths, and among how many last PSNs they begin.
const WRAPS_SHARE: u32 = 100_000;
const LAST_PSNS: u64 = 16;

/// How many schedules with a parameter server have it outside of the appliance, in millionths.
const OUTSIDE_SHARE: u32 = 250_000;

/// How many schedules have an asynchronous job, in millionths.
const CLUSTERS: u32 = 200_000;

/// How often lcores are stuck in a schedule, and for how long, at most: in all less than ranks may be silent.
pub(crate) const STUCK_TIMES: u64 = 8;
pub(crate) const STUCK_FOR: u64 = 100 * MILLI;
const STUCK: Duration = Duration::from_nanos(STUCK_TIMES * STUCK_FOR);
/// How many results get lost then, at least, in millionths.
const STUCK_LOSS: u32 = 100_000;

/// How long it takes until all packets lost with a server that went away have been sent again.
const MISSED: Duration = Duration::from_secs(4);

/// Faults of turns of lcores and of the parameter server, in millionths.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Turns {
    pub(crate) held_up: u32,
    /// All lcores stand still, so long that ranks send their packets again.
    pub(crate) stuck: u32,
    pub(crate) stalled: u32,
    pub(crate) starved: u32,
    pub(crate) server_held_up: u32,
}

/// The faults of a worker's link, each way, and the times at which it is down.
#[derive(Debug, Clone)]
pub(crate) struct LinkPlan {
    pub(crate) up: Conditions,
    pub(crate) down: Conditions,
    pub(crate) dark: Vec<(u64, u64)>,
}

/// The parameter server in the appliance.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ServerPlan {
    /// Packets that each of its two queues holds.
    pub(crate) queue: usize,
    /// Results kept for each job.
    pub(crate) kept: u32,
    /// Requests in a round.
    pub(crate) burst: u32,
    /// The longest timeout of an entry.
    pub(crate) ceiling: Duration,
    /// Entries that each job may have.
    pub(crate) entries: u32,
}

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) jobs: Vec<JobPlan>,
    /// An asynchronous job in addition.
    pub(crate) cluster: Option<ClusterPlan>,
    /// One of `SwitchML`'s clients in addition.
    pub(crate) clients: Option<ClientsPlan>,
    pub(crate) pool: PoolConfig,
    /// The appliances, if there are several.
    pub(crate) tree: Option<Tree>,
    /// Trees of the only job, each of which has an appliance, and is one of `jobs`. Otherwise 1.
    pub(crate) trees: usize,
    /// If any job has one.
    pub(crate) server: Option<ServerPlan>,
    /// It is a separate process that stops and restarts.
    pub(crate) outside: bool,
    pub(crate) lcores: usize,
    /// Packets go to any lcore, instead of to the one that the NIC would choose by address and port.
    pub(crate) spray: bool,
    /// Two ports are each other's peer.
    pub(crate) ports: usize,
    pub(crate) multi_segment: bool,
    pub(crate) v6: bool,
    pub(crate) first_epoch: u16,
    /// The first PSN of each job's first generation, if it is soon before PSNs wrap to 0. Only the first:
    /// ranks of two generations are distinguished by PSNs that are far from each other.
    pub(crate) first_psn: Option<u32>,
    /// Longest pause between two operations.
    pub(crate) pause: u64,
    pub(crate) turns: Turns,
    /// One for each worker, then one for each host of the cluster, each client and the separate server.
    pub(crate) links: Vec<LinkPlan>,
    /// The appliance's clock, and that of each host that has a link.
    pub(crate) clock: Drift,
    pub(crate) clocks: Vec<Drift>,
    pub(crate) upsets: Vec<(u64, Upset)>,
}

impl Plan {
    /// The schedule of a seed.
    pub(crate) fn draw(random: &mut Random) -> Self {
        let mut clients = Random::new(random.clone().next() ^ CLIENTS);
        Self::draw_of(random, ROUGH, None).with_clients(&mut clients, false)
    }

    /// The same, with the packets of all jobs sealed for which that is possible.
    pub(crate) fn sealed(random: &mut Random, protection: Protection) -> Self {
        let mut keys = Random::new(random.clone().next() ^ KEYS);
        let mut plan = Self::draw(random);
        plan.jobs.iter_mut().for_each(|job| job.seal(protection));
        plan.cluster.iter_mut().for_each(|cluster| cluster.sealed = Some(protection));
        plan.upsets.extend(upset::draw_keys(&mut keys, &plan.jobs));
        plan
    }

    /// The same, with a chance of rough values, and with a first job like a cell's.
    fn draw_of(random: &mut Random, rough: u32, cell: Option<&Cell>) -> Self {
        let other = |salt| Random::new(random.clone().next() ^ salt);
        let [mut apart, mut extra, mut away, mut late, mut end, mut groups, mut round] =
            [APART, EXTRA, OUTSIDE, BESIDES, END, GROUPS, EPOCHS].map(other);
        let mut jobs = jobs(random, cell);
        let workers: usize = jobs.iter().map(|job| usize::from(job.ranks)).sum();
        let mut upsets = upset::draw(random, &mut jobs, workers);
        upsets.extend(upset::draw_resets(&mut extra, &mut jobs));
        let last = epochs::draw(&mut round, &mut jobs, &mut upsets);
        let besides = Besides::draw(&mut late, &mut jobs, workers);
        upsets.extend_from_slice(&besides.upsets);
        let cluster = cluster(&mut extra, &upsets, besides.longer);
        let pool = pool(random, &mut jobs);
        let conditions = Conditions::draw(random);
        let mut links: Vec<_> = (0..workers).map(|_| link(conditions.vary(random), random)).collect();
        let hosts = cluster.as_ref().map_or(0, ClusterPlan::hosts);
        links.extend((0..hosts).map(|_| link(conditions.vary(&mut extra), &mut extra)));
        let longest = longest_dark(&links);
        let mut turns = Turns::draw(random);
        let news = conditions.news(turns.starved, longest);
        jobs.iter_mut().for_each(|job| job.settle(random, news));
        jobs.iter_mut().for_each(|job| job.endure(besides.longer));
        besides.draw_disputes(&mut late, &mut jobs);
        upsets.extend(upset::draw_partials(&mut extra, &jobs));
        let outside = jobs.iter().any(|job| job.policy.server) && away.chance(OUTSIDE_SHARE);
        jobs.iter_mut().for_each(|job| job.roughen(&mut apart, if outside { 0 } else { rough }));
        if outside {
            upsets.extend(absences(&mut away, &mut jobs));
            links.push(link(conditions.vary(&mut away), &mut away));
        }
        if jobs.iter().any(|job| job.rough) {
            turns.stuck = often(&mut apart, 300_000);
            tempt(&jobs, &mut links, turns.stuck);
            let longer = STUCK + conditions.losing(STUCK_LOSS).news(turns.starved, longest);
            jobs.iter_mut().filter(|_| turns.stuck > 0).for_each(|job| job.wait(longer));
        }
        let mut clocks = besides.draw_clocks(&mut late, links.len() + 1);
        Self {
            server: jobs.iter().any(|job| job.policy.server).then(|| server(random)),
            jobs,
            cluster,
            clients: None,
            tree: None,
            trees: 1,
            pool,
            outside,
            lcores: random.pick(&[1, 2]),
            spray: random.chance(300_000),
            ports: random.pick(&[1, 1, 2]),
            multi_segment: random.chance(700_000),
            v6: random.chance(150_000),
            first_epoch: last.unwrap_or(narrow(random.next() & 0xffff)),
            first_psn: first_psn(&mut end),
            pause: random.pick(&[0, 50 * MICRO, MILLI, 5 * MILLI]),
            turns,
            links,
            clock: clocks.pop().unwrap_or_default(),
            clocks,
            upsets,
        }
        .with_groups(&mut groups, cell)
    }
}

impl Turns {
    fn draw(random: &mut Random) -> Self {
        Self {
            held_up: often(random, 50_000),
            stuck: 0,
            stalled: often(random, 50_000),
            starved: often(random, 20_000),
            server_held_up: often(random, 50_000),
        }
    }
}

/// One of the last PSNs, in some schedules.
fn first_psn(random: &mut Random) -> Option<u32> {
    let before = random.chance(WRAPS_SHARE).then(|| random.below(LAST_PSNS))?;
    Some(u32::MAX - u32::try_from(before).unwrap_or(0))
}

/// An asynchronous job, in some schedules.
fn cluster(random: &mut Random, upsets: &[(u64, Upset)], pauses: Duration) -> Option<ClusterPlan> {
    let mut cluster = random.chance(CLUSTERS).then(|| ClusterPlan::draw(random))?;
    let restarts = |(_, upset): &(u64, Upset)| matches!(upset, Upset::RestartAppliance { .. });
    cluster.forsaken = upsets.iter().any(restarts);
    if !pauses.is_zero() {
        cluster.wait();
    }
    Some(cluster)
}

/// When a separate parameter server is away. Everything may take that much longer: what went to it is lost,
/// and jobs without it wait for each other's slots. Sums made meanwhile may have other bits the second time.
fn absences(random: &mut Random, jobs: &mut [JobPlan]) -> Vec<(u64, Upset)> {
    let (absences, waiting) = upset::draw_absences(random);
    let longer = Duration::from_nanos(waiting) + MISSED;
    jobs.iter_mut().for_each(|job| job.endure(longer));
    absences
}

/// Half of the time never, else up to `most` in a million.
pub(crate) fn often(random: &mut Random, most: u64) -> u32 {
    if random.chance(500_000) { 0 } else { u32::try_from(random.below(most)).unwrap_or(0) }
}

fn jobs(random: &mut Random, cell: Option<&Cell>) -> Vec<JobPlan> {
    let mut jobs = Vec::new();
    for at in 0..random.pick(&[1, 1, 1, 2, 2, 3_u16]) {
        jobs.push(JobPlan::draw(random, 100 * at));
    }
    jobs.iter_mut().take(1).for_each(|job| cell.into_iter().for_each(|cell| cell.force(job)));
    // All jobs that are formed by Joins are alike, so there may be one.
    jobs.iter_mut().filter(|job| job.formed).skip(1).for_each(|job| job.formed = false);
    jobs
}

/// A pool so small that conflicts and evictions are frequent, with the jobs' regions at its end.
fn pool(random: &mut Random, jobs: &mut [JobPlan]) -> PoolConfig {
    let ways: usize = random.pick(&[1, 2, 4, 8]);
    let shared = usize::max(random.pick(&[1, 1, 2, 4, 8, 16, 32]), ways);
    let sets = |job: &JobPlan| {
        let slots = usize::from(job.window) * if job.wide_region { 2 } else { 1 };
        slots.next_power_of_two().max(ways) / ways
    };
    let in_regions = jobs.iter().filter(|job| job.policy.region.is_some());
    let reserved: usize = in_regions.map(|job| sets(job) * ways).sum();
    let slots = (shared + reserved).next_power_of_two();
    let mut first = (slots - reserved) / ways;
    for job in jobs.iter_mut().filter(|job| job.policy.region.is_some()) {
        let sets = sets(job);
        let number = |sets: usize| u32::try_from(sets).unwrap_or(0);
        job.policy.region = Some(Region { first: number(first), sets: number(sets) });
        first += sets;
    }
    PoolConfig {
        slots,
        reserved,
        ways,
        // Well above the time in which a reminder brings all contributions to a PSN together; otherwise two
        // PSNs that need one slot could evict each other forever.
        age_limit: Duration::from_millis(random.pick(&[20, 50, 100, 500])),
        ..PoolConfig::default()
    }
}

fn server(random: &mut Random) -> ServerPlan {
    ServerPlan {
        queue: random.pick(&[1, 2, 8, 64, 64]),
        kept: random.pick(&[1, 4, 24]),
        burst: random.pick(&[1, 4, 64]),
        ceiling: Duration::from_millis(random.pick(&[100, 1000])),
        entries: random.pick(&[4, 1024, 1024]),
    }
}

fn link(conditions: Conditions, random: &mut Random) -> LinkPlan {
    LinkPlan { up: conditions, down: conditions, dark: blackouts(random) }
}

/// Fits the links of ranks with rough values to their purpose: to show that ranks took two sums of one PSN.
///
/// Upwards the network doubles nothing. A rank that contributes to a second sum says that it sends again, and
/// so the appliance knows that there may be another sum. Doubled packets do not, and the protocol does not
/// guard against doubled packets of all ranks.
///
/// If lcores are stuck, a first sum and one of repeated packets can follow each other at once. Some results
/// get lost downwards then: a rank that misses the first takes the second.
fn tempt(jobs: &[JobPlan], links: &mut [LinkPlan], stuck: u32) {
    let rough = jobs.iter().flat_map(|job| (0..job.ranks).map(|_| job.rough));
    for (link, _) in links.iter_mut().zip(rough).filter(|(_, rough)| *rough) {
        link.up = link.up.without_duplicates();
        if stuck > 0 {
            link.down = link.down.losing(STUCK_LOSS);
        }
    }
}

/// The total downtime of the link that is down the longest.
fn longest_dark(links: &[LinkPlan]) -> u64 {
    links.iter().map(|link| link.dark.iter().map(|(from, to)| to - from).sum()).max().unwrap_or(0)
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

#[cfg(test)]
mod tests;
