//! What a parameter server is to serve, and what it may hold.

use pascaline_aggregator::Order;
use pascaline_pipelines::jobs::ServedJob;
use pascaline_ps::{Capacity, Completion, Config, JobParams};
use pascaline_wire::{DType, Element, Op};

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
    /// Room of `memory_mb` MiB for this many jobs, equally. `window` is the widest of their windows: a rank
    /// can be late by as many PSNs, so at least as many results are kept.
    pub(crate) fn new(memory_mb: u32, jobs: usize, window: u16) -> Self {
        let default = Config::default();
        let bytes = (memory_mb as usize).saturating_mul(1 << 20);
        let capacity = Capacity { bytes, ..default.capacity };
        let shares = jobs.max(1);
        let entries = u32::try_from(capacity.entries as usize / shares).unwrap_or(u32::MAX);
        let window = u32::from(window);
        let config = Config { capacity, cached: default.cached.max(window), ahead: 2 * window, ..default };
        Self { config, jobs, share: Capacity { entries, bytes: bytes / shares } }
    }

    /// Bytes that one incomplete PSN can take, whatever its elements are.
    pub(crate) fn entry_bytes(&self, fan_in: u16, order: Order, payload: u16) -> usize {
        const WIDEST: Element = Element { dtype: DType::F16, op: Op::Sum };
        let job = ServedJob { job: 0, fan_in, epoch: 0, needed: fan_in, order, payload };
        self.params(&job).entry_bytes(WIDEST, usize::from(payload))
    }

    pub(crate) fn params(&self, job: &ServedJob) -> JobParams {
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
