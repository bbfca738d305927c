//! A shard: the sets of one owner, and the fast path in them.

mod memory;

use std::sync::Arc;

use pascaline_buffer::PacketBuf;

use crate::pool::Pool;
use crate::request::{Gradient, Opening, Request};
use crate::session::Place;
use crate::sink::Sink;
use crate::slot::Admission;

pub(crate) use memory::{At, Memory, SetHead};

/// The sets that one session owns: no other accesses them.
pub(crate) struct Shard<B: PacketBuf, const WORDS: usize> {
    pub(crate) pool: Arc<Pool<B, WORDS>>,
    pub(crate) memory: Memory<B, WORDS>,
    /// The owner's number.
    pub(crate) owner: u32,
}

/// The outcome of a contribution on the fast path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// None: the predicted slot does not hold its PSN, and may be opened with it.
    Absent,
    /// None: it needs the whole request, or has to be kept.
    Unsuited,
    /// It is inside.
    Added,
    /// It was the last one, or the first, and the event has gone to the sink.
    Settled,
}

impl<B: PacketBuf, const WORDS: usize> Shard<B, WORDS> {
    #[inline(always)]
    pub(crate) fn owns(&self, set: u32) -> bool {
        self.pool.owners.of(set) == self.owner
    }

    /// The number of a set among this shard's; `ONLY` if there is no other shard.
    #[inline(always)]
    pub(crate) fn own<const ONLY: bool>(&self, set: u32) -> usize {
        if ONLY { set as usize } else { self.pool.owners.own(set) }
    }

    /// Predicts the slots of many keys and prefetches them, once what
    /// [`Session::gather`](crate::Session::gather) prefetched has arrived. In another owner's sets nothing is
    /// predicted.
    #[inline(always)]
    pub(crate) fn predict_all<'a>(&self, places: impl Iterator<Item = &'a mut Place>) {
        // Looked up once, not for each.
        let (ways, shared_sets) = (self.pool.config.ways, self.pool.shared_sets);
        if self.pool.owners.is_one() {
            places.for_each(|place| self.predict_in::<true>(place, ways, shared_sets));
        } else {
            places.for_each(|place| self.predict_in::<false>(place, ways, shared_sets));
        }
    }

    #[inline(always)]
    pub(crate) fn predict(&self, place: &mut Place) {
        self.predict_in::<false>(place, self.pool.config.ways, self.pool.shared_sets);
    }

    #[inline(always)]
    fn predict_in<const ONLY: bool>(&self, place: &mut Place, ways: usize, shared_sets: usize) {
        let own = self.own::<ONLY>(place.set);
        place.slot = match self.memory.directory(own) {
            Some(directory) if ONLY || self.owns(place.set) => {
                let way = directory.predict(place.tag(), ways);
                #[expect(clippy::cast_possible_truncation, reason = "a pool has at most 2^28 slots")]
                let (first, way) = ((own * ways) as u32, way as u32);
                if place.set as usize >= shared_sets && directory.misses(place.tag()) {
                    // In a region, a newcomer is compared with all ways.
                    (0..).take(ways).for_each(|way| self.memory.prefetch_slot(first + way));
                }
                self.memory.prefetch_slot(first + way);
                first + way
            }
            _ => Place::NOWHERE,
        };
    }

    /// Prefetches the content of a predicted slot, once the slot has arrived.
    #[inline(always)]
    pub(crate) fn prefetch_contents(&self, place: Place) {
        if let Some(slot) = self.memory.slot(place.slot) {
            slot.prefetch();
        }
    }

    /// Adds a contribution to its predicted slot. If that does not expect it, nothing changes.
    #[inline(always)]
    pub(crate) fn add<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        gradient: &Gradient,
        offset: u16,
        now: u64,
        bytes: &[u8],
        sink: &mut S,
    ) -> Outcome {
        let Some(slot) = self.memory.slot_mut(place.slot) else { return Outcome::Unsuited };
        if !slot.is_of(gradient) {
            return Outcome::Absent;
        }
        let Some(combine) = self.pool.combine(gradient.element()) else { return Outcome::Unsuited };
        match slot.add(gradient, offset, now, bytes, combine) {
            Admission::Declined => Outcome::Unsuited,
            Admission::Inside => Outcome::Added,
            Admission::Last => {
                self.finish(place, gradient, now, sink);
                Outcome::Settled
            }
        }
    }

    /// Has the predicted slot keep a contribution, or opens it. The packet is returned if it does neither.
    #[inline(always)]
    pub(crate) fn keep_or_open<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        opening: &Opening<'_>,
        packet: B,
        sink: &mut S,
    ) -> Result<Outcome, B> {
        let Some(slot) = self.memory.slot_mut(place.slot) else { return Err(packet) };
        let &Opening { gradient, offset, now, .. } = opening;
        let mut packet = Some(packet);
        match slot.keep(gradient, offset, now, &mut packet) {
            Admission::Last => {
                self.finish_kept(place, gradient, now, sink);
                return Ok(Outcome::Settled);
            }
            Admission::Inside => return Ok(Outcome::Added),
            Admission::Declined => {}
        }
        let opened = self.open(place, opening, &mut packet, sink);
        match packet {
            Some(packet) => Err(packet),
            None => Ok(if opened { Outcome::Settled } else { Outcome::Added }),
        }
    }

    /// Opens the predicted slot if nothing has to be checked. Then the packet is taken out, and there is an
    /// event; otherwise nothing changes.
    #[inline(always)]
    pub(crate) fn open<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        sink: &mut S,
    ) -> bool {
        // First, since jobs for which it is false get here with each PSN.
        if !opening.rules.open_freely() {
            return opening.rules.open_freely_in_region()
                && self.open_in_region(place, opening, packet, sink);
        }
        // A slot is predicted only for its owner.
        let predicted = self.pool.owners.own(place.set) == self.memory.set_of(place.slot);
        let Some(at) = self.memory.fair(place.slot, opening.rules) else { return false };
        predicted && self.pool.open_fast(at, opening, packet, sink)
    }

    #[inline(never)]
    fn open_in_region<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        sink: &mut S,
    ) -> bool {
        let set = self.pool.owners.own(place.set);
        if set != self.memory.set_of(place.slot) {
            return false;
        }
        let Some(mut set) = self.memory.set(set) else { return false };
        self.pool.open_fast_in_region(&mut set, opening, packet, sink)
    }

    /// The last contribution is inside the predicted slot: makes the result.
    #[inline(never)]
    pub(crate) fn finish<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        gradient: &Gradient,
        now: u64,
        sink: &mut S,
    ) {
        let Some(At { directory, slot, way }) = self.memory.at(place.slot) else { return };
        if let Some(result) = slot.complete_fast() {
            directory.use_result(way);
            return sink.completed(&gradient.contribution(now), false, result);
        }
        self.finish_kept(place, gradient, now, sink);
    }

    /// The same if contributions were kept, or the slot has noted something. Apart, since it uses much more
    /// of the stack.
    #[inline(never)]
    pub(crate) fn finish_kept<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        gradient: &Gradient,
        now: u64,
        sink: &mut S,
    ) {
        let (set, way) = (self.memory.set_of(place.slot), self.memory.way_of(place.slot));
        if let Some(mut set) = self.memory.set(set) {
            self.pool.finish(&mut set, way, &gradient.contribution(now), sink);
        }
    }

    /// Carries out a request. The packet is returned if the set does not exist, or is not this shard's.
    #[inline]
    pub(crate) fn apply<S: Sink<B, WORDS>>(
        &mut self,
        set: u32,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) -> Result<(), B> {
        if !self.owns(set) {
            return Err(packet);
        }
        let Some(mut set) = self.memory.set(self.pool.owners.own(set)) else { return Err(packet) };
        self.pool.apply(&mut set, request, packet, sink);
        Ok(())
    }
}
