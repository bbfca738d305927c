//! The contribution bitmap.

use pascaline_wire::trailer::Bitmap;

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

    /// The word that says whether a rank is in the set, and its bit. `None` if it does not fit.
    #[inline(always)]
    pub(crate) fn place(&mut self, rank: u16) -> Option<(&mut u64, u64)> {
        Some((self.words.get_mut(usize::from(rank / 64))?, 1 << (rank % 64)))
    }

    /// The first 64 ranks by their bits.
    #[must_use]
    pub(crate) const fn of_word(word: u64) -> Self {
        let mut words = [0; WORDS];
        words[0] = word;
        Self { words }
    }

    /// Adds all of these of the first 64 ranks. False, and nothing done, if one is there already.
    #[must_use]
    pub(crate) fn insert_word(&mut self, ranks: u64) -> bool {
        let word = &mut self.words[0];
        let new = *word & ranks == 0;
        if new {
            *word |= ranks;
        }
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

    /// Ranks in the set below this one.
    #[must_use]
    pub fn below(&self, rank: u16) -> u32 {
        let (at, bit) = (usize::from(rank / 64), u32::from(rank % 64));
        let whole: u32 = self.words.iter().take(at).map(|word| word.count_ones()).sum();
        whole + self.words.get(at).map_or(0, |word| (word & ((1 << bit) - 1)).count_ones())
    }

    /// The set as it is sent, for a job of this many ranks. `None` for a job that has none or too many.
    #[must_use]
    pub fn bitmap(&self, ranks: u16) -> Option<Bitmap> {
        let mut bitmap = Bitmap::new(ranks)?;
        (0..ranks.min(Self::CAPACITY))
            .filter(|&rank| self.contains(rank))
            .all(|rank| bitmap.insert(rank))
            .then_some(bitmap)
    }

    /// The set that a bitmap says. `None` if it does not fit.
    #[must_use]
    pub fn of(bitmap: &Bitmap) -> Option<Self> {
        let mut set = Self::EMPTY;
        for (at, &word) in bitmap.words().iter().enumerate() {
            match set.words.get_mut(at) {
                Some(place) => *place = word,
                None if word == 0 => {}
                None => return None,
            }
        }
        Some(set)
    }

    /// The ranks below `ranks` that are not in the set.
    pub fn missing(&self, ranks: u16) -> impl Iterator<Item = u16> + '_ {
        (0..ranks.min(Self::CAPACITY)).filter(|&rank| !self.contains(rank))
    }
}

#[cfg(test)]
#[allow(clippy::expect_used, reason = "that is how tests fail")]
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
        assert_eq!([0, 1, last - 1, last].map(|rank| set.below(rank)), [0, 1, 1, 2]);
        let bitmap = set.bitmap(last + 1).expect("there is such a job");
        assert_eq!(RankSet::<WORDS>::of(&bitmap), Some(set));
        assert_eq!(set.bitmap(0), None);
    }

    #[test]
    fn a_bitmap_with_ranks_beyond_the_capacity_does_not_fit() {
        let mut bitmap = Bitmap::new(128).expect("there is such a job");
        assert_eq!(RankSet::<1>::of(&bitmap), Some(RankSet::EMPTY));
        assert!(bitmap.insert(64));
        assert_eq!(RankSet::<1>::of(&bitmap), None);
        assert!(RankSet::<2>::of(&bitmap).is_some_and(|set| set.contains(64)));
    }

    #[test]
    fn ranks_up_to_the_last_one_fit() {
        check::<1>();
        check::<2>();
        check::<16>();
    }
}
