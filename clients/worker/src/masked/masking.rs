//! Masking and unmasking of blocks, in the order in which they are sent and summed.

use core::ops::Range;

use zerocopy::IntoBytes as _;

use super::Fault;
use super::check::{Check, LIMBS, WORDS};
use super::fixed::Form;
use super::stream::Stream;
use crate::collective::Plan;
use crate::pieces::Pieces;

/// Bytes of a block as it travels: its words, and those that prove them.
const BLOCK: usize = 4 * (WORDS + LIMBS);

/// An operation on which all ranks agree.
pub(super) struct Masks {
    pub(super) form: Form,
    pub(super) plan: Plan,
    pub(super) bytes: usize,
    pub(super) ranks: u16,
    pub(super) before: Stream,
    pub(super) after: Stream,
    pub(super) common: Stream,
    /// Whether this is the rank whose contribution has the common mask.
    pub(super) adds_common: bool,
    pub(super) check: Check,
}

impl Masks {
    /// Words of the tensor, without those that prove them.
    pub(super) fn words(&self) -> usize {
        self.bytes.div_ceil(self.form.bytes())
    }

    /// All words that travel.
    pub(super) fn room(&self) -> usize {
        self.words() + self.words().div_ceil(WORDS) * LIMBS
    }

    /// The tensor's bytes of a block.
    fn block(&self, number: usize) -> Range<usize> {
        let begin = number * WORDS * self.form.bytes();
        begin.min(self.bytes)..(begin + WORDS * self.form.bytes()).min(self.bytes)
    }

    /// Makes a block of the rank's contribution.
    fn mask(&self, number: usize, tensor: &[u8], place: &mut [u8]) {
        let (mut block, mut pad) = ([0; WORDS + LIMBS], [0; WORDS + LIMBS]);
        let (block, pad) = (&mut block[..place.len() / 4], &mut pad[..place.len() / 4]);
        let (words, limbs) = block.split_at_mut(block.len().saturating_sub(LIMBS));
        self.encode(number, tensor, words);
        limbs.iter_mut().zip(self.check.limbs(words)).for_each(|(place, limb)| *place = limb);
        let piece = number as u64;
        self.before.piece(piece, pad);
        add(block, pad);
        self.after.piece(piece, pad);
        subtract(block, pad);
        if self.adds_common {
            self.common.piece(piece, pad);
            add(block, pad);
        }
        place.copy_from_slice(block.as_bytes());
    }

    /// The words of a block: of copies, zeros where the bytes are another rank's.
    fn encode(&self, number: usize, tensor: &[u8], words: &mut [u32]) {
        let (block, give) = (self.block(number), &self.plan.give);
        let bytes = tensor.get(block.clone()).unwrap_or_default();
        let (begin, end) = (give.start.max(block.start), give.end.min(block.end));
        if begin == block.start && end == block.end {
            return self.form.encode(bytes, words);
        }
        let mut own = [0; 4 * WORDS];
        if begin < end
            && let Some(place) = own.get_mut(begin - block.start..end - block.start)
            && let Some(bytes) = tensor.get(begin..end)
        {
            place.copy_from_slice(bytes);
        }
        self.form.encode(own.get(..block.len()).unwrap_or_default(), words);
    }

    /// Takes the rank's part out of a block of the sum. `None` if it has none in it, false if the block is
    /// not what it must be.
    fn unmask(&self, number: usize, sum: &[u8], tensor: &mut [u8]) -> Option<bool> {
        let (range, take, unit) = (self.block(number), &self.plan.take, self.form.bytes());
        let (begin, end) = (take.start.max(range.start), take.end.min(range.end));
        if begin >= end {
            return None;
        }
        let (mut block, mut pad) = ([0; WORDS + LIMBS], [0; WORDS + LIMBS]);
        let (block, pad) = (&mut block[..sum.len() / 4], &mut pad[..sum.len() / 4]);
        block.as_mut_bytes().copy_from_slice(sum);
        self.common.piece(number as u64, pad);
        subtract(block, pad);
        let (words, limbs) = block.split_at(block.len().saturating_sub(LIMBS));
        if !self.check.holds(words, limbs) {
            return Some(false);
        }
        let taken = (begin - range.start) / unit..(end - range.start).div_ceil(unit);
        if let (Some(words), Some(place)) = (words.get(taken), tensor.get_mut(begin..end)) {
            self.form.decode(self.plan.element.op, self.ranks, words, place);
        }
        Some(true)
    }
}

/// A tensor, and how far it has been masked and unmasked. What travels never holds what it hides: it is
/// masked before it gets there, and unmasked elsewhere, so that it can be sent again to who lacks it.
pub(super) struct Masking<'a> {
    masks: &'a Masks,
    tensor: &'a mut [u8],
    /// Blocks that have been masked, and unmasked.
    masked: usize,
    unmasked: usize,
    /// Of those that were unmasked: all in which the rank has a part, and those that are not the sum.
    blocks: usize,
    wrong: usize,
}

impl<'a> Masking<'a> {
    pub(super) fn new(masks: &'a Masks, tensor: &'a mut [u8]) -> Self {
        Self { masks, tensor, masked: 0, unmasked: 0, blocks: 0, wrong: 0 }
    }

    /// Takes the rest out of the sum.
    ///
    /// # Errors
    /// [`Fault::NotTheSum`] if any of it was not what it must be.
    pub(super) fn finish(mut self, sum: &[u8]) -> Result<(), Fault> {
        self.take(sum, sum.len());
        let Self { wrong, blocks, .. } = self;
        if wrong > 0 { Err(Fault::NotTheSum { wrong, blocks }) } else { Ok(()) }
    }
}

impl Pieces for Masking<'_> {
    fn fill(&mut self, travels: &mut [u8], until: usize) {
        for (number, place) in travels.chunks_mut(BLOCK).enumerate().skip(self.masked) {
            if number * BLOCK >= until {
                break;
            }
            self.masks.mask(number, self.tensor, place);
            self.masked = number + 1;
        }
    }

    fn take(&mut self, travels: &[u8], until: usize) {
        for (number, sum) in travels.chunks(BLOCK).enumerate().skip(self.unmasked) {
            if number * BLOCK + sum.len() > until {
                break;
            }
            let holds = self.masks.unmask(number, sum, self.tensor);
            self.blocks += usize::from(holds.is_some());
            self.wrong += usize::from(holds == Some(false));
            self.unmasked = number + 1;
        }
    }
}

pub(super) fn add(words: &mut [u32], pad: &[u32]) {
    words.iter_mut().zip(pad).for_each(|(word, pad)| *word = word.wrapping_add(*pad));
}

fn subtract(words: &mut [u32], pad: &[u32]) {
    words.iter_mut().zip(pad).for_each(|(word, pad)| *word = word.wrapping_sub(*pad));
}
