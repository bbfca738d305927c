//! Optional elements after the payload: type-length-value, found from the end.
//!
//! A packet whose header has the flag [`TRAILER`](crate::Flags::TRAILER) ends in elements of {type u8, length
//! u8, value} followed by a u16 that gives the length of the whole trailer, itself included. Types ascend, so
//! each occurs at most once, the number of elements is bounded, and a trailer has one encoding only; types
//! not defined here are refused. Everything is in network byte order, the bitmap included: rank 0 is the
//! lowest bit of the last byte.

use crate::malformed::{Malformed, NoRoom};
use crate::rank_set::RankSet;

pub use self::reports::{Operation, Operations, RankReport, RankReports, RankState};
pub use self::sentence::Sentence;

mod reports;
mod sentence;
mod texts;

/// The longest trailer: all seven elements, the bitmap at its widest, as many ranks as there may be, and the
/// longest sentence.
pub const MAX_LEN: usize = BITMAP_LEN + (2 + 12) + (2 + 7) + (2 + Operations::LEN) + RANKS_LEN - 2
    + (2 + Sentence::MAX)
    + (2 + Seal::LEN);

/// The longest trailer that has nothing but reports of ranks.
pub const RANKS_LEN: usize = 2 + RankReports::MAX * RankReport::LEN + 2;

/// The longest trailer that has nothing but a bitmap.
pub const BITMAP_LEN: usize = 2 + BITMAP_MAX + 2;

/// The longest trailer of an acknowledgement: update and queue state.
pub const ACK_LEN: u16 = (2 + 12) + (2 + 7) + 2;

const BITMAP_MAX: usize = 128;
const BITMAP: u8 = 1;
const UPDATE: u8 = 2;
const QUEUE: u8 = 3;
const OPERATIONS: u8 = 5;
const RANKS: u8 = 6;
const SENTENCE: u8 = 7;
const SEAL: u8 = 8;

/// A contribution bitmap of up to 1,024 ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Bitmap {
    ranks: RankSet,
    len: u8,
}

impl Bitmap {
    /// An empty bitmap with room for `ranks` ranks, in whole 64-bit words.
    ///
    /// `None` unless 1 ≤ `ranks` ≤ 1,024.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "at most 128")]
    pub fn new(ranks: u16) -> Option<Self> {
        (1..=crate::MAX_RANKS)
            .contains(&ranks)
            .then(|| Self { ranks: RankSet::EMPTY, len: (ranks.div_ceil(64) * 8) as u8 })
    }

    /// Ranks it has room for.
    #[must_use]
    pub fn capacity(&self) -> u16 {
        u16::from(self.len) * 8
    }

    /// Marks a rank. False if there is no room for it.
    #[must_use]
    pub fn insert(&mut self, rank: u16) -> bool {
        let fits = rank < self.capacity();
        if fits {
            let _ = self.ranks.insert(rank);
        }
        fits
    }

    /// True if the rank is marked.
    #[must_use]
    pub fn contains(&self, rank: u16) -> bool {
        self.ranks.contains(rank)
    }

    /// Ranks marked.
    #[must_use]
    pub fn count(&self) -> u16 {
        self.ranks.len()
    }

    /// The words, rank 0 in the lowest bit of the first.
    #[must_use]
    pub fn words(&self) -> &[u64] {
        &self.ranks.words()[..usize::from(self.len) / 8]
    }

    fn parse(value: &[u8]) -> Option<Self> {
        if value.is_empty() || value.len() > BITMAP_MAX || !value.len().is_multiple_of(8) {
            return None;
        }
        let mut words = [0; 16];
        for (word, chunk) in words.iter_mut().zip(value.rchunks_exact(8)) {
            *word = u64::from_be_bytes(chunk.try_into().ok()?);
        }
        Some(Self { ranks: RankSet::from_words(words), len: u8::try_from(value.len()).ok()? })
    }
}

/// Olaf's data of an update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// The reward that the update was computed from.
    pub reward: f32,
    /// When it was generated, in nanoseconds since 1970.
    pub generated_ns: u64,
}

/// State of the bottleneck queue, stamped on the reverse path (Olaf, sections 5 and 7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueueState {
    /// Active clusters, N.
    pub clusters: u16,
    /// Capacity in updates, Q_max.
    pub capacity: u16,
    /// Waiting updates, Q_n; at most 2²⁴ − 1.
    pub waiting: u32,
}

impl QueueState {
    /// Of this queue and another on the same path the one with the smaller chance Q_max / N that a cluster
    /// sends at will: the bottleneck (Olaf, section 5). This one if both are equal.
    #[must_use]
    pub const fn narrower(self, other: Self) -> Self {
        let here = self.capacity as u32 * other.clusters as u32;
        let there = other.capacity as u32 * self.clusters as u32;
        if there < here { other } else { self }
    }
}

/// The proof that the packet is its sender's, made and checked by `pascaline-seal`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seal {
    /// A number that its sender uses once under a key.
    pub counter: u64,
    /// The authentication tag.
    pub tag: u128,
}

impl Seal {
    const LEN: usize = 8 + 16;

    fn parse(value: &[u8]) -> Option<Self> {
        let (counter, tag) = value.split_first_chunk::<8>()?;
        Some(Self { counter: u64::from_be_bytes(*counter), tag: u128::from_be_bytes(tag.try_into().ok()?) })
    }
}

/// The trailer's elements.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Trailer {
    /// Which ranks are inside.
    pub bitmap: Option<Bitmap>,
    /// Olaf's update data.
    pub update: Option<Update>,
    /// The bottleneck queue's state.
    pub queue: Option<QueueState>,
    /// Two operations that ranks call at the same PSN.
    pub operations: Option<Operations>,
    /// Reports on missing ranks.
    pub ranks: Option<RankReports>,
    /// The reason, in words.
    pub sentence: Option<Sentence>,
    /// Counter and authentication tag.
    pub seal: Option<Seal>,
}

impl Trailer {
    /// Splits `body` (payload and trailer) into payload and trailer.
    ///
    /// # Errors
    /// `Trailer` if the lengths do not add up or an element is unknown, out of order or of the wrong size.
    pub fn split(body: &[u8]) -> Result<(&[u8], Self), Malformed> {
        let (_, length) = body.split_last_chunk::<2>().ok_or(Malformed::Trailer)?;
        let length = usize::from(u16::from_be_bytes(*length));
        let start = body.len().checked_sub(length).ok_or(Malformed::Trailer)?;
        let (payload, trailer) = body.split_at(start);
        let elements = trailer.len().checked_sub(2).ok_or(Malformed::Trailer)?;
        Ok((payload, Self::parse_elements(&trailer[..elements]).ok_or(Malformed::Trailer)?))
    }

    fn parse_elements(mut bytes: &[u8]) -> Option<Self> {
        let mut trailer = Self::default();
        let mut last = 0;
        while let Some((&[kind, length], rest)) = bytes.split_first_chunk::<2>() {
            let (value, rest) = rest.split_at_checked(usize::from(length))?;
            if kind <= last {
                return None;
            }
            match kind {
                BITMAP => trailer.bitmap = Some(Bitmap::parse(value)?),
                UPDATE => {
                    let (reward, generated) = value.split_first_chunk::<4>()?;
                    trailer.update = Some(Update {
                        reward: f32::from_be_bytes(*reward),
                        generated_ns: u64::from_be_bytes(generated.try_into().ok()?),
                    });
                }
                QUEUE => {
                    let &[n0, n1, c0, c1, w0, w1, w2] = value else { return None };
                    trailer.queue = Some(QueueState {
                        clusters: u16::from_be_bytes([n0, n1]),
                        capacity: u16::from_be_bytes([c0, c1]),
                        waiting: u32::from_be_bytes([0, w0, w1, w2]),
                    });
                }
                OPERATIONS => trailer.operations = Some(Operations::parse(value)?),
                RANKS => trailer.ranks = Some(RankReports::parse(value)?),
                SENTENCE => trailer.sentence = Some(Sentence::parse(value)?),
                SEAL => trailer.seal = Some(Seal::parse(value)?),
                _ => return None,
            }
            last = kind;
            bytes = rest;
        }
        bytes.is_empty().then_some(trailer)
    }

    /// Bytes that [`emit`](Self::emit) writes.
    #[must_use]
    pub fn emitted_len(&self) -> usize {
        2 + self.bitmap.map_or(0, |bitmap| 2 + usize::from(bitmap.len))
            + self.update.map_or(0, |_| 14)
            + self.queue.map_or(0, |_| 9)
            + self.operations.map_or(0, |_| 2 + Operations::LEN)
            + self.ranks.as_ref().map_or(0, |ranks| 2 + ranks.value_len())
            + self.sentence.as_ref().map_or(0, |sentence| 2 + sentence.as_bytes().len())
            + self.seal.map_or(0, |_| 2 + Seal::LEN)
    }

    /// Writes the trailer to the start of `out` and returns its length. `waiting` beyond 24 bits is written
    /// as 2²⁴ − 1.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`emitted_len`](Self::emitted_len).
    pub fn emit(&self, out: &mut [u8]) -> Result<usize, NoRoom> {
        let total = self.emitted_len();
        let mut writer = Writer { out: out.get_mut(..total).ok_or(NoRoom)? };
        if let Some(bitmap) = &self.bitmap {
            writer.put(&[BITMAP, bitmap.len])?;
            for word in bitmap.words().iter().rev() {
                writer.put(&word.to_be_bytes())?;
            }
        }
        if let Some(update) = &self.update {
            writer.put(&[UPDATE, 12])?;
            writer.put(&update.reward.to_be_bytes())?;
            writer.put(&update.generated_ns.to_be_bytes())?;
        }
        if let Some(queue) = &self.queue {
            writer.put(&[QUEUE, 7])?;
            writer.put(&queue.clusters.to_be_bytes())?;
            writer.put(&queue.capacity.to_be_bytes())?;
            writer.put(&queue.waiting.min(0x00ff_ffff).to_be_bytes()[1..])?;
        }
        if let Some(operations) = &self.operations {
            writer.put(&[OPERATIONS, 32])?;
            writer.put(&operations.to_bytes())?;
        }
        if let Some(ranks) = &self.ranks {
            writer.put(&[RANKS, u8::try_from(ranks.value_len()).map_err(|_| NoRoom)?])?;
            for report in ranks.as_slice() {
                writer.put(&report.to_bytes())?;
            }
        }
        if let Some(sentence) = &self.sentence {
            let text = sentence.as_bytes();
            writer.put(&[SENTENCE, u8::try_from(text.len()).map_err(|_| NoRoom)?])?;
            writer.put(text)?;
        }
        if let Some(seal) = &self.seal {
            writer.put(&[SEAL, 24])?;
            writer.put(&seal.counter.to_be_bytes())?;
            writer.put(&seal.tag.to_be_bytes())?;
        }
        writer.put(&u16::try_from(total).map_err(|_| NoRoom)?.to_be_bytes())?;
        Ok(total)
    }
}

struct Writer<'a> {
    out: &'a mut [u8],
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) -> Result<(), NoRoom> {
        let (head, rest) = core::mem::take(&mut self.out).split_at_mut_checked(bytes.len()).ok_or(NoRoom)?;
        head.copy_from_slice(bytes);
        self.out = rest;
        Ok(())
    }
}
