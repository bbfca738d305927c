//! What the processor is asked to bring in ahead of time: hints only.

use pascaline_buffer::PacketBuf;

use super::{Hold, Slot};
use crate::prefetch::prefetch;

impl<B: PacketBuf, const WORDS: usize> Slot<B, WORDS> {
    /// Asks the processor to bring in what will be needed: the start of a partial's payload, the descriptor of a result,
    /// which probably has to make room. A hint only, and without a question: to answer one costs as much.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        for line in 0..4 {
            prefetch(self.payload.wrapping_add(line * 64));
        }
    }

    /// The same, if contributions are probably kept as they come: then there is only the line that says where they are.
    #[inline(always)]
    pub(crate) fn prefetch_node(&self) {
        prefetch(self.payload);
    }

    /// If contributions are kept as they came, and one is missing: asks for what it takes to sum them, of each payload at most so many `LINES`.
    /// A hint only.
    #[inline(always)]
    pub(crate) fn prefetch_kept<const LINES: usize>(&self) {
        if let Hold::Whole(contributions) = &self.hold
            && self.count + 1 >= self.fan_in()
        {
            contributions.prefetch::<LINES>(self.len());
        }
    }

    /// The first lines of that: all of a result's descriptor.
    #[inline(always)]
    pub(crate) fn prefetch_start(&self) {
        for line in 0..2 {
            prefetch(self.payload.wrapping_add(line * 64));
        }
    }
}
