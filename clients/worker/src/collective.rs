//! The collective operations other than allreduce, as operations of the same stream of PSNs.
//!
//! Each is built from additions at the appliance:
//!
//! | collective | a rank contributes | and takes |
//! |---|---|---|
//! | reduce | its tensor | everything at the root, nothing elsewhere |
//! | broadcast | its tensor at the root, zeros elsewhere | everything |
//! | barrier | nothing | nothing |
//! | reduce_scatter | its tensor | its part |
//! | allgather | its part, zeros elsewhere | everything |
//!
//! Copied bytes travel as `i32`: an integer plus zeros is that integer, whatever its bytes meant.
//!
//! The first PSN compares the ranks' calls. Each contributes numbers and their negatives, and the appliance
//! takes the maximum of each: so every rank learns the largest and the smallest, and if both equal its own,
//! all are equal. It is in flight together with the others and costs no round trip of its own; a barrier is
//! this PSN alone.

use core::ops::Range;

use pascaline_wire::{Call, Collective as Kind, DType, Element};

use crate::Op;
use crate::session::StartError;

/// An operation of all ranks. All call the same, with the same tensor's length and element type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collective<'a> {
    /// Every rank's tensor is replaced by the combination of all of them.
    Allreduce(Op),
    /// The root's tensor is replaced by it; those of others stay as they are.
    Reduce {
        /// The operation that combines elements.
        op: Op,
        /// The rank that gets it.
        root: u16,
    },
    /// Every tensor is replaced by the root's, bit by bit.
    Broadcast {
        /// The rank that has it.
        root: u16,
    },
    /// No rank continues before all have arrived. Its tensor is empty.
    Barrier,
    /// A rank's part of its tensor is replaced by the combination of that part of all tensors. The rest stays
    /// as it is.
    ReduceScatter {
        /// The operation that combines elements.
        op: Op,
        /// Whose part is where.
        parts: Parts<'a>,
    },
    /// Every part of the tensor is replaced by that of the rank whose part it is, bit by bit.
    Allgather {
        /// Whose part is where.
        parts: Parts<'a>,
    },
}

/// How a tensor is divided among the ranks: in their order, without gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Parts<'a> {
    /// As evenly as whole elements allow; the first ranks have one more.
    Even,
    /// The number of elements of each part, which may be 0.
    Counts(&'a [usize]),
}

impl Parts<'_> {
    /// The elements of a tensor of `elements` that are a rank's part.
    ///
    /// # Errors
    /// [`StartError::Parts`] if there is not one count for each rank, or they do not add up to the tensor.
    pub fn of(self, rank: u16, ranks: u16, elements: usize) -> Result<Range<usize>, StartError> {
        let (rank, count) = (usize::from(rank), usize::from(ranks.max(1)));
        match self {
            Self::Even => {
                let (each, more) = (elements / count, elements % count);
                let begin = rank * each + rank.min(more);
                Ok(begin..begin + each + usize::from(rank < more))
            }
            Self::Counts(counts) => {
                let sum = counts.iter().try_fold(0usize, |sum, &count| sum.checked_add(count));
                let parts = counts.len();
                let wrong = StartError::Parts { parts, ranks, sum: sum.unwrap_or(usize::MAX), elements };
                if parts != count || sum != Some(elements) {
                    return Err(wrong);
                }
                let begin = counts.iter().take(rank).sum();
                Ok(begin..begin + counts.get(rank).ok_or(wrong)?)
            }
        }
    }

    /// A number that most likely differs for other parts; 0 for even ones.
    fn digest(self) -> u32 {
        match self {
            Self::Even => 0,
            // FNV-1a, over whole counts.
            Self::Counts(counts) => {
                let hash = counts.iter().fold(0xcbf2_9ce4_8422_2325, |hash: u64, &count| {
                    (hash ^ count as u64).wrapping_mul(0x0100_0000_01b3)
                });
                (hash >> 32) as u32 & NUMBER | 1
            }
        }
    }
}

/// Numbers of a tag are not negative, so that their negatives are numbers, too.
const NUMBER: u32 = i32::MAX as u32;
/// Numbers that the ranks compare.
const COMPARED: usize = 5;
/// Bytes of the first PSN's payload: the numbers, their negatives, and the last bytes, which fill no integer.
pub const TAG: usize = 4 * (2 * COMPARED + 1);
/// How the appliance combines tags.
pub(crate) const TAGS: Element = Element { dtype: DType::I32, op: Op::Max };

/// A rank's contribution, and which results it takes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) call: Call,
    /// As the user sees it.
    pub(crate) element: Element,
    pub(crate) digest: u32,
    /// The bytes that it contributes; elsewhere it contributes zeros.
    pub(crate) give: Range<usize>,
    /// The bytes that are replaced by results.
    pub(crate) take: Range<usize>,
    /// The last bytes, which fill no integer, of what it contributes.
    tail: u32,
}

impl Plan {
    /// A rank's plan of a collective on a tensor of `bytes` bytes.
    pub(crate) fn new(
        collective: &Collective<'_>,
        (rank, ranks): (u16, u16),
        (bytes, dtype): (usize, DType),
    ) -> Result<Self, StartError> {
        let (all, none, size) = (0..bytes, 0..0, dtype.size());
        let part = |parts: Parts<'_>| {
            let part = parts.of(rank, ranks, bytes / size)?;
            Ok::<_, StartError>((part.start * size..part.end * size, parts.digest()))
        };
        let root = |root: u16| if root < ranks { Ok(root) } else { Err(StartError::Root { root, ranks }) };
        let (kind, op, argument, digest, give, take) = match *collective {
            Collective::Allreduce(op) => (Kind::Allreduce, op, 0, 0, all.clone(), all),
            Collective::Reduce { op, root: to } => {
                let take = if root(to)? == rank { all.clone() } else { none };
                (Kind::Reduce, op, to, 0, all, take)
            }
            Collective::Broadcast { root: from } => {
                let give = if root(from)? == rank { all.clone() } else { none };
                (Kind::Broadcast, Op::Sum, from, 0, give, all)
            }
            Collective::Barrier if bytes > 0 => return Err(StartError::NotEmpty { bytes }),
            Collective::Barrier => (Kind::Barrier, Op::Sum, 0, 0, none.clone(), none),
            Collective::ReduceScatter { op, parts } => {
                let (take, digest) = part(parts)?;
                (Kind::ReduceScatter, op, short(digest), digest, all, take)
            }
            Collective::Allgather { parts } => {
                let (give, digest) = part(parts)?;
                (Kind::Allgather, Op::Sum, short(digest), digest, give, all)
            }
        };
        let call = Call { collective: kind, argument };
        Ok(Self { call, element: Element { dtype, op }, digest, give, take, tail: 0 })
    }

    /// The element type in which the data travels.
    pub(crate) const fn on_the_wire(&self) -> Element {
        if self.call.collective.copies() { Element::I32_SUM } else { self.element }
    }

    /// The last bytes of a tensor, which go with the first PSN.
    pub(crate) const fn tail(&self, bytes: usize) -> Range<usize> {
        let rest = if self.call.collective.copies() { bytes % 4 } else { 0 };
        bytes - rest..bytes
    }

    /// Turns the tensor into the rank's contribution.
    pub(crate) fn prepare(&mut self, tensor: &mut [u8]) {
        if !self.call.collective.copies() {
            return;
        }
        let Range { start, end } = self.give;
        for foreign in [0..start, end..tensor.len()] {
            if let Some(place) = tensor.get_mut(foreign) {
                place.fill(0);
            }
        }
        let tail = tensor.get(self.tail(tensor.len())).unwrap_or_default();
        self.tail = tail.iter().rev().fold(0, |tail, &byte| tail << 8 | u32::from(byte));
    }

    /// The numbers that the ranks compare.
    #[expect(clippy::cast_possible_truncation, reason = "31 bits of it")]
    fn numbers(&self, bytes: usize) -> [u32; COMPARED] {
        let Call { collective, argument } = self.call;
        let kind = (collective as u32) << 16 | u32::from(argument);
        let [low, high] = [bytes as u64, bytes as u64 >> 31].map(|part| part as u32 & NUMBER);
        [kind, u32::from(self.element.code()), low, high, self.digest]
    }

    /// The payload of the first PSN.
    pub(crate) fn tag(&self, bytes: usize) -> [u8; TAG] {
        let mut tag = [0; TAG];
        let numbers = self.numbers(bytes);
        let negatives = numbers.map(u32::wrapping_neg);
        let words = numbers.into_iter().chain(negatives).chain([self.tail]);
        for (place, word) in tag.chunks_exact_mut(4).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        tag
    }

    /// The bytes that fill no integer, out of the first PSN's result; `None` if the ranks call different
    /// operations.
    pub(crate) fn compare(&self, bytes: usize, result: &[u8; TAG]) -> Option<[u8; 4]> {
        let (numbers, tail) = result.split_last_chunk()?;
        (*numbers == self.tag(bytes)[..numbers.len()]).then_some(*tail)
    }
}

/// The digest in as many bits as a call's argument has.
#[expect(clippy::cast_possible_truncation, reason = "12 bits")]
const fn short(digest: u32) -> u16 {
    (digest % Call::ARGUMENTS as u32) as u16
}
