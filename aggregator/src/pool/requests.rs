//! Requests without a contribution: reminders, and the parameter server's results and fetches.

use pascaline_buffer::PacketBuf;
use pascaline_wire::trailer::Trailer;

use super::Pool;
use crate::policy::ConflictPolicy;
use crate::request::Request;
use crate::set::{Choice, Set};
use crate::sink::{Cause, Rejection, Reminded, Sink};
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
            set.cached(way, request.now).map_or(Reminded::Unknown, Reminded::Cached)
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
        sink.fetched(request, packet, set.cached(way, request.now));
    }

    /// Sends out the partial as it is.
    pub(super) fn release_partial<S: Sink<B, WORDS>>(
        &self,
        set: &mut Set<'_, B, WORDS>,
        request: &Request,
        packet: B,
        sink: &mut S,
    ) {
        let Some(way) = set.find(request.key) else {
            return sink.rejected(request, packet, Rejection::UnknownPsn);
        };
        if self.release(set, way, sink) {
            return sink.release_accepted(request, packet);
        }
        match set.cached(way, request.now) {
            Some(result) => sink.replayed(request, packet, result),
            None => sink.rejected(request, packet, Rejection::UnknownPsn),
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
            return sink.rejected(request, packet, why);
        }
        let way = match set.find(request.key) {
            Some(way) => {
                let slot = &set.slots[way];
                let superseded = if slot.is_partial() {
                    slot.disagrees(request).map_or(Ok(()), Err)
                } else if request.rules.server() && slot.yields_to(request.priority) {
                    Ok(())
                } else {
                    Err(Rejection::Duplicate)
                };
                if let Err(why) = superseded {
                    return sink.rejected(request, packet, why);
                }
                self.vacate(set, way, Cause::Superseded, sink);
                way
            }
            None => {
                // A result evicts no partial that is still wanted.
                let rules = request.rules.with_conflict(ConflictPolicy::FirstCome);
                match set.choose(&Request { rules, ..*request }, self.age_limit) {
                    Choice::Rejected(_) => return Self::pass_on(request, packet, sink),
                    Choice::Way(way, cause) => {
                        self.vacate(set, way, cause, sink);
                        way
                    }
                }
            }
        };
        match set.slots[way].install(request, packet) {
            Ok(()) => {
                set.directory.occupy(request.key.tag(), way, request.rules.sender(), request.now);
                set.directory.use_result(way);
                if let Some(result) = set.slots[way].aggregate() {
                    sink.installed(request, result);
                }
            }
            Err(packet) => sink.rejected(request, packet, Rejection::LengthChanged),
        }
    }

    /// A result that finds no slot is sent nevertheless: caching it is optional, sending it on is not.
    /// Otherwise two jobs could wait forever, each in the slots that the other's results have to pass
    /// through.
    fn pass_on<S: Sink<B, WORDS>>(request: &Request, packet: B, sink: &mut S) {
        let mut slot = Slot::<B, WORDS>::new();
        match slot.install(request, packet) {
            Ok(()) => {
                if let Some(result) = slot.aggregate() {
                    sink.passed_on(request, result);
                }
            }
            Err(packet) => sink.rejected(request, packet, Rejection::LengthChanged),
        }
    }

    /// The objection to an installed result that needs no slot to be found.
    fn objection_to_result(&self, request: &Request, packet: &B) -> Option<Rejection> {
        if request.rank >= request.job_fan_in {
            Some(Rejection::RankOutOfRange)
        } else if request.count == 0
            || request.count > request.fan_in
            || request.partial != (request.count < request.fan_in)
            || request.partial && !Self::names_ranks(request, packet)
        {
            Some(Rejection::BadCount)
        } else if request.fan_in != request.job_fan_in {
            Some(Rejection::FanInMismatch)
        } else {
            self.objection_to_payload(request, packet)
        }
    }

    /// True if a trailer names only ranks of the job, as many as the count.
    fn names_ranks(request: &Request, packet: &B) -> bool {
        let body = packet.bytes().get(usize::from(request.offset)..).unwrap_or_default();
        let Ok((payload, trailer)) = Trailer::split(body) else { return false };
        let bitmap = trailer.bitmap.as_ref();
        let inside = bitmap.and_then(|bitmap| RankSet::<WORDS>::from_bitmap(bitmap, request.fan_in));
        payload.len() == usize::from(request.len)
            && inside.is_some_and(|inside| inside.len() == request.count)
    }
}
