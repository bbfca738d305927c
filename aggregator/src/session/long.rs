//! Gradients with long payloads: those of a burst that go to the same slot are added together.
//!
//! Adding one at a time reads and writes the sum for each. A long sum has left the first-level cache when the
//! next contribution comes, and most of the time goes into that; added together they read and write it once.
//! No gradient waits for others: all are in the sum when the burst is over.

use pascaline_buffer::PacketBuf;

use super::Session;
use super::burst::{Arrival, BURST, Burst};
use crate::shard::Outcome;
use crate::sink::BurstSink;
use crate::slot::Admission;

/// Which gradients of a burst probably follow which in the same slots, and which are inside already.
struct Chains {
    /// By place in the burst: the next one, or 0 if there is none.
    next: [u8; BURST],
    inside: u64,
}

const _: () = assert!(BURST <= u64::BITS as usize);

/// Slots that are distinguished, of the few that one burst goes to.
const BUCKETS: usize = 64;

impl Chains {
    fn of<B>(arrivals: &[Arrival<B>]) -> Self {
        const NONE: u8 = u8::MAX;
        let mut next = [0; BURST];
        let mut latest = [NONE; BUCKETS];
        for (at, arrival) in (0..).zip(arrivals.iter().take(BURST)) {
            let before = core::mem::replace(&mut latest[arrival.place.slot as usize % BUCKETS], at);
            if let Some(before) = next.get_mut(usize::from(before)) {
                *before = at;
            }
        }
        Self { next, inside: 0 }
    }

    /// True if the gradient at this place has been added with one before it.
    const fn is_inside(&self, at: usize) -> bool {
        at < BURST && self.inside & 1 << at != 0
    }

    /// The places of a gradient and of its followers in the same slot.
    fn from(&self, at: usize) -> impl Iterator<Item = usize> {
        core::iter::successors((at < BURST).then_some(at), |&at| {
            let next = usize::from(*self.next.get(at)?);
            (next > at).then_some(next)
        })
    }
}

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// Adds a burst. Returns how many of its gradients led to an event.
    #[inline(never)]
    pub(super) fn add_together<S: BurstSink<B, WORDS>>(
        &mut self,
        burst: &mut Burst<B>,
        now: u64,
        sink: &mut S,
    ) -> usize {
        let Burst { arrivals, refused } = burst;
        let mut chains = Chains::of(arrivals);
        let mut events = 0;
        for at in 0..arrivals.len() {
            if chains.is_inside(at) {
                continue;
            }
            match self.add_chain(&mut chains, at, arrivals, now, sink) {
                Outcome::Added => {}
                Outcome::Settled => events += 1,
                Outcome::Absent | Outcome::Unsuited if !sink.admits(&arrivals[at].gradient) => {
                    arrivals[at].refuse(refused);
                }
                Outcome::Absent if self.open(&mut arrivals[at], now, sink) => events += 1,
                // One at a time: some of its followers may be inside.
                Outcome::Absent | Outcome::Unsuited => {
                    events += self.take(&mut arrivals[at..=at], now, sink).events;
                }
            }
        }
        arrivals
            .iter_mut()
            .filter_map(|arrival| arrival.packet.take())
            .for_each(|packet| sink.recycled(packet));
        events
    }

    /// Adds a gradient and its followers in the same slot, in the order of arrival, as far as the slot
    /// expects each. `chains` has these afterwards.
    fn add_chain<S: BurstSink<B, WORDS>>(
        &mut self,
        chains: &mut Chains,
        at: usize,
        arrivals: &[Arrival<B>],
        now: u64,
        sink: &mut S,
    ) -> Outcome {
        let shard = &mut self.shard;
        let Some(&Arrival { ref gradient, place, .. }) = arrivals.get(at) else { return Outcome::Unsuited };
        let Some(slot) = shard.memory.slot_mut(place.slot) else { return Outcome::Unsuited };
        if !slot.is_of(gradient) {
            return Outcome::Absent;
        }
        let element = gradient.element();
        let kernels = shard.pool.combine(element).zip(shard.pool.kernel(element));
        let Some((combine, in_order)) = kernels else { return Outcome::Unsuited };
        let contributions = chains.from(at).map_while(|at| {
            let arrival = arrivals.get(at)?;
            Some((&arrival.gradient, arrival.packet.as_ref()?.bytes()))
        });
        let (admission, count) = slot.add_long(contributions, S::PAYLOAD_OFFSET, now, combine, in_order);
        let mut last = gradient;
        let inside = chains.from(at).take(count).fold(chains.inside, |inside, at| {
            last = arrivals.get(at).map_or(last, |arrival| &arrival.gradient);
            inside | 1 << at
        });
        chains.inside = inside;
        match admission {
            Admission::Declined => Outcome::Unsuited,
            Admission::Inside => Outcome::Added,
            Admission::Last => {
                shard.finish(place, last, now, sink);
                Outcome::Settled
            }
        }
    }
}
