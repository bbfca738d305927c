//! What goes from a slot: because another PSN wants it, because its time is up, or because somebody asks for it.

use pascaline_buffer::PacketBuf;

use super::Pool;
use crate::set::Set;
use crate::sink::{Cause, Displaced, Sink};
use crate::slot::{Contents, Slot};

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    /// Empties a way, if there is something in it.
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
            && matches!(cause, Cause::Age | Cause::Preempted | Cause::Fetched | Cause::Referred);
        let what = match slot.take(wanted, &mut |packet| sink.spent(packet)) {
            Contents::Nothing if partial => Displaced::GivenUp,
            Contents::Nothing => return,
            Contents::Result => Displaced::Result,
            Contents::Partial(evicted) => Displaced::Partial(evicted),
            Contents::Originals(originals) => Displaced::Originals(originals),
        };
        self.closed(slot);
        set.vacated(way);
        sink.displaced(key, what, cause);
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

    /// Makes a partial the result as it is, if there is one in the way. True if there was.
    pub(crate) fn release<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        way: usize,
        sink: &mut S,
    ) -> bool {
        if !set.slots.get(way).is_some_and(Slot::is_partial) {
            return false;
        }
        if !self.refer(set, way, sink)
            && self.complete(set, way, sink)
            && let Some(result) = set.slots[way].aggregate()
        {
            sink.released(result);
        }
        true
    }
}
