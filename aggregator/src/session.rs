//! One lcore's way into the pool, and the packets that travel between lcores.

mod exchange;
mod keep;
mod place;
mod seat;
mod sweep;
mod together;

use core::fmt;
use std::sync::Arc;

use pascaline_buffer::PacketBuf;

use crate::handed::Handed;
use crate::handoff::{Receiver, Sender};
use crate::key::Key;
use crate::part::Part;
use crate::policy::Region;
use crate::pool::Pool;
use crate::request::{Brief, Opening, Request, Terms};
use crate::sink::Sink;
use crate::slot::Slot;
use seat::Seat;

pub use keep::{Incoming, Kept};
pub use place::Place;
pub use sweep::Verdict;
pub use together::Together;

/// One lcore's access to a pool: there are exactly as many as were asked for, and each has one user at a time.
pub struct Session<B: PacketBuf, const WORDS: usize = 1> {
    seat: Seat<B, WORDS>,
    /// The way to each other lcore, by its number; none to itself.
    to: Box<[Option<Sender<Handed<B>>>]>,
    /// The ways from the others.
    from: Box<[Receiver<Handed<B>>]>,
    /// Of these, the one whose turn it is to be first.
    first_from: usize,
    /// The next to be swept of the sets that it is at home in.
    sweep_at: usize,
}

/// Slots of which a result is probably still in a cache when it has to make room: a megabyte of packets.
const DEEP: usize = 512;

/// What has become of a contribution in brief.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brevity {
    /// Nothing: the slot that was foreseen does not hold its PSN, and may be [opened](Session::open_brief) with it.
    Absent,
    /// Nothing: it takes the whole request.
    Unsuited,
    /// It has been added.
    Added,
    /// It was the last one, or the first, and what followed has gone to the sink.
    Concluded,
}

impl<B: PacketBuf, const WORDS: usize> fmt::Debug for Session<B, WORDS> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seat { pool, lane, .. } = &self.seat;
        write!(
            f,
            "Session({lane} of {}, {} slots in sets of {})",
            pool.lanes.count(),
            pool.config.slots,
            pool.config.ways
        )
    }
}

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// The session of `pool` with this number, and its ways to and from the others.
    pub(crate) fn new(
        pool: Arc<Pool<B, WORDS>>,
        lane: u32,
        part: Part<B, WORDS>,
        to: Vec<(usize, Sender<Handed<B>>)>,
        from: Vec<Receiver<Handed<B>>>,
    ) -> Self {
        let mut ways: Box<[_]> = (0..pool.lanes.count()).map(|_| None).collect();
        for (number, sender) in to {
            ways[number] = Some(sender);
        }
        let from = from.into_boxed_slice();
        Self { seat: Seat { pool, part, lane }, to: ways, from, first_from: 0, sweep_at: 0 }
    }

    /// Slots in all.
    #[must_use]
    pub fn slots(&self) -> usize {
        self.seat.pool.config.slots
    }

    /// True if the pool can combine elements of this code.
    #[must_use]
    #[inline]
    pub fn supports(&self, element: u8) -> bool {
        self.seat.pool.kernel(element).is_some()
    }

    /// True if elements of this code are added one contribution at a time, unless their job wants them in the order of ranks: not
    /// where bits would be lost by that.
    #[must_use]
    #[inline]
    pub fn adds_singly(&self, element: u8) -> bool {
        self.seat.pool.combine(element).is_some()
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
        let set = set.min(self.seat.pool.sets() - 1) as u32;
        set
    }

    /// Where a key belongs in the shared part of this pool.
    #[must_use]
    #[inline]
    pub fn place(&self, key: Key) -> Place {
        let pool = &self.seat.pool;
        Place::new(pool.lanes.place(key.spread_job(), key.psn(), pool.groups), key.tag())
    }

    /// True if this is the pool's only session, which is at home in all sets.
    #[must_use]
    #[inline]
    pub fn is_only(&self) -> bool {
        self.seat.pool.lanes.is_one()
    }

    /// Where a PSN belongs that is sent on these terms.
    #[must_use]
    #[inline(always)]
    pub fn place_on(&self, terms: &Terms, psn: u32) -> Place {
        self.place_as::<false>(terms, psn)
    }

    /// As [`place_on`](Self::place_on), where it has been asked beforehand, once for many, whether this session is the
    /// [only one](Self::is_only): if `ONLY` is said of one that is not, packets go to wrong sets.
    #[must_use]
    #[inline(always)]
    pub fn place_as<const ONLY: bool>(&self, terms: &Terms, psn: u32) -> Place {
        let (lanes, groups) = (self.seat.pool.lanes, self.seat.pool.groups);
        debug_assert!(!ONLY || lanes.is_one());
        let set = match (terms.region.sets, ONLY) {
            (0, true) => groups.among_all(terms.spread_job, psn),
            (0, false) => lanes.place(terms.spread_job, psn, groups),
            _ => self.set_in(terms.region, psn),
        };
        Place::new(set, terms.tag(psn))
    }

    /// Asks the processor to bring in what a request for a key of this place will look at first; a hint only. `ONLY` as in
    /// [`place_as`](Self::place_as).
    #[inline(always)]
    pub fn prefetch<const ONLY: bool>(&self, place: Place) {
        // Past the end nothing is fetched, and nothing goes wrong.
        self.seat.part.prefetch_head(self.seat.own::<ONLY>(place.set));
    }

    /// Looks ahead, once what [`prefetch`](Self::prefetch) brought in has arrived: which slot will probably be used for
    /// the key, and asks for it. To be done once. Where another session is at home, nothing is foreseen.
    #[inline(always)]
    pub fn foresee(&mut self, place: &mut Place) {
        self.seat.foresee::<false>(place);
    }

    /// The same for many places.
    #[inline(always)]
    pub fn foresee_all<'a>(&mut self, places: impl Iterator<Item = &'a mut Place>) {
        let (ways, shared_sets) = (self.seat.pool.config.ways, self.seat.pool.shared_sets);
        if self.is_only() {
            places.for_each(|place| self.seat.foresee_in::<true>(place, ways, shared_sets));
        } else {
            places.for_each(|place| self.seat.foresee_in::<false>(place, ways, shared_sets));
        }
    }

    /// Looks again, after something has come of what was foreseen for others: the place of a key. True if it is another slot now.
    #[inline]
    pub fn foresee_anew(&mut self, place: &mut Place, key: Key) -> bool {
        let before = place.hint;
        *place = Place::new(place.set, key.tag());
        self.seat.foresee::<false>(place);
        place.hint != before
    }

    /// Once what [`foresee`](Self::foresee) asked for has arrived: asks for what the slot holds.
    #[inline(always)]
    pub fn prefetch_contents(&mut self, place: Place) {
        self.seat.prefetch_contents(place);
    }

    /// True if there are so many slots that a result which has to make room is probably in no cache any more.
    #[inline(always)]
    #[must_use]
    pub fn is_deep(&self) -> bool {
        self.seat.part.slots().len() > DEEP
    }

    /// As [`prefetch_contents`](Self::prefetch_contents), for a while before that: only the start.
    #[inline(always)]
    pub fn prefetch_start(&mut self, place: Place) {
        if let Some(slot) = self.seat.part.slot(place.hint) {
            slot.prefetch_start();
        }
    }

    /// Once what [`foresee`](Self::foresee) asked for has arrived: true if a contribution will probably be the last one.
    #[inline(always)]
    #[must_use]
    pub fn is_last(&mut self, place: Place, brief: &Brief) -> bool {
        self.seat.part.slot(place.hint).is_some_and(|slot| slot.lacks_only(brief))
    }

    /// True if packets for this place are this session's: any other's are handed over.
    #[inline(always)]
    #[must_use]
    pub fn is_home(&self, place: Place) -> bool {
        self.seat.is_home(place.set)
    }

    /// Gives a packet to the pool, in its shared part. The event goes to `sink`; if the packet is handed over to another session,
    /// to the sink of that one when it [resumes](Self::resume).
    #[inline]
    pub fn offer<S: Sink<B, WORDS>>(&mut self, request: &Request, packet: B, sink: &mut S) {
        self.offer_at(self.place(request.key), request, packet, sink);
    }

    /// As [`offer`](Self::offer), for a key whose place is known.
    #[inline]
    pub fn offer_at<S: Sink<B, WORDS>>(&mut self, place: Place, request: &Request, packet: B, sink: &mut S) {
        // A place of another pool.
        #[expect(clippy::cast_possible_truncation, reason = "a pool has at most 2^28 slots")]
        let set = place.set.min(self.seat.pool.sets() as u32 - 1);
        if let Err(packet) = self.seat.apply(set, request, packet, sink) {
            self.hand_over(set, request, packet, sink);
        }
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
        self.seat.add_brief(place, brief, offset, now, bytes, sink)
    }

    /// Opens the slot that was [foreseen](Self::foresee) with a contribution in brief, in the plain case: then the packet is taken out,
    /// and there is an event. If not, nothing is done.
    #[inline(always)]
    #[must_use]
    pub fn open_brief<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        sink: &mut S,
    ) -> bool {
        self.seat.open_brief(place, opening, packet, sink)
    }

    /// Packets that the slots of this session's sets hold. It visits all of them: for tests and tools.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.seat.part.slots().iter().map(Slot::packets).sum()
    }
}

#[cfg(all(test, not(loom)))]
#[allow(clippy::unwrap_used, reason = "that is how tests fail")]
mod tests {
    use super::*;
    use crate::pool::PoolConfig;
    use pascaline_buffer::HeapBuf;
    use pascaline_buffer::combine::Kernels;

    /// Nobody else may look into its sets.
    #[test]
    fn nothing_is_foreseen_where_another_session_is_at_home() {
        let config = PoolConfig { slots: 4, ways: 1, ..PoolConfig::default() };
        let sessions = |lcores| Pool::<HeapBuf>::sessions(&config, Kernels::scalar(), lcores).unwrap();
        let (mut alone, mut two) = (sessions(1).remove(0), sessions(2));
        let (mut odd, mut even) = (two.pop().unwrap(), two.pop().unwrap());
        let key = Key::new(1, 1, 6);
        let (mut elsewhere, place) = (alone.place(key), even.place(key));
        assert!(even.is_home(place) && !odd.is_home(place));
        alone.foresee(&mut elsewhere);
        assert!(alone.seat.part.slot(elsewhere.hint).is_some());
        let (mut here, mut there) = (place, place);
        even.foresee(&mut here);
        odd.foresee(&mut there);
        assert!(even.seat.part.slot(here.hint).is_some());
        assert_eq!(there.hint, Place::NOWHERE);
        assert!(odd.seat.part.slot(there.hint).is_none());
    }
}
