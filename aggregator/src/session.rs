//! One lcore's way into the pool, and the packets that travel between lcores.

mod keep;
mod together;

use core::fmt;
use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;

use crate::handed::{Alike, Handed};
use crate::handoff::{Receiver, Sender};
use crate::key::{Key, Tag};
use crate::part::{At, Part};
use crate::policy::{Order, Region};
use crate::pool::Pool;
use crate::prefetch::prefetch;
use crate::request::{Brief, Opening, Request, Terms};
use crate::sink::{Cause, Refusal, Sink};
use crate::slot::{Brought, Slot};

pub use keep::{Incoming, Kept};
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

/// The sets of a pool that one session is at home in: nobody else looks into them.
struct Seat<B: PacketBuf, const WORDS: usize> {
    pool: Arc<Pool<B, WORDS>>,
    part: Part<B, WORDS>,
    lane: u32,
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

/// Asks for the payload of a packet that another lcore has read or the device has written: line by line, since what is on
/// another core comes slowly, and processors that foresee a stream begin late.
#[inline(always)]
fn prefetch_payload<B: PacketBuf>(handed: &Handed<B>) {
    let bytes = handed.packet.bytes();
    for line in bytes.chunks(64).take(PAYLOAD_LINES) {
        prefetch(line.as_ptr());
    }
}

/// Of a payload, lines that are asked for ahead.
const PAYLOAD_LINES: usize = 24;
/// Packets on their way, newest first, that are asked whether another one can be added to them: some PSNs of a burst.
const LOOK_BACK: usize = 8;
/// Packets from other lcores that one turn works off.
const DRAIN_BUDGET: usize = 128;
/// Of these, how many are looked at ahead of their turn.
const BATCH: usize = 32;
/// Packets by which the contents of a slot are asked for ahead of time.
const AHEAD: usize = 4;

impl<B: PacketBuf, const WORDS: usize> Seat<B, WORDS> {
    #[inline(always)]
    fn is_home(&self, set: u32) -> bool {
        self.pool.lanes.of(set) == self.lane
    }

    /// The number of a set among this session's own; `ONLY` as in [`Session::place_as`].
    #[inline(always)]
    fn own<const ONLY: bool>(&self, set: u32) -> usize {
        if ONLY { set as usize } else { self.pool.lanes.own(set) }
    }

    #[inline(always)]
    fn foresee<const ONLY: bool>(&mut self, place: &mut Place) {
        let (ways, shared_sets) = (self.pool.config.ways, self.pool.shared_sets);
        self.foresee_in::<ONLY>(place, ways, shared_sets);
    }

    /// The same, told how many ways a set has, and how many sets are not in a region: it would be looked up for each.
    #[inline(always)]
    fn foresee_in<const ONLY: bool>(&mut self, place: &mut Place, ways: usize, shared_sets: usize) {
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
    fn prefetch_contents(&mut self, place: Place) {
        if let Some(slot) = self.part.slot(place.hint) {
            slot.prefetch();
        }
    }

    #[inline(always)]
    fn add_brief<S: Sink<B, WORDS>>(
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
    fn take_brief<S: Sink<B, WORDS>>(
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
    fn open_brief<S: Sink<B, WORDS>>(
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
    fn conclude<S: Sink<B, WORDS>>(&mut self, place: Place, brief: &Brief, now: u64, sink: &mut S) {
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
    fn apply<S: Sink<B, WORDS>>(
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

    /// Leaves a packet with the session that is at home in its set. It gets there when this one [resumes](Self::resume); until then,
    /// others to the same PSN are added to it.
    fn hand_over<S: Sink<B, WORDS>>(&mut self, set: u32, request: &Request, packet: B, sink: &mut S) {
        let pool = &self.seat.pool;
        let Some(Some(way)) = self.to.get_mut(pool.lanes.of(set) as usize) else {
            // Cannot happen: there is a way to everybody else.
            return sink.refused(request, packet, Refusal::Contention);
        };
        let combine = pool.combine(request.element).filter(|_| request.rules.order() == Order::Arrival);
        if let Some((combine, alike)) = combine.zip(Alike::of(request)) {
            for back in 0..LOOK_BACK {
                let Some(before) = way.unpublished(back) else { break };
                if before.absorb(&alike, packet.bytes(), combine) {
                    sink.combined(&request.contribution());
                    return sink.spent(packet);
                }
            }
        }
        match way.push(Handed::new(set, request, packet)) {
            Ok(()) => sink.handed_off(),
            Err(Handed { packet, .. }) => sink.refused(request, packet, Refusal::Contention),
        }
    }

    /// As [`offer_at`](Self::offer_at), for a contribution in brief with nothing special about it. Gives the packet back, and nothing is
    /// done, if there is or this session is at home there.
    ///
    /// # Errors
    /// The packet.
    #[inline(always)]
    pub fn hand_over_brief<S: Sink<B, WORDS>>(
        &mut self,
        place: Place,
        opening: &Opening<'_>,
        packet: B,
        sink: &mut S,
    ) -> Result<(), B> {
        if self.is_home(place) || place.set() >= self.seat.pool.sets() {
            return Err(packet);
        }
        let Some(request) = opening.request() else { return Err(packet) };
        self.hand_over(place.set, &request, packet, sink);
        Ok(())
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

    /// Sends off what has been handed over since the last time, and works off what other sessions have handed over to this one, up
    /// to a budget. To be called once per turn.
    pub fn resume<S: Sink<B, WORDS>>(&mut self, sink: &mut S) {
        self.to.iter_mut().flatten().for_each(Sender::publish);
        let (mut left, ways) = (DRAIN_BUDGET, self.from.len());
        for n in 0..ways {
            let Some(from) = self.from.get_mut((self.first_from + n) % ways) else { break };
            while left > 0 && from.available() > 0 {
                left -= Self::take_in(&mut self.seat, from, left.min(BATCH), sink);
            }
        }
        self.first_from += 1;
        if self.first_from >= ways {
            self.first_from = 0;
        }
    }

    /// Works off up to so many packets that another session has handed over, at most [`BATCH`]. Returns how many.
    fn take_in<S: Sink<B, WORDS>>(
        seat: &mut Seat<B, WORDS>,
        from: &mut Receiver<Handed<B>>,
        most: usize,
        sink: &mut S,
    ) -> usize {
        let most = from.available().min(most);
        let mut places = ArrayVec::<Place, BATCH>::new();
        for n in 0..most {
            let place = from.peek(n, |handed| {
                handed.packet.prefetch();
                seat.part.prefetch_head(seat.pool.lanes.own(handed.set));
                Place::new(handed.set, handed.key().tag())
            });
            places.extend(place);
        }
        places.iter_mut().for_each(|place| seat.foresee::<false>(place));
        places.iter().take(AHEAD).for_each(|place| seat.prefetch_contents(*place));
        for n in 0..AHEAD {
            from.peek(n, |handed| prefetch_payload(handed));
        }
        for (n, place) in places.iter().enumerate() {
            if let Some(coming) = places.get(n + AHEAD) {
                seat.prefetch_contents(*coming);
            }
            // What is taken out is not counted any more.
            from.peek(AHEAD, |handed| prefetch_payload(handed));
            let Some(handed) = from.pop() else { break };
            Self::received(seat, *place, &handed.request(), handed.packet, sink);
        }
        from.acknowledge();
        places.len()
    }

    /// A packet that another session has handed over.
    #[inline(always)]
    fn received<S: Sink<B, WORDS>>(
        seat: &mut Seat<B, WORDS>,
        place: Place,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let mut packet = packet;
        if let Some(brief) = request.brief() {
            match seat.add_brief(place, &brief, request.offset, request.now, packet.bytes(), sink) {
                Brevity::Absent | Brevity::Unsuited => {}
                Brevity::Added => {
                    sink.added(&request.contribution());
                    return sink.spent(packet);
                }
                Brevity::Concluded => return sink.spent(packet),
            }
            let &Request { rules, priority, offset, now, .. } = request;
            let opening = Opening { brief: &brief, rules, priority, offset, now };
            packet = match seat.take_brief(place, &opening, packet, sink) {
                Ok(Brevity::Added) => return sink.added(&request.contribution()),
                Ok(_) => return,
                Err(packet) => packet,
            };
        }
        if let Err(packet) = seat.apply(place.set, request, packet, sink) {
            // Cannot happen: it was handed over because this session is at home there.
            sink.refused(request, packet, Refusal::Contention);
        }
    }

    /// True if there is something to [resume](Self::resume).
    #[inline]
    #[must_use]
    pub fn has_waiting(&mut self) -> bool {
        self.to.iter().flatten().any(Sender::is_ahead)
            || self.from.iter_mut().any(|from| from.available() > 0)
    }

    /// Sends off what has been handed over, and tells the others that there will be no more: the last thing before the end, but for
    /// [resuming](Self::resume) until [all others](Self::is_alone) have done so too.
    pub fn close(&mut self) {
        self.to.iter_mut().flatten().for_each(Sender::close);
    }

    /// True if all other sessions have been [closed](Self::close) or are gone, and nothing that they have left waits.
    #[must_use]
    pub fn is_alone(&mut self) -> bool {
        self.from.iter_mut().all(Receiver::is_finished)
    }

    /// The number, among the sets of this session, of the one that the next [`sweep`](Self::sweep) begins with.
    #[must_use]
    pub const fn next_swept(&self) -> usize {
        self.sweep_at
    }

    /// Sets that this session is at home in: all of the pool's, if it is the only one.
    #[must_use]
    pub fn sets(&self) -> usize {
        self.seat.part.sets()
    }

    /// Visits the next `sets` sets of this session and does what `judge` says of each slot: it is given the key, and for a partial the time
    /// of its first contribution. To be called now and then, so that nothing of a past generation outlives the sweep and no partial
    /// its time.
    pub fn sweep<S: Sink<B, WORDS>>(
        &mut self,
        sets: usize,
        mut judge: impl FnMut(Key, Option<u64>) -> Verdict,
        sink: &mut S,
    ) {
        let own = self.sets();
        let Seat { pool, part, .. } = &mut self.seat;
        for _ in 0..sets.min(own) {
            let Some(mut owned) = part.set(self.sweep_at) else { break };
            self.sweep_at = if self.sweep_at + 1 >= own { 0 } else { self.sweep_at + 1 };
            for way in owned.used_ways() {
                let Some(slot) = owned.slots.get(way) else { break };
                if slot.is_partial() {
                    sink.seen(slot.key(), slot.first(), slot.ranks());
                }
                match judge(slot.key(), slot.is_partial().then_some(slot.first())) {
                    Verdict::Keep => {}
                    Verdict::Vacate => pool.vacate(&mut owned, way, Cause::Swept, sink),
                    Verdict::Release => {
                        pool.release(&mut owned, way, sink);
                    }
                    Verdict::Expire(now) => pool.expire(&mut owned, way, now, sink),
                }
            }
        }
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
