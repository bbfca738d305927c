//! What the pool's events lead to.

use pascaline_aggregator::{
    Aggregate, Cause, Contribution, Displaced, Evicted, Key, RankSet, Refusal, Reminded, Request, Sink, Verb,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{PacketBuf, SharedBuf};
use pascaline_telemetry::cells::LATE;
use pascaline_telemetry::{Counter, DropReason, JobEvent, Made, Recorder};
use pascaline_wire::Element;
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::datagram::Payload;
use pascaline_wire::header::{Flags, Header, Kind};

use crate::classify::Objection;
use crate::emit::{Emitter, flags, heads, result_header};
use crate::io::Io;
use crate::jobs::{Endpoint, Job, JobTable};
use crate::limits::Limits;
use crate::membership::{Reply, answer_header};
use crate::server::{self, ServerEnd};
use crate::setup::Setup;

/// Turns events of the pool into packets and counts.
pub(crate) struct Outcome<'a, I: Io> {
    /// The number of the lcore.
    pub(crate) number: usize,
    /// Which find out what is no number.
    pub(crate) kernels: &'a Kernels,
    pub(crate) emitter: &'a mut Emitter<I>,
    pub(crate) table: &'a JobTable,
    pub(crate) setup: &'a Setup,
    pub(crate) spread: &'a mut Recorder,
    pub(crate) limits: &'a mut Limits,
    pub(crate) server: Option<&'a ServerEnd<I::Buf>>,
}

/// For how long a partial waits before those who are not in it count as late, in nanoseconds: longer than packets of ranks in
/// step are apart, shorter than anybody notices.
const LATE_NS: u64 = 10_000_000;

type Shared<I> = <<I as Io>::Buf as PacketBuf>::Shared;

impl<I: Io> Outcome<'_, I> {
    /// The job of a key, unless the job has moved on to another generation meanwhile.
    #[inline]
    fn job(&self, key: Key) -> Option<&Job> {
        self.table.get(key.job()).filter(|job| job.epoch == key.epoch())
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
        table.get(key.job()).filter(|job| job.epoch == key.epoch())
    }

    /// The header of a packet to the parameter server.
    fn header_to_server(key: Key, kind: Kind, element: u8, fan_in: u16, count: u16) -> Option<Header> {
        Some(Header {
            kind,
            flags: Flags::NONE,
            element: Element::from_code(element)?,
            job: key.job(),
            rank: 0,
            psn: key.psn(),
            fan_in,
            count,
            priority: 0,
            wnd_cap: u16::MAX,
            tree: 0,
            epoch: key.epoch(),
        })
    }

    /// A contribution that found no slot goes to the parameter server as it is. Gives it back where there is none.
    fn spill(&mut self, request: &Request, packet: I::Buf) -> Option<I::Buf> {
        let table = self.table;
        let header = Self::header_to_server(
            request.key,
            Kind::Gradient,
            request.element,
            request.fan_in,
            request.count,
        );
        let (Some(job), Some(header)) = (Self::job_of(table, request.key), header) else {
            return Some(packet);
        };
        if request.verb != Verb::Add || request.inside != 0 || !job.has_server() {
            return Some(packet);
        }
        let header = Header {
            flags: flags(request.overflow, false).with(repeated(request.again)),
            rank: request.rank,
            priority: request.priority,
            ..header
        };
        let payload = Payload::new(request.offset.into(), request.len.into());
        if server::pass_on(self.emitter, self.server, job, &header, payload, packet) {
            self.count(Counter::Spilled);
            job.cells.count(self.number, JobEvent::Spilled, 1);
            job.cells.count(self.number, JobEvent::SpilledBytes, u64::from(request.len));
        } else {
            job.cells.count(self.number, JobEvent::ServerFull, 1);
        }
        None
    }

    /// A partial, or contributions that have not been added, on their way to the parameter server. True if any of it was sent:
    /// not if its generation is over meanwhile, or there is no room.
    fn evict(&mut self, key: Key, what: Displaced<I::Buf>) -> bool {
        let table = self.table;
        let Some(job) = Self::job_of(table, key) else { return false };
        match what {
            Displaced::Partial(evicted) => {
                let Evicted { packet, len, element, fan_in, count, overflow, again, priority } = evicted;
                let header = Self::header_to_server(key, Kind::Partial, element, fan_in, count);
                let Some(header) = header else { return false };
                let flags = flags(overflow, true).with(repeated(again));
                let header = Header { flags, priority, ..header };
                let sent = server::send(self.emitter, self.server, job, &header, packet);
                self.evicted(job, sent, u64::from(count), u64::from(count) * u64::from(len));
                sent
            }
            Displaced::Originals(originals) => {
                let (element, fan_in, priority) = (originals.element, originals.fan_in, originals.priority);
                let flags = flags(originals.overflow, false).with(repeated(originals.again));
                let header = Self::header_to_server(key, Kind::Gradient, element, fan_in, 1);
                let Some(header) = header else { return false };
                originals.fold(false, |any, (rank, packet)| {
                    let header = Header { flags, rank, priority, ..header };
                    let bytes = packet.bytes().len() as u64;
                    let sent = server::send(self.emitter, self.server, job, &header, packet);
                    self.evicted(job, sent, 1, bytes);
                    sent || any
                })
            }
            Displaced::Result | Displaced::GivenUp => false,
        }
    }

    /// Counts contributions that were on their way to the parameter server, or would have been if it had room.
    fn evicted(&self, job: &Job, sent: bool, count: u64, bytes: u64) {
        if sent {
            job.cells.count(self.number, JobEvent::Evicted, count);
            job.cells.count(self.number, JobEvent::EvictedBytes, bytes);
        } else {
            job.cells.count(self.number, JobEvent::ServerFull, 1);
        }
    }

    /// Sends a kept result to the rank that asked.
    fn answer(&mut self, request: &Request, packet: I::Buf, result: &Aggregate<'_, Shared<I>>) {
        self.count(Counter::Answered);
        self.count(Counter::Replayed);
        self.emitter.recycle(packet);
        let table = self.table;
        if let Some(job) = table.get(request.key.job()).filter(|job| job.epoch == request.key.epoch())
            && let Some(member) = job.member(request.rank)
            && let Some(heads) = heads(result)
        {
            job.cells.count(self.number, JobEvent::Replayed, 1);
            self.emitter.send_result(member, request.rank, &heads, result.payload.clone());
        }
    }

    /// Counts a result that was made here, and gives it out: with the rank that completed it, and how long after the first,
    /// if one did.
    #[inline(always)]
    fn made(&mut self, result: &Aggregate<'_, Shared<I>>, last: Option<(u16, u64)>) {
        self.count(Counter::Completed);
        let table = self.table;
        let Some(job) = Self::job_of(table, result.key) else { return };
        let values = result.payload.bytes();
        let made = Made { contributions: result.count, bytes: values.len() };
        match last {
            Some((rank, waited)) => job.counts().completed(self.number, rank, made, waited),
            None => job.cells.released(self.number, made),
        }
        if looked_at(result.key.psn()) {
            self.look_at(job, result.element, values);
        }
        self.give_out(job, result);
    }

    /// Counts a result that is no number.
    fn look_at(&mut self, job: &Job, element: u8, values: &[u8]) {
        let float = Element::from_code(element).map(|element| element.dtype).filter(|dtype| dtype.is_float());
        if float.is_some_and(|dtype| (self.kernels.non_finite(dtype))(values) > 0) {
            self.emitter.tally.add(Counter::NonFinite, SAMPLED);
            job.cells.count(self.number, JobEvent::NonFinite, SAMPLED);
        }
    }

    /// Gives out a result from elsewhere.
    fn finish(&mut self, result: &Aggregate<'_, Shared<I>>) {
        let table = self.table;
        let Some(job) = Self::job_of(table, result.key) else { return };
        job.cells.count(self.number, JobEvent::Installed, 1);
        self.give_out(job, result);
    }

    #[inline(always)]
    fn give_out(&mut self, job: &Job, result: &Aggregate<'_, Shared<I>>) {
        if result.overflow {
            self.count(Counter::Overflowed);
            job.cells.count(self.number, JobEvent::Overflowed, 1);
        }
        self.emitter.fan_out(self.table, job, result);
    }

    /// Reminds the ranks that are not inside (and not the one that asks).
    fn remind<const WORDS: usize>(&mut self, request: &Request, inside: &RankSet<WORDS>) {
        let table = self.table;
        let Some(job) = table.get(request.key.job()).filter(|job| job.epoch == request.key.epoch()) else {
            return;
        };
        let Some(element) = Element::from_code(request.element) else { return };
        for rank in inside.missing(job.fan_in).iter().filter(|&rank| rank != request.rank) {
            let header = Header {
                kind: Kind::Reminder,
                flags: Flags::NONE,
                element,
                job: job.id,
                rank,
                psn: request.key.psn(),
                fan_in: job.fan_in,
                count: 0,
                priority: 0,
                wnd_cap: u16::MAX,
                tree: 0,
                epoch: job.epoch,
            };
            if let Some(member) = job.member(rank)
                && self.emitter.stage_header(member, &header)
            {
                self.count(Counter::RemindersSent);
            }
        }
    }

    /// A rank waits for a PSN of which nothing is known here: the parameter server collects what there is.
    fn ask_server(&mut self, job: &Job, request: &Request, packet: I::Buf) {
        let header = Self::header_to_server(request.key, Kind::Reminder, request.element, job.fan_in, 0);
        let Some(header) = header else { return self.emitter.recycle(packet) };
        let nothing = Payload::new(request.offset.into(), 0);
        let header = Header { rank: request.rank, priority: request.priority, ..header };
        server::pass_on(self.emitter, self.server, job, &header, nothing, packet);
    }

    /// A slot was vacated, of which more is to be said than that a result made room.
    #[inline(never)]
    fn lost(&mut self, key: Key, what: Displaced<I::Buf>, cause: Cause) {
        if cause == Cause::Preempted {
            self.count(Counter::Preempted);
            self.count_of(key, JobEvent::Preempted);
        }
        if cause == Cause::NoRoom {
            self.count(Counter::Conflicts);
        }
        match what {
            Displaced::Result => self.count(Counter::DisplacedResults),
            Displaced::GivenUp => {
                self.count(Counter::DisplacedPartials);
                self.count_of(key, JobEvent::GivenUp);
            }
            Displaced::Partial(_) | Displaced::Originals(_) => {
                let sent = self.evict(key, what);
                self.count(if sent { Counter::Evicted } else { Counter::DisplacedPartials });
            }
        }
    }

    /// Tells a worker why its packet was dropped, at most once per interval.
    #[cold]
    pub(crate) fn refuse(&mut self, now: u64, to: &Endpoint, header: &Header, objection: Objection) {
        if !self.limits.may_refuse(now) {
            return;
        }
        let Some(port) = self.setup.ports.get(to.port) else { return };
        let (fan_in, epoch) = self.table.get(header.job).map_or((0, 0), |job| (job.fan_in, job.epoch));
        let header = answer_header(header, fan_in, 0, epoch);
        let control = Control {
            status: objection.status,
            expected: objection.expected,
            got: objection.got,
            ..Control::request(Action::Ack, 0)
        };
        let reply = Reply::new(to, port.mac, &header, &control);
        if self.emitter.stage_bytes(reply.port, reply.frame()) {
            self.limits.refused(now);
            self.count(Counter::RefusalsSent);
        }
    }

    /// What to tell the sender of a refused contribution: only mistakes, not what happens in normal operation.
    #[cold]
    fn explain(&mut self, request: &Request, why: Refusal) {
        let Some(job) = self.job(request.key) else { return };
        let Some(member) = job.member(request.rank) else { return };
        let Some(element) = Element::from_code(request.element) else { return };
        let (status, expected, got) = match why {
            Refusal::FanInMismatch | Refusal::FanInChanged => {
                (Status::FanInMismatch, u32::from(job.fan_in), u32::from(request.fan_in))
            }
            Refusal::LengthChanged => (Status::PayloadMismatch, 0, u32::from(request.len)),
            Refusal::ElementChanged | Refusal::ElementUnsupported => {
                (Status::ElementMismatch, 0, u32::from(request.element))
            }
            Refusal::UnknownPsn => (Status::UnknownPsn, 0, request.key.psn()),
            _ => return,
        };
        let header = Header {
            kind: Kind::Gradient,
            flags: Flags::NONE,
            element,
            job: job.id,
            rank: request.rank,
            psn: request.key.psn(),
            fan_in: request.fan_in,
            count: request.count,
            priority: 0,
            wnd_cap: u16::MAX,
            tree: 0,
            epoch: job.epoch,
        };
        let to = member.endpoint;
        self.refuse(request.now, &to, &header, Objection { status, expected, got });
    }
}

/// The flag that tells the parameter server that this may have been in a sum before.
const fn repeated(again: bool) -> Flags {
    if again { Flags::RETRANSMISSION } else { Flags::NONE }
}

/// Of so many results, one is looked at for what is no number; to look at all would take a packet of eight ranks 2 ns longer.
const SAMPLED: u64 = 8;

/// Whether a result is looked at: spread over all PSNs, so that in time each part of a tensor has its turn.
#[inline]
const fn looked_at(psn: u32) -> bool {
    const GOLDEN: u32 = 0x9e37_79b1;
    psn.wrapping_mul(GOLDEN) >> (u32::BITS - SAMPLED.ilog2()) == 0
}

impl<I: Io, const WORDS: usize> Sink<I::Buf, WORDS> for Outcome<'_, I> {
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
    fn spent(&mut self, packet: I::Buf) {
        self.emitter.reuse(packet);
    }

    #[inline(always)]
    fn completed(&mut self, of: &Contribution, alone: bool, result: Aggregate<'_, Shared<I>>) {
        self.count(Counter::Absorbed);
        self.count(if alone { Counter::Opened } else { Counter::Hits });
        let waited = of.now.saturating_sub(result.first);
        self.spread.record(waited, 1);
        self.made(&result, Some((of.rank, waited)));
    }

    fn released(&mut self, result: Aggregate<'_, Shared<I>>) {
        self.made(&result, None);
        self.count(Counter::Released);
    }

    fn obeyed(&mut self, _: &Request, packet: I::Buf) {
        self.count(Counter::Absorbed);
        self.emitter.recycle(packet);
    }

    /// A result that is there already is news to the parameter server.
    fn fetched(&mut self, request: &Request, packet: I::Buf, result: Option<Aggregate<'_, Shared<I>>>) {
        self.count(Counter::Absorbed);
        self.emitter.recycle(packet);
        let table = self.table;
        let (Some(result), Some(job)) = (result, Self::job_of(table, request.key)) else { return };
        let Some(header) = result_header(&result) else { return };
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

    fn installed(&mut self, _: &Request, result: Aggregate<'_, Shared<I>>) {
        self.count(Counter::Absorbed);
        self.count(Counter::Installed);
        self.finish(&result);
    }

    fn passed_on(&mut self, _: &Request, result: Aggregate<'_, Shared<I>>) {
        self.count(Counter::Absorbed);
        self.count(Counter::PassedOn);
        self.finish(&result);
    }

    fn reminded(&mut self, request: &Request, packet: I::Buf, state: Reminded<'_, Shared<I>, WORDS>) {
        self.count(Counter::RemindersReceived);
        match state {
            Reminded::Kept(result) => return self.answer(request, packet, &result),
            Reminded::Partial(inside) => self.remind(request, &inside),
            Reminded::Unknown => {
                let table = self.table;
                if let Some(job) = Self::job_of(table, request.key).filter(|job| job.has_server()) {
                    return self.ask_server(job, request, packet);
                }
                if self.limits.may_fan_out(request.key, request.now) {
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

    fn seen(&mut self, key: Key, first: u64, inside: &RankSet<WORDS>) {
        let now = self.emitter.swept_at;
        if now.saturating_sub(first) > LATE_NS
            && let Some(job) = Self::job_of(self.table, key)
        {
            // As many as can be named; with a thousand ranks the search for them is a few hundred steps.
            for rank in inside.missing(job.fan_in).iter().take(LATE) {
                job.cells.late(self.number, rank, first, now);
            }
        }
    }

    fn combined(&mut self, _: &Contribution) {
        self.count(Counter::Absorbed);
        self.count(Counter::Combined);
    }
    fn refused(&mut self, request: &Request, packet: I::Buf, why: Refusal) {
        if request.inside != 0 {
            self.emitter.tally.add(Counter::CombinedRefused, u64::from(request.count.saturating_sub(1)));
        }
        let no_slot = match why {
            Refusal::Conflict => Some(JobEvent::Collisions),
            Refusal::Quota => Some(JobEvent::OverQuota),
            Refusal::Contention => Some(JobEvent::Contended),
            _ => None,
        };
        let packet = match no_slot {
            Some(event) => {
                self.count(Counter::Conflicts);
                self.count_of(request.key, event);
                match self.spill(request, packet) {
                    Some(packet) => packet,
                    None => return,
                }
            }
            None => packet,
        };
        let reason = match why {
            Refusal::Conflict => DropReason::Conflict,
            Refusal::Quota => DropReason::Quota,
            Refusal::Stale => DropReason::Stale,
            Refusal::UnknownPsn => DropReason::UnknownPsn,
            Refusal::Duplicate => DropReason::Duplicate,
            Refusal::RankOutOfRange => DropReason::RankOutOfRange,
            Refusal::FanInMismatch => DropReason::FanInMismatch,
            Refusal::FanInChanged => DropReason::FanInChanged,
            Refusal::LengthChanged => DropReason::LengthChanged,
            Refusal::ElementChanged => DropReason::ElementChanged,
            Refusal::ElementUnsupported => DropReason::DType,
            Refusal::BadCount => DropReason::BadCount,
            Refusal::Contention => DropReason::Contention,
        };
        self.emitter.discard(packet, reason);
        if let Some(job) = self.job(request.key) {
            job.cells.dropped(self.number, reason);
        }
        self.explain(request, why);
    }

    fn handed_off(&mut self) {
        self.count(Counter::HandedOff);
    }

    #[inline(always)]
    fn displaced(&mut self, key: Key, what: Displaced<I::Buf>, cause: Cause) {
        match (&what, cause) {
            // A result that makes room, as for nearly every PSN.
            (Displaced::Result, Cause::Age) => {
                self.count(Counter::DisplacedResults);
                // There is nothing to be dropped, but compilers ask.
                core::mem::forget(what);
            }
            _ => self.lost(key, what, cause),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{BURST, STAGE};
    use arrayvec::ArrayVec;
    use pascaline_aggregator::Rules;
    use pascaline_buffer::{HeapBuf, HeapPool};
    use pascaline_wire::UdpPorts;

    /// No ports, and no buffers.
    struct Nowhere;

    impl Io for Nowhere {
        type Buf = HeapBuf;

        fn receive(&mut self, _: usize, _: &mut ArrayVec<HeapBuf, BURST>) {}

        fn transmit(&mut self, _: usize, _: &mut ArrayVec<HeapBuf, STAGE>) {}

        fn header_buffers(&mut self, _: &mut ArrayVec<HeapBuf, BURST>) {}

        fn frame_buffer(&mut self) -> Option<HeapBuf> {
            None
        }

        fn multi_segment(&self, _: usize) -> bool {
            false
        }

        fn recycle(&mut self, spent: &mut ArrayVec<HeapBuf, BURST>) {
            spent.clear();
        }

        fn now(&self) -> u64 {
            0
        }
    }

    /// The refusals include the one that only lcores in a race can bring about.
    #[test]
    fn each_refusal_of_the_pool_is_a_drop_of_its_own_reason() {
        let refusals = [
            (Refusal::Conflict, DropReason::Conflict),
            (Refusal::Quota, DropReason::Quota),
            (Refusal::Stale, DropReason::Stale),
            (Refusal::UnknownPsn, DropReason::UnknownPsn),
            (Refusal::Duplicate, DropReason::Duplicate),
            (Refusal::RankOutOfRange, DropReason::RankOutOfRange),
            (Refusal::FanInMismatch, DropReason::FanInMismatch),
            (Refusal::FanInChanged, DropReason::FanInChanged),
            (Refusal::LengthChanged, DropReason::LengthChanged),
            (Refusal::ElementChanged, DropReason::ElementChanged),
            (Refusal::ElementUnsupported, DropReason::DType),
            (Refusal::BadCount, DropReason::BadCount),
            (Refusal::Contention, DropReason::Contention),
        ];
        let pool = HeapPool::new();
        let (table, setup) = (JobTable::default(), Setup::new(Vec::new(), UdpPorts::single(1), Vec::new()));
        let (mut spread, _reader) = pascaline_telemetry::recorder().unwrap();
        let request = Request {
            verb: Verb::Add,
            key: Key::new(1, 1, 1),
            rank: 0,
            fan_in: 2,
            job_fan_in: 2,
            needed: 2,
            count: 1,
            inside: 0,
            element: Element::F32_SUM.code(),
            overflow: false,
            again: false,
            partial: false,
            priority: 0,
            rules: Rules::default(),
            offset: 0,
            len: 0,
            now: 0,
        };
        for (refusal, reason) in refusals {
            let mut emitter = Emitter::new(Nowhere, 0);
            let mut outcome = Outcome {
                number: 0,
                kernels: &Kernels::scalar(),
                emitter: &mut emitter,
                table: &table,
                setup: &setup,
                spread: &mut spread,
                limits: &mut Limits::default(),
                server: None,
            };
            Sink::<HeapBuf>::refused(&mut outcome, &request, pool.alloc(&[], 64), refusal);
            emitter.flush();
            for other in DropReason::ALL {
                assert_eq!(emitter.tally.dropped(*other), u64::from(*other == reason), "{refusal:?}");
            }
            assert_eq!(pool.live(), 0);
        }
    }
}
