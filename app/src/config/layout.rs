//! How the pool is divided between the jobs.
//!
//! Regions are taken from the end of the pool downwards, in the order in which the jobs are written: the
//! first one ends with the pool's last set. All sets before the regions are the shared part, which therefore
//! begins at set 0. Its size is whatever is left and need not be a power of two.

use pascaline_aggregator::{PoolConfig, Region};

/// The division of a pool, as far as it has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Layout {
    ways: u32,
    /// Sets before the regions.
    shared_sets: u32,
}

impl Layout {
    /// A pool without regions. It has been checked.
    pub(super) fn new(pool: &PoolConfig) -> Self {
        let number = |value: usize| u32::try_from(value).unwrap_or(u32::MAX);
        Self { ways: number(pool.ways).max(1), shared_sets: number(pool.slots / pool.ways.max(1)) }
    }

    /// Takes a region of this many slots; none, and nothing done, where there are not as many left or less
    /// than one set is asked for.
    pub(super) fn take(&mut self, slots: u32) -> Option<Region> {
        let sets = slots / self.ways;
        let first = self.shared_sets.checked_sub(sets)?;
        (sets > 0).then(|| {
            self.shared_sets = first;
            Region { first, sets }
        })
    }

    /// The sets that jobs without a region share, from set 0 on.
    pub(super) const fn shared_sets(&self) -> u32 {
        self.shared_sets
    }

    /// The slots of as many sets.
    pub(super) const fn slots(&self, sets: u32) -> u32 {
        sets.saturating_mul(self.ways)
    }
}

#[cfg(test)]
mod tests;
