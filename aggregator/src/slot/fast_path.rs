//! The fast path's contributions: two words show whether the slot expects them.

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::{Combine, InOrder};

use super::add::range;
use super::time::micros;
use super::{FIRST, Hold, SERVER, Slot};
use crate::contributions::Contributions;
use crate::request::{Gradient, Opening};
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
    /// As [`open`](Self::open), if the pool has nothing to check; the packet is reduced to its payload.
    #[inline(always)]
    pub(crate) fn open_fast(&mut self, opening: &Opening<'_>, packet: B, keep: bool) {
        let &Opening { gradient, rules, priority, now, .. } = opening;
        let first = now & FIRST | if rules.server() { SERVER } else { 0 };
        self.begin(gradient.name, gradient.shape, priority, first, micros(now), packet);
        let admitted = self.admit(gradient.rank());
        debug_assert!(admitted, "the pool has checked the rank");
        if keep {
            let Hold::Open(packet) = core::mem::replace(&mut self.hold, Hold::Empty) else { return };
            let contributions = Contributions::new(gradient.rank(), packet);
            self.payload = contributions.line();
            // There is nothing to drop.
            core::mem::forget(core::mem::replace(&mut self.hold, Hold::Kept(contributions)));
        }
    }

    /// True if it holds the PSN of a contribution, with the same element.
    #[inline(always)]
    pub(crate) const fn is_of(&self, gradient: &Gradient) -> bool {
        gradient.name == self.name
    }

    /// True if only one contribution to the PSN is missing.
    #[inline(always)]
    pub(crate) const fn lacks_only(&self, gradient: &Gradient) -> bool {
        gradient.name == self.name && self.count + 1 == gradient.needed()
    }

    /// True if the contribution agrees with those inside, and is needed.
    #[inline(always)]
    fn awaits(&self, gradient: &Gradient) -> bool {
        gradient.name == self.name && gradient.shape == self.shape && self.count < gradient.needed()
    }

    /// Complete by the rule of [`suffices`](Slot::suffices): gradients beyond the number needed are not
    /// awaited.
    #[inline(always)]
    const fn admission(&self, gradient: &Gradient) -> Admission {
        if self.count == gradient.needed() { Admission::Last } else { Admission::Inside }
    }

    /// Adds a contribution, whose packet has these bytes, if the slot expects it and adds packets as they
    /// arrive.
    #[inline(always)]
    pub(crate) fn add_fast(
        &mut self,
        gradient: &Gradient,
        offset: u16,
        now: u64,
        bytes: &[u8],
        combine: Combine,
    ) -> Admission {
        let rank = gradient.rank();
        if !matches!(self.hold, Hold::Open(_)) || !self.awaits(gradient) || rank >= gradient.shape.fan_in() {
            return Admission::Declined;
        }
        let Some(from) = bytes.get(range(offset, gradient.shape.payload_len())) else {
            return Admission::Declined;
        };
        if !self.admit(rank) {
            return Admission::Declined;
        }
        if combine(self.accumulator(), from) {
            self.note_flags(true, false, false);
        }
        self.touch(now);
        self.admission(gradient)
    }

    /// As [`add_fast`](Self::add_fast) for several contributions at once, as far as the slot expects each.
    /// Returns the outcome of the last one taken in, and their number.
    pub(crate) fn add_long<'a>(
        &mut self,
        contributions: impl Iterator<Item = (&'a Gradient, &'a [u8])>,
        offset: u16,
        now: u64,
        combine: Combine,
        in_order: InOrder,
    ) -> (Admission, usize) {
        if !matches!(self.hold, Hold::Open(_)) {
            return (Admission::Declined, 0);
        }
        let mut payloads = ArrayVec::<&[u8], BURST>::new();
        let mut admission = Admission::Declined;
        for (gradient, bytes) in contributions.take(BURST) {
            let expected = self.awaits(gradient) && gradient.rank() < gradient.shape.fan_in();
            let Some(from) = bytes.get(range(offset, gradient.shape.payload_len())) else { break };
            if !expected || !self.admit(gradient.rank()) {
                break;
            }
            payloads.push(from);
            admission = self.admission(gradient);
        }
        if payloads.is_empty() {
            return (Admission::Declined, 0);
        }
        let overflow = match *payloads {
            [from] => combine(self.accumulator(), from),
            ref all => in_order(self.accumulator(), all),
        };
        if overflow {
            self.note_flags(true, false, false);
        }
        self.touch(now);
        (admission, payloads.len())
    }

    /// As [`add_fast`](Self::add_fast), for a slot that keeps contributions as they arrive. Takes the packet
    /// out if the slot expects it.
    #[inline(always)]
    pub(crate) fn keep_fast(
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
}
