//! Parameters of the server and of each of its jobs.

use core::time::Duration;

use pascaline_wire::{DType, Element, MAX_RANKS, Op};

/// Parameters of all jobs together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Config {
    /// The limit of the sum of the jobs' capacities.
    pub capacity: Capacity,
    /// Results that a job keeps for late ranks, as far as its memory allows; at least 1, because a result is
    /// sent from the cache. It should cover two windows: otherwise ranks are asked more often than necessary.
    pub cached: u32,
    /// Requests (fetches and reminders) that may be sent between two calls of
    /// [`Server::handle_timeout`](crate::Server::handle_timeout): a job of 1,024 ranks must not flood its own
    /// network. At least 1.
    pub burst: u32,
    /// The least timeout of an entry (DSA, section VI: 1 ms).
    pub floor: Duration,
    /// The timeout before an entry of the job has completed.
    pub initial: Duration,
    /// The longest timeout, however often it has doubled.
    pub ceiling: Duration,
    /// How long an entry may stay incomplete, and a result kept. PSNs are used again after 2³²: a result must
    /// be forgotten before its number comes round.
    pub age_limit: Duration,
    /// After this time no packet arrives any more. A server that joins a running generation learns in this
    /// time how far ranks may have been: up to there it asks all of them before it sends a sum whose bits
    /// depend on the order of addition.
    pub settle: Duration,
    /// How far ranks may be ahead of a packet of theirs that comes late, in PSNs: twice the widest window.
    /// Such a server asks this far beyond the PSNs that it sees, so a larger value than necessary makes all
    /// ranks slow.
    pub ahead: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            capacity: Capacity { entries: 1 << 16, bytes: 1 << 28 },
            cached: 4096,
            burst: 64,
            floor: Duration::from_millis(1),
            initial: Duration::from_millis(20),
            ceiling: Duration::from_secs(1),
            age_limit: Duration::from_secs(30),
            settle: Duration::from_millis(200),
            // Windows are 16 bits.
            ahead: 1 << 17,
        }
    }
}

/// Room for incomplete entries, and for payload bytes of entries and cached results together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Capacity {
    /// Entries.
    pub entries: u32,
    /// Payload bytes; an entry uses [`JobParams::entry_bytes`].
    pub bytes: usize,
}

/// When a PSN is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// With the contributions of all ranks.
    All,
    /// With this many, at least 1 and at most the fan-in. For a generation that continues without lost ranks:
    /// the number that is left. All of these are needed then, so the ranks inside a result are fixed,
    /// wherever it is made.
    ///
    /// It is not for a threshold H of N ranks that are all alive (iSwitch, section 3.3). Server and appliance
    /// do not see each other's contributions: either could complete the same PSN, each with other ranks, and
    /// workers would continue with different sums. Jobs with a threshold do without a server.
    ///
    /// Until a PSN is complete, all ranks that are not inside are asked, including the lost ones: the server
    /// knows only their number. A silent rank costs a short packet in each round.
    AtLeast(u16),
}

/// The order in which contributions are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// As they arrive, on the fly.
    Arrival,
    /// By rank, once all are there: the same inputs give the same bits, whatever the network did. Partials
    /// cannot be split again and are rejected; for such a job the appliance evicts originals.
    Rank,
}

/// One job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobParams {
    /// Ranks of the job, 1 to 1,024.
    pub fan_in: u16,
    /// The job's generation. A new one discards the state of the one before.
    pub epoch: u16,
    /// When a PSN is complete.
    pub completion: Completion,
    /// The order in which contributions are added.
    pub order: Order,
    /// The longest payload, in bytes.
    pub payload_max: u16,
    /// The job's share of [`Config::capacity`].
    pub capacity: Capacity,
}

impl JobParams {
    /// A job whose PSNs need all ranks, with contributions added as they arrive, payloads of up to 8 KiB, any
    /// element, and room for 4,096 entries in 16 MiB.
    #[must_use]
    pub const fn new(fan_in: u16, epoch: u16) -> Self {
        Self {
            fan_in,
            epoch,
            completion: Completion::All,
            order: Order::Arrival,
            payload_max: 8192,
            capacity: Capacity { entries: 4096, bytes: 1 << 24 },
        }
    }

    /// Contributions that complete a PSN.
    #[must_use]
    pub const fn needed(&self) -> u16 {
        match self.completion {
            Completion::All => self.fan_in,
            Completion::AtLeast(count) => count,
        }
    }

    /// The order in which contributions of an element are added. Sums of 16-bit floats are rounded once, so
    /// all contributions are kept until they are there; then they are added in the order of ranks, as the
    /// appliance does, so that the result has the same bits wherever it is made.
    #[must_use]
    pub const fn order_of(&self, element: Element) -> Order {
        match element {
            Element { dtype, op } if op.adds() && dtype.sums_wide() => Order::Rank,
            _ => self.order,
        }
    }

    /// True if the bits of a result depend on the order in which contributions came.
    pub(crate) const fn depends_on_arrival(&self, element: Element) -> bool {
        element.op.adds() && matches!(self.order_of(element), Order::Arrival)
    }

    /// Bytes that an entry of `len`-byte contributions takes up: in the order of arrival one payload, in the
    /// order of ranks the fan-in's.
    #[must_use]
    pub fn entry_bytes(&self, element: Element, len: usize) -> usize {
        match self.order_of(element) {
            Order::Arrival => len,
            Order::Rank => len.saturating_mul(usize::from(self.fan_in)),
        }
    }

    pub(crate) fn check(&self) -> Result<(), SetJobError> {
        let Self { fan_in, capacity, .. } = *self;
        if fan_in == 0 || fan_in > MAX_RANKS {
            return Err(SetJobError::FanIn { fan_in });
        }
        let needed = self.needed();
        if needed == 0 || needed > fan_in {
            return Err(SetJobError::Completion { needed, fan_in });
        }
        let widest = Element { dtype: DType::F16, op: Op::Sum };
        let bytes = self.entry_bytes(widest, usize::from(self.payload_max));
        if bytes == 0 || capacity.entries == 0 || capacity.bytes < bytes {
            return Err(SetJobError::TooSmall { bytes });
        }
        Ok(())
    }
}

/// Why a job was not accepted. The job that had the number before, if any, is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SetJobError {
    /// A job has 1 to 1,024 ranks.
    #[error("a job has 1 to {MAX_RANKS} ranks, not {fan_in}")]
    FanIn {
        /// The number asked for.
        fan_in: u16,
    },
    /// The threshold is not among 1 to the fan-in.
    #[error("{needed} contributions cannot complete a PSN of {fan_in} ranks")]
    Completion {
        /// The threshold.
        needed: u16,
        /// The job's ranks.
        fan_in: u16,
    },
    /// The job's capacity does not hold a single entry, or its payload is empty.
    #[error("the job's capacity must hold at least one entry, of {bytes} bytes (and more than none)")]
    TooSmall {
        /// Bytes of one entry of the longest payload.
        bytes: usize,
    },
    /// The other jobs leave less capacity than this one asks for.
    #[error(
        "the job asks for {} entries and {} bytes, but the other jobs leave {} and {}",
        wanted.entries, wanted.bytes, left.entries, left.bytes
    )]
    Capacity {
        /// The capacity that the job asks for.
        wanted: Capacity,
        /// The remaining capacity.
        left: Capacity,
    },
}
