//! The pool's sink on an lcore: turns events into packets and counts.

mod ascent;
mod burst;
mod objections;
mod reminders;
#[cfg(test)]
mod tests;
mod to_server;

use pascaline_aggregator::{
    Aggregate, Cause, Contribution, Evicted, Key, RankSet, Rejection, Reminded, Request, Sink,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{PacketBuf, SharedBuf};
use pascaline_telemetry::cells::LATE;
use pascaline_telemetry::{Counter, DropReason, JobEvent, Made, Recorder};
use pascaline_wire::{Element, round};

use self::ascent::Ascent;
use crate::emit::{Emitter, result_header};
use crate::io::Io;
use crate::jobs::{Job, JobTable};
use crate::meter::Limits;
use crate::overload::Overload;
use crate::server::{self, ServerEnd};
use crate::setup::Setup;

/// Turns events of the pool into packets and counts.
pub(crate) struct LcoreSink<'a, I: Io> {
    /// The number of the lcore.
    pub(crate) number: usize,
    /// Which find out what is no number.
    pub(crate) kernels: &'a Kernels,
    pub(crate) emitter: &'a mut Emitter<I>,
    pub(crate) table: &'a JobTable,
    pub(crate) setup: &'a Setup,
    pub(crate) spread: &'a mut Recorder,
    pub(crate) limits: &'a mut Limits,
    pub(crate) overload: &'a mut Overload,
    pub(crate) server: Option<&'a ServerEnd<I::Buf>>,
}

/// Nanoseconds after which the ranks that a partial lacks count as late: longer than ranks in step are
/// apart, shorter than anybody notices.
const LATE_NS: u64 = 10_000_000;
/// Nanoseconds after which a rank of which no contribution comes does not wait for results: ten times the
/// longest time after which a waiting one sends again.
const SILENT_NS: u64 = 1_000_000_000;
/// Ranks inside a partial that are asked whether they wait: they do it together.
const ASKED: usize = 8;

type Shared<I> = <<I as Io>::Buf as PacketBuf>::Shared;

impl<I: Io> LcoreSink<'_, I> {
    /// The job of a key, unless the job has moved on to another generation meanwhile.
    #[inline]
    fn job(&self, key: Key) -> Option<&Job> {
        self.table.get(key.job()).filter(|job| key.is_of(job.epoch))
    }

    #[inline]
    fn count(&mut self, counter: Counter) {
        self.emitter.tally.add(counter, 1);
    }

    /// Counts something of the job of a key.
    #[inline]
    fn count_of(&self, key: Key, event: JobEvent) {
        if let Some(job) = self.job(key) {
            job.cells.count(self.number, event, 1);
        }
    }

    /// The job of a key, for as long as the table lives.
    #[inline]
    fn job_of(table: &JobTable, key: Key) -> Option<&Job> {
        table.get(key.job()).filter(|job| key.is_of(job.epoch))
    }

    /// Charges a job for an unproductive packet. Packets of a job that has sent too many of these are not
    /// added for a moment: they are dropped where packets are sorted, at no more cost than unparsable ones.
    pub(super) fn charge_unproductive(&mut self, job: &Job, now: u64) {
        if !self.limits.pool.take(job.tenant, now) {
            self.table.pause(job.tenant, now);
        }
    }

    /// Sends a kept result to the rank that asked.
    fn answer(&mut self, request: &Request, packet: I::Buf, result: &Aggregate<'_, Shared<I>>) {
        if self.ascends(request, result) {
            self.count(Counter::Absorbed);
            return self.emitter.recycle(packet);
        }
        self.count(Counter::Answered);
        self.count(Counter::Replayed);
        self.emitter.recycle(packet);
        let table = self.table;
        if let Some(job) = table.get(request.key.job()).filter(|job| request.key.is_of(job.epoch))
            && job.member(request.rank).is_some()
        {
            job.cells.count(self.number, JobEvent::Replayed, 1);
            self.charge_unproductive(job, request.now);
            self.emitter.send_singly(job, &[request.rank], &for_all(job, result));
        }
    }

    /// Counts a result that was made here, and delivers it. `last` is the rank that completed it, if one did,
    /// and how long after the first.
    #[inline(always)]
    fn made(&mut self, result: &Aggregate<'_, Shared<I>>, last: Option<(u16, u64)>) {
        self.count(Counter::Completed);
        let table = self.table;
        let Some(job) = Self::job_of(table, result.key) else { return };
        self.overload.came_to_a_result(job.tenant, result.count);
        self.limits.pool.earn(job.tenant, job.fan_in);
        let values = result.payload.bytes();
        let made = Made { contributions: result.count, bytes: values.len() };
        match last {
            Some((rank, waited)) => job.counts().completed(self.number, rank, made, waited),
            None => job.cells.released(self.number, made),
        }
        if looked_at(result.key.psn()) {
            self.look_at(job, result.element, values);
        }
        self.deliver(job, result);
    }

    /// Counts a result that is no number.
    fn look_at(&mut self, job: &Job, element: u8, values: &[u8]) {
        let float = Element::from_byte(element).map(|element| element.dtype).filter(|dtype| dtype.is_float());
        if float.is_some_and(|dtype| (self.kernels.non_finite(dtype))(values) > 0) {
            self.emitter.tally.add(Counter::NonFinite, SAMPLED);
            job.cells.count(self.number, JobEvent::NonFinite, SAMPLED);
        }
    }

    /// Delivers a result from elsewhere.
    fn finish(&mut self, request: &Request, result: &Aggregate<'_, Shared<I>>) {
        let table = self.table;
        let Some(job) = Self::job_of(table, result.key) else { return };
        job.cells.count(self.number, JobEvent::Installed, 1);
        self.limits.pool.earn(job.tenant, job.fan_in);
        self.deliver(job, result);
        self.tell_parent(job, request, result);
    }

    #[inline(always)]
    fn deliver(&mut self, job: &Job, result: &Aggregate<'_, Shared<I>>) {
        job.window.completed(self.number, result.key.psn());
        if result.overflow {
            self.count(Counter::Overflowed);
            job.cells.count(self.number, JobEvent::Overflowed, 1);
        }
        if job.detours() {
            return self.deliver_by_detour(job, result);
        }
        self.emitter.fan_out(self.table, job, result);
    }

    #[cold]
    #[inline(never)]
    fn deliver_by_detour(&mut self, job: &Job, result: &Aggregate<'_, Shared<I>>) {
        if let Some(above) = &job.parent
            && result.round != round::TAKEN
        {
            return self.send_up(job, above, result, Ascent::Sum { again: false });
        }
        self.emitter.fan_out(self.table, job, &for_all(job, result));
    }
}

/// The result, for ranks to accept regardless of promises to a server that is gone.
fn for_all<'a, S>(job: &Job, result: &Aggregate<'a, S>) -> Aggregate<'a, S> {
    Aggregate { round: if job.bereft { round::TAKEN } else { result.round }, ..*result }
}

/// One result in this many is searched for NaN and infinity: searching all would cost 2 ns a packet of eight
/// ranks.
const SAMPLED: u64 = 8;

/// Whether a result is looked at: spread over all PSNs, so that in time each part of a tensor has its turn.
#[inline]
const fn looked_at(psn: u32) -> bool {
    const GOLDEN: u32 = 0x9e37_79b1;
    psn.wrapping_mul(GOLDEN) >> (u32::BITS - SAMPLED.ilog2()) == 0
}

impl<I: Io, const WORDS: usize> Sink<I::Buf, WORDS> for LcoreSink<'_, I> {
    #[inline]
    fn opened(&mut self, _: &Contribution) {
        self.count(Counter::Absorbed);
        self.count(Counter::Opened);
    }

    #[inline]
    fn added(&mut self, _: &Contribution) {
        self.count(Counter::Absorbed);
        self.count(Counter::Hits);
    }

    #[inline]
    fn recycled(&mut self, packet: I::Buf) {
        self.emitter.reuse(packet);
    }

    #[inline(always)]
    fn completed(&mut self, of: &Contribution, alone: bool, result: Aggregate<'_, Shared<I>>) {
        self.count(Counter::Absorbed);
        self.count(if alone { Counter::Opened } else { Counter::Hits });
        let waited = of.now.saturating_sub(result.first);
        self.spread.sample(waited);
        self.made(&result, Some((of.rank, waited)));
    }

    fn released(&mut self, result: Aggregate<'_, Shared<I>>) {
        self.made(&result, None);
        self.count(Counter::Released);
    }

    fn release_accepted(&mut self, _: &Request, packet: I::Buf) {
        self.count(Counter::Absorbed);
        self.emitter.recycle(packet);
    }

    /// A result that is there already is news to the parameter server.
    fn fetched(&mut self, request: &Request, packet: I::Buf, result: Option<Aggregate<'_, Shared<I>>>) {
        self.count(Counter::Absorbed);
        self.emitter.recycle(packet);
        let table = self.table;
        let (Some(result), Some(job)) = (result, Self::job_of(table, request.key)) else { return };
        let Some(header) = result_header(&result, job.epoch) else { return };
        // Rare, and the queue takes single segments only.
        let Some(mut copy) = self.emitter.io.frame_buffer() else {
            return self.count(Counter::NoBuffer);
        };
        let (room, bytes) = (job.server.room(), result.payload.bytes());
        if copy.set_len(room + bytes.len())
            && copy.advance(room)
            && let Some(place) = copy.bytes_mut().get_mut(..bytes.len())
        {
            place.copy_from_slice(bytes);
            self.count(Counter::PayloadCopies);
            server::send(self.emitter, self.server, job, &header, copy);
        } else {
            self.emitter.recycle(copy);
        }
    }

    fn replayed(&mut self, request: &Request, packet: I::Buf, result: Aggregate<'_, Shared<I>>) {
        self.answer(request, packet, &result);
    }

    fn installed(&mut self, request: &Request, result: Aggregate<'_, Shared<I>>) {
        self.count(Counter::Absorbed);
        self.count(Counter::Installed);
        self.finish(request, &result);
    }

    fn passed_on(&mut self, request: &Request, result: Aggregate<'_, Shared<I>>) {
        self.count(Counter::Absorbed);
        self.count(Counter::PassedOn);
        self.finish(request, &result);
    }

    fn reminded(&mut self, request: &Request, packet: I::Buf, state: Reminded<'_, Shared<I>, WORDS>) {
        self.count(Counter::RemindersReceived);
        match state {
            Reminded::Cached(result) => return self.answer(request, packet, &result),
            Reminded::Partial(inside) => self.remind(request, &inside),
            Reminded::Unknown => {
                let table = self.table;
                if let Some(job) = Self::job_of(table, request.key).filter(|job| job.has_server()) {
                    return self.ask_server(job, request, packet);
                }
                if self.limits.fan_outs.take(request.key, request.now) {
                    self.remind(request, &RankSet::<WORDS>::EMPTY);
                } else {
                    self.count(Counter::RemindersLimited);
                }
            }
            Reminded::Recently => self.count(Counter::RemindersLimited),
        }
        self.count(Counter::Absorbed);
        self.emitter.recycle(packet);
    }

    fn seen(&mut self, key: Key, first: u64, inside: &RankSet<WORDS>) -> bool {
        let now = self.emitter.swept_at;
        let Some(job) = Self::job_of(self.table, key) else { return false };
        // Each rank inside has been heard since the first one was. Nearly all partials are that young, and an
        // idle lcore sees all of them again and again.
        const { assert!(LATE_NS < SILENT_NS) }
        if now.saturating_sub(first) <= LATE_NS {
            return true;
        }
        // Whoever waits sends the oldest PSN that it waits for again and again: but clients of SwitchML's
        // may never do so.
        let waits = |rank| job.cells.heard_ns(rank) > now.saturating_sub(SILENT_NS);
        let waited = job.registry.is_some() || inside.iter().take(ASKED).any(waits);
        if waited {
            // As many as can be named; with a thousand ranks the search for them is a few hundred steps.
            for rank in inside.missing(job.fan_in).iter().take(LATE) {
                job.cells.late(self.number, rank, first, now);
            }
        }
        waited
    }

    fn combined(&mut self, _: &Contribution) {
        self.count(Counter::Absorbed);
        self.count(Counter::Combined);
    }

    fn rejected(&mut self, request: &Request, packet: I::Buf, why: Rejection) {
        let contributions = if request.inside == 0 { 1 } else { u64::from(request.count.max(1)) };
        self.emitter.tally.add(Counter::CombinedRefused, contributions - 1);
        let packet = if self.finds_no_slot(request.key, why, contributions) {
            match self.spill(request, packet) {
                Some(packet) => packet,
                None => return,
            }
        } else {
            packet
        };
        let reason = match why {
            Rejection::Conflict => DropReason::Conflict,
            Rejection::Quota => DropReason::Quota,
            Rejection::Share => DropReason::SlotShare,
            Rejection::Stale => DropReason::Stale,
            Rejection::UnknownPsn => DropReason::UnknownPsn,
            Rejection::Duplicate => DropReason::Duplicate,
            Rejection::RankOutOfRange => DropReason::RankOutOfRange,
            Rejection::FanInMismatch => DropReason::FanInMismatch,
            Rejection::FanInChanged => DropReason::FanInChanged,
            Rejection::LengthChanged => DropReason::LengthChanged,
            Rejection::ElementChanged => DropReason::ElementChanged,
            Rejection::OperationChanged => DropReason::OperationChanged,
            Rejection::ElementUnsupported => DropReason::DType,
            Rejection::BadCount => DropReason::BadCount,
            Rejection::Contention => DropReason::Contention,
        };
        self.emitter.discard(packet, reason);
        let table = self.table;
        if let Some(job) = Self::job_of(table, request.key) {
            job.cells.dropped(self.number, reason);
            self.charge_unproductive(job, request.now);
        }
        self.explain(request, why);
    }

    fn handed_off(&mut self) {
        self.count(Counter::HandedOff);
    }

    #[inline(always)]
    fn evicted(&mut self, key: Key, what: Evicted<I::Buf>, cause: Cause) {
        match (&what, cause) {
            // A result that makes room, as for nearly every PSN.
            (Evicted::Result, Cause::Age) => {
                self.count(Counter::DisplacedResults);
                // There is nothing to be dropped, but compilers ask.
                core::mem::forget(what);
            }
            _ => self.lost(key, what, cause),
        }
    }
}
