//! A set of ranks: who is missing, who has died.

use core::fmt;

use pascaline_wire::MAX_RANKS;
use pascaline_wire::trailer::Bitmap;

/// A set of ranks of one job, each below 1,024.
///
/// Its `Display` names all of them, in runs: `3, 5 to 9, 12`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Ranks {
    words: [u64; MAX_RANKS as usize / 64],
}

impl Ranks {
    /// No rank.
    pub const EMPTY: Self = Self { words: [0; MAX_RANKS as usize / 64] };

    /// The first `ranks` ranks.
    #[must_use]
    pub fn first(ranks: u16) -> Self {
        let word = |first: usize| match usize::from(ranks).saturating_sub(first) {
            64.. => u64::MAX,
            some => (1 << some) - 1,
        };
        Self { words: core::array::from_fn(|i| word(64 * i)) }
    }

    /// The ranks in a bitmap; `None` if it names one that is not below `ranks`.
    #[must_use]
    pub fn from_bitmap(bitmap: &Bitmap, ranks: u16) -> Option<Self> {
        let words = bitmap.words();
        let set = Self { words: core::array::from_fn(|i| words.get(i).copied().unwrap_or(0)) };
        (set.union(&Self::first(ranks)) == Self::first(ranks)).then_some(set)
    }

    /// The set as a bitmap with room for `ranks` ranks; `None` if that is no legal number. Ranks beyond it are left out.
    #[must_use]
    pub fn to_bitmap(&self, ranks: u16) -> Option<Bitmap> {
        let mut bitmap = Bitmap::new(ranks)?;
        for rank in self.iter().take_while(|&rank| rank < ranks) {
            let _ = bitmap.insert(rank);
        }
        Some(bitmap)
    }

    /// Adds a rank. False, and nothing changes, if it is 1,024 or more.
    pub fn insert(&mut self, rank: u16) -> bool {
        let word = self.words.get_mut(usize::from(rank / 64));
        word.map(|word| *word |= 1 << (rank % 64)).is_some()
    }

    /// True if the rank is in the set.
    #[must_use]
    pub fn contains(&self, rank: u16) -> bool {
        self.words.get(usize::from(rank / 64)).is_some_and(|word| word & (1 << (rank % 64)) != 0)
    }

    /// How many ranks are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// True if no rank is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::EMPTY
    }

    /// The ranks, lowest first.
    pub fn iter(&self) -> impl Iterator<Item = u16> + '_ {
        let bits = |(&word, first): (&u64, u16)| {
            let rest = core::iter::successors(Some(word), |rest| Some(rest & rest.wrapping_sub(1)));
            rest.take_while(|&rest| rest != 0).map(move |rest| first + lowest(rest))
        };
        self.words.iter().zip((0..).step_by(64)).flat_map(bits)
    }

    /// Those of a job's `ranks` ranks that are not in the set.
    #[must_use]
    pub fn missing(&self, ranks: u16) -> Self {
        let all = Self::first(ranks);
        Self { words: core::array::from_fn(|i| all.words[i] & !self.words[i]) }
    }

    /// The ranks of both sets.
    #[must_use]
    pub fn union(&self, other: &Self) -> Self {
        Self { words: core::array::from_fn(|i| self.words[i] | other.words[i]) }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "at most 64")]
const fn lowest(word: u64) -> u16 {
    word.trailing_zeros() as u16
}

impl FromIterator<u16> for Ranks {
    /// Ranks of 1,024 and more are left out: no job has them.
    fn from_iter<I: IntoIterator<Item = u16>>(ranks: I) -> Self {
        ranks.into_iter().fold(Self::EMPTY, |mut set, rank| {
            set.insert(rank);
            set
        })
    }
}

impl fmt::Display for Ranks {
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
