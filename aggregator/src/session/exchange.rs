//! Packets that go to the session that is at home in their set, and come from others.

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;

use super::seat::Seat;
use super::{Brevity, Place, Session};
use crate::handed::{Alike, Handed};
use crate::handoff::{Receiver, Sender};
use crate::policy::Order;
use crate::prefetch::prefetch;
use crate::request::{Opening, Request};
use crate::sink::{Refusal, Sink};

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

/// Asks for the payload of a packet that another lcore has read or the device has written: line by line, since what is on
/// another core comes slowly, and processors that foresee a stream begin late.
#[inline(always)]
fn prefetch_payload<B: PacketBuf>(handed: &Handed<B>) {
    let bytes = handed.packet.bytes();
    for line in bytes.chunks(64).take(PAYLOAD_LINES) {
        prefetch(line.as_ptr());
    }
}

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// Leaves a packet with the session that is at home in its set. It gets there when this one [resumes](Self::resume); until then,
    /// others to the same PSN are added to it.
    pub(super) fn hand_over<S: Sink<B, WORDS>>(
        &mut self,
        set: u32,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
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
}
