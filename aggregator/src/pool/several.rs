//! Contributions of several ranks, which another lcore has combined.

use core::sync::atomic::Ordering;

use pascaline_buffer::PacketBuf;

use super::Pool;
use crate::request::Request;
use crate::set::{Choice, Set};
use crate::sink::{Cause, Displaced, Refusal, Sink};
use crate::slot::{Contents, Slot};
use pascaline_wire::RankSet;

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    /// Adds what several ranks have contributed, which another lcore has combined. It is added as a whole or not at all: if one of them
    /// is inside already, the others send again, each for itself.
    #[inline(never)]
    pub(super) fn add_several<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        if let Some(why) = self.objection_to_several(request, &packet) {
            return sink.refused(request, packet, why);
        }
        let Some(way) = set.find(request.key) else { return self.open_several(set, request, packet, sink) };
        let slot = &mut set.slots[way];
        if let Some(why) = slot.disagrees(request) {
            return sink.refused(request, packet, why);
        }
        let Some(combine) = self.combine(request.element) else {
            return sink.refused(request, packet, Refusal::ElementUnsupported);
        };
        if !slot.add_several(request, &packet, combine) {
            slot.touch(request.now);
            return sink.refused(request, packet, Refusal::Duplicate);
        }
        sink.spent(packet);
        if !set.slots[way].suffices(request) {
            return sink.added(&request.contribution());
        }
        self.conclude(set, way, &request.contribution(), sink);
    }

    /// Opens a slot with what several ranks have contributed; if there is none, it goes to the parameter server as a partial.
    fn open_several<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let quota = request.rules.quota();
        let held = &self.held[usize::from(request.key.job())];
        let choice = if quota > 0 && held.load(Ordering::Relaxed) >= quota {
            Choice::None(Refusal::Quota)
        } else {
            set.choose(request, self.age_limit)
        };
        let (way, cause) = match choice {
            Choice::Way(way, cause) => (way, cause),
            Choice::None(_) if request.rules.server() => return Self::turn_away(request, packet, sink),
            Choice::None(why) => return sink.refused(request, packet, why),
        };
        self.vacate(set, way, cause, sink);
        set.occupy(way, request.key, request.now);
        if quota > 0 {
            held.fetch_add(1, Ordering::Relaxed);
        }
        set.slots[way].open_several(request, packet, quota > 0);
        if set.slots[way].suffices(request)
            && !self.refer(set, way, sink)
            && self.complete(set, way, sink)
            && let Some(result) = set.slots[way].aggregate()
        {
            return sink.completed(&request.contribution(), true, result);
        }
        sink.opened(&request.contribution());
    }

    /// What several ranks have contributed leaves for the parameter server at once.
    fn turn_away<S: Sink<B, WORDS>>(request: &Request, packet: B, sink: &mut S) {
        let mut slot = Slot::<B, WORDS>::new();
        slot.open_several(request, packet, false);
        sink.opened(&request.contribution());
        let what = match slot.take(true, &mut |packet| sink.spent(packet)) {
            Contents::Partial(evicted) => Displaced::Partial(evicted),
            _ => Displaced::GivenUp,
        };
        sink.displaced(request.key, what, Cause::NoRoom);
    }

    /// What can be said against what several ranks have contributed, without looking at a slot.
    fn objection_to_several(&self, request: &Request, packet: &B) -> Option<Refusal> {
        let inside = RankSet::<WORDS>::of_word(request.inside);
        if request.count != inside.len() || !RankSet::first(request.job_fan_in).includes(&inside) {
            Some(Refusal::BadCount)
        } else if request.fan_in != request.job_fan_in {
            Some(Refusal::FanInMismatch)
        } else {
            self.objection_to_payload(request, packet)
        }
    }
}
