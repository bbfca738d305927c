//! A cluster that jobs and flows of others share, packet by packet (iSwitch, sections 3 and 5; PANAMA,
//! section 7).
//!
//! Switches add with the real pool, workers keep the window of the real congestion controls; links, queues,
//! DCTCP and the clock are `pascaline_sim::fabric`'s. Each sum is checked to hold every worker once.
//!
//! A job's tensor goes packet by packet over its trees in turn: worker → leaf, which adds up its workers →
//! the tree's spine, which adds up leaves → back. A job below one leaf is added up there. In a ring each
//! worker has a DCTCP connection to the next, and passes on the packets that it has received.

mod adder;
pub(crate) mod asynchronous;
pub(crate) mod fluid;
mod load;
#[cfg(test)]
mod tests;
mod world;

pub(crate) use load::{Load, draw};
pub(crate) use world::run;

use pascaline_sim::fabric::{Clos, Cuts};
use pascaline_wire::CongestionControl;

/// Bytes of a packet, and of what precedes its payload, preamble and gap included.
pub(crate) const PACKET: u64 = 1500;
/// Packets of a tree in flight at most.
const WINDOW: u16 = 256;

/// How jobs combine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// In a ring of DCTCP connections.
    Ring,
    /// Over trees of appliances: how many, the workers' congestion control, and the most packets that each
    /// worker has in flight on one tree.
    Trees(usize, CongestionControl, u16),
    /// All workers send to a server, which sends the sum to each; both over DCTCP.
    Server,
}

/// The window of other flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    Dctcp(Cuts),
    /// PANAMA's Figure 5, with acknowledgements for results.
    Panama,
}

/// A flow that is no job's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Plain {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) packets: u32,
    pub(crate) begins: u64,
}

/// A job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Job {
    /// The server of each worker; with [`Scheme::Server`] the last is the parameter server.
    pub(crate) workers: Vec<usize>,
    /// Packets of its tensor.
    pub(crate) packets: u32,
    /// Nanoseconds of an iteration's computation.
    pub(crate) computes: u64,
    /// When it begins.
    pub(crate) begins: u64,
    /// The spine of its first tree; the others take the next ones.
    pub(crate) spine: usize,
}

/// The simulated setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Setting {
    pub(crate) clos: Clos,
    pub(crate) scheme: Scheme,
    pub(crate) jobs: Vec<Job>,
    /// In the order of their beginnings.
    pub(crate) flows: Vec<Plain>,
    pub(crate) transport: Transport,
    /// Gbit/s of each link.
    pub(crate) gbps: u64,
    /// Rings of each job that combines in a ring; each has its part of the tensor and its own connections.
    pub(crate) rings: usize,
    /// Packets in a queue from which on packets are marked.
    pub(crate) marks_from: u64,
    /// Nanoseconds of a link.
    pub(crate) delay: u64,
    /// Nanoseconds that a host takes for each packet's acknowledgement or step, in addition to the links.
    pub(crate) host: u64,
    /// The most that `host` varies by, in nanoseconds; drawn for each packet. Without it hosts run in
    /// lock-step: each finds the queue as long as the last time, and a few get all the marks.
    pub(crate) jitter: u64,
    pub(crate) seed: u64,
    pub(crate) lasts: u64,
    /// Ends with this iteration of the first job; 0: none.
    pub(crate) iterations: usize,
    /// Nanoseconds of a sample of the throughput; 0: none.
    pub(crate) samples: u64,
}

impl Setting {
    /// An idle cluster with PANAMA's links: 10 Gbit/s, marks from 85 packets on.
    pub(crate) fn idle(clos: Clos, scheme: Scheme, lasts: u64) -> Self {
        let (jobs, flows, transport) = (Vec::new(), Vec::new(), Transport::Dctcp(Cuts::Once));
        let (gbps, marks_from, delay, host, jitter, seed) = (10, 85, 500, 0, 0, 0);
        let (iterations, samples, rings) = (0, 0, 1);
        Self {
            clos,
            scheme,
            jobs,
            flows,
            transport,
            gbps,
            rings,
            marks_from,
            delay,
            host,
            jitter,
            seed,
            lasts,
            iterations,
            samples,
        }
    }
}

/// The outcome.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Outcome {
    /// Iterations of each job that have ended.
    pub(crate) iterations: Vec<usize>,
    /// Of each job: nanoseconds of each iteration without computation, from the first gradient that is
    /// ready to the last result.
    pub(crate) combining: Vec<Vec<u64>>,
    /// Of each flow that began: packets wanted, packets that arrived, and nanoseconds until its end, or that
    /// of the run.
    pub(crate) flows: Vec<(u32, u32, u64)>,
    /// Packets in each sample, of the first flow and of the first job's first worker.
    pub(crate) samples: Vec<[u64; 2]>,
    /// Events of the fabric, the most frames in flight at once, and bytes of memory for frames at the end.
    pub(crate) events: u64,
    pub(crate) most: usize,
    pub(crate) memory: usize,
    /// Sums that did not hold each worker once, and contributions without a slot: both have to be 0.
    pub(crate) wrong: u64,
}
