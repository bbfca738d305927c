//! Contributions in brief that their slots keep until all are there: several after one another.

use pascaline_buffer::PacketBuf;

use super::{Place, Session};
use crate::contributions::{FAR_LINES, NEAR_LINES};
use crate::request::Brief;
use crate::sink::Sink;
use crate::slot::Brought;

/// A contribution in brief on its way into the pool.
pub trait Incoming<B> {
    /// Where it belongs; [foreseen](Session::foresee).
    fn place(&self) -> Place;

    /// What it is.
    fn brief(&self) -> &Brief;

    /// Its packet, if that has not been taken yet.
    fn packet(&self) -> Option<&B>;

    /// Both, to take the packet.
    fn parts(&mut self) -> (&Brief, &mut Option<B>);
}

/// What [`Session::keep_brief`] has done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kept {
    /// The contributions that it has taken in.
    pub taken: usize,
    /// Those of them that were the last ones of their PSNs: they led to events.
    pub concluded: usize,
}

/// Contributions by which it is asked ahead of time where a slot keeps those that it has.
const AHEAD: usize = 4;
/// The same, for what is there.
const NEAR: usize = 2;
/// Slots of which a second-level cache holds what is kept, of eight ranks and 1 KiB each: a megabyte.
const FEW: usize = 128;

impl<B: PacketBuf, const WORDS: usize> Session<B, WORDS> {
    /// Keeps contributions, from the first on, as long as each is one that is expected in the slot that was foreseen for it and
    /// that slot keeps them all as they came: then the packet is taken out, and unless it was the last one, there is no event.
    /// The first of which that is not so is left alone, and it and those behind it are to be given in by other ways.
    ///
    /// `offset` is the start of the payload in each packet, `now` the time of arrival in nanoseconds.
    #[inline(never)]
    pub fn keep_brief<S: Sink<B, WORDS>>(
        &mut self,
        incoming: &mut [impl Incoming<B>],
        offset: u16,
        now: u64,
        sink: &mut S,
    ) -> Kept {
        let mut kept = Kept { taken: 0, concluded: 0 };
        let seat = &mut self.seat;
        let few = seat.part.slots().len() <= FEW;
        while let Some(coming) = incoming.get_mut(kept.taken) {
            let place = coming.place();
            let Some(here) = seat.part.slot_mut(place.hint) else { break };
            let (brief, packet) = coming.parts();
            let brought = here.keep_brief(brief, offset, now, packet);
            match brought {
                Brought::Nothing => break,
                Brought::One => {}
                Brought::Last => {
                    seat.conclude(place, brief, now, sink);
                    kept.concluded += 1;
                }
            }
            kept.taken += 1;
            if let Some(there) =
                incoming.get(kept.taken + NEAR).and_then(|coming| seat.part.slot(coming.place().hint))
            {
                if few {
                    there.prefetch_kept::<NEAR_LINES>();
                } else {
                    there.prefetch_kept::<FAR_LINES>();
                }
            }
            if let Some(there) =
                incoming.get(kept.taken + AHEAD).and_then(|coming| seat.part.slot(coming.place().hint))
            {
                there.prefetch_node();
            }
        }
        kept
    }
}
