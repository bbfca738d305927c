//! One cell of the comparison: jobs, pool, policy and network.

use core::time::Duration;

use pascaline_aggregator::{self as aggregator, ConflictPolicy, PoolConfig, Region};

use super::ledger::Role;
use super::line::Kind;

/// Picoseconds in a microsecond. Time is counted in picoseconds: at 100 Gbit/s a byte takes 80.
pub(super) const MICRO: u64 = 1_000_000;

/// Headers of a packet in DSA's simulation, in bytes: its packets of 306 carry 256 (section VII.B, with ATP).
pub(crate) const HEADERS: u64 = 50;

/// Ethernet's smallest frame, for packets without payload.
pub(super) const LEAST_FRAME: u64 = 64;

/// One-way delay between a host and the switch (DSA, section VII.B: base round trip 10 µs between hosts, over
/// four lines).
const LINE_DELAY: u64 = 5 * MICRO / 2;

/// The policies: DSA's, its two baselines, its two strawmen, and the pool alone.
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
    /// All policies; DSA's first.
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

    /// True if a contribution without a slot goes to the parameter server.
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

/// The place where a complete aggregate becomes the result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum ResultsAt {
    /// In the appliance, which sends it to the workers at once.
    Appliance,
    /// At the parameter server, to which the appliance sends it; the appliance passes the answer on.
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

/// The models that jobs train (DSA, section VII.B).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Mix {
    /// Model A alone: it communicates twice as long as it computes.
    A,
    /// Model B alone: it computes twice as long as it communicates.
    B,
    /// Both in turns.
    Both,
    /// A model by the kilobytes of its partitions and the microseconds that its layers take.
    Of { kilobytes: u32, layer_us: u32 },
}

/// Which lines lose packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Lossy {
    /// All.
    Every,
    /// Those of each job's first worker.
    OneWorker,
    /// Those of the servers.
    Server,
}

impl Mix {
    /// The name in reports.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::Both => "A+B",
            Self::Of { .. } => "other",
        }
    }

    const fn model(self, job: u16) -> Model {
        const A: Model = Model { partition: 4_000_000, layer: 320 * MICRO };
        const B: Model = Model { partition: 2_000_000, layer: 640 * MICRO };
        match self {
            Self::A => A,
            Self::B => B,
            Self::Of { kilobytes, layer_us } => {
                Model { partition: kilobytes as u64 * 1000, layer: layer_us as u64 * MICRO }
            }
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
    /// Computation of a layer in an iteration, in picoseconds.
    layer: u64,
}

/// The partitions of an iteration.
pub(super) const PARTITIONS: usize = 4;

/// The layer of each partition in order of sending (DSA, section VII.B): half of the last layer, the first
/// layer, the other half of the last.
pub(super) const LAYERS: [u32; PARTITIONS] = [2, 1, 1, 2];

/// One iteration of one job without contention.
#[derive(Debug, Clone, Copy)]
pub(super) struct Work {
    /// Packets of a partition.
    pub(super) packets: u32,
    /// Computation of a layer in one direction, in picoseconds.
    pub(super) pass: u64,
    /// Communication of an iteration.
    pub(super) communication: Duration,
    /// Computation of an iteration.
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
    /// Rate of each host's line, in Gbit/s. Tensors scale with it, so that models communicate equally long.
    pub(crate) gbps: u32,
    /// Memory of the pool, in bytes of whole packets.
    pub(crate) memory: usize,
    /// Slots of a set.
    pub(crate) ways: usize,
    /// The policy of conflicts.
    pub(crate) policy: Policy,
    /// The place where results are made.
    pub(crate) results_at: ResultsAt,
    /// The models.
    pub(crate) mix: Mix,
    /// Most packets that a worker has in flight.
    pub(crate) in_flight: u16,
    /// Most PSNs that a worker may run ahead of its oldest one without a result.
    pub(crate) spread: u16,
    /// Mean microseconds between a host's polls; each interval is 0.5 to 1.5 times that. With 0, hosts react
    /// at once, in lock-step.
    pub(crate) poll_us: u32,
    /// Divisor of tensors and computation times.
    pub(crate) scale: u32,
    /// Jobs begin within this many microseconds.
    pub(crate) starts_us: u32,
    /// Greatest delay of a worker's gradients after the first worker's, in microseconds.
    pub(crate) straggle_us: u32,
    /// Losses on each lossy line, per million packets.
    pub(crate) loss: u32,
    /// Which lines those are.
    pub(crate) lossy: Lossy,
    /// Losses per million packets of one role, on any line, instead of those.
    pub(crate) of_role: Option<(Role, u32)>,
    /// The seed.
    pub(crate) seed: u64,
}

impl Setting {
    /// DSA's simulation of its own policy (section VII.B): 8 jobs of 8 workers, model A, 100 Gbit/s, 5 MB.
    ///
    /// Its text does not give the packets in flight: 512 is a window of Pascaline's, and 1.25 times the
    /// product of bandwidth and round trip to the server and back.
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
            starts_us: 1000,
            straggle_us: 300,
            loss: 0,
            lossy: Lossy::Every,
            of_role: None,
            seed,
        }
    }

    /// Bytes of a packet with payload.
    pub(super) const fn frame(&self) -> u64 {
        self.payload as u64 + HEADERS
    }

    /// Slots of the pool: the whole packets that fit into its memory, in whole sets.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "a frame is less than 2^17 bytes")]
    pub(crate) fn slots(&self) -> usize {
        let ways = self.ways.max(1);
        (self.memory / self.frame() as usize / ways).max(1) * ways
    }

    /// The pool. Its number of slots is a power of two; only `slots` of them are used.
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

    /// The spread of a job's windows. In a region it is half of it, since open PSNs share it with results
    /// that a rank may lack.
    pub(super) fn spread(&self) -> u16 {
        let Some(region) = self.region(0) else { return self.spread };
        let slots = usize::try_from(region.sets).unwrap_or(usize::MAX).saturating_mul(self.ways);
        u16::try_from(slots / 2).unwrap_or(u16::MAX).min(self.spread).max(1)
    }

    /// The properties of every line except its loss.
    pub(super) fn line(&self) -> Kind {
        Kind { byte: 8000 / u64::from(self.gbps.max(1)), delay: LINE_DELAY, loss: 0 }
    }

    /// A line of a worker.
    pub(super) fn worker_line(&self, rank: u16) -> Kind {
        let lossy = self.lossy == Lossy::Every || self.lossy == Lossy::OneWorker && rank == 0;
        Kind { loss: if lossy { self.loss } else { 0 }, ..self.line() }
    }

    /// A line of a server.
    pub(super) fn server_line(&self) -> Kind {
        Kind { loss: if self.lossy == Lossy::OneWorker { 0 } else { self.loss }, ..self.line() }
    }

    /// The losses per million packets of this role, if they differ from their line's.
    pub(super) fn loss_of(&self, role: Role) -> Option<u32> {
        self.of_role.filter(|&(lost, _)| lost == role).map(|(_, loss)| loss)
    }

    /// Interval in which jobs begin, and greatest delay of a worker's gradients.
    pub(super) fn chance(&self) -> (u64, u64) {
        let scale = u64::from(self.scale.max(1));
        let ticks = |micros: u32| (u64::from(micros) * MICRO / scale).max(1);
        (ticks(self.starts_us), ticks(self.straggle_us))
    }

    /// Both in milliseconds, for reports.
    #[must_use]
    pub(crate) fn chance_ms(&self) -> (f64, f64) {
        let (starts, stragglers) = self.chance();
        let milliseconds = |picoseconds: u64| picoseconds as f64 / (1000 * MICRO) as f64;
        (milliseconds(starts), milliseconds(stragglers))
    }

    /// Idle round trip between two hosts over four lines, in microseconds.
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
