//! Packets handed off to the owner of their set, and those from other lcores.

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_buffer::prefetch::prefetch_first;

use super::burst::Place;
use super::fast_path::AHEAD;
use super::lane::Lane;
use super::{BURST, Session};
use crate::handed_off::{Combinable, HandedOff};
use crate::handoff::Receiver;
use crate::policy::Order;
use crate::request::{Opening, Request};
use crate::sabotage::Sabotage;
use crate::shard::{Outcome, Shard};
use crate::sink::{Rejection, Sink};

/// Lines of a payload that are prefetched.
const PAYLOAD_LINES: usize = 24;
/// Packets to be handed off, newest first, that may be combined with another one: some PSNs of a burst.
const LOOK_BACK: usize = 8;
/// Packets from other lcores that one turn handles.
const DRAIN_BUDGET: usize = 128;

/// Prefetches the payload of a packet that another lcore has read or the device has written: line by line,
/// since lines of another core come slowly, and a processor that predicts a stream begins late.
#[inline(always)]
fn prefetch_payload<B: PacketBuf>(handed_off: &HandedOff<B>) {
    prefetch_first(handed_off.packet.bytes(), PAYLOAD_LINES);
}

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// Leaves a packet with the owner of its set. It arrives there when this session [resumes](Self::resume);
    /// until then, others to the same PSN are combined with it.
    pub(super) fn hand_off<S: Sink<B, WORDS>>(
        &mut self,
        set: u32,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let pool = &self.shard.pool;
        let Some(Some(lane)) = self.to.get_mut(pool.owners.of(set) as usize) else {
            // Cannot happen: there is a ring to each other lcore.
            return sink.rejected(request, packet, Rejection::Contention);
        };
        let combine = pool.combine(request.element).filter(|_| request.rules.order() == Order::Arrival);
        if let Some((combine, combinable)) = combine.zip(Combinable::of(request)) {
            for back in 0..LOOK_BACK {
                let Some(before) = lane.ring().unpublished(back) else { break };
                if before.absorb(&combinable, packet.bytes(), combine) {
                    sink.combined(&request.contribution());
                    if !Sabotage::CombinedTwice.is_on() {
                        return sink.recycled(packet);
                    }
                }
            }
        }
        match lane.push(request.rules.sender(), HandedOff::new(set, request, packet)) {
            Ok(()) => sink.handed_off(),
            Err(HandedOff { packet, .. }) => sink.rejected(request, packet, Rejection::Contention),
        }
    }

    /// Sends the packets handed off since the last call, and handles those that other sessions have handed
    /// off to this one, up to a budget. Call it once per turn. Returns whether there were any.
    #[inline]
    pub fn resume<S: Sink<B, WORDS>>(&mut self, sink: &mut S) -> bool {
        let waits = self.waits();
        if waits {
            self.exchange(sink);
        }
        waits
    }

    /// True if there is anything to [resume](Self::resume).
    #[inline]
    pub fn waits(&mut self) -> bool {
        self.to.iter().flatten().any(Lane::is_ahead) || self.from.iter_mut().any(|from| from.available() > 0)
    }

    #[inline(never)]
    fn exchange<S: Sink<B, WORDS>>(&mut self, sink: &mut S) {
        self.to.iter_mut().flatten().for_each(|lane| lane.ring().publish());
        let (mut left, rings) = (DRAIN_BUDGET, self.from.len());
        for n in 0..rings {
            let Some(from) = self.from.get_mut((self.first_from + n) % rings) else { break };
            while left > 0 && from.available() > 0 {
                left -= Self::take_in(&mut self.shard, from, left.min(BURST), sink);
            }
        }
        self.first_from += 1;
        if self.first_from >= rings {
            self.first_from = 0;
        }
    }

    /// Handles at most `most` packets that another session has handed off, and at most [`BURST`]. Returns how
    /// many.
    fn take_in<S: Sink<B, WORDS>>(
        shard: &mut Shard<B, WORDS>,
        from: &mut Receiver<HandedOff<B>>,
        most: usize,
        sink: &mut S,
    ) -> usize {
        let most = from.available().min(most);
        let mut places = ArrayVec::<Place, BURST>::new();
        for n in 0..most {
            let place = from.peek(n, |handed_off| {
                handed_off.packet.prefetch();
                shard.memory.prefetch_head(shard.pool.owners.own(handed_off.set));
                Place::new(handed_off.set, handed_off.key().tag())
            });
            places.extend(place);
        }
        places.iter_mut().for_each(|place| shard.predict(place));
        places.iter().take(AHEAD).for_each(|place| shard.prefetch_contents(*place));
        for n in 0..AHEAD {
            from.peek(n, |handed_off| prefetch_payload(handed_off));
        }
        for (n, place) in places.iter().enumerate() {
            if let Some(coming) = places.get(n + AHEAD) {
                shard.prefetch_contents(*coming);
            }
            // Packets taken out are not counted any more.
            from.peek(AHEAD, |handed_off| prefetch_payload(handed_off));
            let Some(handed_off) = from.pop() else { break };
            Self::receive(shard, *place, &handed_off.request(), handed_off.packet, sink);
        }
        from.acknowledge();
        places.len()
    }

    /// A packet that another session has handed off.
    #[inline(always)]
    fn receive<S: Sink<B, WORDS>>(
        shard: &mut Shard<B, WORDS>,
        place: Place,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let mut packet = packet;
        if let Some(gradient) = request.gradient() {
            match shard.add(place, &gradient, request.offset, request.now, packet.bytes(), sink) {
                Outcome::Absent | Outcome::Unsuited => {}
                Outcome::Added => {
                    sink.added(&request.contribution());
                    return sink.recycled(packet);
                }
                Outcome::Settled => return sink.recycled(packet),
            }
            packet = match shard.keep_or_open(place, &Opening::of(request, &gradient), packet, sink) {
                Ok(Outcome::Added) => return sink.added(&request.contribution()),
                Ok(_) => return,
                Err(packet) => packet,
            };
        }
        if let Err(packet) = shard.apply(place.set, request, packet, sink) {
            // Cannot happen: it was handed off because this session owns the set.
            sink.rejected(request, packet, Rejection::Contention);
        }
    }

    /// Sends the packets handed off, and marks the rings as closed. After this only [resume](Self::resume),
    /// until [all others](Self::is_alone) have closed too.
    pub fn close(&mut self) {
        self.to.iter_mut().flatten().for_each(|lane| lane.ring().close());
    }

    /// True if all other sessions are [closed](Self::close) or gone, and none of their packets wait.
    #[must_use]
    pub fn is_alone(&mut self) -> bool {
        self.from.iter_mut().all(Receiver::is_finished)
    }
}
