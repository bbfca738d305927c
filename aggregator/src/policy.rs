//! How a job uses the pool: the differences between the systems whose policies can be chosen, on one slot
//! state machine.

/// Which PSN gets a slot that holds another one's partial.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum ConflictPolicy {
    /// The holder; the newcomer goes to the parameter server, or is refused (ATP).
    #[default]
    FirstCome = 0,
    /// The one with the higher priority; the loser goes to the parameter server. A newcomer that fails halves
    /// the holder's priority, so that no slot is held forever (DSA, section V).
    Preempt = 1,
    /// The newcomer (DSA, section VII.C: a strawman).
    Always = 2,
    /// Either, with even chances (DSA, section VII.C: a strawman).
    Coin = 3,
}

impl ConflictPolicy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::FirstCome, Self::Preempt, Self::Always, Self::Coin];

    /// Its name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::FirstCome => "first-come",
            Self::Preempt => "preempt",
            Self::Always => "always",
            Self::Coin => "coin",
        }
    }
}

/// The order in which contributions are added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(u8)]
pub enum Order {
    /// As they arrive (iSwitch, section 3.3: on the fly).
    #[default]
    Arrival = 0,
    /// By rank, once all are there: the same inputs give the same bits, whatever the network did.
    Rank = 1,
}

impl Order {
    /// All of them.
    pub const ALL: [Self; 2] = [Self::Arrival, Self::Rank];

    /// Its name in configurations.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Arrival => "arrival",
            Self::Rank => "rank",
        }
    }
}

// `Rules::conflict` takes an entry of `ALL` by its number.
const _: () = {
    let mut code = 0;
    while code < ConflictPolicy::ALL.len() {
        assert!(ConflictPolicy::ALL[code] as usize == code);
        code += 1;
    }
};

/// A job's own part of the pool, in sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// The first set.
    pub first: u32,
    /// Their number, a power of two.
    pub sets: u32,
}

/// How a job uses the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Policy {
    /// The rule for conflicts.
    pub conflict: ConflictPolicy,
    /// The order in which contributions are added.
    pub order: Order,
    /// The job's own part of the pool; `None` for the part that all other jobs share by hash.
    pub region: Option<Region>,
    /// Slots of partials that the job may hold at once; 0 for any number.
    pub quota: u32,
    /// Nanoseconds after which a partial is sent out as the result, with the ranks that are inside; 0 for
    /// never. Only in a region.
    pub partial_after: u64,
    /// Losers of conflicts and evicted partials go to the parameter server; otherwise losers are refused and
    /// evicted partials are given up: the ranks send them again.
    pub server: bool,
}
