//! Contributions in brief: two words say that they are expected.

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::{Combine, InOrder};

use super::{Brought, FIRST, Hold, SERVER, Slot, TOGETHER, micros, range};
use crate::contributions::Contributions;
use crate::request::{Brief, Opening};
use pascaline_wire::RankSet;

impl<B: PacketBuf, const WORDS: usize> Slot<B, WORDS> {
    /// As [`open`](Self::open), where it has been found that everything is plain; with a packet that is nothing but a payload.
    #[inline(always)]
    pub(crate) fn open_brief(&mut self, opening: &Opening<'_>, mut packet: B, whole: bool) {
        let &Opening { brief, rules, priority, now, .. } = opening;
        debug_assert!(matches!(self.hold, Hold::Empty));
        self.ranks = RankSet::EMPTY;
        let fits = self.ranks.insert(brief.rank());
        debug_assert!(fits, "the pool has checked it");
        self.name = brief.name;
        self.touched = micros(now);
        self.reminded = None;
        self.shape = brief.shape;
        self.count = 1;
        self.priority = priority;
        self.first = now & FIRST | if rules.server() { SERVER } else { 0 };
        let hold = if whole {
            let contributions = Contributions::new(brief.rank(), packet);
            self.payload = contributions.line();
            Hold::Whole(contributions)
        } else {
            self.payload = packet.bytes_mut().as_mut_ptr();
            Hold::Open(packet)
        };
        // There is nothing to be dropped.
        core::mem::forget(core::mem::replace(&mut self.hold, hold));
    }

    /// True if it holds the PSN of a contribution, with the same element.
    #[inline(always)]
    pub(crate) const fn is_of(&self, brief: &Brief) -> bool {
        brief.name == self.name
    }

    /// True if of the PSN of a contribution only one is missing.
    #[inline(always)]
    pub(crate) const fn lacks_only(&self, brief: &Brief) -> bool {
        brief.name == self.name && self.count + 1 == brief.needed()
    }

    /// Adds a contribution, whose packet has these bytes, if it is one that is expected here, and the slot sums as packets come.
    #[inline(always)]
    pub(crate) fn add_brief(
        &mut self,
        brief: &Brief,
        offset: u16,
        now: u64,
        bytes: &[u8],
        combine: Combine,
    ) -> Brought {
        if brief.name != self.name || brief.shape != self.shape || !matches!(self.hold, Hold::Open(_)) {
            return Brought::Nothing;
        }
        let (rank, count) = (brief.rank(), self.count + 1);
        if count > brief.needed() || rank >= brief.shape.fan_in() {
            return Brought::Nothing;
        }
        let Some((word, bit)) = self.ranks.place(rank) else { return Brought::Nothing };
        let Some(from) = bytes.get(range(offset, brief.shape.payload_len())) else { return Brought::Nothing };
        if *word & bit != 0 {
            return Brought::Nothing;
        }
        *word |= bit;
        // SAFETY: as in `add`.
        let into = unsafe { core::slice::from_raw_parts_mut(self.payload, usize::from(self.len())) };
        if combine(into, from) {
            self.note_flags(true, false);
        }
        self.count = count;
        self.touch(now);
        if count == brief.needed() { Brought::Last } else { Brought::One }
    }

    /// As [`add_brief`](Self::add_brief), for some contributions and all at once, as far as each is one that is expected here.
    /// Says how many these are, and what they have brought.
    pub(crate) fn add_together<'a>(
        &mut self,
        contributions: impl Iterator<Item = (&'a Brief, &'a [u8])>,
        offset: u16,
        now: u64,
        combine: Combine,
        in_order: InOrder,
    ) -> (Brought, usize) {
        if !matches!(self.hold, Hold::Open(_)) {
            return (Brought::Nothing, 0);
        }
        let mut payloads = ArrayVec::<&[u8], TOGETHER>::new();
        let mut brought = Brought::Nothing;
        for (brief, bytes) in contributions.take(TOGETHER) {
            let (rank, count) = (brief.rank(), self.count + 1);
            let expected = brief.name == self.name
                && brief.shape == self.shape
                && count <= brief.needed()
                && rank < brief.shape.fan_in();
            let (Some(from), true) = (bytes.get(range(offset, brief.shape.payload_len())), expected) else {
                break;
            };
            if !self.ranks.insert(rank) {
                break;
            }
            payloads.push(from);
            self.count = count;
            brought = if count == brief.needed() { Brought::Last } else { Brought::One };
        }
        if payloads.is_empty() {
            return (Brought::Nothing, 0);
        }
        // SAFETY: as in `add`.
        let into = unsafe { core::slice::from_raw_parts_mut(self.payload, usize::from(self.len())) };
        let overflow = match *payloads {
            [from] => combine(into, from),
            ref all => in_order(into, all),
        };
        if overflow {
            self.note_flags(true, false);
        }
        self.touch(now);
        (brought, payloads.len())
    }

    /// As [`add_brief`](Self::add_brief), for a slot that keeps contributions as they come. The packet is taken out if it is one
    /// that is expected here.
    #[inline(always)]
    pub(crate) fn keep_brief(
        &mut self,
        brief: &Brief,
        offset: u16,
        now: u64,
        packet: &mut Option<B>,
    ) -> Brought {
        let count = self.count + 1;
        let expected = brief.name == self.name && brief.shape == self.shape && count <= brief.needed();
        let (Hold::Whole(contributions), true) = (&mut self.hold, expected) else { return Brought::Nothing };
        let Some((word, bit)) = self.ranks.place(brief.rank()) else { return Brought::Nothing };
        let len = brief.shape.payload_len();
        let fits = |packet: &mut B| *word & bit == 0 && packet.trim(usize::from(offset), usize::from(len));
        let Some(packet) = packet.take_if(fits) else { return Brought::Nothing };
        *word |= bit;
        if contributions.push(brief.rank(), packet) {
            self.payload = contributions.line();
        }
        self.count = count;
        self.touch(now);
        if count == brief.needed() { Brought::Last } else { Brought::One }
    }
}
