//! The owner of each set, an lcore.

/// Lcores by number; they own the sets in turn: lcore `n` modulo their number owns set `n`.
///
/// A PSN of the shared part uses a set of lcore `psn` modulo their number. The same holds in a region whose
/// first set is a multiple of that number, if it is a power of two. A NIC that steers PSNs to lcores by their
/// lowest bits thus brings every packet to the owner of its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Owners {
    count: u32,
    /// `count - 1`, if the count is a power of two; otherwise [`Self::ODD`].
    mask: u32,
    /// The count's logarithm, in that case.
    shift: u32,
}

impl Owners {
    const ODD: u32 = u32::MAX;

    /// For this many lcores, at most 2²⁸.
    pub(crate) fn new(lcores: usize) -> Self {
        let count = u32::try_from(lcores.clamp(1, 1 << 28)).unwrap_or(1);
        let mask = if count.is_power_of_two() { count - 1 } else { Self::ODD };
        Self { count, mask, shift: count.ilog2() }
    }

    /// The number of lcores.
    pub(crate) const fn count(self) -> usize {
        self.count as usize
    }

    /// True if there is a single one.
    #[inline(always)]
    pub(crate) const fn is_one(self) -> bool {
        self.mask == 0
    }

    /// The lcore of a set; also of a PSN, if it can be chosen.
    #[inline(always)]
    pub(crate) const fn of(self, number: u32) -> u32 {
        // A single lcore first: it should pay as little as possible.
        match self.mask {
            0 => 0,
            Self::ODD => number % self.count,
            mask => number & mask,
        }
    }

    /// The number of a set among those of its lcore.
    #[inline(always)]
    pub(crate) const fn own(self, set: u32) -> usize {
        let own = match self.mask {
            0 => set,
            Self::ODD => set / self.count,
            _ => set >> self.shift,
        };
        own as usize
    }

    /// The number of `sets` that this lcore owns.
    pub(crate) const fn sets(self, sets: usize, owner: u32) -> usize {
        sets.saturating_sub(owner as usize).div_ceil(self.count as usize)
    }

    /// The set of a PSN: hashed among those of its owner, or among all if there are fewer sets than lcores.
    #[inline(always)]
    pub(crate) const fn place(self, spread_job: u32, psn: u32, groups: Groups) -> u32 {
        let group = groups.among_all(spread_job, psn);
        if groups.of == 1 { group } else { group * groups.of + self.of(psn) }
    }
}

/// Sets in groups: one of each lcore's, side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Groups {
    groups: u32,
    /// Sets in a group.
    of: u32,
}

impl Groups {
    /// The groups of `sets`. A remainder that fills no group is not used, unless there is no whole group.
    pub(crate) fn new(sets: usize, owners: Owners) -> Self {
        let sets = u32::try_from(sets).unwrap_or(u32::MAX);
        match sets / owners.count {
            0 => Self { groups: sets, of: 1 },
            groups => Self { groups, of: owners.count },
        }
    }

    /// The group of a PSN; with a single lcore, its set.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a pool has at most 2^28 slots")]
    pub(crate) const fn among_all(self, spread_job: u32, psn: u32) -> u32 {
        crate::key::place(spread_job, psn, self.groups as usize) as u32
    }
}
