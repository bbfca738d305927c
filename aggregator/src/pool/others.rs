//! Requests that bring no contribution: reminders, and what the parameter server sends and asks for.

use pascaline_buffer::PacketBuf;
use pascaline_wire::trailer::Trailer;

use super::Pool;
use crate::policy::ConflictPolicy;
use crate::request::Request;
use crate::set::{Choice, Set};
use crate::sink::{Cause, Refusal, Reminded, Sink};
use crate::slot::Slot;
use pascaline_wire::RankSet;

impl<B: PacketBuf, const WORDS: usize> Pool<B, WORDS> {
    pub(super) fn remind<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let Some(way) = set.find(request.key) else {
            return sink.reminded(request, packet, Reminded::Unknown);
        };
        if set.slots[way].suffices(request) {
            self.release(set, way, sink);
        }
        let state = if set.slots[way].is_partial() {
            let partial = set.slots[way].remind(request.now, self.remind_interval);
            partial.map_or(Reminded::Recently, Reminded::Partial)
        } else if set.slots[way].serves(request.priority) {
            set.kept(way, request.now).map_or(Reminded::Unknown, Reminded::Kept)
        } else {
            Reminded::Unknown
        };
        sink.reminded(request, packet, state);
    }

    pub(super) fn fetch<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let Some(way) = set.find(request.key) else { return sink.fetched(request, packet, None) };
        if set.slots[way].is_partial() {
            self.vacate(set, way, Cause::Fetched, sink);
            return sink.fetched(request, packet, None);
        }
        sink.fetched(request, packet, set.kept(way, request.now));
    }

    /// Sends out what there is.
    pub(super) fn obey<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let Some(way) = set.find(request.key) else {
            return sink.refused(request, packet, Refusal::UnknownPsn);
        };
        if self.release(set, way, sink) {
            return sink.obeyed(request, packet);
        }
        match set.kept(way, request.now) {
            Some(result) => sink.replayed(request, packet, result),
            None => sink.refused(request, packet, Refusal::UnknownPsn),
        }
    }

    pub(super) fn install<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        if let Some(why) = self.objection_to_result(request, &packet) {
            return sink.refused(request, packet, why);
        }
        let way = match set.find(request.key) {
            Some(way) if set.slots[way].is_partial() => {
                if let Some(why) = set.slots[way].disagrees(request) {
                    return sink.refused(request, packet, why);
                }
                self.vacate(set, way, Cause::Superseded, sink);
                way
            }
            Some(way) if request.rules.server() && set.slots[way].yields_to(request.priority) => {
                self.vacate(set, way, Cause::Superseded, sink);
                way
            }
            Some(_) => return sink.refused(request, packet, Refusal::Duplicate),
            None => match set.choose(
                &Request { rules: request.rules.with_conflict(ConflictPolicy::FirstCome), ..*request },
                self.age_limit,
            ) {
                Choice::None(_) => return Self::pass_on(request, packet, sink),
                Choice::Way(way, cause) => {
                    self.vacate(set, way, cause, sink);
                    way
                }
            },
        };
        match set.slots[way].install(request, packet) {
            Ok(()) => {
                set.occupy(way, request.key, request.now);
                set.directory.use_result(way);
                if let Some(result) = set.slots[way].aggregate() {
                    sink.installed(request, result);
                }
            }
            Err(packet) => sink.refused(request, packet, Refusal::LengthChanged),
        }
    }

    /// A result that finds no slot is given out all the same: to keep it is a favour, to send it on is not. Otherwise two
    /// jobs could wait for ever, each in the slots that the other's results would have to pass through.
    fn pass_on<S: Sink<B, WORDS>>(request: &Request, packet: B, sink: &mut S) {
        let mut slot = Slot::<B, WORDS>::new();
        match slot.install(request, packet) {
            Ok(()) => {
                if let Some(result) = slot.aggregate() {
                    sink.passed_on(request, result);
                }
            }
            Err(packet) => sink.refused(request, packet, Refusal::LengthChanged),
        }
    }

    /// What can be said against an installed result without looking at a slot.
    fn objection_to_result(&self, request: &Request, packet: &B) -> Option<Refusal> {
        if request.rank >= request.job_fan_in {
            Some(Refusal::RankOutOfRange)
        } else if request.count == 0
            || request.count > request.fan_in
            || request.partial != (request.count < request.fan_in)
            || request.partial && !Self::says_who(request, packet)
        {
            Some(Refusal::BadCount)
        } else if request.fan_in != request.job_fan_in {
            Some(Refusal::FanInMismatch)
        } else {
            self.objection_to_payload(request, packet)
        }
    }

    /// True if a trailer names as many ranks, all of them the job's, as the count says.
    fn says_who(request: &Request, packet: &B) -> bool {
        let body = packet.bytes().get(usize::from(request.offset)..).unwrap_or_default();
        let Ok((payload, trailer)) = Trailer::split(body) else { return false };
        let bitmap = trailer.bitmap.as_ref();
        let inside = bitmap.and_then(|bitmap| RankSet::<WORDS>::from_bitmap(bitmap, request.fan_in));
        payload.len() == usize::from(request.len)
            && inside.is_some_and(|inside| inside.len() == request.count)
    }
}
