//! Adding a contribution to an open slot.

use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::Combine;

use super::{AGAIN, Hold, MARKED, OVERFLOW, Slot};
use crate::request::Request;

impl<B: PacketBuf, const WORDS: usize> Slot<B, WORDS> {
    /// The payload to which an open slot adds.
    #[inline(always)]
    pub(super) const fn accumulator(&mut self) -> &mut [u8] {
        // SAFETY: called only while the slot is open. It then owns the packet of `payload`, whose memory does
        // not move, and calls none of its methods. `len` is at most the packet's length.
        unsafe { core::slice::from_raw_parts_mut(self.payload, self.len() as usize) }
    }

    /// Adds an expected contribution. Returns false and changes nothing if the packet is shorter than the
    /// request says.
    #[inline(always)]
    pub(crate) fn add(&mut self, request: &Request, packet: &B, combine: Combine) -> bool {
        let Some(from) = packet.bytes().get(range(request.offset, request.len)) else { return false };
        let overflow = combine(self.accumulator(), from);
        let admitted = self.admit(request.rank);
        debug_assert!(admitted, "it was expected");
        self.note(request, overflow);
        true
    }

    /// Takes in a contribution that is kept as it is. The packet is returned if it is shorter than the
    /// request says.
    pub(crate) fn collect(&mut self, request: &Request, mut packet: B) -> Result<(), B> {
        let Hold::Kept(contributions) = &mut self.hold else { return Err(packet) };
        if !packet.trim(usize::from(request.offset), usize::from(request.len)) {
            return Err(packet);
        }
        if contributions.push(request.rank, packet) {
            self.payload = contributions.line();
        }
        let admitted = self.admit(request.rank);
        debug_assert!(admitted, "it was missing");
        self.note(request, false);
        Ok(())
    }

    /// Adds the sum of several ranks' contributions. Returns false and changes nothing if one of them is
    /// inside already, the slot does not add packets as they arrive, or the packet is shorter than the
    /// request says.
    pub(crate) fn add_combined(&mut self, request: &Request, packet: &B, combine: Combine) -> bool {
        let Some(from) = packet.bytes().get(range(request.offset, request.len)) else { return false };
        if !matches!(self.hold, Hold::Open(_)) || !self.admit_combined(request.inside) {
            return false;
        }
        let overflow = combine(self.accumulator(), from);
        self.note(request, overflow);
        true
    }

    /// Notes the flags of a contribution that is inside now, and its time of arrival.
    #[inline(always)]
    pub(super) fn note(&mut self, request: &Request, overflow: bool) {
        if overflow | request.overflow | request.again | request.marked {
            self.note_flags(overflow | request.overflow, request.again, request.marked);
        }
        self.touch(request.now);
    }

    #[cold]
    pub(super) fn note_flags(&mut self, overflow: bool, again: bool, marked: bool) {
        let flags = [(OVERFLOW, overflow), (AGAIN, again), (MARKED, marked)];
        self.first |= flags.iter().map(|&(flag, set)| flag * u64::from(set)).sum::<u64>();
    }
}

#[inline]
pub(super) fn range(offset: u16, len: u16) -> core::ops::Range<usize> {
    usize::from(offset)..usize::from(offset) + usize::from(len)
}
