//! How the pool is divided between the jobs.
//!
//! Regions are taken from the end of the pool downwards, in the order in which the jobs are written: the first one ends
//! with the pool's last set. All sets before the regions are the shared part, which therefore begins at set 0. Its size
//! is whatever is left and need not be a power of two.

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

    /// Takes a region of this many slots; none, and nothing done, where there are not as many left or less than one
    /// set is asked for.
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
mod tests {
    use super::*;

    #[test]
    fn regions_lie_at_the_end_and_the_shared_part_before_them() {
        let mut layout = Layout::new(&PoolConfig { slots: 64, ways: 4, ..PoolConfig::default() });
        assert_eq!(layout.take(16), Some(Region { first: 12, sets: 4 }));
        assert_eq!(layout.take(4), Some(Region { first: 11, sets: 1 }));
        assert_eq!((layout.shared_sets(), layout.slots(layout.shared_sets())), (11, 44));
        assert_eq!(layout.take(48), None, "44 are left");
        assert_eq!(layout.take(2), None, "less than a set");
        assert_eq!(layout.take(44), Some(Region { first: 0, sets: 11 }));
        assert_eq!((layout.shared_sets(), layout.take(4)), (0, None));
    }

    #[test]
    fn regions_neither_overlap_nor_leave_gaps() {
        let mut layout = Layout::new(&PoolConfig { slots: 1024, ways: 2, ..PoolConfig::default() });
        let mut end = 512;
        for slots in [2, 128, 64, 256, 2, 32] {
            let region = layout.take(slots).unwrap();
            assert_eq!((region.first + region.sets, region.sets * 2), (end, slots));
            end = region.first;
        }
        assert_eq!(layout.shared_sets(), end);
    }
}
