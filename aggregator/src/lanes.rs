//! Which lcore is at home in which set.

/// Lcores by number, and sets dealt out among them in turn: set `n` is that of lcore `n` modulo their number.
///
/// In the shared part of the pool a PSN's set is chosen among those of lcore `psn` modulo their number, and so it is in a region whose
/// first set is a multiple of it, if it is a power of two. So a NIC that steers PSNs to lcores by their lowest bits brings
/// every packet to where its slot is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Lanes {
    count: u32,
    /// `count - 1`, if that is a power of two; else [`Self::ODD`].
    mask: u32,
}

impl Lanes {
    const ODD: u32 = u32::MAX;

    /// For so many lcores; at most 2²⁸ are told apart.
    pub(crate) fn new(lcores: usize) -> Self {
        let count = u32::try_from(lcores.clamp(1, 1 << 28)).unwrap_or(1);
        Self { count, mask: if count.is_power_of_two() { count - 1 } else { Self::ODD } }
    }

    /// How many there are.
    pub(crate) const fn count(self) -> usize {
        self.count as usize
    }

    /// The lcore of a set; and of a PSN, where there is a choice.
    #[inline(always)]
    pub(crate) const fn of(self, number: u32) -> u32 {
        if self.mask == Self::ODD { number % self.count } else { number & self.mask }
    }

    /// How many of so many sets are this lcore's.
    pub(crate) const fn sets(self, sets: usize, lane: u32) -> usize {
        sets.saturating_sub(lane as usize).div_ceil(self.count as usize)
    }

    /// The set of a PSN among `sets`, which are at least one: hashed among those of its lcore; among all, if there are fewer
    /// sets than lcores.
    #[inline(always)]
    pub(crate) const fn place(self, spread_job: u32, psn: u32, groups: Groups) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "a pool has at most 2^28 slots")]
        let group = crate::key::place(spread_job, psn, groups.groups as usize) as u32;
        group * groups.of + if groups.of == 1 { 0 } else { self.of(psn) }
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
    /// Of so many sets. Those that make no whole group are not used, but for where there is none.
    pub(crate) fn new(sets: usize, lanes: Lanes) -> Self {
        let sets = u32::try_from(sets).unwrap_or(u32::MAX);
        match sets / lanes.count {
            0 => Self { groups: sets, of: 1 },
            groups => Self { groups, of: lanes.count },
        }
    }
}
