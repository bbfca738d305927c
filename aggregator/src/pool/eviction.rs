//! What leaves a slot: because another PSN needs it, because its time is up, or on request.

use pascaline_buffer::PacketBuf;

use super::Pool;
use crate::set::Set;
use crate::sink::{Cause, Evicted, Sink};
use crate::slot::{Contents, Slot};

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    /// Empties a way, if it is in use.
    pub(crate) fn vacate<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        cause: Cause,
        sink: &mut S,
    ) {
        let Some(slot) = set.slots.get_mut(way) else { return };
        let (key, partial) = (slot.key(), slot.is_partial());
        let wanted = slot.has_server()
            && matches!(
                cause,
                Cause::Age | Cause::Preempted | Cause::Share | Cause::Fetched | Cause::Referred
            );
        let what = match slot.take(wanted, &mut |packet| sink.recycled(packet)) {
            Contents::Nothing if partial => Evicted::GivenUp,
            Contents::Nothing => return,
            Contents::Result => Evicted::Result,
            Contents::Partial(partial) => Evicted::Partial(partial),
            Contents::Originals(originals) => Evicted::Originals(originals),
        };
        self.uncount(slot);
        set.vacated(way);
        sink.evicted(key, what, cause);
    }

    /// Empties a way if it holds an abandoned partial.
    pub(crate) fn expire<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        now: u64,
        sink: &mut S,
    ) {
        let expired = |slot: &Slot<B, WORDS>| slot.is_partial() && slot.is_abandoned(now, self.age_limit);
        if set.slots.get(way).is_some_and(expired) {
            self.vacate(set, way, Cause::Age, sink);
        }
    }

    /// Makes the partial of a way the result as it is. Returns whether there was one.
    pub(crate) fn release<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        sink: &mut S,
    ) -> bool {
        if !set.slots.get(way).is_some_and(Slot::is_partial) {
            return false;
        }
        if let Some(result) = self.conclude(set, way, sink) {
            sink.released(result);
        }
        true
    }
}
