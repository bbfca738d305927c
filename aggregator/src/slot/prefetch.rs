//! Prefetching from a slot: hints only.

use pascaline_buffer::PacketBuf;
use pascaline_buffer::prefetch::prefetch;

use super::{Hold, Slot};
use crate::contributions::{FAR_LINES, NEAR_LINES};

impl<B: PacketBuf, const WORDS: usize> Slot<B, WORDS> {
    /// Prefetches the start of a partial's payload, or the descriptor of a result that probably has to make
    /// room. It checks nothing first: a check costs as much.
    #[inline(always)]
    pub(crate) fn prefetch(&self) {
        self.prefetch_lines::<4>();
    }

    /// Only the first lines: all of a result's descriptor.
    #[inline(always)]
    pub(crate) fn prefetch_start(&self) {
        self.prefetch_lines::<2>();
    }

    /// The same if contributions are probably kept: the one line with their addresses.
    #[inline(always)]
    pub(crate) fn prefetch_node(&self) {
        self.prefetch_lines::<1>();
    }

    #[inline(always)]
    fn prefetch_lines<const LINES: usize>(&self) {
        for line in 0..LINES {
            prefetch(self.payload.wrapping_add(line * 64));
        }
    }

    /// If contributions are kept and one is missing: prefetches them for summing, less of them if there are
    /// few slots.
    #[inline(always)]
    pub(crate) fn prefetch_kept(&self, few: bool) {
        if let Hold::Kept(contributions) = &self.hold
            && self.count + 1 >= self.fan_in()
        {
            if few {
                contributions.prefetch::<NEAR_LINES>(self.len());
            } else {
                contributions.prefetch::<FAR_LINES>(self.len());
            }
        }
    }
}
