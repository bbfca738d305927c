//! The contribution bitmap.

/// A set of ranks below 64 × `WORDS`.
///
/// `WORDS` is 1 for jobs of up to 64 ranks and 16 for up to 1,024; a pool is built for one width.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankSet<const WORDS: usize = 1> {
    words: [u64; WORDS],
}

impl<const WORDS: usize> RankSet<WORDS> {
    /// Ranks that fit.
    pub const CAPACITY: u16 = {
        assert!(WORDS >= 1 && WORDS <= 16, "1 to 1,024 ranks");
        #[expect(clippy::cast_possible_truncation, reason = "at most 1,024")]
        let capacity = (WORDS * 64) as u16;
        capacity
    };

    /// The set without ranks.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    /// Adds a rank. False, and nothing done, if it is there already or does not fit.
    #[must_use]
    #[inline]
    pub fn insert(&mut self, rank: u16) -> bool {
        let Some(word) = self.words.get_mut(usize::from(rank / 64)) else { return false };
        let bit = 1 << (rank % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// True if the rank is in the set.
    #[must_use]
    #[inline]
    pub fn contains(&self, rank: u16) -> bool {
        self.words.get(usize::from(rank / 64)).is_some_and(|word| word & (1 << (rank % 64)) != 0)
    }

    /// Ranks in the set.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    /// The ranks below `ranks` that are not in the set.
    pub fn missing(&self, ranks: u16) -> impl Iterator<Item = u16> + '_ {
        (0..ranks.min(Self::CAPACITY)).filter(|&rank| !self.contains(rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<const WORDS: usize>() {
        let last = RankSet::<WORDS>::CAPACITY - 1;
        let mut set = RankSet::<WORDS>::EMPTY;
        for rank in [0, last - 1, last] {
            assert!(!set.contains(rank));
            assert!(set.insert(rank));
            assert!(set.contains(rank));
            assert!(!set.insert(rank), "a second time");
        }
        assert!(!set.insert(last + 1), "beyond the capacity");
        assert!(!set.contains(last + 1));
        assert_eq!(set.count(), 3);
        assert!(set.missing(u16::MAX).eq(1..last - 1), "no further than the capacity");
        assert!(set.missing(3).eq(1..3));
    }

    #[test]
    fn ranks_up_to_the_last_one_fit() {
        check::<1>();
        check::<2>();
        check::<16>();
    }
}
