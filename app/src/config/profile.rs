//! The papers' systems as settings of a job. docs/policies.md has the same as a table.

use pascaline_aggregator::{ConflictPolicy, Order};

/// Where in the pool a job's PSNs are kept (DSA, section II.A: the two classes of in-network aggregation).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Addressing {
    /// `hash(job, psn)`, in the part that all such jobs share: statistical.
    Shared,
    /// `psn mod size + offset`, in a part of the job's own: synchronous.
    Region,
}

/// What a profile sets; every key of it can be overridden.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Preset {
    /// Where PSNs are kept.
    pub addressing: Addressing,
    /// What decides a conflict.
    pub conflict: ConflictPolicy,
    /// When contributions are added.
    pub order: Order,
    /// Whether a parameter server completes what the pool could not.
    pub server: bool,
    /// Whether the ranks may have PSNs complete with fewer contributions than all (SetH and FBcast).
    pub partials: bool,
}

impl Addressing {
    /// The settings of a job whose configuration names no profile: the best that `bench policies` finds for
    /// its addressing. Whether that is a region follows from how much room the pool has (docs/policies.md,
    /// "The default").
    pub const fn preset(self) -> Preset {
        match self {
            Self::Region => Profile::Switchml.preset(),
            Self::Shared => Profile::Dsa.preset(),
        }
    }
}

/// A paper's system.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// DSA, section III: a shared pool with preemption by priority.
    Dsa,
    /// ATP, as DSA's section II.A tells it: a shared pool, first come, first served.
    Atp,
    /// `SwitchML`, as DSA's section II.A tells it: a region for each job.
    Switchml,
    /// iSwitch, section 3: a region for each job, and a threshold that its ranks may change.
    Iswitch,
    /// PANAMA, sections 4 and 5: a region for each job; PANAMA-0.94 is `threshold = 0.94`.
    Panama,
}

impl Profile {
    /// What the profile sets.
    pub const fn preset(self) -> Preset {
        const SHARED: Preset = Preset {
            addressing: Addressing::Shared,
            conflict: ConflictPolicy::FirstCome,
            order: Order::Arrival,
            server: true,
            partials: false,
        };
        const REGION: Preset = Preset { addressing: Addressing::Region, server: false, ..SHARED };
        match self {
            Self::Dsa => Preset { conflict: ConflictPolicy::Preempt, ..SHARED },
            Self::Atp => SHARED,
            Self::Switchml => REGION,
            Self::Iswitch | Self::Panama => Preset { partials: true, ..REGION },
        }
    }
}
