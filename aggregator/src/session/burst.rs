//! The gradients of a burst on their way into the pool.

use core::fmt;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;

use super::Session;
use crate::key::Tag;
use crate::request::{Gradient, Terms};

/// Packets of a burst, at the most.
pub const BURST: usize = 32;

/// The place of a key in the pool that returned it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) set: u32,
    /// The key's tag until a slot is predicted, then the number of that slot.
    pub(crate) slot: u32,
}

impl Place {
    /// No slot; a pool has at most 2^28.
    pub(crate) const NOWHERE: u32 = u32::MAX;
    /// No slot, and none may be opened.
    const REFUSED: u32 = u32::MAX - 1;

    #[inline(always)]
    pub(super) const fn new(set: u32, tag: Tag) -> Self {
        Self { set, slot: tag.0 as u32 }
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a tag has 16 bits")]
    pub(crate) const fn tag(self) -> Tag {
        Tag(self.slot as u16)
    }
}

/// A gradient on its way into the pool.
pub(super) struct Arrival<B> {
    pub(super) gradient: Gradient,
    pub(super) place: Place,
    /// Until the pool has taken it.
    pub(super) packet: Option<B>,
}

impl<B> Arrival<B> {
    /// Gives up the packet of a gradient that is not admitted.
    #[cold]
    #[inline(never)]
    pub(super) fn refuse(&mut self, refused: &mut ArrayVec<B, BURST>) {
        self.place.slot = Place::REFUSED;
        refused.extend(self.packet.take());
    }
}

/// Gradients that the fast path has recognised: [gathered](Session::gather), then
/// [added](Session::add_burst).
pub struct Burst<B> {
    pub(super) arrivals: ArrayVec<Arrival<B>, BURST>,
    /// Not admitted: no slot was opened for them, and nothing else was done.
    pub(super) refused: ArrayVec<B, BURST>,
}

impl<B> Burst<B> {
    /// A burst without gradients.
    #[must_use]
    #[inline(always)]
    pub fn new() -> Self {
        Self { arrivals: ArrayVec::new(), refused: ArrayVec::new() }
    }

    /// Takes out the packets that the sink did not [admit](crate::BurstSink::admits).
    #[inline(always)]
    pub fn refused(&mut self) -> impl Iterator<Item = B> {
        self.refused.drain(..)
    }

    /// True if a gradient was not admitted.
    #[inline(always)]
    pub(super) const fn has_refused(&self) -> bool {
        !self.refused.is_empty()
    }

    /// Removes it from the count of gradients.
    #[cold]
    #[inline(never)]
    pub(super) fn forget_refused(&mut self) {
        self.arrivals.retain(|arrival| arrival.place.slot != Place::REFUSED);
    }

    /// Its gradients, in the order of arrival.
    #[inline(always)]
    pub fn gradients(&self) -> impl Iterator<Item = &Gradient> {
        self.arrivals.iter().map(|arrival| &arrival.gradient)
    }

    /// Removes the gradients that a predicate selects; each goes to `to`, with its packet.
    pub fn take_out(
        &mut self,
        mut unwanted: impl FnMut(&Gradient) -> bool,
        mut to: impl FnMut(&Gradient, B),
    ) {
        let mut taken = false;
        for Arrival { gradient, packet, .. } in &mut self.arrivals {
            if unwanted(gradient)
                && let Some(packet) = packet.take()
            {
                taken = true;
                to(gradient, packet);
            }
        }
        if taken {
            self.arrivals.retain(|arrival| arrival.packet.is_some());
        }
    }

    /// Empties a burst whose packets have all been taken.
    #[inline(always)]
    pub(super) fn clear_taken(&mut self) {
        debug_assert!(self.arrivals.iter().all(|arrival| arrival.packet.is_none()));
        // SAFETY: an empty burst needs no initialized places. The forgotten arrivals hold no packets.
        unsafe { self.arrivals.set_len(0) };
    }
}

impl<B> Default for Burst<B> {
    fn default() -> Self {
        Self::new()
    }
}

impl<B> fmt::Debug for Burst<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.gradients()).finish()
    }
}

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// Sorts packets: those that `recognise` accepts join the burst, and their sets are prefetched; the
    /// others go to `pass`.
    ///
    /// # Panics
    /// If the burst gets more than [`BURST`] gradients.
    #[inline(always)]
    pub fn gather<'t>(
        &self,
        burst: &mut Burst<B>,
        packets: impl Iterator<Item = B>,
        recognise: impl FnMut(&B) -> Option<(&'t Terms, Gradient)>,
        pass: impl FnMut(B),
    ) {
        // Checked once for the burst.
        if self.shard.pool.owners.is_one() {
            self.gather_as::<true>(burst, packets, recognise, pass);
        } else {
            self.gather_as::<false>(burst, packets, recognise, pass);
        }
    }

    /// `ONLY` if there is no other session.
    #[inline(always)]
    fn gather_as<'t, const ONLY: bool>(
        &self,
        burst: &mut Burst<B>,
        packets: impl Iterator<Item = B>,
        mut recognise: impl FnMut(&B) -> Option<(&'t Terms, Gradient)>,
        mut pass: impl FnMut(B),
    ) {
        burst.arrivals.extend(packets.filter_map(|packet| {
            if let Some((terms, gradient)) = recognise(&packet) {
                let place = self.place::<ONLY>(terms, gradient.key().psn());
                self.shard.memory.prefetch_head(self.shard.own::<ONLY>(place.set));
                return Some(Arrival { gradient, place, packet: Some(packet) });
            }
            pass(packet);
            None
        }));
    }

    #[inline(always)]
    fn place<const ONLY: bool>(&self, terms: &Terms, psn: u32) -> Place {
        let (owners, groups) = (self.shard.pool.owners, self.shard.pool.groups);
        let set = match (terms.region.sets, ONLY) {
            (0, true) => groups.among_all(terms.spread_job, psn),
            (0, false) => owners.place(terms.spread_job, psn, groups),
            _ => self.set_in(terms.region, psn),
        };
        Place::new(set, terms.tag(psn))
    }
}
