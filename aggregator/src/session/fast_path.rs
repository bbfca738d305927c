//! The gradients of a burst, from their predicted slots to the events.

use pascaline_buffer::PacketBuf;

use super::Session;
use super::burst::{Arrival, Burst, Place};
use crate::policy::Order;
use crate::request::Opening;
use crate::shard::Outcome;
use crate::sink::BurstSink;
use crate::slot::Admission;

/// Packets by which the contents of a slot are prefetched ahead.
pub(super) const AHEAD: usize = 4;
/// The same for the packets that a slot keeps.
const NEAR: usize = 2;
/// Slots beyond which a result that has to make room is probably in no cache any more: a megabyte of packets.
const DEEP: usize = 512;
/// Slots whose kept contributions fit into a second-level cache, of eight ranks and 1 KiB each: a megabyte.
const FEW: usize = 128;
/// Bytes of a payload from which adding a burst's together pays: shorter sums are still in the first-level
/// cache when the next contribution comes.
const LONG: u16 = 2048;

/// Gradients that have been added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) count: usize,
    /// Those of them that led to an event.
    pub(super) events: usize,
}

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// Adds a [gathered](Self::gather) burst to the pool, in the order of arrival, and empties it. `now` is
    /// the time of arrival in nanoseconds. A gradient that was added, and was not the last one of its PSN,
    /// has no event of its own: [`BurstSink::worked_off`] gets their number. A gradient that opens no slot
    /// because the sink does not [admit](BurstSink::admits) it is [left](Burst::refused) to the caller.
    ///
    /// Always inlined: the fields of the caller's sink stay in registers.
    #[inline(always)]
    pub fn add_burst<S: BurstSink<B, WORDS>>(&mut self, burst: &mut Burst<B>, now: u64, sink: &mut S) {
        self.shard.predict_all(burst.arrivals.iter_mut().map(|arrival| &mut arrival.place));
        let deep = self.shard.memory.slots().len() > DEEP;
        if deep | sink.is_wide() {
            self.prefetch_far(burst, deep, sink);
        }
        for arrival in burst.arrivals.iter().take(AHEAD) {
            self.shard.prefetch_contents(arrival.place);
        }
        let events = if self.is_long(burst, sink) {
            self.add_together(burst, now, sink)
        } else {
            self.add_singly(burst, now, sink)
        };
        if burst.has_refused() {
            burst.forget_refused();
        }
        sink.worked_off(burst, burst.arrivals.len() - events, now);
        burst.clear_taken();
    }

    /// Prefetches memory that is probably in no cache, for a whole burst at once: with many slots, results
    /// that have to make room; with many jobs or ranks, counts of packets and headers of results.
    #[inline(never)]
    fn prefetch_far<S: BurstSink<B, WORDS>>(&self, burst: &Burst<B>, deep: bool, sink: &S) {
        let slot = |place: Place| self.shard.memory.slot(place.slot);
        if deep {
            burst
                .arrivals
                .iter()
                .filter_map(|arrival| slot(arrival.place))
                .for_each(|slot| slot.prefetch_start());
        }
        if sink.is_wide() {
            for Arrival { gradient, place, .. } in &burst.arrivals {
                sink.prefetch_count(gradient);
                if slot(*place).is_some_and(|slot| slot.lacks_only(gradient)) {
                    sink.prefetch_replies(gradient);
                }
            }
        }
    }

    /// True if it pays to add this burst together, judged by its first gradient: not if contributions are
    /// kept.
    #[inline(always)]
    fn is_long<S: BurstSink<B, WORDS>>(&self, burst: &Burst<B>, sink: &S) -> bool {
        let Some(Arrival { gradient, .. }) = burst.arrivals.first() else { return false };
        gradient.shape().payload_len() >= LONG
            && self.shard.pool.combine(gradient.element()).is_some()
            && sink.rules(gradient.key().job()).order() == Order::Arrival
    }

    /// Adds one gradient after the other. Returns how many led to an event.
    #[inline(always)]
    fn add_singly<S: BurstSink<B, WORDS>>(&mut self, burst: &mut Burst<B>, now: u64, sink: &mut S) -> usize {
        let Burst { arrivals, refused } = burst;
        let (mut at, mut events) = (0, 0);
        while at < arrivals.len() {
            if let Some(coming) = arrivals.get(at + AHEAD) {
                self.shard.prefetch_contents(coming.place);
            }
            let Some(Arrival { gradient, place, packet }) = arrivals.get_mut(at) else { break };
            let Some(bytes) = packet.as_ref().map(PacketBuf::bytes) else { break };
            let outcome = self.shard.add(*place, gradient, S::PAYLOAD_OFFSET, now, bytes, sink);
            // At once, so that the next result is sent with packets that are in the cache.
            let mut recycle = || packet.take().into_iter().for_each(|packet| sink.recycled(packet));
            match outcome {
                Outcome::Added => {
                    at += 1;
                    recycle();
                }
                Outcome::Settled => {
                    (at, events) = (at + 1, events + 1);
                    recycle();
                }
                Outcome::Absent | Outcome::Unsuited if !sink.admits(gradient) => {
                    arrivals[at].refuse(refused);
                    at += 1;
                }
                Outcome::Absent if self.open(&mut arrivals[at], now, sink) => {
                    at += 1;
                    events += 1;
                }
                Outcome::Absent | Outcome::Unsuited => {
                    let taken = self.take(&mut arrivals[at..], now, sink);
                    at += taken.count;
                    events += taken.events;
                }
            }
        }
        events
    }

    /// Opens a slot with a gradient if nothing has to be checked; otherwise nothing changes. Apart from
    /// [`take`](Self::take), and from the second attempt: with those, registers would not suffice.
    #[inline(never)]
    pub(super) fn open<S: BurstSink<B, WORDS>>(
        &mut self,
        arrival: &mut Arrival<B>,
        now: u64,
        sink: &mut S,
    ) -> bool {
        self.open_predicted(arrival, now, sink) || self.open_anew(arrival, now, sink)
    }

    /// The same if another slot is predicted now: perhaps a gradient before it got the one predicted for
    /// both.
    #[inline(never)]
    fn open_anew<S: BurstSink<B, WORDS>>(
        &mut self,
        arrival: &mut Arrival<B>,
        now: u64,
        sink: &mut S,
    ) -> bool {
        let Arrival { gradient, place, .. } = arrival;
        let before = place.slot;
        *place = Place::new(place.set, gradient.key().tag());
        self.shard.predict(place);
        place.slot != before && self.open_predicted(arrival, now, sink)
    }

    #[inline(always)]
    fn open_predicted<S: BurstSink<B, WORDS>>(
        &mut self,
        Arrival { gradient, place, packet }: &mut Arrival<B>,
        now: u64,
        sink: &mut S,
    ) -> bool {
        let Some(priority) = packet.as_ref().map(|packet| sink.priority(packet)) else { return false };
        let (rules, offset) = (sink.rules(gradient.key().job()), S::PAYLOAD_OFFSET);
        self.shard.open(*place, &Opening { gradient, rules, priority, offset, now }, packet, sink)
    }

    /// Adds the gradients that their slots keep, from the first on. If the first is none of these, adds it
    /// alone, by its whole request.
    #[inline(never)]
    pub(super) fn take<S: BurstSink<B, WORDS>>(
        &mut self,
        arrivals: &mut [Arrival<B>],
        now: u64,
        sink: &mut S,
    ) -> Taken {
        let kept = self.keep(arrivals, now, sink);
        if kept.count > 0 {
            return kept;
        }
        if let Some(Arrival { gradient, place, packet }) = arrivals.first_mut()
            && let Some(packet) = packet.take()
        {
            let (rules, priority) = (sink.rules(gradient.key().job()), sink.priority(&packet));
            let opening = Opening { gradient, rules, priority, offset: S::PAYLOAD_OFFSET, now };
            // An ordinary one for another owner does not need it.
            let request = (!self.shard.owns(place.set)).then(|| opening.request()).flatten();
            let request = request.unwrap_or_else(|| sink.whole_request(gradient, &packet, now));
            self.offer_to(place.set, &request, packet, sink);
        }
        Taken { count: 1, events: 1 }
    }

    /// Takes in gradients as long as the predicted slot of each expects it and keeps contributions as they
    /// arrive.
    #[inline(never)]
    fn keep<S: BurstSink<B, WORDS>>(&mut self, arrivals: &mut [Arrival<B>], now: u64, sink: &mut S) -> Taken {
        let mut taken = Taken { count: 0, events: 0 };
        let shard = &mut self.shard;
        let few = shard.memory.slots().len() <= FEW;
        while let Some(Arrival { gradient, place, packet }) = arrivals.get_mut(taken.count) {
            let Some(here) = shard.memory.slot_mut(place.slot) else { break };
            match here.keep(gradient, S::PAYLOAD_OFFSET, now, packet) {
                Admission::Declined => break,
                Admission::Inside => {}
                Admission::Last => {
                    shard.finish_kept(*place, gradient, now, sink);
                    taken.events += 1;
                }
            }
            taken.count += 1;
            let coming = |ahead: usize| {
                arrivals.get(taken.count + ahead).and_then(|coming| shard.memory.slot(coming.place.slot))
            };
            if let Some(there) = coming(NEAR) {
                there.prefetch_kept(few);
            }
            if let Some(there) = coming(AHEAD) {
                there.prefetch_node();
            }
        }
        taken
    }
}
