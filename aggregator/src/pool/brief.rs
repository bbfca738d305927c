//! Slots that are opened with a contribution in brief, where nothing has to be asked.

use pascaline_buffer::PacketBuf;

use super::Pool;
use crate::part::At;
use crate::policy::Order;
use crate::request::Opening;
use crate::set::{Choice, Set};
use crate::sink::{Cause, Displaced, Sink};
use pascaline_wire::RankSet;

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    /// Opens a slot with a contribution in brief, of a job with plain rules, where nothing has to be asked: its key is not here, and
    /// what the slot holds is nobody's loss. The packet is taken out then; if not, nothing is done.
    #[inline(always)]
    pub(crate) fn open_brief<S: Sink<B, WORDS>>(
        &self,
        at: At<'_, B, WORDS>,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        sink: &mut S,
    ) -> bool {
        let At { directory, slot, way } = at;
        let &Opening { brief, rules, offset, now, .. } = opening;
        let tag = brief.key().tag();
        let kernel = self.kernels[usize::from(brief.element())];
        let whole = kernel.combine.is_none() || rules.order() == Order::Rank;
        let plain = kernel.in_order.is_some()
            && brief.needed() > 1
            && brief.rank() < RankSet::<WORDS>::CAPACITY
            && directory.is_free_for(tag, way, now, self.oldest);
        let (offset, len) = (usize::from(offset), usize::from(brief.shape().payload_len()));
        let Some(packet) = packet.take_if(|packet| plain && packet.trim(offset, len)) else { return false };
        if let Some((before, spent)) = slot.give_up_result() {
            if let Some(packet) = spent {
                sink.spent(packet);
            }
            sink.displaced(before, Displaced::Result, Cause::Age);
        }
        slot.open_brief(opening, packet, whole);
        directory.occupy(tag, way, now);
        sink.opened(&brief.contribution(now));
        true
    }

    /// As [`open_brief`](Self::open_brief), in the job's own region and where contributions are added as they come: the way is the
    /// oldest PSN's, whose result must be there.
    #[inline(always)]
    pub(crate) fn open_in_region<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        opening: &Opening<'_>,
        packet: &mut Option<B>,
        sink: &mut S,
    ) -> bool {
        let &Opening { brief, rules, offset, now, .. } = opening;
        let key = brief.key();
        let plain = self.combine(brief.element()).is_some()
            && rules.order() == Order::Arrival
            && brief.needed() > 1
            && brief.rank() < RankSet::<WORDS>::CAPACITY
            && set.directory.misses(key.tag());
        if !plain {
            return false;
        }
        let Choice::Way(way, _) = set.choose_in_region(key, now, self.age_limit) else { return false };
        let (offset, len) = (usize::from(offset), usize::from(brief.shape().payload_len()));
        let Some(slot) = set.slots.get_mut(way).filter(|slot| !slot.is_partial()) else { return false };
        let Some(packet) = packet.take_if(|packet| packet.trim(offset, len)) else { return false };
        if let Some((before, spent)) = slot.give_up_result() {
            if let Some(packet) = spent {
                sink.spent(packet);
            }
            sink.displaced(before, Displaced::Result, Cause::Age);
        }
        slot.open_brief(opening, packet, false);
        set.directory.occupy(key.tag(), way, now);
        sink.opened(&brief.contribution(now));
        true
    }
}
