//! Contributions of one rank each: the way of those that want a closer look, and what the last one leads to.

use core::sync::atomic::Ordering;

use pascaline_buffer::PacketBuf;

use super::Pool;
use crate::request::{Contribution, Request};
use crate::set::{Choice, Set};
use crate::sink::{Cause, Displaced, Refusal, Sink};
use crate::slot::{Hold, Slot};
use pascaline_wire::RankSet;

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    pub(super) fn add<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let Some(way) = set.find(request.key) else { return self.open(set, request, packet, sink) };
        if let Some(packet) = self.add_to(&mut set.slots[way], request, packet, sink) {
            self.add_last(set, way, request, packet, sink);
        }
    }

    /// Adds a contribution that agrees in every respect with what is inside, which needs no further questions, and that
    /// is not the last one. Gives back any other.
    #[inline(always)]
    pub(crate) fn add_to<S: Sink<B, WORDS>>(
        &self,
        slot: &mut Slot<B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) -> Option<B> {
        if let Some(combine) = self.combine(request.element)
            && slot.expects(request, false)
            && slot.add(request, &packet, combine)
        {
            sink.added(&request.contribution());
            sink.spent(packet);
            return None;
        }
        Some(packet)
    }

    /// Adds the last contribution, or one of those that are kept until all are there; any other finds out what is wrong
    /// with it.
    #[inline(never)]
    fn add_last<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let slot = &mut set.slots[way];
        if let Some(combine) = self.combine(request.element)
            && slot.expects(request, true)
            && slot.add(request, &packet, combine)
        {
            sink.spent(packet);
        } else if slot.collects(request) {
            if let Err(packet) = slot.collect(request, packet) {
                return self.add_doubtful(set, way, request, packet, sink);
            }
        } else {
            return self.add_doubtful(set, way, request, packet, sink);
        }
        if !slot.suffices(request) {
            return sink.added(&request.contribution());
        }
        self.conclude(set, way, &request.contribution(), sink);
    }

    /// What the contribution that was missing leads to, now that it is inside.
    #[inline(always)]
    pub(crate) fn conclude<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        last: &Contribution,
        sink: &mut S,
    ) {
        if self.refer(set, way, sink) {
            return sink.added(last);
        }
        if self.complete(set, way, sink)
            && let Some(result) = set.slots[way].aggregate()
        {
            return sink.completed(last, false, result);
        }
        sink.added(last);
    }

    /// Leaves a complete partial to the parameter server if there may be another result already. True if so.
    #[inline(always)]
    pub(super) fn refer<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        sink: &mut S,
    ) -> bool {
        let doubtful = set.slots[way].is_doubtful();
        if doubtful {
            self.vacate(set, way, Cause::Referred, sink);
        }
        doubtful
    }

    /// Makes a partial the result. False, and the slot is empty, if there is no room for saying who is inside.
    #[inline]
    pub(super) fn complete<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        sink: &mut S,
    ) -> bool {
        let slot = &mut set.slots[way];
        let Some(kernel) = self.kernel(slot.element()) else { return false };
        let done = slot.complete(kernel, &mut |packet| sink.spent(packet));
        self.closed(slot);
        if done {
            set.directory.use_result(way);
        } else {
            let key = slot.key();
            set.vacated(way);
            sink.displaced(key, Displaced::GivenUp, Cause::Superseded);
        }
        done
    }

    /// The partial of a slot is one no longer.
    #[inline]
    pub(super) fn closed(&self, slot: &mut Slot<B, WORDS>) {
        if slot.uncount() {
            self.held[usize::from(slot.key().job())].fetch_sub(1, Ordering::Relaxed);
        }
    }

    #[inline(never)]
    fn open<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        if let Some(why) = self.objection(request, &packet) {
            return sink.refused(request, packet, why);
        }
        if request.fan_in != request.job_fan_in {
            return sink.refused(request, packet, Refusal::FanInMismatch);
        }
        let quota = request.rules.quota();
        let held = &self.held[usize::from(request.key.job())];
        // Two lcores may both take the last one: a quota is exceeded by fewer than there are lcores.
        if quota > 0 && held.load(Ordering::Relaxed) >= quota {
            return sink.refused(request, packet, Refusal::Quota);
        }
        let way = match set.choose(request, self.age_limit) {
            Choice::Way(way, cause) => {
                self.vacate(set, way, cause, sink);
                way
            }
            Choice::None(why) => return sink.refused(request, packet, why),
        };
        set.occupy(way, request.key, request.now);
        if quota > 0 {
            held.fetch_add(1, Ordering::Relaxed);
        }
        set.slots[way].open(request, packet, self.keeps(request.element, request.rules.order()), quota > 0);
        if request.needed <= 1
            && self.complete(set, way, sink)
            && let Some(result) = set.slots[way].aggregate()
        {
            return sink.completed(&request.contribution(), true, result);
        }
        sink.opened(&request.contribution());
    }

    /// A contribution to a PSN that is known, which the slot did not expect like this: finds out why.
    #[cold]
    fn add_doubtful<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        if let Some(why) = self.objection(request, &packet) {
            return sink.refused(request, packet, why);
        }
        if let Hold::Done(_) = set.slots[way].hold {
            return match set.kept(way, request.now) {
                Some(result) => sink.replayed(request, packet, result),
                None => sink.refused(request, packet, Refusal::Duplicate),
            };
        }
        let slot = &mut set.slots[way];
        let why = slot.disagrees(request).unwrap_or_else(|| {
            // A rank that sends again still waits for the result.
            slot.touch(request.now);
            Refusal::Duplicate
        });
        // Perhaps fewer are needed now than when the others came.
        if why == Refusal::Duplicate && slot.suffices(request) {
            self.release(set, way, sink);
        }
        sink.refused(request, packet, why);
    }

    /// What can be said against a contribution without looking at a slot.
    fn objection(&self, request: &Request, packet: &B) -> Option<Refusal> {
        if request.rank >= request.job_fan_in || request.rank >= RankSet::<WORDS>::CAPACITY {
            Some(Refusal::RankOutOfRange)
        } else if request.count != 1 {
            Some(Refusal::BadCount)
        } else {
            self.objection_to_payload(request, packet)
        }
    }

    pub(super) fn objection_to_payload(&self, request: &Request, packet: &B) -> Option<Refusal> {
        if packet.bytes().len() < usize::from(request.offset) + usize::from(request.len) {
            Some(Refusal::LengthChanged)
        } else if self.kernel(request.element).is_none() {
            Some(Refusal::ElementUnsupported)
        } else {
            None
        }
    }
}
