//! What the pool's events lead to.

use pascaline_aggregator::{Aggregate, Displaced, Key, RankSet, Refusal, Reminded, Request, Sink};
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason, Recorder};
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::header::{Element, Flags, Header, Kind};

use crate::classify::Objection;
use crate::emit::{Emitter, heads};
use crate::io::Io;
use crate::jobs::{Endpoint, Job, JobTable};
use crate::membership::{Reply, answer_header};
use crate::shared::Setup;

/// Least time between two refusals that one lcore sends, in nanoseconds: refusing must not become an amplifier.
const REFUSAL_INTERVAL_NS: u64 = 1_000_000;

/// Turns events of the pool into packets and counts.
pub(crate) struct Outcome<'a, I: Io> {
    pub(crate) emitter: &'a mut Emitter<I>,
    pub(crate) table: &'a JobTable,
    pub(crate) setup: &'a Setup,
    pub(crate) spread: &'a mut Recorder,
    pub(crate) last_refusal: &'a mut Option<u64>,
}

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
            self.emitter.send_result(member, request.rank, &heads, result.payload.clone());
        }
    }

    fn finish(&mut self, request: &Request, result: &Aggregate<'_, Shared<I>>) {
        if result.overflow {
            self.count(Counter::Overflowed);
        }
        let table = self.table;
        if let Some(job) = table.get(request.key.job()).filter(|job| job.epoch == request.key.epoch()) {
            self.emitter.fan_out(job, result);
        }
    }

    /// Reminds the ranks that are not inside (and not the one that asks).
    fn remind<const WORDS: usize>(&mut self, request: &Request, inside: &RankSet<WORDS>) {
        let table = self.table;
        let Some(job) = table.get(request.key.job()).filter(|job| job.epoch == request.key.epoch()) else {
            return;
        };
        let Some(element) = Element::from_code(request.element) else { return };
        for rank in inside.missing(job.fan_in).filter(|&rank| rank != request.rank) {
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

    /// Tells a worker why its packet was dropped, at most once per interval.
    #[cold]
    pub(crate) fn refuse(&mut self, now: u64, to: &Endpoint, header: &Header, objection: Objection) {
        if self.last_refusal.is_some_and(|last| now.saturating_sub(last) < REFUSAL_INTERVAL_NS) {
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
            *self.last_refusal = Some(now);
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

impl<I: Io, const WORDS: usize> Sink<I::Buf, WORDS> for Outcome<'_, I> {
    #[inline]
    fn opened(&mut self, _: &Request) {
        self.count(Counter::Absorbed);
        self.count(Counter::Opened);
    }

    #[inline]
    fn added(&mut self, _: &Request, spent: I::Buf) {
        self.count(Counter::Absorbed);
        self.emitter.recycle(spent);
    }

    #[inline]
    fn completed(&mut self, request: &Request, spent: Option<I::Buf>, result: Aggregate<'_, Shared<I>>) {
        self.count(Counter::Absorbed);
        self.count(Counter::Completed);
        match spent {
            Some(spent) => self.emitter.recycle(spent),
            // The slot was opened and completed by one packet.
            None => self.count(Counter::Opened),
        }
        self.spread.record(request.now.saturating_sub(result.first), 1);
        self.finish(request, &result);
    }

    fn replayed(&mut self, request: &Request, packet: I::Buf, result: Aggregate<'_, Shared<I>>) {
        self.answer(request, packet, &result);
    }

    fn installed(&mut self, request: &Request, partial: Option<I::Buf>, result: Aggregate<'_, Shared<I>>) {
        self.count(Counter::Absorbed);
        self.count(Counter::Installed);
        if let Some(partial) = partial {
            self.count(Counter::DisplacedPartials);
            self.emitter.recycle(partial);
        }
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
            Reminded::Kept(result) => return self.answer(request, packet, &result),
            Reminded::Partial(inside) => self.remind(request, &inside),
            Reminded::Unknown => self.remind(request, &RankSet::<WORDS>::EMPTY),
            Reminded::Recently => {}
        }
        self.count(Counter::Absorbed);
        self.emitter.recycle(packet);
    }

    fn refused(&mut self, request: &Request, packet: I::Buf, why: Refusal) {
        let reason = match why {
            Refusal::Conflict => DropReason::Conflict,
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
        self.explain(request, why);
    }

    fn handed_off(&mut self) {
        self.count(Counter::HandedOff);
    }

    #[inline]
    fn displaced(&mut self, _: Key, what: Displaced<I::Buf>) {
        match what {
            Displaced::Result => self.count(Counter::DisplacedResults),
            Displaced::Partial(partial) => {
                self.count(Counter::DisplacedPartials);
                self.emitter.recycle(partial);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{BURST, STAGE};
    use arrayvec::ArrayVec;
    use pascaline_aggregator::Verb;
    use pascaline_buffer::{HeapBuf, HeapPool};

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
        let (table, setup) =
            (JobTable::default(), Setup { addresses: Vec::new(), udp_port: 0, ports: Vec::new() });
        let (mut spread, _reader) = pascaline_telemetry::recorder().unwrap();
        let request = Request {
            verb: Verb::Add,
            key: Key::new(1, 1, 1),
            rank: 0,
            fan_in: 2,
            job_fan_in: 2,
            count: 1,
            element: Element::F32_SUM.code(),
            overflow: false,
            offset: 0,
            len: 0,
            now: 0,
        };
        for (refusal, reason) in refusals {
            let mut emitter = Emitter::new(Nowhere, 0);
            let mut outcome = Outcome {
                emitter: &mut emitter,
                table: &table,
                setup: &setup,
                spread: &mut spread,
                last_refusal: &mut None,
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
