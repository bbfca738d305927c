//! One run.
#![expect(clippy::cast_possible_truncation, reason = "places in lists, and times of a run")]

mod flows;
mod trees;

use pascaline_aggregator::PoolConfigError;
use pascaline_sim::fabric::{Fabric, Frame, Link};
use pascaline_sim::random::Random;
use pascaline_worker::congestion::Congestion;

use super::adder::Adder;
use super::{Outcome, PACKET, Scheme, Setting, WINDOW};
use flows::Flow;

/// Bytes of Ethernet around a packet: preamble, check sequence, gap.
const WIRE: u64 = PACKET + 24;

#[derive(Debug, Clone, Copy)]
struct Packet {
    what: What,
    marked: bool,
}

impl Frame for Packet {
    fn mark(&mut self) {
        self.marked = true;
    }
}

#[derive(Debug, Clone, Copy)]
enum What {
    /// The next flow that is no job's begins.
    Begin(u32),
    /// A job's worker has its gradient.
    Ready(u32),
    /// A packet of a flow, after this many hops, and its acknowledgement.
    Data(u32, u8),
    Ack(u32),
    /// A contribution to a tree's PSN; a leaf's own sum; the sum to a leaf, and to a worker.
    Up(u32, u32, u16),
    Part(u32, u32, u16),
    Sum(u32, u32, u16),
    Down(u32, u32, u16),
}

/// One tree of a job.
struct Tree {
    spine: usize,
    packets: u32,
    /// Of each open PSN: a contribution was marked.
    marks: Vec<bool>,
    /// Of each worker.
    controls: Vec<Congestion>,
    sent: Vec<u32>,
    got: Vec<u32>,
}

/// The progress of a job's iteration.
struct Progress {
    /// Leaf of each group of workers, and their number.
    groups: Vec<(usize, u16)>,
    /// Group and place in it of each worker.
    places: Vec<(u16, u16)>,
    trees: Vec<Tree>,
    flows: Vec<usize>,
    /// Flows, or workers times trees, that are not done.
    missing: usize,
    ready: u64,
}

pub(super) struct World<'a> {
    setting: &'a Setting,
    fabric: Fabric<Packet>,
    flows: Vec<Flow>,
    jobs: Vec<Progress>,
    /// Of each leaf, then of each spine.
    adders: Vec<Option<Adder>>,
    per_job: u32,
    /// The first flow that is no job's.
    first_plain: usize,
    random: Random,
    outcome: Outcome,
}

/// Runs a setting to its end.
///
/// # Errors If the pool cannot be made.
pub(crate) fn run(setting: &Setting) -> Result<Outcome, PoolConfigError> {
    let mut world = World::new(setting)?;
    while let Some(packet) = world.fabric.next() {
        if world.fabric.now() > setting.lasts {
            break;
        }
        world.handle(packet);
        let done = world.outcome.iterations.first().copied().unwrap_or(0);
        if setting.iterations > 0 && done >= setting.iterations {
            break;
        }
    }
    Ok(world.finish())
}

impl<'a> World<'a> {
    fn new(setting: &'a Setting) -> Result<Self, PoolConfigError> {
        let link = Link::new(setting.gbps, setting.delay, setting.marks_from * WIRE);
        let trees = match setting.scheme {
            Scheme::Trees(trees, ..) => trees,
            Scheme::Ring | Scheme::Server => 0,
        };
        let mut world = Self {
            setting,
            fabric: Fabric::new(setting.clos.links(link)),
            flows: Vec::new(),
            jobs: Vec::new(),
            adders: Vec::new(),
            per_job: u32::try_from(trees).unwrap_or(0),
            first_plain: 0,
            random: Random::new(setting.seed),
            outcome: Outcome::default(),
        };
        (0..setting.jobs.len()).for_each(|number| world.add_job(number, trees));
        world.first_plain = world.flows.len();
        world.add_adders()?;
        for number in 0..setting.jobs.len() {
            let job = &setting.jobs[number];
            world.later(job.begins + job.computes, What::Ready(number as u32));
        }
        if let Some(first) = setting.flows.first() {
            world.later(first.begins, What::Begin(0));
        }
        Ok(world)
    }

    fn later(&mut self, delay: u64, what: What) {
        self.fabric.after(delay, Packet { what, marked: false });
    }

    fn add_job(&mut self, number: usize, trees: usize) {
        let (setting, job) = (self.setting, &self.setting.jobs[number]);
        let (mut groups, mut places) = (Vec::<(usize, u16)>::new(), Vec::new());
        for &server in &job.workers {
            let leaf = setting.clos.leaf(server);
            let group = groups.iter().position(|&(other, _)| other == leaf).unwrap_or_else(|| {
                groups.push((leaf, 0));
                groups.len() - 1
            });
            places.push((group as u16, groups[group].1));
            groups[group].1 += 1;
        }
        let workers = job.workers.len();
        let tree = |tree: usize| {
            let (control, most) = match setting.scheme {
                Scheme::Trees(_, control, most) => (control, most),
                Scheme::Ring | Scheme::Server => (pascaline_wire::CongestionControl::Fixed, WINDOW),
            };
            let most = u32::from(most.min(WINDOW));
            Tree {
                spine: (job.spine + tree) % setting.clos.spines,
                packets: (job.packets + trees as u32 - 1 - tree as u32) / trees as u32,
                marks: vec![false; 2 * usize::from(WINDOW)],
                controls: vec![Congestion::new(control, most, PACKET as u32); workers],
                sent: vec![0; workers],
                got: vec![0; workers],
            }
        };
        let mut progress = Progress {
            groups,
            places,
            trees: (0..trees).map(tree).collect(),
            flows: Vec::new(),
            missing: 0,
            ready: 0,
        };
        let last = workers - 1;
        let pairs: Vec<(usize, usize)> = match setting.scheme {
            Scheme::Ring => {
                (0..workers * setting.rings).map(|at| (at % workers, (at + 1) % workers)).collect()
            }
            // Up first, then down.
            Scheme::Server => (0..last).map(|at| (at, last)).chain((0..last).map(|at| (last, at))).collect(),
            Scheme::Trees(..) => Vec::new(),
        };
        for (place, (from, to)) in pairs.into_iter().enumerate() {
            progress.flows.push(self.flows.len());
            self.add_flow(job.workers[from], job.workers[to], Some((number, place)));
        }
        self.jobs.push(progress);
        self.outcome.iterations.push(0);
        self.outcome.combining.push(Vec::new());
    }

    fn add_adders(&mut self) -> Result<(), PoolConfigError> {
        let leaves = self.setting.clos.leaves;
        let mut trees = vec![Vec::new(); leaves + self.setting.clos.spines];
        for (number, job) in (0..).zip(&self.jobs) {
            for (at, tree) in (0..).zip(&job.trees) {
                let name: u32 = number * self.per_job + at;
                job.groups.iter().for_each(|&(leaf, _)| trees[leaf].push(name));
                if job.groups.len() > 1 {
                    trees[leaves + tree.spine].push(name);
                }
            }
        }
        let adders = trees
            .into_iter()
            .map(|trees| if trees.is_empty() { Ok(None) } else { Adder::new(trees).map(Some) });
        self.adders = adders.collect::<Result<_, _>>()?;
        Ok(())
    }

    fn handle(&mut self, packet: Packet) {
        let marked = packet.marked;
        match packet.what {
            What::Begin(number) => self.begin(number as usize),
            What::Ready(job) => self.ready(job as usize),
            What::Data(flow, hop) => self.data(flow, hop, marked),
            What::Ack(flow) => self.ack(flow as usize, marked),
            What::Up(tree, psn, worker) => self.up(tree, psn, worker, marked),
            What::Part(tree, psn, group) => self.part(tree, psn, group, marked),
            What::Sum(tree, psn, group) => self.fan_out(tree, psn, group, marked),
            What::Down(tree, psn, worker) => self.down(tree, psn, worker, marked),
        }
    }

    /// A job's gradients are ready.
    fn ready(&mut self, number: usize) {
        let now = self.fabric.now();
        let packets = self.setting.jobs[number].packets;
        let job = &mut self.jobs[number];
        job.ready = now;
        job.missing = job.flows.len() + job.trees.len() * job.places.len();
        let workers = job.places.len() as u32;
        for (place, at) in job.flows.clone().into_iter().enumerate() {
            let flow = &mut self.flows[at];
            (flow.sent, flow.acked, flow.arrived, flow.ended) = (0, 0, 0, None);
            let chunk = packets.div_ceil(workers * self.setting.rings as u32).max(1);
            (flow.packets, flow.allowed) = match self.setting.scheme {
                Scheme::Ring => (2 * (workers - 1).max(1) * chunk, chunk),
                _ if place < job.flows.len() / 2 => (packets, packets),
                _ => (packets, 0),
            };
        }
        for at in self.jobs[number].flows.clone() {
            self.push(at);
        }
        for tree in 0..self.jobs[number].trees.len() {
            let tree_at = &mut self.jobs[number].trees[tree];
            if tree_at.packets == 0 {
                (0..workers).for_each(|_| self.part_done(number));
                continue;
            }
            tree_at.sent.fill(0);
            tree_at.got.fill(0);
            for worker in 0..workers as usize {
                self.contribute(number, tree, worker);
            }
        }
    }

    /// A flow or a worker's tree is done; with the last one the iteration ends.
    fn part_done(&mut self, number: usize) {
        let now = self.fabric.now();
        let job = &mut self.jobs[number];
        job.missing -= 1;
        if job.missing == 0 {
            self.outcome.iterations[number] += 1;
            self.outcome.combining[number].push(now - job.ready);
            // In a ring acknowledgements may still be on their way.
            let pause = self.setting.jobs[number].computes.max(8 * self.setting.delay + self.setting.host);
            self.later(pause, What::Ready(number as u32));
        }
    }

    /// Counts a packet of the first flow, or of the first job's first worker.
    fn sample(&mut self, which: usize, wanted: bool) {
        if self.setting.samples > 0 && wanted {
            let at = (self.fabric.now() / self.setting.samples) as usize;
            let samples = &mut self.outcome.samples;
            samples.resize(samples.len().max(at + 1), [0; 2]);
            samples[at][which] += 1;
        }
    }

    fn finish(self) -> Outcome {
        let flows = self.flows[self.first_plain..].iter().map(|flow| flow.outcome(self.setting.lasts));
        let refused: u64 = self.adders.iter().flatten().map(Adder::refused).sum();
        Outcome {
            flows: flows.collect(),
            events: self.fabric.counts().0,
            most: self.fabric.most(),
            memory: self.fabric.memory(),
            wrong: self.outcome.wrong + refused,
            ..self.outcome
        }
    }
}
