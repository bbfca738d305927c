//! Contributions that need the whole request: of one rank each, or combined ones of several.

use pascaline_buffer::PacketBuf;
use pascaline_wire::RankSet;

use super::Pool;
use crate::request::{Contribution, Request};
use crate::sabotage::Sabotage;
use crate::set::{Choice, Set};
use crate::sink::{Aggregate, Cause, Evicted, Rejection, Sink};
use crate::slot::{Admission, Contents, Slot};
use crate::sync::Ordering;

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    /// Adds the contribution of one rank.
    pub(super) fn add<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let Some(way) = set.find(request.key) else { return self.open(set, request, packet, sink) };
        let slot = &mut set.slots[way];
        let &Request { element, offset, now, .. } = request;
        let gradient = request.single();
        if let Some(combine) = self.combine(element)
            && slot.add(&gradient, offset, now, packet.bytes(), combine) != Admission::Declined
        {
            sink.recycled(packet);
            if !slot.reaches(request.needed) {
                slot.note(request);
                return sink.added(&request.contribution());
            }
        } else {
            let mut packet = Some(packet);
            slot.keep(&gradient, offset, now, &mut packet);
            if let Some(packet) = packet {
                return self.reject_or_replay(set, way, request, packet, sink);
            }
        }
        slot.note(request);
        self.settle(set, way, request, sink);
    }

    /// Adds the contributions of several ranks, which another lcore has combined: all or none. If one of them
    /// is inside already, the others send again, each for itself.
    #[inline(never)]
    pub(super) fn add_combined<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let Some(way) = set.find(request.key) else { return self.open(set, request, packet, sink) };
        let slot = &mut set.slots[way];
        let objection = self.objection(request, &packet).or_else(|| slot.disagrees(request));
        if let Some(why) = objection {
            return sink.rejected(request, packet, why);
        }
        let Some(combine) = self.combine(request.element) else {
            return sink.rejected(request, packet, Rejection::ElementUnsupported);
        };
        if !slot.add_combined(request, &packet, combine) {
            slot.touch(request.now);
            return sink.rejected(request, packet, Rejection::Duplicate);
        }
        sink.recycled(packet);
        self.settle(set, way, request, sink);
    }

    /// Reports the effect of the contribution that is inside now.
    fn settle<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        request: &Request,
        sink: &mut S,
    ) {
        if set.slots[way].suffices(request) {
            self.finish(set, way, &request.contribution(), sink);
        } else {
            sink.added(&request.contribution());
        }
    }

    /// The last contribution is inside: makes the result, or leaves the PSN to the parameter server.
    #[inline(always)]
    pub(crate) fn finish<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        last: &Contribution,
        sink: &mut S,
    ) {
        if let Some(result) = self.conclude(set, way, sink) {
            if Sabotage::ResultTwice.is_on() {
                sink.completed(last, false, result.clone());
            }
            return sink.completed(last, false, result);
        }
        sink.added(last);
    }

    /// Makes a partial the result, unless there may be another one already: then it is left to the parameter
    /// server.
    #[inline(always)]
    pub(super) fn conclude<'s, S: Sink<B, WORDS>>(
        &self,
        set: &'s mut Set<'_, B, WORDS>,
        way: usize,
        sink: &mut S,
    ) -> Option<Aggregate<'s, B::Shared>> {
        if set.slots[way].is_doubtful() {
            self.vacate(set, way, Cause::Referred, sink);
            return None;
        }
        self.complete(set, way, sink)
    }

    /// Makes a partial the result. Leaves the slot empty if there is no room for the bitmap of ranks.
    #[inline(always)]
    fn complete<'s, S: Sink<B, WORDS>>(
        &self,
        set: &'s mut Set<'_, B, WORDS>,
        way: usize,
        sink: &mut S,
    ) -> Option<Aggregate<'s, B::Shared>> {
        let slot = &mut set.slots[way];
        let (key, kernel) = (slot.key(), self.kernel(slot.element())?);
        self.uncount(slot);
        let result = slot.complete(kernel, &mut |packet| sink.recycled(packet));
        if result.is_some() {
            set.directory.use_result(way);
        } else {
            set.directory.vacated(way);
            sink.evicted(key, Evicted::GivenUp, Cause::Superseded);
        }
        result
    }

    /// The slot's partial is gone: it no longer counts against its job's quota.
    #[inline]
    pub(super) fn uncount(&self, slot: &mut Slot<B, WORDS>) {
        if slot.uncount() {
            self.held[usize::from(slot.key().job())].fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Opens a slot.
    #[inline(never)]
    fn open<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let mismatch = (request.fan_in != request.job_fan_in).then_some(Rejection::FanInMismatch);
        if let Some(why) = self.objection(request, &packet).or(mismatch) {
            return sink.rejected(request, packet, why);
        }
        let combined = request.inside != 0;
        let quota = request.rules.quota();
        let held = &self.held[usize::from(request.key.job())];
        // Two lcores may both take the last slot: a quota is exceeded by less than the number of lcores.
        let choice = if quota > 0 && held.load(Ordering::Relaxed) >= quota {
            Choice::Rejected(Rejection::Quota)
        } else {
            set.choose(request, self.age_limit)
        };
        let way = match choice {
            Choice::Way(way, cause) => {
                self.vacate(set, way, cause, sink);
                way
            }
            Choice::Rejected(why) if combined && request.rules.server() => {
                return Self::spill_combined(request, packet, why, sink);
            }
            Choice::Rejected(why) => return sink.rejected(request, packet, why),
        };
        set.directory.occupy(request.key.tag(), way, request.rules.sender(), request.now);
        if quota > 0 {
            held.fetch_add(1, Ordering::Relaxed);
        }
        let keep = !combined && self.keeps(request.element, request.rules.order());
        set.slots[way].open_noted(request, packet, keep, quota > 0);
        let result = match set.slots[way].suffices(request) {
            true if combined => self.conclude(set, way, sink),
            true => self.complete(set, way, sink),
            false => None,
        };
        match result {
            Some(result) => sink.completed(&request.contribution(), true, result),
            None => sink.opened(&request.contribution()),
        }
    }

    /// Combined contributions that find no slot leave for the parameter server at once, as a partial.
    fn spill_combined<S: Sink<B, WORDS>>(request: &Request, packet: B, why: Rejection, sink: &mut S) {
        let mut slot = Slot::<B, WORDS>::new();
        slot.open_noted(request, packet, false, false);
        sink.opened(&request.contribution());
        let what = match slot.take(true, &mut |packet| sink.recycled(packet)) {
            Contents::Partial(partial) => Evicted::Partial(partial),
            Contents::Nothing | Contents::Result | Contents::Originals(_) => Evicted::GivenUp,
        };
        sink.evicted(request.key, what, Cause::NoRoom(why));
    }

    /// A contribution to a known PSN that the slot does not expect: finds out why.
    #[cold]
    fn reject_or_replay<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        if let Some(why) = self.objection(request, &packet) {
            return sink.rejected(request, packet, why);
        }
        if set.slots[way].is_done() {
            return match set.cached(way, request.now) {
                Some(result) => sink.replayed(request, packet, result),
                None => sink.rejected(request, packet, Rejection::Duplicate),
            };
        }
        let slot = &mut set.slots[way];
        let why = slot.disagrees(request).unwrap_or_else(|| {
            // A rank that sends again still waits for the result.
            slot.touch(request.now);
            Rejection::Duplicate
        });
        // Perhaps fewer are needed now than when the others came.
        if why == Rejection::Duplicate && slot.suffices(request) {
            self.release(set, way, sink);
        }
        sink.rejected(request, packet, why);
    }

    /// The objection to a contribution that needs no slot to be found.
    fn objection(&self, request: &Request, packet: &B) -> Option<Rejection> {
        let inside = RankSet::<WORDS>::of_word(request.inside);
        if request.inside == 0 {
            if request.rank >= request.job_fan_in || request.rank >= RankSet::<WORDS>::CAPACITY {
                return Some(Rejection::RankOutOfRange);
            }
            if request.count != 1 {
                return Some(Rejection::BadCount);
            }
        } else if request.count != inside.len() || !RankSet::first(request.job_fan_in).includes(&inside) {
            return Some(Rejection::BadCount);
        }
        self.objection_to_payload(request, packet)
    }

    pub(super) fn objection_to_payload(&self, request: &Request, packet: &B) -> Option<Rejection> {
        if packet.bytes().len() < usize::from(request.offset) + usize::from(request.len) {
            Some(Rejection::LengthChanged)
        } else if self.kernel(request.element).is_none() {
            Some(Rejection::ElementUnsupported)
        } else {
            None
        }
    }
}
