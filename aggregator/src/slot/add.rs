//! Contributions to a slot that holds others: the question is asked once, for the fast path and the rest.

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::{Combine, InOrder};

use super::{Hold, OVERFLOW, Slot, flags};
use crate::request::{Gradient, Request};
use crate::session::BURST;

/// A slot's answer to a contribution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// Declined: it does not expect it like this.
    Declined,
    /// Taken in.
    Inside,
    /// Taken in as the last one.
    Last,
}

impl<B: PacketBuf, const WORDS: usize> Slot<B, WORDS> {
    /// True if it holds the PSN of a contribution, with the same element.
    #[inline(always)]
    pub(crate) const fn is_of(&self, gradient: &Gradient) -> bool {
        gradient.name == self.name
    }

    /// True if only one contribution to the PSN is missing.
    #[inline(always)]
    pub(crate) const fn lacks_only(&self, gradient: &Gradient) -> bool {
        self.is_of(gradient) && self.count + 1 == gradient.needed()
    }

    /// True if the contribution agrees with those inside, and is needed. Whether its rank is among them,
    /// [`admit`](Self::admit) says.
    #[inline(always)]
    fn awaits(&self, gradient: &Gradient) -> bool {
        self.agrees(gradient.name, gradient.shape) && self.count < gradient.needed()
    }

    /// Complete by the rule of [`suffices`](Slot::suffices): gradients beyond the number needed are not
    /// awaited.
    #[inline(always)]
    const fn admission(&self, gradient: &Gradient) -> Admission {
        if self.count == gradient.needed() { Admission::Last } else { Admission::Inside }
    }

    /// The payload of a contribution whose packet has these bytes, if the slot expects it and adds packets as
    /// they arrive. Its rank is inside then: the payload has to be added.
    #[inline(always)]
    fn admit_payload<'a>(&mut self, gradient: &Gradient, offset: u16, bytes: &'a [u8]) -> Option<&'a [u8]> {
        if !matches!(self.hold, Hold::Open(_)) || !self.awaits(gradient) {
            return None;
        }
        let payload = bytes.get(range(offset, gradient.shape.payload_len()))?;
        self.admit(gradient.rank()).then_some(payload)
    }

    /// Adds a contribution, whose packet has these bytes, if the slot expects it and adds packets as they
    /// arrive.
    #[inline(always)]
    pub(crate) fn add(
        &mut self,
        gradient: &Gradient,
        offset: u16,
        now: u64,
        bytes: &[u8],
        combine: Combine,
    ) -> Admission {
        let Some(from) = self.admit_payload(gradient, offset, bytes) else { return Admission::Declined };
        if combine(self.accumulator(), from) {
            self.note_overflow();
        }
        self.touch(now);
        self.admission(gradient)
    }

    /// As [`add`](Self::add) for several contributions at once, as far as the slot expects each. Returns the
    /// outcome of the last one taken in, and their number.
    pub(crate) fn add_long<'a>(
        &mut self,
        contributions: impl Iterator<Item = (&'a Gradient, &'a [u8])>,
        offset: u16,
        now: u64,
        combine: Combine,
        in_order: InOrder,
    ) -> (Admission, usize) {
        let mut payloads = ArrayVec::<&[u8], BURST>::new();
        let mut admission = Admission::Declined;
        for (gradient, bytes) in contributions.take(BURST) {
            let Some(from) = self.admit_payload(gradient, offset, bytes) else { break };
            payloads.push(from);
            admission = self.admission(gradient);
        }
        let overflow = match *payloads {
            [] => return (Admission::Declined, 0),
            [from] => combine(self.accumulator(), from),
            ref all => in_order(self.accumulator(), all),
        };
        if overflow {
            self.note_overflow();
        }
        self.touch(now);
        (admission, payloads.len())
    }

    /// As [`add`](Self::add), for a slot that keeps contributions as they arrive. Takes the packet out if the
    /// slot expects it.
    #[inline(always)]
    pub(crate) fn keep(
        &mut self,
        gradient: &Gradient,
        offset: u16,
        now: u64,
        packet: &mut Option<B>,
    ) -> Admission {
        let (offset, len) = (usize::from(offset), usize::from(gradient.shape.payload_len()));
        if !matches!(self.hold, Hold::Kept(_)) || !self.awaits(gradient) {
            return Admission::Declined;
        }
        let rank = gradient.rank();
        let fits = |packet: &mut B| self.ranks.lacks(rank) && packet.trim(offset, len);
        let Some(packet) = packet.take_if(fits) else { return Admission::Declined };
        self.admit_missing(rank);
        if let Hold::Kept(contributions) = &mut self.hold
            && contributions.push(rank, packet)
        {
            self.payload = contributions.line();
        }
        self.touch(now);
        self.admission(gradient)
    }

    /// Adds the sum of several ranks' contributions. Returns false and changes nothing if one of them is
    /// inside already, the slot does not add packets as they arrive, or the packet is shorter than the
    /// request says.
    pub(crate) fn add_combined(&mut self, request: &Request, packet: &B, combine: Combine) -> bool {
        let Some(from) = packet.bytes().get(range(request.offset, request.len)) else { return false };
        if !matches!(self.hold, Hold::Open(_)) || !self.admit_combined(request.inside) {
            return false;
        }
        if combine(self.accumulator(), from) {
            self.note_overflow();
        }
        self.touch(request.now);
        self.note(request);
        true
    }

    /// The payload to which an open slot adds.
    #[inline(always)]
    const fn accumulator(&mut self) -> &mut [u8] {
        // SAFETY: called only while the slot is open. It then owns the packet of `payload`, whose memory does
        // not move, and calls none of its methods. `len` is at most the packet's length.
        unsafe { core::slice::from_raw_parts_mut(self.payload, self.len() as usize) }
    }

    /// Notes the flags of a contribution that is inside now.
    pub(crate) fn note(&mut self, request: &Request) {
        self.first |= flags(request);
    }

    #[cold]
    fn note_overflow(&mut self) {
        self.first |= OVERFLOW;
    }
}

#[inline]
fn range(offset: u16, len: u16) -> core::ops::Range<usize> {
    usize::from(offset)..usize::from(offset) + usize::from(len)
}
