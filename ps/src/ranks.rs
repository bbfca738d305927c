//! Which ranks' contributions are inside (DSA, section III.B: the bitmap).

use pascaline_wire::MAX_RANKS;
use pascaline_wire::trailer::Bitmap;

const WORDS: usize = MAX_RANKS as usize / 64;

/// A set of ranks below 1,024; rank *r* is bit *r* mod 64 of word *r* div 64.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RankSet {
    words: [u64; WORDS],
}

impl RankSet {
    /// The set without ranks.
    pub const EMPTY: Self = Self { words: [0; WORDS] };

    /// The ranks below `ranks`, at most 1,024.
    #[must_use]
    pub fn first(ranks: u16) -> Self {
        let mut set = Self::EMPTY;
        for (word, first) in set.words.iter_mut().zip((0_u16..).step_by(64)) {
            *word = match ranks.saturating_sub(first) {
                0 => 0,
                inside @ 1..64 => (1 << inside) - 1,
                _ => u64::MAX,
            };
        }
        set
    }

    /// Adds a rank. False, and nothing done, if it is there already or does not fit.
    #[must_use]
    pub fn insert(&mut self, rank: u16) -> bool {
        let Some(word) = self.words.get_mut(usize::from(rank / 64)) else { return false };
        let bit = 1 << (rank % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// True if the rank is in the set.
    #[must_use]
    pub fn contains(&self, rank: u16) -> bool {
        self.words.get(usize::from(rank / 64)).is_some_and(|word| word & (1 << (rank % 64)) != 0)
    }

    /// Ranks in the set, at most 1,024.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 1,024")]
    pub fn count(&self) -> u16 {
        self.words.iter().map(|word| word.count_ones()).sum::<u32>() as u16
    }

    /// True if the sets have a rank in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).any(|(here, there)| here & there != 0)
    }

    /// True if every rank of `other` is in this set.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        self.words.iter().zip(&other.words).all(|(here, there)| there & !here == 0)
    }

    /// Adds all ranks of the other set.
    pub fn merge(&mut self, other: &Self) {
        for (here, there) in self.words.iter_mut().zip(&other.words) {
            *here |= there;
        }
    }

    /// The ranks in the set, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        (0..MAX_RANKS).filter(|&rank| self.contains(rank))
    }

    /// The first rank from `from` on and below `ranks` that is not in the set.
    #[must_use]
    pub fn next_missing(&self, from: u16, ranks: u16) -> Option<u16> {
        (from..ranks.min(MAX_RANKS)).find(|&rank| !self.contains(rank))
    }

    /// The set of a bitmap trailer; `None` if it names a rank of `ranks` or above.
    #[must_use]
    pub fn from_bitmap(bitmap: &Bitmap, ranks: u16) -> Option<Self> {
        let mut set = Self::EMPTY;
        for (here, there) in set.words.iter_mut().zip(bitmap.words()) {
            *here = *there;
        }
        set.iter().all(|rank| rank < ranks).then_some(set)
    }

    /// The set as a bitmap trailer for a job of `ranks` ranks, without those beyond; `None` if there cannot be such a
    /// job.
    #[must_use]
    pub fn to_bitmap(&self, ranks: u16) -> Option<Bitmap> {
        let mut bitmap = Bitmap::new(ranks)?;
        self.iter().filter(|&rank| rank < ranks).all(|rank| bitmap.insert(rank)).then_some(bitmap)
    }
}
