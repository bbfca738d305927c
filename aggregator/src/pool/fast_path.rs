//! Slots that the fast path opens, if nothing has to be checked.

use pascaline_buffer::PacketBuf;
use pascaline_wire::RankSet;

use super::Pool;
use crate::policy::Order;
use crate::request::Opening;
use crate::set::{Choice, Directory, Set};
use crate::shard::At;
use crate::sink::{Cause, Evicted, Sink};
use crate::slot::Slot;

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    /// Opens a slot in the shared part if the PSN is not here and the slot's content may be lost. Then the
    /// packet is taken out; otherwise nothing changes.
    #[inline(always)]
    pub(crate) fn open_fast<S: Sink<B, WORDS>>(
        &self,
        at: At<'_, B, WORDS>,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        sink: &mut S,
    ) -> bool {
        let At { directory, slot, way } = at;
        let &Opening { gradient, rules, now, .. } = opening;
        let kernel = self.kernels[usize::from(gradient.element())];
        // The same as `keeps`, for an element with a kernel, which `free` checks.
        let keep = kernel.combine.is_none() || rules.order() == Order::Rank;
        let free = kernel.in_order.is_some()
            && gradient.needed() > 1
            && gradient.rank() < RankSet::<WORDS>::CAPACITY
            && directory.is_free_for(gradient.key().tag(), way, now, self.age_ticks)
            // The predicted way may have got a result since; an empty one is better.
            && (!slot.is_done() || directory.empty(self.config.ways).is_none());
        free && Self::occupy(directory, slot, way, opening, packet, keep, sink)
    }

    /// The same in the job's own region, where contributions are added as they come: the way is that of the
    /// first PSN in the set, whose result must be there.
    #[inline(always)]
    pub(crate) fn open_fast_in_region<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        sink: &mut S,
    ) -> bool {
        let &Opening { gradient, rules, now, .. } = opening;
        let key = gradient.key();
        let free = self.combine(gradient.element()).is_some()
            && rules.order() == Order::Arrival
            && gradient.needed() > 1
            && gradient.rank() < RankSet::<WORDS>::CAPACITY
            && set.directory.misses(key.tag());
        if !free {
            return false;
        }
        let Choice::Way(way, _) = set.choose_in_region(key, now, self.age_limit) else { return false };
        let Some(slot) = set.slots.get_mut(way).filter(|slot| !slot.is_partial()) else { return false };
        Self::occupy(set.directory, slot, way, opening, packet, false, sink)
    }

    /// Evicts the result that a slot may hold, and opens the slot. Returns false and changes nothing if the
    /// packet is too short.
    #[inline(always)]
    fn occupy<S: Sink<B, WORDS>>(
        directory: &mut Directory,
        slot: &mut Slot<B, WORDS>,
        way: usize,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        keep: bool,
        sink: &mut S,
    ) -> bool {
        let &Opening { gradient, offset, now, .. } = opening;
        let (offset, len) = (usize::from(offset), usize::from(gradient.shape().payload_len()));
        let Some(packet) = packet.take_if(|packet| packet.trim(offset, len)) else { return false };
        if let Some((before, free)) = slot.give_up_result() {
            if let Some(packet) = free {
                sink.recycled(packet);
            }
            sink.evicted(before, Evicted::Result, Cause::Age);
        }
        slot.open(opening, 0, 0, packet, keep);
        directory.occupy(gradient.key().tag(), way, opening.rules.sender(), now);
        sink.opened(&gradient.contribution(now));
        true
    }
}
