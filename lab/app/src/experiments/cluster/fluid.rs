//! The same cluster flow by flow: no packets, queues or windows, but rates, as fair as links allow.
//!
//! A stream is a flow, a job's ring, or one of its trees: one rate on all of its links, since a ring passes
//! on received data and a tree waits for its slowest worker. Rates are max-min fair by weights, and stay for
//! a step. So seconds with 1,024 servers take seconds.
#![expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "packets and times of a run; names of ways; keys by which links are sorted"
)]

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

use pascaline_sim::fabric::Link;
use pascaline_sim::random::mix;

use super::{Outcome, PACKET, Plain, Scheme, Setting};

#[cfg(test)]
mod tests;

struct Stream {
    /// Each with how often its rate counts on the link.
    links: Vec<(usize, f64)>,
    weight: f64,
    /// Packets.
    left: f64,
    /// Packets a nanosecond.
    rate: f64,
    owner: Owner,
}

#[derive(Clone, Copy)]
enum Owner {
    Flow(usize),
    Job(usize),
}

/// A job's iteration.
struct Progress {
    /// When its gradients are ready.
    ready: u64,
    /// Its running streams, and when the last one ended.
    missing: usize,
    ends: f64,
}

/// Packets a nanosecond of a link.
fn capacity(setting: &Setting) -> f64 {
    setting.gbps as f64 / 8.0 / (PACKET + 24) as f64
}

/// The links between two servers.
fn way(setting: &Setting, from: usize, to: usize, name: u64, links: &mut BTreeMap<usize, f64>) {
    let spine = mix(name ^ 0xf10) as usize % setting.clos.spines;
    let hops = (0..).map_while(|hop| setting.clos.hop(from, to, spine, hop));
    hops.for_each(|link| *links.entry(link).or_default() += 1.0);
}

/// A job's streams in an iteration, each tree at this weight.
fn streams(setting: &Setting, number: usize, weight: f64) -> Vec<Stream> {
    let job = &setting.jobs[number];
    let workers = job.workers.len();
    let stream = |links: BTreeMap<usize, f64>, weight: f64, left: f64| Stream {
        links: links.into_iter().collect(),
        weight,
        left,
        rate: 0.0,
        owner: Owner::Job(number),
    };
    let packets = f64::from(job.packets);
    let Scheme::Trees(trees, ..) = setting.scheme else {
        let mut links = BTreeMap::new();
        for (at, &from) in job.workers.iter().enumerate() {
            way(setting, from, job.workers[(at + 1) % workers], (number * 1024 + at) as u64, &mut links);
        }
        return vec![stream(links, 1.0, 2.0 * packets * (workers - 1) as f64 / workers as f64)];
    };
    let clos = setting.clos;
    let leaves = job.workers.iter().map(|&server| clos.leaf(server));
    let leaves: BTreeSet<usize> = leaves.collect();
    let tree = |tree: usize| {
        let spine = (job.spine + tree) % clos.spines;
        let servers = job.workers.iter().flat_map(|&server| [clos.up(server), clos.down(server)]);
        let above = leaves.iter().flat_map(|&leaf| [clos.climb(leaf, spine), clos.descend(spine, leaf)]);
        let above = above.filter(|_| leaves.len() > 1);
        stream(servers.chain(above).map(|link| (link, 1.0)).collect(), weight, packets / trees as f64)
    };
    (0..trees).map(tree).collect()
}

/// The rest of each link, the weights of the streams whose rate is open, and the streams of each link; kept
/// between calls to reuse the memory.
#[derive(Default)]
struct Links {
    left: Vec<f64>,
    weights: Vec<f64>,
    users: Vec<Vec<usize>>,
}

impl Links {
    fn new(links: usize) -> Self {
        Self { users: vec![Vec::new(); links], ..Self::default() }
    }

    /// Gives every stream its rate: the link with the least rate per weight decides for its streams,
    /// repeatedly.
    fn share(&mut self, streams: &mut [Stream], capacity: f64) {
        let Self { left, weights, users } = self;
        for values in [&mut *left, &mut *weights] {
            values.clear();
        }
        left.resize(users.len(), capacity);
        weights.resize(users.len(), 0.0);
        users.iter_mut().for_each(Vec::clear);
        for (at, stream) in streams.iter_mut().enumerate() {
            stream.rate = -1.0;
            for &(link, times) in &stream.links {
                weights[link] += times * stream.weight;
                users[link].push(at);
            }
        }
        let key = |left: f64, weight: f64| (left.max(0.0) / weight * 1e12) as u64;
        let used = (0..users.len()).filter(|&link| weights[link] > 0.0);
        let mut heap: BinaryHeap<_> =
            used.map(|link| Reverse((key(left[link], weights[link]), link))).collect();
        while let Some(Reverse((least, link))) = heap.pop() {
            if weights[link] < 1e-9 {
                continue;
            }
            // Other links have freed some of it meanwhile: it is checked again in its turn.
            let now = key(left[link], weights[link]);
            if now > least {
                heap.push(Reverse((now, link)));
                continue;
            }
            let level = left[link].max(0.0) / weights[link];
            for &at in &users[link] {
                let stream = &mut streams[at];
                if stream.rate < 0.0 {
                    stream.rate = level * stream.weight;
                    for &(link, times) in &stream.links {
                        left[link] -= times * stream.rate;
                        weights[link] -= times * stream.weight;
                    }
                }
            }
        }
    }
}

/// Runs a setting to its end. `step` is in nanoseconds; `weight` is a tree's share of a link for each share
/// of a flow.
pub(crate) fn run(setting: &Setting, weight: f64, step: u64) -> Outcome {
    let mut links = Links::new(setting.clos.links(Link::new(setting.gbps, 0, 0)).len());
    let capacity = capacity(setting);
    let mut outcome = Outcome::default();
    let begun = setting.flows.iter().take_while(|flow| flow.begins < setting.lasts);
    outcome.flows = begun.map(|flow| (flow.packets, 0, setting.lasts - flow.begins)).collect();
    outcome.combining = vec![Vec::new(); setting.jobs.len()];
    let ready = |at: u64| Progress { ready: at, missing: 0, ends: 0.0 };
    let mut jobs: Vec<Progress> = setting.jobs.iter().map(|job| ready(job.begins + job.computes)).collect();
    let mut active: Vec<Stream> = Vec::new();
    let (mut next, mut now) = (0, 0);
    while now < setting.lasts {
        let before = active.len();
        while let Some(flow) = setting.flows[..outcome.flows.len()].get(next).filter(|flow| flow.begins < now)
        {
            active.push(begin(setting, next, flow));
            next += 1;
        }
        for (number, job) in jobs.iter_mut().enumerate() {
            if job.missing == 0 && job.ready < now {
                let streams = streams(setting, number, weight);
                (job.missing, job.ends) = (streams.len(), 0.0);
                active.extend(streams);
            }
        }
        if active.len() > before || active.iter().any(|stream| stream.rate <= 0.0) || outcome.events == 0 {
            links.share(&mut active, capacity);
        }
        outcome.events += 1;
        let mut ended = false;
        active.retain_mut(|stream| {
            let sends = stream.rate * step as f64;
            if sends < stream.left {
                stream.left -= sends;
                return true;
            }
            ended = true;
            end(setting, &mut outcome, &mut jobs, stream, (now, step));
            false
        });
        if ended {
            links.share(&mut active, capacity);
        }
        now += step;
    }
    for stream in &active {
        if let Owner::Flow(at) = stream.owner {
            outcome.flows[at].1 = setting.flows[at].packets - stream.left as u32;
        }
    }
    outcome.iterations = outcome.combining.iter().map(Vec::len).collect();
    outcome
}

fn begin(setting: &Setting, number: usize, flow: &Plain) -> Stream {
    let mut links = BTreeMap::new();
    way(setting, flow.from, flow.to, number as u64, &mut links);
    let links = links.into_iter().collect();
    Stream { links, weight: 1.0, left: f64::from(flow.packets), rate: 0.0, owner: Owner::Flow(number) }
}

/// A stream ends within the step of this length that begins now.
fn end(
    setting: &Setting,
    outcome: &mut Outcome,
    jobs: &mut [Progress],
    stream: &Stream,
    (now, step): (u64, u64),
) {
    let at = now as f64 + stream.left / stream.rate;
    match stream.owner {
        Owner::Flow(number) => {
            let flow = &setting.flows[number];
            // It waited for the step's beginning, half of one in the mean.
            let took = at - flow.begins as f64 - step as f64 / 2.0;
            let alone = f64::from(flow.packets) / capacity(setting);
            outcome.flows[number] = (flow.packets, flow.packets, took.max(alone) as u64);
        }
        Owner::Job(number) => {
            let job = &mut jobs[number];
            job.missing -= 1;
            job.ends = job.ends.max(at);
            if job.missing == 0 {
                let took = job.ends - job.ready as f64 - step as f64 / 2.0;
                outcome.combining[number].push(took as u64);
                job.ready = job.ends as u64 + setting.jobs[number].computes;
            }
        }
    }
}
