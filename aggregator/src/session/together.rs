//! Contributions in brief of one burst that are added to their slots together.
//!
//! To add one at a time reads and writes the sum for each. Where payloads are long, sums are not in the first-level cache when the
//! next contribution comes, so that most of the time goes into that; of those that came in one burst the sum is read and
//! written once. Nothing waits for it: what has come is in the sum when the burst is over.

use pascaline_buffer::PacketBuf;

use super::{Brevity, Incoming, Place, Session};
use crate::sink::Sink;
use crate::slot::{Brought, TOGETHER};

/// Which contributions of a burst follow which in the same slots, very likely, and which are inside already.
#[derive(Debug)]
pub struct Together {
    /// By place in the burst: the next one, or 0 if there is none.
    next: [u8; TOGETHER],
    inside: u64,
}

const _: () = assert!(TOGETHER <= u64::BITS as usize);

/// Slots that are told apart, of a few that one burst goes to.
const BUCKETS: usize = 64;

impl Together {
    /// Of the first 32 contributions of a burst, whose places have been [foreseen](Session::foresee).
    #[must_use]
    pub fn of(places: impl Iterator<Item = Place>) -> Self {
        const NOBODY: u8 = u8::MAX;
        let mut next = [0; TOGETHER];
        let mut latest = [NOBODY; BUCKETS];
        for (at, place) in (0..).zip(places.take(TOGETHER)) {
            let before = core::mem::replace(&mut latest[place.hint as usize % BUCKETS], at);
            if let Some(before) = next.get_mut(usize::from(before)) {
                *before = at;
            }
        }
        Self { next, inside: 0 }
    }

    /// True if the contribution at this place in the burst has been added with one before it.
    #[must_use]
    #[inline]
    pub fn is_inside(&self, at: usize) -> bool {
        at < TOGETHER && self.inside & 1 << at != 0
    }

    /// The places of a contribution and of those behind it in the same slot.
    fn chain(&self, at: usize) -> impl Iterator<Item = usize> {
        core::iter::successors((at < TOGETHER).then_some(at), |&at| {
            let next = usize::from(*self.next.get(at)?);
            (next > at).then_some(next)
        })
    }
}

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// As [`add_brief`](Self::add_brief), for a contribution of a burst and those behind it that go to the same slot, in the order in
    /// which they came, as far as each is one that is expected there: their packets are spent. `together` says afterwards which
    /// these are.
    pub fn add_together<S: Sink<B, WORDS>>(
        &mut self,
        together: &mut Together,
        at: usize,
        burst: &[impl Incoming<B>],
        offset: u16,
        now: u64,
        sink: &mut S,
    ) -> Brevity {
        let seat = &mut self.seat;
        let Some(first) = burst.get(at) else { return Brevity::Unsuited };
        let (place, element) = (first.place(), first.brief().element());
        let Some(slot) = seat.part.slot_mut(place.hint) else { return Brevity::Unsuited };
        if !slot.is_of(first.brief()) {
            return Brevity::Absent;
        }
        let kernel = seat.pool.combine(element).zip(seat.pool.kernel(element));
        let Some((combine, in_order)) = kernel else { return Brevity::Unsuited };
        let contributions = together.chain(at).map_while(|at| {
            let incoming = burst.get(at)?;
            Some((incoming.brief(), incoming.packet()?.bytes()))
        });
        let (brought, count) = slot.add_together(contributions, offset, now, combine, in_order);
        let mut last = None;
        let inside = together.chain(at).take(count).fold(together.inside, |inside, at| {
            last = burst.get(at);
            inside | 1 << at
        });
        together.inside = inside;
        match (brought, last) {
            (Brought::One, Some(_)) => Brevity::Added,
            (Brought::Last, Some(last)) => {
                seat.conclude(place, last.brief(), now, sink);
                Brevity::Concluded
            }
            _ => Brevity::Unsuited,
        }
    }
}
