//! The sets that a session is at home in, and contributions in brief to them.

use std::sync::Arc;

use pascaline_buffer::PacketBuf;

use super::{Brevity, Place};
use crate::part::{At, Part};
use crate::pool::Pool;
use crate::request::{Brief, Opening, Request};
use crate::sink::Sink;
use crate::slot::Brought;

/// The sets of a pool that one session is at home in: nobody else looks into them.
pub(super) struct Seat<B: PacketBuf, const WORDS: usize> {
    pub(super) pool: Arc<Pool<B, WORDS>>,
    pub(super) part: Part<B, WORDS>,
    pub(super) lane: u32,
}

impl<B: PacketBuf, const WORDS: usize> Seat<B, WORDS> {
    #[inline(always)]
    pub(super) fn is_home(&self, set: u32) -> bool {
        self.pool.lanes.of(set) == self.lane
    }

    /// The number of a set among this session's own; `ONLY` as in [`Session::place_as`](crate::Session::place_as).
    #[inline(always)]
    pub(super) fn own<const ONLY: bool>(&self, set: u32) -> usize {
        if ONLY { set as usize } else { self.pool.lanes.own(set) }
    }

    #[inline(always)]
    pub(super) fn foresee<const ONLY: bool>(&mut self, place: &mut Place) {
        let (ways, shared_sets) = (self.pool.config.ways, self.pool.shared_sets);
        self.foresee_in::<ONLY>(place, ways, shared_sets);
    }

    /// The same, told how many ways a set has, and how many sets are not in a region: it would be looked up for each.
    #[inline(always)]
    pub(super) fn foresee_in<const ONLY: bool>(
        &mut self,
        place: &mut Place,
        ways: usize,
        shared_sets: usize,
    ) {
        let own = self.own::<ONLY>(place.set);
        place.hint = match self.part.directory(own) {
            Some(directory) if ONLY || self.is_home(place.set) => {
                let way = directory.likely(place.tag(), ways);
                // A pool has at most 2^28 slots.
                #[expect(clippy::cast_possible_truncation, reason = "see above")]
                let (first, way) = ((own * ways) as u32, way as u32);
                if place.set as usize >= shared_sets && directory.misses(place.tag()) {
                    // In a region, a newcomer is compared with everything that is there.
                    (0..).take(ways).for_each(|way| self.part.prefetch_slot(first + way));
                }
                self.part.prefetch_slot(first + way);
                first + way
            }
            _ => Place::NOWHERE,
        };
    }

    #[inline(always)]
    pub(super) fn prefetch_contents(&mut self, place: Place) {
        if let Some(slot) = self.part.slot(place.hint) {
            slot.prefetch();
        }
    }

    #[inline(always)]
    pub(super) fn add_brief<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        brief: &Brief,
        offset: u16,
        now: u64,
        bytes: &[u8],
        sink: &mut S,
    ) -> Brevity {
        let Some(slot) = self.part.slot_mut(place.hint) else { return Brevity::Unsuited };
        if !slot.is_of(brief) {
            return Brevity::Absent;
        }
        let Some(combine) = self.pool.combine(brief.element()) else { return Brevity::Unsuited };
        match slot.add_brief(brief, offset, now, bytes, combine) {
            Brought::Nothing => Brevity::Unsuited,
            Brought::One => Brevity::Added,
            Brought::Last => {
                self.conclude(place, brief, now, sink);
                Brevity::Concluded
            }
        }
    }

    #[inline(always)]
    pub(super) fn take_brief<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        opening: &Opening<'_>,
        packet: B,
        sink: &mut S,
    ) -> Result<Brevity, B> {
        let Some(slot) = self.part.slot_mut(place.hint) else { return Err(packet) };
        let &Opening { brief, offset, now, .. } = opening;
        let mut packet = Some(packet);
        match slot.keep_brief(brief, offset, now, &mut packet) {
            Brought::Last => {
                self.conclude(place, brief, now, sink);
                return Ok(Brevity::Concluded);
            }
            Brought::One => return Ok(Brevity::Added),
            Brought::Nothing => {}
        }
        let opened = self.open_brief(place, opening, &mut packet, sink);
        match packet {
            Some(packet) => Err(packet),
            None => Ok(if opened { Brevity::Concluded } else { Brevity::Added }),
        }
    }

    #[inline(always)]
    pub(super) fn open_brief<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        sink: &mut S,
    ) -> bool {
        // First, since jobs of which that is not so come here with each PSN.
        if !opening.rules.are_plain() {
            return opening.rules.are_plain_in_region() && self.open_in_region(place, opening, packet, sink);
        }
        // A slot is foreseen only where this session is at home.
        let foreseen = self.pool.lanes.own(place.set) == self.part.set_of(place.hint);
        let Some(at) = self.part.at(place.hint) else { return false };
        foreseen && self.pool.open_brief(at, opening, packet, sink)
    }

    #[inline(never)]
    fn open_in_region<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        sink: &mut S,
    ) -> bool {
        let set = self.pool.lanes.own(place.set);
        if set != self.part.set_of(place.hint) {
            return false;
        }
        let Some(mut owned) = self.part.set(set) else { return false };
        self.pool.open_in_region(&mut owned, opening, packet, sink)
    }

    /// The last contribution has been added to the slot that was foreseen.
    #[inline(never)]
    pub(super) fn conclude<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        brief: &Brief,
        now: u64,
        sink: &mut S,
    ) {
        let Some(At { directory, slot, way }) = self.part.at(place.hint) else { return };
        if let Some(result) = slot.complete_plain() {
            directory.use_result(way);
            return sink.completed(&brief.contribution(now), false, result);
        }
        self.conclude_kept(place, brief, now, sink);
    }

    /// The same where contributions were kept. Apart, since it takes much more of the stack.
    #[inline(never)]
    fn conclude_kept<S: Sink<B, WORDS>>(&mut self, place: Place, brief: &Brief, now: u64, sink: &mut S) {
        let Some(At { directory, slot, way }) = self.part.at(place.hint) else { return };
        if let Some(kernel) = self.pool.kernel(brief.element())
            && let Some(result) = slot.complete_kept(kernel, &mut |packet| sink.spent(packet))
        {
            directory.use_result(way);
            return sink.completed(&brief.contribution(now), false, result);
        }
        self.conclude_doubtful(place, brief, now, sink);
    }

    /// The same where more has to be asked.
    #[inline(never)]
    fn conclude_doubtful<S: Sink<B, WORDS>>(&mut self, place: Place, brief: &Brief, now: u64, sink: &mut S) {
        let (slot, ways) = (place.hint as usize, self.pool.config.ways);
        if let Some(mut owned) = self.part.set(slot / ways) {
            self.pool.conclude(&mut owned, slot % ways, &brief.contribution(now), sink);
        }
    }

    /// Does what a request asks for. The packet comes back if the set is not there, or another session is at home in it.
    #[inline]
    pub(super) fn apply<S: Sink<B, WORDS>>(
        &mut self,
        set: u32,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) -> Result<(), B> {
        if !self.is_home(set) {
            return Err(packet);
        }
        let Some(mut owned) = self.part.set(self.pool.lanes.own(set)) else { return Err(packet) };
        self.pool.apply(&mut owned, request, packet, sink);
        Ok(())
    }
}
