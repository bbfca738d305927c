//! The parameter server at work: drivers of the state machine in `pascaline-ps`.
//!
//! [`ServerLoop`] is what all drivers share: jobs, datagrams and the time go in, datagrams come out. [`embedded`] is
//! a thread of the appliance, between two queues of packets; [`process`] is `pascaline ps`, a process of its own over
//! kernel UDP, which finds out from the appliance, through [`registrar`], what there is to serve. Neither waits for an
//! lcore, nor does an lcore for it.
//!
//! The server talks to appliances only, and tells nobody why it has refused a packet: the sender is an appliance that has
//! passed it on, and the rank that made it would take the answer for its appliance's. Refusals are counted.

use std::time::Duration;

use pascaline_aggregator::Order;
use pascaline_ps::{Capacity, Completion, Config, JobParams};
use pascaline_wire::{DType, Element, Op};

mod asynchronous;
pub(crate) mod embedded;
mod process;
mod registrar;
mod serving;
mod snapshot;
mod socket;

pub(crate) use process::{PsArgs, run};
pub(crate) use serving::ServerLoop;
pub(crate) use snapshot::{Published, Snapshot};

/// The generation of a job that is to be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServedJob {
    pub(crate) job: u16,
    pub(crate) fan_in: u16,
    pub(crate) epoch: u8,
    /// Contributions that complete a PSN: fewer than the fan-in where ranks are lost.
    pub(crate) needed: u16,
    pub(crate) order: Order,
    /// Bytes of a full packet's payload.
    pub(crate) payload: u16,
}

/// What a server may hold, and how long it waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ServerLimits {
    pub(crate) config: Config,
    /// Jobs that there may be at the same time.
    pub(crate) jobs: usize,
    /// What each may take of the whole.
    pub(crate) share: Capacity,
}

impl ServerLimits {
    /// Room of `memory_mb` MiB for this many jobs, equally. `window` is the widest of their windows: a rank can be late by
    /// as many PSNs, so at least as many results are kept.
    pub(crate) fn new(memory_mb: u32, jobs: usize, window: u16) -> Self {
        let default = Config::default();
        let bytes = (memory_mb as usize).saturating_mul(1 << 20);
        let capacity = Capacity { bytes, ..default.capacity };
        let shares = jobs.max(1);
        let entries = u32::try_from(capacity.entries as usize / shares).unwrap_or(u32::MAX);
        let config = Config { capacity, kept: default.kept.max(u32::from(window)), ..default };
        Self { config, jobs, share: Capacity { entries, bytes: bytes / shares } }
    }

    /// Bytes that one incomplete PSN can take, whatever its elements are.
    pub(crate) fn entry_bytes(&self, fan_in: u16, order: Order, payload: u16) -> usize {
        const WIDEST: Element = Element { dtype: DType::F16, op: Op::Sum };
        let job = ServedJob { job: 0, fan_in, epoch: 0, needed: fan_in, order, payload };
        self.params(&job).entry_bytes(WIDEST, usize::from(payload))
    }

    fn params(&self, job: &ServedJob) -> JobParams {
        let &ServedJob { fan_in, epoch, needed, order, payload, .. } = job;
        JobParams {
            completion: if needed == fan_in { Completion::All } else { Completion::AtLeast(needed) },
            order: match order {
                Order::Arrival => pascaline_ps::Order::Arrival,
                Order::Rank => pascaline_ps::Order::Rank,
            },
            payload_max: payload,
            capacity: self.share,
            ..JobParams::new(fan_in, epoch)
        }
    }
}

/// The earlier of two times, either of which may be never.
fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.min(other)),
        (one, other) => one.or(other),
    }
}
