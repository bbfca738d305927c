//! Random jobs with random policies, and what happens to them.

use std::time::Duration;

use pascaline_aggregator::{ConflictPolicy, Order, Policy, PoolConfig, Region};
use pascaline_wire::{DType, Element, Op};
use proptest::prelude::*;

use crate::common::{TICK, values};

/// Fan-ins where the bitmap is one word wide. None is a multiple of 7, the stride of a round.
pub(crate) const NARROW: &[u16] = &[1, 2, 3, 4, 5];
/// The same for 16 words.
pub(crate) const WIDE: &[u16] = &[1, 3, 65, 131];

/// In ticks.
pub(crate) const AGE_LIMIT: u64 = 20;
const REMIND_INTERVAL: u64 = 20;
/// Different PSNs of a job.
const PSNS: u32 = 5;

#[derive(Debug, Clone)]
pub(crate) struct JobPlan {
    pub(crate) fan_in: u16,
    pub(crate) policy: Policy,
    /// Contributions that complete a PSN to begin with.
    pub(crate) needed: u16,
    pub(crate) dtype: DType,
    /// Its first PSN.
    pub(crate) base: u32,
}

impl JobPlan {
    /// Whether its PSNs may be complete without all ranks.
    pub(crate) fn may_be_partial(&self) -> bool {
        self.policy.region.is_some() && !self.policy.server
    }

    /// Whether its contributions are kept as they came until the end.
    pub(crate) fn keeps_all(&self) -> bool {
        self.policy.order == Order::Rank || self.dtype.sums_wide()
    }

    pub(crate) fn element(&self) -> Element {
        Element { dtype: self.dtype, op: Op::Sum }
    }

    fn encode(&self, ones: impl Fn(u16) -> bool) -> Vec<i32> {
        // 16-bit types have two elements in a word.
        let elements = self.fan_in.next_multiple_of(2);
        let one: &[u8] = match self.dtype {
            DType::F32 => &1f32.to_le_bytes(),
            DType::I32 | DType::U32 => &1i32.to_le_bytes(),
            DType::F16 => &0x3c00u16.to_le_bytes(),
            DType::Bf16 => &0x3f80u16.to_le_bytes(),
            DType::F64 => &1f64.to_le_bytes(),
            DType::MxFp8 | DType::MxInt8 => unreachable!("not drawn: a block is no element for a rank"),
        };
        let zero = vec![0; self.dtype.size()];
        let element = |at| if ones(at) { one } else { &zero };
        values(&(0..elements).flat_map(element).copied().collect::<Vec<u8>>())
    }

    /// A payload whose sum says how often each rank is inside: an element for each.
    pub(crate) fn signature(&self, rank: u16) -> Vec<i32> {
        self.encode(|at| at == rank)
    }

    /// The sum of the signatures of all ranks.
    pub(crate) fn full(&self) -> Vec<i32> {
        self.encode(|at| at < self.fan_in)
    }

    /// The sum of the signatures of these.
    pub(crate) fn sum(&self, ranks: &[u16]) -> Vec<i32> {
        self.encode(|at| ranks.contains(&at))
    }

    /// The elements of a payload as whole numbers; `None` if one is not.
    pub(crate) fn decode(&self, payload: &[u8]) -> Option<Vec<u32>> {
        payload.chunks(self.dtype.size()).map(|bytes| self.number(bytes)).collect()
    }

    fn number(&self, bytes: &[u8]) -> Option<u32> {
        let value = match (self.dtype, bytes) {
            (DType::F32, &[a, b, c, d]) => f64::from(f32::from_le_bytes([a, b, c, d])),
            (DType::I32, &[a, b, c, d]) => f64::from(i32::from_le_bytes([a, b, c, d])),
            (DType::U32, &[a, b, c, d]) => f64::from(u32::from_le_bytes([a, b, c, d])),
            (DType::F16, &[a, b]) => half::f16::from_le_bytes([a, b]).to_f64(),
            (DType::Bf16, &[a, b]) => half::bf16::from_le_bytes([a, b]).to_f64(),
            (DType::F64, bytes) => f64::from_le_bytes(bytes.try_into().ok()?),
            _ => return None,
        };
        (0..=1000).find(|&number| f64::from(number) == value)
    }
}

/// A pool, and jobs that use it. Job `n` has the number `n`.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    pub(crate) config: PoolConfig,
    pub(crate) jobs: Vec<JobPlan>,
    /// Whatever the fast path recognises comes in as a burst.
    pub(crate) fast: bool,
}

impl Plan {
    pub(crate) fn shared_sets(&self) -> usize {
        (self.config.slots - self.config.reserved) / self.config.ways
    }
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum What {
    Add(Twist),
    /// The ranks one after the other, without the last few.
    Round {
        short: u16,
    },
    Remind,
    Fetch,
    Release,
    Install,
    /// A result of those ranks whose bits are set.
    InstallOf(u8),
    /// This many contributions complete a PSN from now on.
    Need(u16),
    /// The job begins its next generation.
    Generation,
    /// Vacates what belongs to no generation any more, and releases what has waited this many ticks.
    Sweep {
        sets: usize,
        patience: Option<u64>,
    },
}

/// How a packet differs from what it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Twist {
    None,
    RankOutOfRange,
    FanIn,
    JobFanIn,
    Count,
    ShortPacket,
    Trailing,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) what: What,
    pub(crate) job: usize,
    pub(crate) psn: u32,
    pub(crate) rank: u16,
    pub(crate) priority: u16,
    /// Ticks since the last one.
    pub(crate) pause: u64,
}

fn job(fan_ins: &'static [u16]) -> impl Strategy<Value = (JobPlan, bool)> {
    let dtypes = vec![DType::F32, DType::I32, DType::U32, DType::F16, DType::Bf16, DType::F64];

    (
        proptest::sample::select(fan_ins),
        proptest::sample::select(&ConflictPolicy::ALL),
        prop::bool::weighted(0.3),
        prop_oneof![2 => Just(0u32), 2 => 1u32..4],
        any::<bool>(),
        any::<bool>(),
        any::<u16>(),
        proptest::sample::select(dtypes),
        prop_oneof![Just(0), Just(u32::MAX - 3), any::<u32>()],
    )
        .prop_map(|(fan_in, conflict, by_rank, quota, server, region, needed, dtype, base)| {
            let order = if by_rank { Order::Rank } else { Order::Arrival };
            let policy = Policy { conflict, order, region: None, quota, partial_after: 0, server };
            let needed = if region && !server { needed % fan_in + 1 } else { fan_in };
            (JobPlan { fan_in, policy, needed, dtype, base }, region)
        })
}

/// Three or four jobs; regions of one or two sets come last in the pool, as many as are wanted.
pub(crate) fn plans(fan_ins: &'static [u16]) -> impl Strategy<Value = Plan> {
    let ways = proptest::sample::select(vec![1usize, 2, 4]);
    let jobs = proptest::collection::vec(job(fan_ins), 3..5);
    (ways, jobs, 1u32..3, any::<bool>()).prop_map(|(ways, drawn, sets, fast)| {
        let all = 16;
        let mut end = all;
        let jobs = drawn.into_iter().map(|(mut job, region)| {
            if region {
                end -= sets;
                job.policy.region = Some(Region { first: end, sets });
            }
            job
        });
        let jobs: Vec<JobPlan> = jobs.collect();
        // Two sets for all the others; between them and the regions there is unused room.
        let (shared, reserved) = (2, 14);
        assert!(end >= shared);
        let config = PoolConfig {
            slots: all as usize * ways,
            reserved: reserved * ways,
            ways,
            age_limit: Duration::from_nanos(AGE_LIMIT * TICK),
            remind_interval: Duration::from_micros(REMIND_INTERVAL),
        };
        Plan { config, jobs, fast }
    })
}

fn what() -> impl Strategy<Value = What> {
    use Twist::*;
    let wrong = vec![RankOutOfRange, FanIn, JobFanIn, Count, ShortPacket, Trailing];
    let twist = prop_oneof![6 => Just(None), 1 => proptest::sample::select(wrong)];
    prop_oneof![
        40 => twist.prop_map(What::Add),
        12 => (0u16..3).prop_map(|short| What::Round { short }),
        10 => Just(What::Remind),
        10 => Just(What::Fetch),
        8 => Just(What::Release),
        3 => Just(What::Install),
        6 => any::<u8>().prop_map(What::InstallOf),
        3 => any::<u16>().prop_map(What::Need),
        1 => Just(What::Generation),
        4 => (1usize..8, prop::option::of(0u64..40))
            .prop_map(|(sets, patience)| What::Sweep { sets, patience }),
    ]
}

/// The time from one step to the next, in ticks: mostly short, sometimes beyond the age limit.
fn pause() -> impl Strategy<Value = u64> {
    prop_oneof![20 => 0u64..2, 2 => 2u64..10, 1 => 25u64..60]
}

pub(crate) fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let step = (what(), 0usize..4, 0..PSNS, any::<u16>(), 0u16..8, pause())
        .prop_map(|(what, job, psn, rank, priority, pause)| Step { what, job, psn, rank, priority, pause });
    proptest::collection::vec(step, 1..most)
}
