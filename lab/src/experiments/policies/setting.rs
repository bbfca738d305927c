//! One cell of the comparison: who contends, for what, by which rules.

use core::time::Duration;

use pascaline_aggregator::{self as aggregator, ConflictPolicy, PoolConfig, Region};

use super::line::Kind;

/// Picoseconds in a microsecond. Time is counted in picoseconds: at 100 Gbit/s a byte takes 80.
pub(super) const MICRO: u64 = 1_000_000;

/// Headers of a packet in DSA's simulation, in bytes: its packets of 306 carry 256 (section VII.B, with ATP).
pub(crate) const HEADERS: u64 = 50;

/// The least frame of Ethernet: what a packet without payload takes.
pub(super) const LEAST_FRAME: u64 = 64;

/// Half of the delay between a host and the switch, there and back (DSA, section VII.B: base round trip 10 µs
/// from host to host, four lines).
const LINE_DELAY: u64 = 5 * MICRO / 2;

/// Between which times jobs begin (DSA, section VII.B).
const START: u64 = 1000 * MICRO;

/// How much later than the first a worker may have its gradients (DSA, section VII.B).
const JITTER: u64 = 300 * MICRO;

/// Who wins what, and who helps. DSA's, its two baselines and its two strawmen; and the pool's without any
/// help.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Policy {
    /// Shared by hash; the higher priority wins; losers go to the server.
    Dsa,
    /// Shared by hash; the holder wins; losers go to the server.
    Atp,
    /// A region for each job.
    SwitchMl,
    /// DSA with the newcomer as the winner.
    Always,
    /// DSA with a coin for the winner.
    Coin,
    /// Shared by hash; the holder wins; losers are sent again. No server.
    None,
}

impl Policy {
    /// All of them; DSA's comes first.
    pub(crate) const ALL: [Self; 6] =
        [Self::Dsa, Self::Atp, Self::SwitchMl, Self::Always, Self::Coin, Self::None];

    /// The name in reports.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Dsa => "dsa",
            Self::Atp => "atp",
            Self::SwitchMl => "switchml",
            Self::Always => "always",
            Self::Coin => "coin",
            Self::None => "none",
        }
    }

    /// True if what finds no slot goes to the parameter server.
    #[must_use]
    pub(crate) const fn server(self) -> bool {
        !matches!(self, Self::SwitchMl | Self::None)
    }

    pub(super) const fn conflict(self) -> ConflictPolicy {
        match self {
            Self::Dsa => ConflictPolicy::Preempt,
            Self::Atp | Self::SwitchMl | Self::None => ConflictPolicy::FirstCome,
            Self::Always => ConflictPolicy::Always,
            Self::Coin => ConflictPolicy::Coin,
        }
    }
}

/// Where a complete aggregate becomes the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ResultsAt {
    /// In the appliance, which sends it to the workers at once.
    Appliance,
    /// At the parameter server: the appliance sends it there, and passes what comes back on to the workers.
    Server,
}

impl ResultsAt {
    /// The name in reports.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Appliance => "appliance",
            Self::Server => "ps",
        }
    }
}

/// What the jobs train (DSA, section VII.B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mix {
    /// Model A alone: it communicates twice as long as it computes.
    A,
    /// Model B alone: it computes twice as long as it communicates.
    B,
    /// Both in turns.
    Both,
}

impl Mix {
    /// The name in reports.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::Both => "A+B",
        }
    }

    const fn model(self, job: u16) -> Model {
        const A: Model = Model { partition: 4_000_000, layer: 320 * MICRO };
        const B: Model = Model { partition: 2_000_000, layer: 640 * MICRO };
        match self {
            Self::A => A,
            Self::B => B,
            Self::Both if job.is_multiple_of(2) => A,
            Self::Both => B,
        }
    }
}

/// A model of two layers, each of two partitions.
#[derive(Debug, Clone, Copy)]
struct Model {
    /// Bytes of a partition.
    partition: u64,
    /// Picoseconds that a layer computes in an iteration.
    layer: u64,
}

/// The partitions of an iteration.
pub(super) const PARTITIONS: usize = 4;

/// The layer of each partition, in the order of sending (DSA, section VII.B): half of the last layer, the
/// first layer, the other half of the last.
pub(super) const LAYERS: [u32; PARTITIONS] = [2, 1, 1, 2];

/// One iteration of one job, as it would be without contention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// Packets of a partition.
    pub(super) packets: u32,
    /// Picoseconds that a layer computes in one direction.
    pub(super) pass: u64,
    /// How long an iteration communicates.
    pub(super) communication: Duration,
    /// How long it computes.
    pub(super) computation: Duration,
}

/// One cell of the comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Setting {
    /// Jobs, 1 to 1,000.
    pub(crate) jobs: u16,
    /// Workers of each, 1 to 8.
    pub(crate) ranks: u16,
    /// Bytes of a packet's payload.
    pub(crate) payload: u16,
    /// Each host's line, in Gbit/s. Tensors are in proportion, so that models communicate as long with any.
    pub(crate) gbps: u32,
    /// Memory of the pool, in bytes of whole packets.
    pub(crate) memory: usize,
    /// Slots of a set.
    pub(crate) ways: usize,
    /// Who wins what.
    pub(crate) policy: Policy,
    /// Where results are made.
    pub(crate) results_at: ResultsAt,
    /// What is trained.
    pub(crate) mix: Mix,
    /// Packets that a worker has in flight at most.
    pub(crate) in_flight: u16,
    /// How far a worker may run ahead of its oldest PSN without a result.
    pub(crate) spread: u16,
    /// Microseconds between two looks of a host at what it has received, on average; each time between half
    /// and one and a half of it. With 0 hosts react at once, in lock-step.
    pub(crate) poll_us: u32,
    /// Tensors and times of computation are divided by this.
    pub(crate) scale: u32,
    /// Packets lost on each line, in a million.
    pub(crate) loss: u32,
    /// What all that is left to chance follows from.
    pub(crate) seed: u64,
}

impl Setting {
    /// DSA's simulation of its own policy (section VII.B): 8 jobs of 8 workers, model A, 100 Gbit/s, 5 MB.
    ///
    /// Its text does not say how many packets are in flight: 512 is a window of Pascaline's, and 1.25 times
    /// the product of bandwidth and round trip to the server and back.
    #[must_use]
    pub(crate) const fn paper(seed: u64) -> Self {
        Self {
            jobs: 8,
            ranks: 8,
            payload: 256,
            gbps: 100,
            memory: 5 << 20,
            ways: 1,
            policy: Policy::Dsa,
            results_at: ResultsAt::Appliance,
            mix: Mix::A,
            in_flight: 512,
            spread: 4096,
            poll_us: 1,
            scale: 1,
            loss: 0,
            seed,
        }
    }

    /// Bytes of a packet with payload.
    pub(super) const fn frame(&self) -> u64 {
        self.payload as u64 + HEADERS
    }

    /// Slots of the pool: as many whole packets as fit into its memory, in whole sets.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a frame is less than 2^17 bytes")]
    pub(crate) fn slots(&self) -> usize {
        let ways = self.ways.max(1);
        (self.memory / self.frame() as usize / ways).max(1) * ways
    }

    /// The pool, whose number of slots is a power of two, of which only so many are used.
    pub(super) fn pool(&self) -> PoolConfig {
        let slots = self.slots().next_power_of_two();
        PoolConfig { slots, reserved: slots - self.slots(), ways: self.ways, ..PoolConfig::default() }
    }

    /// A job's region: an equal share of the slots, rounded down to a power of two.
    fn region(&self, job: u16) -> Option<Region> {
        let sets = self.slots() / self.ways.max(1);
        let share = u32::try_from(sets / usize::from(self.jobs)).ok()?.checked_ilog2()?;
        let sets = 1 << share;
        (self.policy == Policy::SwitchMl).then_some(Region { first: u32::from(job) * sets, sets })
    }

    /// How a job uses the pool.
    pub(super) fn rules(&self, job: u16) -> aggregator::Policy {
        aggregator::Policy {
            conflict: self.policy.conflict(),
            region: self.region(job),
            server: self.policy.server(),
            ..aggregator::Policy::default()
        }
    }

    /// The spread of a job's windows. In a region it is half of that: PSNs under way, and results that a rank
    /// may lack.
    pub(super) fn spread(&self) -> u16 {
        let Some(region) = self.region(0) else { return self.spread };
        let slots = usize::try_from(region.sets).unwrap_or(usize::MAX).saturating_mul(self.ways);
        u16::try_from(slots / 2).unwrap_or(u16::MAX).min(self.spread).max(1)
    }

    /// Any of the lines.
    pub(super) fn line(&self) -> Kind {
        Kind { byte: 8000 / u64::from(self.gbps.max(1)), delay: LINE_DELAY, loss: self.loss }
    }

    /// Between which times jobs begin, and how much later than the first a worker may have its gradients.
    pub(super) fn chance(&self) -> (u64, u64) {
        let scale = u64::from(self.scale.max(1));
        (START / scale, JITTER / scale)
    }

    /// The same in milliseconds, for reports.
    #[must_use]
    pub(crate) fn chance_ms(&self) -> (f64, f64) {
        let (starts, stragglers) = self.chance();
        let milliseconds = |picoseconds: u64| picoseconds as f64 / (1000 * MICRO) as f64;
        (milliseconds(starts), milliseconds(stragglers))
    }

    /// Microseconds from a host to another and back, without load: four lines.
    #[must_use]
    pub(crate) const fn round_trip_us(&self) -> u64 {
        4 * LINE_DELAY / MICRO
    }

    /// Results that all workers together receive.
    #[must_use]
    pub(crate) fn results(&self) -> u64 {
        let packets = (0..self.jobs).map(|job| u64::from(self.work(job).packets));
        packets.sum::<u64>() * PARTITIONS as u64 * u64::from(self.ranks)
    }

    /// One iteration of a job.
    pub(super) fn work(&self, job: u16) -> Work {
        let Model { partition, layer } = self.mix.model(job);
        let scale = u64::from(self.scale.max(1));
        let bytes = partition * u64::from(self.gbps) / 100 / scale;
        let layer = layer / scale;
        let line = self.line().byte * bytes * PARTITIONS as u64;
        Work {
            packets: u32::try_from(bytes.div_ceil(u64::from(self.payload.max(1)))).unwrap_or(u32::MAX).max(1),
            pass: layer / 2,
            communication: Duration::from_nanos(line / 1000),
            computation: Duration::from_nanos(2 * layer / 1000),
        }
    }
}

#[cfg(test)]
mod tests;
