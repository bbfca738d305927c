//! One lcore's way into the pool: entering and leaving sets, and the packets that travel between lcores.

use core::cell::UnsafeCell;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::NonNull;
use std::collections::VecDeque;
use std::sync::Arc;

use pascaline_buffer::PacketBuf;

use crate::handoff::{Left, Linked};
use crate::key::{self, Key, Tag};
use crate::policy::Region;
use crate::pool::Pool;
use crate::prefetch::prefetch;
use crate::request::{Brief, Opening, PACKED, Request, Terms};
use crate::sink::{Cause, Refusal, Sink};
use crate::slot::{Brought, Slot};

/// One lcore's access to a pool: there are exactly as many as were asked for, and each has one user at a time.
pub struct Session<B: PacketBuf, const WORDS: usize = 1> {
    pool: Arc<Pool<B, WORDS>>,
    /// Sets that this lcore still owns because more was left with it than one turn may work off; the one that has
    /// waited longest is first.
    parked: VecDeque<u32>,
    sweep_at: usize,
}

/// Slots of which a result is probably still in a cache when it has to make room: a megabyte of packets.
const DEEP: usize = 512;

/// Where a key belongs in the pool that said so: [`Session::place`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    set: u32,
    /// The key's tag; once a slot has been [foreseen](Session::foresee), that.
    hint: u32,
}

impl Place {
    /// No slot; a pool has at most 2^28.
    const NOWHERE: u32 = u32::MAX;

    #[inline(always)]
    const fn new(set: u32, tag: Tag) -> Self {
        Self { set, hint: tag.0 as u32 }
    }

    /// The set, from 0.
    #[must_use]
    pub const fn set(self) -> usize {
        self.set as usize
    }

    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a tag has 16 bits")]
    const fn tag(self) -> Tag {
        Tag(self.hint as u16)
    }

    /// The slot, in a pool with only one session, if one has been foreseen; if not, some slot or none. In any other pool there
    /// is none, also if another pool foresaw it.
    #[inline(always)]
    fn slot<B: PacketBuf, const WORDS: usize>(
        self,
        pool: &Pool<B, WORDS>,
    ) -> Option<&UnsafeCell<Slot<B, WORDS>>> {
        if pool.shared { None } else { pool.slots.get(self.hint as usize) }
    }
}

/// What a [sweep](Session::sweep) does with a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing.
    Keep,
    /// Empties it.
    Vacate,
    /// If it holds a partial: makes it the result, as it is.
    Release,
    /// If it holds a partial that nobody has sent to or asked for in the pool's age limit before this time, in nanoseconds of
    /// the caller's clock: empties it. Such a one gives way to other PSNs by itself, but until one wants its slot it counts
    /// against its job's quota.
    Expire(u64),
}

/// What has become of a contribution in brief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brevity {
    /// Nothing: it takes the whole request.
    Unsuited,
    /// It has been added.
    Added,
    /// It was the last one, or the first, and what followed has gone to the sink.
    Concluded,
}

/// Links and requests travel in the packets' scratch lines.
struct Scratched<B>(PhantomData<B>);

// SAFETY: a packet's scratch line belongs to whoever holds the packet.
unsafe impl<B: PacketBuf> Linked for Scratched<B> {
    unsafe fn set_link(packet: NonNull<()>, next: *mut ()) {
        // SAFETY: the caller holds the packet, so the line is valid and nobody else uses it.
        unsafe { (*B::raw_scratch(packet)).link = next }
    }

    unsafe fn link(packet: NonNull<()>) -> *mut () {
        // SAFETY: as above.
        unsafe { (*B::raw_scratch(packet)).link }
    }
}

impl<B: PacketBuf, const WORDS: usize> fmt::Debug for Session<B, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Session({} slots in sets of {})", self.pool.slots.len(), self.pool.ways)
    }
}

/// Packets that one release works off before it postpones the rest to the next turn.
const DRAIN_BUDGET: usize = 128;

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// A session of `pool`, which has `sets` sets.
    pub(crate) fn new(pool: Arc<Pool<B, WORDS>>, sets: usize) -> Self {
        Self { pool, parked: VecDeque::with_capacity(sets), sweep_at: 0 }
    }

    /// Slots in all.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.pool.slots.len()
    }

    /// True if the pool can combine elements of this code.
    #[must_use]
    #[inline]
    pub fn supports(&self, element: u8) -> bool {
        self.pool.kernel(element).is_some()
    }

    /// Where a key of a job with a region of its own belongs in this pool; the job's requests say
    /// [`region`](crate::Rules::region).
    #[must_use]
    #[inline]
    pub fn place_in(&self, region: Region, key: Key) -> Place {
        Place::new(self.set_in(region, key.psn()), key.tag())
    }

    #[inline(always)]
    fn set_in(&self, region: Region, psn: u32) -> u32 {
        // Past the end of the pool there is nothing; a region that does not fit shares its last set.
        let set = region.first as usize + (psn & region.sets.wrapping_sub(1)) as usize;
        #[expect(clippy::cast_possible_truncation, reason = "a pool has at most 2^28 slots")]
        let set = set.min(self.pool.heads.len() - 1) as u32;
        set
    }

    /// Where a key belongs in the shared part of this pool.
    #[must_use]
    #[inline]
    pub fn place(&self, key: Key) -> Place {
        // A pool has at most 2^28 slots.
        #[expect(clippy::cast_possible_truncation, reason = "see above")]
        let set = key.place(self.pool.shared_sets) as u32;
        Place::new(set, key.tag())
    }

    /// Where a PSN belongs that is sent on these terms.
    #[must_use]
    #[inline(always)]
    pub fn place_on(&self, terms: &Terms, psn: u32) -> Place {
        let set = if terms.region.sets == 0 {
            #[expect(clippy::cast_possible_truncation, reason = "a pool has at most 2^28 slots")]
            let set = key::place(terms.spread_job, psn, self.pool.shared_sets) as u32;
            set
        } else {
            self.set_in(terms.region, psn)
        };
        Place::new(set, terms.tag(psn))
    }

    /// Asks the processor to bring in what a request for a key of this place will look at first; a hint only.
    #[inline(always)]
    pub fn prefetch(&self, place: Place) {
        // Past the end nothing is fetched, and nothing goes wrong.
        prefetch(self.pool.heads.as_ptr().wrapping_add(place.set as usize));
    }

    /// Looks ahead, once what [`prefetch`](Self::prefetch) brought in has arrived: which slot will probably be used for
    /// the key, and asks for it. To be done once. With several sessions nobody may look into a set that it does not own, so that
    /// nothing is foreseen.
    #[inline(always)]
    pub fn foresee(&mut self, place: &mut Place) {
        place.hint = match self.pool.heads.get(place.set as usize) {
            Some(head) if !self.pool.shared => {
                // SAFETY: there is only one session, and it is borrowed exclusively.
                let directory = unsafe { head.directory() };
                let way = directory.likely(place.tag(), self.pool.ways);
                if place.set as usize >= self.pool.shared_sets && directory.misses(place.tag()) {
                    self.prefetch_ways(place.set as usize);
                }
                // A pool has at most 2^28 slots.
                #[expect(clippy::cast_possible_truncation, reason = "see above")]
                let slot = place.set * self.pool.ways as u32 + way as u32;
                prefetch(self.pool.slots.as_ptr().wrapping_add(slot as usize));
                slot
            }
            _ => Place::NOWHERE,
        };
    }

    /// Asks for all slots of a set: in a region, a newcomer is compared with everything that is there.
    fn prefetch_ways(&self, set: usize) {
        let first = self.pool.slots.as_ptr().wrapping_add(set * self.pool.ways);
        for way in 0..self.pool.ways {
            prefetch(first.wrapping_add(way));
        }
    }

    /// Once what [`foresee`](Self::foresee) asked for has arrived: asks for what the slot holds.
    #[inline(always)]
    pub fn prefetch_contents(&mut self, place: Place) {
        if let Some(slot) = place.slot(&self.pool) {
            // SAFETY: there is only one session, and it is borrowed exclusively.
            unsafe { &*slot.get() }.prefetch();
        }
    }

    /// True if there are so many slots that a result which has to make room is probably in no cache any more.
    #[inline(always)]
    #[must_use]
    pub fn is_deep(&self) -> bool {
        self.pool.slots.len() > DEEP
    }

    /// As [`prefetch_contents`](Self::prefetch_contents), for a while before that: only the start.
    #[inline(always)]
    pub fn prefetch_start(&mut self, place: Place) {
        if let Some(slot) = place.slot(&self.pool) {
            // SAFETY: there is only one session, and it is borrowed exclusively.
            unsafe { &*slot.get() }.prefetch_start();
        }
    }

    /// Once what [`foresee`](Self::foresee) asked for has arrived: true if a contribution will probably be the last one.
    #[inline(always)]
    #[must_use]
    pub fn is_last(&mut self, place: Place, brief: &Brief) -> bool {
        // SAFETY: there is only one session, and it is borrowed exclusively.
        place.slot(&self.pool).is_some_and(|slot| unsafe { &*slot.get() }.lacks_only(brief))
    }

    /// Gives a packet to the pool, in its shared part. The events go to `sink`: this packet's, unless it was handed off, and those of
    /// packets that other lcores left meanwhile.
    #[inline]
    pub fn offer<S: Sink<B, WORDS>>(&mut self, request: &Request, packet: B, sink: &mut S) {
        self.offer_in(self.place(request.key).set as usize, request, packet, sink);
    }

    /// As [`offer`](Self::offer), for a key whose place is known.
    #[inline]
    pub fn offer_at<S: Sink<B, WORDS>>(&mut self, place: Place, request: &Request, packet: B, sink: &mut S) {
        self.offer_in(place.set as usize, request, packet, sink);
    }

    /// Adds a contribution to the slot that was [foreseen](Self::foresee), if it is one that is expected there: then the packet
    /// is spent, and unless it was the last one, there is no event. If not, nothing is done, and it is to be
    /// [offered](Self::offer_at).
    ///
    /// `bytes` is the packet, `offset` the start of its payload there, `now` the time of arrival in nanoseconds.
    #[inline(always)]
    #[must_use]
    pub fn add_brief<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        brief: &Brief,
        offset: u16,
        now: u64,
        bytes: &[u8],
        sink: &mut S,
    ) -> Brevity {
        let Some(slot) = place.slot(&self.pool) else { return Brevity::Unsuited };
        let Some(combine) = self.pool.combine(brief.element()) else { return Brevity::Unsuited };
        // SAFETY: there is only one session, and it is borrowed exclusively.
        match unsafe { &mut *slot.get() }.add_brief(brief, offset, now, bytes, combine) {
            Brought::Nothing => Brevity::Unsuited,
            Brought::One => Brevity::Added,
            Brought::Last => {
                self.conclude(place, brief, now, sink);
                Brevity::Concluded
            }
        }
    }

    /// Takes in a contribution in brief that could not be added: keeps it where contributions are kept until all are there, or
    /// opens the slot that was foreseen, in the plain case; unless it is only kept and not the last one, with an event. The packet
    /// comes back, and nothing is done, in any other case: then it is to be [offered](Self::offer_at).
    ///
    /// # Errors
    /// The packet.
    #[inline(never)]
    pub fn take_brief<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        opening: &Opening<'_>,
        packet: B,
        sink: &mut S,
    ) -> Result<Brevity, B> {
        let Some(slot) = place.slot(&self.pool) else { return Err(packet) };
        // SAFETY: there is only one session, and it is borrowed exclusively.
        let packet = match unsafe { &mut *slot.get() }.collect_brief(opening, packet) {
            Ok(Brought::Last) => {
                self.conclude(place, opening.brief, opening.now, sink);
                return Ok(Brevity::Concluded);
            }
            Ok(_) => return Ok(Brevity::Added),
            Err(packet) => packet,
        };
        let (set, ways) = (place.set as usize, self.pool.ways);
        let way = (place.hint as usize).wrapping_sub(set * ways);
        if set >= self.pool.heads.len() {
            return Err(packet);
        }
        // SAFETY: as above; the reference to the slot is gone.
        let mut owned = unsafe { self.pool.set(set) };
        match self.pool.open_brief(&mut owned, way, opening, packet, sink) {
            None => Ok(Brevity::Concluded),
            Some(packet) => Err(packet),
        }
    }

    /// The last contribution has been added to the slot that was foreseen.
    #[inline(never)]
    fn conclude<S: Sink<B, WORDS>>(&mut self, place: Place, brief: &Brief, now: u64, sink: &mut S) {
        let (set, ways) = (place.hint as usize / self.pool.ways, self.pool.ways);
        // SAFETY: there is only one session, and it is borrowed exclusively; the reference to the slot is gone.
        let mut owned = unsafe { self.pool.set(set) };
        self.pool.conclude(&mut owned, place.hint as usize % ways, &brief.contribution(now), sink);
    }

    #[inline]
    fn offer_in<S: Sink<B, WORDS>>(&mut self, set: usize, request: &Request, packet: B, sink: &mut S) {
        // A place of another pool.
        let set = set.min(self.pool.heads.len() - 1);
        if self.pool.shared {
            self.offer_shared(set, request, packet, sink);
        } else {
            self.pool.apply(set, request, packet, sink);
        }
    }

    fn offer_shared<S: Sink<B, WORDS>>(&mut self, set: usize, request: &Request, packet: B, sink: &mut S) {
        let owner = &self.pool.heads[set].owner;
        if owner.enter() {
            self.pool.apply(set, request, packet, sink);
        } else {
            let mut packet = packet;
            packet.scratch_mut().words[..PACKED].copy_from_slice(&request.pack());
            let raw = packet.into_raw();
            // SAFETY: `into_raw` made this lcore the holder of `raw`; packets are aligned by contract.
            match unsafe { owner.leave_with_owner::<Scratched<B>>(raw) } {
                Left::HandedOff => {
                    sink.handed_off();
                    return;
                }
                Left::Entered => {
                    // SAFETY: the packet was not given up, so `raw` is still this lcore's.
                    let packet = unsafe { B::from_raw(raw) };
                    self.pool.apply(set, request, packet, sink);
                }
                Left::Contention => {
                    // SAFETY: as above.
                    let packet = unsafe { B::from_raw(raw) };
                    sink.refused(request, packet, Refusal::Contention);
                    return;
                }
            }
        }
        self.release(set, sink);
    }

    /// Goes on with sets that the last turn had to postpone. To be called once per turn.
    pub fn resume<S: Sink<B, WORDS>>(&mut self, sink: &mut S) {
        for _ in 0..self.parked.len() {
            if let Some(set) = self.parked.pop_front() {
                self.release(set as usize, sink);
            }
        }
    }

    /// True if sets were postponed.
    #[must_use]
    pub fn has_parked(&self) -> bool {
        !self.parked.is_empty()
    }

    /// The set that the next [`sweep`](Self::sweep) begins with.
    #[must_use]
    pub const fn next_swept(&self) -> usize {
        self.sweep_at
    }

    /// Sets in all.
    #[must_use]
    pub fn sets(&self) -> usize {
        self.pool.heads.len()
    }

    /// Visits the next `sets` sets and does what `judge` says of each slot: it is given the key, and for a partial the time
    /// of its first contribution. Sets that another lcore owns are passed over. To be called now and then, so that nothing
    /// of a past generation outlives the sweep and no partial its time.
    pub fn sweep<S: Sink<B, WORDS>>(
        &mut self,
        sets: usize,
        mut judge: impl FnMut(Key, Option<u64>) -> Verdict,
        sink: &mut S,
    ) {
        for _ in 0..sets.min(self.pool.heads.len()) {
            let set = self.sweep_at;
            self.sweep_at = if set + 1 == self.pool.heads.len() { 0 } else { set + 1 };
            if self.pool.shared && !self.pool.heads[set].owner.enter() {
                continue;
            }
            {
                // SAFETY: this lcore owns the set: it has just entered it, or it is the only user.
                let mut owned = unsafe { self.pool.set(set) };
                for way in owned.used_ways() {
                    let Some(slot) = owned.slots.get(way) else { break };
                    if slot.is_partial() {
                        sink.seen(slot.key(), slot.first(), slot.ranks());
                    }
                    match judge(slot.key(), slot.is_partial().then_some(slot.first())) {
                        Verdict::Keep => {}
                        Verdict::Vacate => self.pool.vacate(&mut owned, way, Cause::Swept, sink),
                        Verdict::Release => {
                            self.pool.release(&mut owned, way, sink);
                        }
                        Verdict::Expire(now) => self.pool.expire(&mut owned, way, now, sink),
                    }
                }
            }
            if self.pool.shared {
                self.release(set, sink);
            }
        }
    }

    /// Packets that the slots hold. `None` if another lcore owns a set just now. It visits the whole pool: for tests and tools.
    #[must_use]
    pub fn packets(&mut self) -> Option<usize> {
        let mut packets = 0;
        for (set, head) in self.pool.heads.iter().enumerate() {
            if self.pool.shared && !head.owner.enter() {
                return None;
            }
            // SAFETY: this lcore owns the set: it has just entered it, or it is the only user.
            packets += unsafe { self.pool.set(set) }.slots.iter().map(Slot::packets).sum::<usize>();
            if self.pool.shared && !head.owner.let_go() {
                self.parked.push_back(u32::try_from(set).unwrap_or(u32::MAX));
            }
        }
        Some(packets)
    }

    /// Lets go of a set, working off first what was left here, up to a budget.
    fn release<S: Sink<B, WORDS>>(&mut self, set: usize, sink: &mut S) {
        let owner = &self.pool.heads[set].owner;
        let mut worked_off = 0;
        while let Some(mut chain) = owner.leave::<Scratched<B>>() {
            while let Some(raw) = chain.pop::<Scratched<B>>() {
                // SAFETY: packets on the chain were given up to the owner of the set, which this lcore is.
                let mut packet = unsafe { B::from_raw(raw) };
                let [key, now, ranks, payload, terms, rules, _] = packet.scratch_mut().words;
                let request = Request::unpack([key, now, ranks, payload, terms, rules]);
                self.pool.apply(set, &request, packet, sink);
                worked_off += 1;
            }
            // The queue has room for every set, so this never allocates.
            if worked_off >= DRAIN_BUDGET && self.parked.len() < self.parked.capacity() {
                if owner.let_go() {
                    return;
                }
                self.parked.push_back(u32::try_from(set).unwrap_or(u32::MAX));
                return;
            }
        }
    }
}

impl<B: PacketBuf, const WORDS: usize> Drop for Session<B, WORDS> {
    /// Lets go of postponed sets; packets that wait there are freed.
    fn drop(&mut self) {
        for set in core::mem::take(&mut self.parked) {
            while let Some(mut chain) = self.pool.heads[set as usize].owner.leave::<Scratched<B>>() {
                while let Some(raw) = chain.pop::<Scratched<B>>() {
                    // SAFETY: packets on the chain were given up to the owner of the set, which this lcore is.
                    drop(unsafe { B::from_raw(raw) });
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "that is how tests fail")]
mod tests {
    use super::*;
    use crate::pool::PoolConfig;
    use pascaline_buffer::HeapBuf;
    use pascaline_buffer::combine::Kernels;

    /// There, nobody may look into a set that it does not own.
    #[test]
    fn nothing_is_foreseen_for_a_pool_with_several_sessions() {
        let config = PoolConfig { slots: 4, ways: 1, ..PoolConfig::default() };
        let session =
            |lcores| Pool::<HeapBuf>::sessions(&config, Kernels::scalar(), lcores).unwrap().remove(0);
        let (mut alone, mut shared) = (session(1), session(2));
        let key = Key::new(1, 1, 1);
        let (mut elsewhere, mut here) = (alone.place(key), shared.place(key));
        alone.foresee(&mut elsewhere);
        assert!(elsewhere.slot(&alone.pool).is_some());
        assert!(elsewhere.slot(&shared.pool).is_none(), "also if another pool foresaw it");
        shared.foresee(&mut here);
        assert_eq!(here.hint, Place::NOWHERE);
    }
}
