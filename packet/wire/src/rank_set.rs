//! The contribution bitmap (DSA, section III.B).

use core::fmt;
use core::ops::BitOr;

use crate::trailer::Bitmap;

/// A set of ranks below 64 × `WORDS`; rank *r* is bit *r* mod 64 of word *r* div 64.
///
/// `WORDS` is 1 for jobs of up to 64 ranks and 16 for up to 1,024. `Display` names the ranks in runs:
/// `3, 5 to 9, 12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct RankSet<const WORDS: usize = 16> {
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

    /// The ranks below `ranks` that fit.
    #[must_use]
    pub fn first(ranks: u16) -> Self {
        let word = |first: usize| match usize::from(ranks).saturating_sub(first) {
            64.. => u64::MAX,
            some => (1 << some) - 1,
        };
        Self { words: core::array::from_fn(|at| word(64 * at)) }
    }

    /// The words, rank 0 in the lowest bit of the first.
    pub(crate) const fn words(&self) -> &[u64; WORDS] {
        &self.words
    }

    pub(crate) const fn from_words(words: [u64; WORDS]) -> Self {
        Self { words }
    }

    /// The first 64 ranks by their bits.
    #[must_use]
    pub const fn of_word(word: u64) -> Self {
        let mut words = [0; WORDS];
        words[0] = word;
        Self { words }
    }

    /// Adds a rank. Returns false and changes nothing if it is there already or does not fit.
    #[must_use]
    #[inline]
    pub fn insert(&mut self, rank: u16) -> bool {
        let Some(word) = self.words.get_mut(usize::from(rank / 64)) else { return false };
        let bit = 1 << (rank % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    /// The word that holds a rank's bit, and the bit. `None` if it does not fit.
    #[inline(always)]
    pub fn place(&mut self, rank: u16) -> Option<(&mut u64, u64)> {
        Some((self.words.get_mut(usize::from(rank / 64))?, 1 << (rank % 64)))
    }

    /// Adds all of these of the first 64 ranks. Returns false and changes nothing if one is there already.
    #[must_use]
    #[inline]
    pub fn insert_word(&mut self, ranks: u64) -> bool {
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

    /// True if the rank is not in the set, and fits.
    #[must_use]
    #[inline]
    pub fn lacks(&self, rank: u16) -> bool {
        self.words.get(usize::from(rank / 64)).is_some_and(|word| word & (1 << (rank % 64)) == 0)
    }

    /// Ranks in the set, at most 1,024.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 1,024")]
    pub fn len(&self) -> u16 {
        self.words.iter().map(|word| word.count_ones()).sum::<u32>() as u16
    }

    /// True if no rank is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
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

    /// The ranks below `ranks` that fit and are not in the set.
    #[must_use]
    pub fn missing(&self, ranks: u16) -> Self {
        let all = Self::first(ranks);
        Self { words: core::array::from_fn(|at| all.words[at] & !self.words[at]) }
    }

    /// The ranks, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u16> + use<WORDS> {
        let bits = |(word, first): (u64, u16)| {
            let rest = core::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)));
            rest.take_while(|&rest| rest != 0).map(move |rest| first + lowest(rest))
        };
        self.words.into_iter().zip((0..).step_by(64)).flat_map(bits)
    }

    /// The set of a bitmap. `None` if it names a rank of `ranks` or above, or one that does not fit.
    #[must_use]
    pub fn from_bitmap(bitmap: &Bitmap, ranks: u16) -> Option<Self> {
        let (words, beyond) = bitmap.words().split_at(WORDS.min(bitmap.words().len()));
        let set = Self { words: core::array::from_fn(|at| words.get(at).copied().unwrap_or(0)) };
        (beyond.iter().all(|&word| word == 0) && Self::first(ranks).includes(&set)).then_some(set)
    }

    /// The ranks below `ranks` as a bitmap for a job of that many. `None` if there can be no such job.
    #[must_use]
    pub fn to_bitmap(&self, ranks: u16) -> Option<Bitmap> {
        let mut bitmap = Bitmap::new(ranks)?;
        self.iter().take_while(|&rank| rank < ranks).all(|rank| bitmap.insert(rank)).then_some(bitmap)
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most 64")]
const fn lowest(word: u64) -> u16 {
    word.trailing_zeros() as u16
}

impl<const WORDS: usize> BitOr for RankSet<WORDS> {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self { words: core::array::from_fn(|at| self.words[at] | other.words[at]) }
    }
}

impl<const WORDS: usize> Default for RankSet<WORDS> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<const WORDS: usize> FromIterator<u16> for RankSet<WORDS> {
    /// Ranks that do not fit are left out.
    fn from_iter<I: IntoIterator<Item = u16>>(ranks: I) -> Self {
        ranks.into_iter().fold(Self::EMPTY, |mut set, rank| {
            let _ = set.insert(rank);
            set
        })
    }
}

impl<const WORDS: usize> fmt::Display for RankSet<WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        let mut ranks = self.iter().peekable();
        while let Some(first) = ranks.next() {
            let mut last = first;
            while let Some(next) = ranks.next_if(|&next| next == last + 1) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{separator}{first}")?,
                1 => write!(f, "{separator}{first}, {last}")?,
                _ => write!(f, "{separator}{first} to {last}")?,
            }
            separator = ", ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
