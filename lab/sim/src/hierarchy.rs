//! Very many workers below levels of appliances, under a virtual clock: real workers, real appliances, links
//! with a rate.
//!
//! ```text
//!                 appliance 0, the root                       level 0
//!        port ╱                    ╲ port
//!     appliance 1    ...     appliance k                      level 1
//!      ╱      ╲                ╱      ╲
//!  worker 0  worker 1  ...          worker n                  each with its own link
//! ```
//!
//! An appliance has one port, through which everything to and from it passes. Appliances take no time: this
//! shows the load that the tree puts on each, and the time of ports and links. How long a packet keeps an
//! appliance busy is measured elsewhere (`pascaline-lab bench`).

mod build;
#[cfg(test)]
mod tests;

use core::time::Duration;

use pascaline_wire::{Header, Kind};

use crate::bottleneck::FRAMING;
use crate::centre::Centre;
use crate::fabric::{Fabric, Frame, Link};
use crate::host::Host;
use crate::random::Random;
use crate::rank::Rank;
use crate::wheel::{Timer, nanos};
use crate::world::datagram;
use build::{nodes, rank};

/// Ranks of one appliance at most: those of the one word that its pool has for them here.
pub const MOST_RANKS: u16 = 64;
/// Appliances at most.
const MOST_APPLIANCES: usize = 1 << 14;
/// How long a control plane lets its work wait.
const CONTROL: u64 = 1_000_000;

/// The simulated setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Decides when workers join, and which packets are lost.
    pub seed: u64,
    /// Ranks of each appliance, level by level from the root: the last ones are workers.
    pub levels: Vec<u16>,
    /// Gbit/s of each worker's link.
    pub gbps: u64,
    /// Gbit/s of each appliance's port.
    pub port_gbps: u64,
    /// From one end of a link to the other.
    pub propagation: Duration,
    /// How many of a million packets are lost at each appliance's port, each way.
    pub loss_per_million: u32,
    /// Payload bytes of a packet.
    pub payload: u16,
    /// Bytes of an allreduce, a multiple of 4.
    pub bytes: usize,
    /// Allreduces of each worker.
    pub operations: usize,
    /// How far a worker may run ahead.
    pub window: u16,
    /// All workers begin to join within this time.
    pub starts: Duration,
    /// When the simulation ends at the latest.
    pub ends: Duration,
}

impl Setting {
    /// Workers in all; `None` if these levels make no tree that can be simulated: none, one without ranks or
    /// with more than [`MOST_RANKS`] of them, or too many appliances.
    #[must_use]
    pub fn workers(&self) -> Option<usize> {
        let (last, above) = self.levels.split_last()?;
        let mut appliances = 1_usize;
        let mut all = 1_usize;
        for &ranks in above {
            appliances = appliances.checked_mul(usize::from(ranks))?;
            all = all.checked_add(appliances)?;
        }
        let ranks = self.levels.iter().all(|ranks| (1..=MOST_RANKS).contains(ranks));
        let right = ranks && all <= MOST_APPLIANCES;
        right.then(|| appliances * usize::from(*last))
    }
}

/// The load of a level's busiest appliance.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Level {
    /// Appliances of this level.
    pub appliances: usize,
    /// Ranks of each.
    pub ranks: u16,
    /// Packets received and sent until all workers had joined.
    pub joining: (u64, u64),
    /// The most that were received in a millisecond meanwhile.
    pub joining_peak: u64,
    /// Packets received and sent from then on.
    pub summing: (u64, u64),
    /// Control messages among those received.
    pub control: u64,
    /// The most packets that its pool held.
    pub held: usize,
}

/// The outcome.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Workers.
    pub workers: usize,
    /// When the last worker had joined; `None` if one never did.
    pub joined: Option<Duration>,
    /// Of each allreduce that all workers have completed: how long the slowest took.
    pub operations: Vec<Duration>,
    /// Wrong elements of sums.
    pub wrong: u64,
    /// Contributions that workers have sent again.
    pub resent: u64,
    /// By level, the root's first.
    pub levels: Vec<Level>,
    /// Events.
    pub events: u64,
    /// Virtual time at the end.
    pub ended: Duration,
}

/// An event.
#[derive(Debug)]
enum What {
    /// A frame is in front of an appliance's port, or has passed it.
    AtPort(usize, Vec<u8>),
    Arrived(usize, Vec<u8>),
    /// A frame is in front of a worker's link, or has passed it.
    AtLink(usize, Vec<u8>),
    Down(usize, Vec<u8>),
    /// A worker's timer is due.
    Wake(usize),
    /// An appliance's control plane has work.
    Control(usize),
}

impl Frame for What {
    // Ports here do not mark.
    fn mark(&mut self) {}
}

/// An appliance, and its timers.
struct Node {
    centre: Centre,
    level: usize,
    /// The number of the first worker below, where workers are.
    first: usize,
    control: Timer,
    load: Level,
    /// Packets received in the present millisecond, and its number.
    recent: (u64, u64),
}

struct World<'a> {
    setting: &'a Setting,
    fabric: Fabric<What>,
    random: Random,
    nodes: Vec<Node>,
    ranks: Vec<Rank>,
    /// The appliance of each worker.
    leaf_of: Vec<usize>,
    joined: usize,
    joined_at: Option<u64>,
    done: usize,
}

/// Runs a setting to its end; `progress` receives the numbers of workers that have joined and that are done.
/// `None` if the tree is impossible.
pub fn run(setting: &Setting, progress: &mut dyn FnMut(usize, usize)) -> Option<Outcome> {
    let mut world = World::new(setting)?;
    let ends = nanos(setting.ends);
    let mut events = 0_u64;
    while world.done < world.ranks.len()
        && let Some(what) = world.fabric.next()
        && world.fabric.now() <= ends
    {
        world.handle(what);
        events += 1;
        if events.is_multiple_of(1 << 16) {
            progress(world.joined, world.done);
        }
    }
    progress(world.joined, world.done);
    Some(world.outcome())
}

impl<'a> World<'a> {
    fn new(setting: &'a Setting) -> Option<Self> {
        let workers = setting.workers()?;
        let (nodes, leaf_of) = nodes(setting)?;
        let link = |gbps: u64| Link::new(gbps.max(1), nanos(setting.propagation), u64::MAX >> 16);
        // Into and out of each port, then up and down each worker's link.
        let ports = (0..2 * nodes.len()).map(|_| link(setting.port_gbps));
        let links = ports.chain((0..2 * workers).map(|_| link(setting.gbps)));
        let mut fabric = Fabric::new(links.collect());
        let mut random = Random::new(setting.seed);
        let ranks = (0..workers).map(|worker| {
            let begins = random.below(nanos(setting.starts).max(1));
            fabric.after(begins, What::Wake(worker));
            rank(setting, worker, leaf_of[worker], begins)
        });
        let ranks = ranks.collect();
        Some(Self { setting, fabric, random, nodes, ranks, leaf_of, joined: 0, joined_at: None, done: 0 })
    }

    fn handle(&mut self, what: What) {
        let now = self.fabric.now();
        match what {
            What::AtPort(node, frame) => {
                if !self.random.chance(self.setting.loss_per_million) {
                    self.fabric.send(2 * node, frame.len() as u64 + FRAMING, What::Arrived(node, frame));
                }
            }
            What::Arrived(node, frame) => self.receive(node, &frame),
            What::AtLink(worker, frame) => {
                let link = 2 * (self.nodes.len() + worker) + 1;
                self.fabric.send(link, frame.len() as u64 + FRAMING, What::Down(worker, frame));
            }
            What::Down(worker, frame) => {
                let rank = &mut self.ranks[worker];
                let before = (rank.has_joined(), rank.operations().len());
                rank.receive(now, &frame);
                self.note(worker, before);
                self.tend(worker);
            }
            What::Wake(worker) => self.tend(worker),
            What::Control(node) => {
                if self.nodes[node].control.expire(now) {
                    let sent = self.nodes[node].centre.control(now);
                    self.send(node, sent);
                }
            }
        }
    }

    /// Notes the progress of a worker.
    fn note(&mut self, worker: usize, (joined, operations): (bool, usize)) {
        let rank = &self.ranks[worker];
        if rank.has_joined() && !joined {
            self.joined += 1;
            if self.joined == self.ranks.len() {
                self.joined_at = Some(self.fabric.now());
            }
        }
        let wanted = self.setting.operations;
        self.done += usize::from(operations < wanted && rank.operations().len() >= wanted);
    }

    /// A frame reaches an appliance.
    fn receive(&mut self, at: usize, frame: &[u8]) {
        let (now, joining) = (self.fabric.now(), self.joined_at.is_none());
        let node = &mut self.nodes[at];
        let millisecond = now / 1_000_000;
        if node.recent.0 != millisecond {
            node.recent = (millisecond, 0);
        }
        node.recent.1 += 1;
        if joining {
            node.load.joining.0 += 1;
            node.load.joining_peak = node.load.joining_peak.max(node.recent.1);
        } else {
            node.load.summing.0 += 1;
            node.load.control += u64::from(is_control(frame));
        }
        let sent = node.centre.receive(now, frame);
        node.load.held = node.load.held.max(node.centre.held());
        self.send(at, sent);
    }

    /// Sends an appliance's frames through its port; then sets the timer of its control plane.
    fn send(&mut self, at: usize, sent: Vec<Vec<u8>>) {
        let (now, joining) = (self.fabric.now(), self.joined_at.is_none());
        let node = &mut self.nodes[at];
        let count = if joining { &mut node.load.joining.1 } else { &mut node.load.summing.1 };
        *count += sent.len() as u64;
        let due = if node.centre.control_is_due() {
            Some(now + CONTROL)
        } else {
            node.centre.poll_timeout().map(|due| nanos(due).max(now + CONTROL))
        };
        if let Some(due) = due.filter(|&due| node.control.set_earlier(due)) {
            self.fabric.after(due - now, What::Control(at));
        }
        let first = node.first;
        for frame in sent {
            let what = match (Host::node_in(&frame), Host::number_in(&frame)) {
                (Some(other), _) if other < self.nodes.len() => What::AtPort(other, frame),
                (None, Some(number)) if first + number < self.ranks.len() => {
                    What::AtLink(first + number, frame)
                }
                _ => continue,
            };
            let (What::AtPort(_, frame) | What::AtLink(_, frame)) = &what else { continue };
            let bytes = frame.len() as u64 + FRAMING;
            if !self.random.chance(self.setting.loss_per_million) {
                self.fabric.send(2 * at + 1, bytes, what);
            }
        }
    }

    /// Lets a worker send its packets, and sets its next timer.
    fn tend(&mut self, worker: usize) {
        let now = self.fabric.now();
        let link = 2 * (self.nodes.len() + worker);
        while let Some(frame) = self.ranks[worker].poll_transmit(now) {
            let bytes = frame.len() as u64 + FRAMING;
            self.fabric.send(link, bytes, What::AtPort(self.leaf_of[worker], frame));
        }
        if let Some(due) = self.ranks[worker].due(now) {
            self.fabric.after(due - now, What::Wake(worker));
        }
    }

    fn outcome(self) -> Outcome {
        let completed = |at: usize| {
            let times = self.ranks.iter().map(|rank| rank.operations().get(at).copied());
            times.collect::<Option<Vec<_>>>()?.into_iter().max()
        };
        let counts = self.ranks.iter().map(Rank::counts);
        let (wrong, resent) = counts.fold((0, 0), |all, (wrong, resent, _)| (all.0 + wrong, all.1 + resent));
        let mut levels = vec![Level::default(); self.setting.levels.len()];
        for node in &self.nodes {
            levels[node.level].take_in(&node.load);
        }
        Outcome {
            workers: self.ranks.len(),
            joined: self.joined_at.map(Duration::from_nanos),
            operations: (0..self.setting.operations).map_while(completed).collect(),
            wrong,
            resent,
            levels,
            events: self.fabric.counts().0,
            ended: Duration::from_nanos(self.fabric.now()),
        }
    }
}

impl Level {
    /// The busiest of this and another appliance of the level.
    fn take_in(&mut self, other: &Self) {
        let most = |one: (u64, u64), other: (u64, u64)| (one.0.max(other.0), one.1.max(other.1));
        self.appliances += 1;
        self.ranks = other.ranks;
        self.joining = most(self.joining, other.joining);
        self.joining_peak = self.joining_peak.max(other.joining_peak);
        self.summing = most(self.summing, other.summing);
        self.control = self.control.max(other.control);
        self.held = self.held.max(other.held);
    }
}

fn is_control(frame: &[u8]) -> bool {
    let header = datagram(frame).and_then(|datagram| Header::parse(datagram).ok());
    header.is_some_and(|(header, _)| header.kind == Kind::Control)
}
