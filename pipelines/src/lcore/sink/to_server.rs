//! What leaves the pool for the parameter server.

use pascaline_aggregator::{Cause, Evicted, Key, Partial, Rejection, Request, Verb};
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason, JobEvent};
use pascaline_wire::Element;
use pascaline_wire::datagram::Payload;
use pascaline_wire::header::{Flags, Header, Kind, Own};

use super::LcoreSink;
use crate::emit::flags;
use crate::io::Io;
use crate::jobs::Job;
use crate::server;

impl<I: Io> LcoreSink<'_, I> {
    /// The header of a packet to the parameter server.
    pub(super) fn header_to_server(
        (job, key): (&Job, Key),
        kind: Kind,
        element: u8,
        fan_in: u16,
        count: u16,
    ) -> Option<Header> {
        Some(Header {
            psn: key.psn(),
            fan_in,
            count,
            ..Header::about(kind, Element::from_byte(element)?, job.id, job.epoch)
        })
    }

    /// Counts contributions that are rejected for want of a slot. False if it is for something else.
    pub(super) fn finds_no_slot(&mut self, key: Key, why: Rejection, contributions: u64) -> bool {
        let event = match why {
            Rejection::Conflict => JobEvent::Collisions,
            Rejection::Quota => JobEvent::OverQuota,
            Rejection::Share => JobEvent::OverShare,
            Rejection::Contention => JobEvent::Contended,
            Rejection::Stale
            | Rejection::UnknownPsn
            | Rejection::Duplicate
            | Rejection::RankOutOfRange
            | Rejection::FanInMismatch
            | Rejection::FanInChanged
            | Rejection::LengthChanged
            | Rejection::ElementChanged
            | Rejection::OperationChanged
            | Rejection::ElementUnsupported
            | Rejection::BadCount => return false,
        };
        self.emitter.tally.add(Counter::Conflicts, contributions);
        if let Some(job) = self.job(key) {
            job.cells.count(self.number, event, contributions);
        }
        true
    }

    /// Sends a contribution that found no slot to the parameter server; gives it back if there is none.
    pub(super) fn spill(&mut self, request: &Request, packet: I::Buf) -> Option<I::Buf> {
        let table = self.table;
        let Some(job) = Self::job_of(table, request.key) else { return Some(packet) };
        let &Request { key, element, fan_in, count, .. } = request;
        let header = Self::header_to_server((job, key), Kind::Gradient, element, fan_in, count);
        let Some(header) = header else { return Some(packet) };
        if request.verb != Verb::Add || request.inside != 0 || !job.has_server() {
            return Some(packet);
        }
        if !self.may_send(job, request.now) {
            self.charge_unproductive(job, request.now);
            self.emitter.discard(packet, DropReason::ServerShare);
            return None;
        }
        let header = Header {
            flags: flags(request.element, request.overflow, false).with(repeated(request.again)),
            rank: request.rank,
            own: Own::sum(request.priority, u16::MAX),
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

    /// True if a job may have one more packet sent to the parameter server; it is counted.
    pub(crate) fn may_send(&mut self, job: &Job, now: u64) -> bool {
        let may = self.limits.server.take(job.tenant, now);
        if !may {
            job.cells.dropped(self.number, DropReason::ServerShare);
        }
        may
    }

    /// Sends a partial, or contributions not yet added, to the parameter server. False if nothing was sent,
    /// because the generation is over or there is no room.
    fn evict(&mut self, key: Key, what: Evicted<I::Buf>, cause: Cause) -> bool {
        let table = self.table;
        let Some(job) = Self::job_of(table, key) else { return false };
        let now = self.emitter.io.now();
        if !self.may_send(job, now) {
            self.charge_unproductive(job, now);
            self.give_up(what);
            return false;
        }
        match what {
            Evicted::Partial(evicted) => {
                let Partial { packet, len, element, fan_in, count, overflow, again, priority } = evicted;
                let header = Self::header_to_server((job, key), Kind::Partial, element, fan_in, count);
                let Some(header) = header else { return false };
                let flags = flags(element, overflow, true).with(repeated(again));
                let header = Header { flags, own: Own::sum(priority, u16::MAX), ..header };
                let sent = server::send(self.emitter, self.server, job, &header, packet);
                let bytes = u64::from(count) * u64::from(len);
                if let Cause::NoRoom(_) = cause
                    && sent
                {
                    self.emitter.tally.add(Counter::Spilled, u64::from(count));
                    job.cells.count(self.number, JobEvent::Spilled, u64::from(count));
                    job.cells.count(self.number, JobEvent::SpilledBytes, bytes);
                } else {
                    self.count_eviction(job, sent, u64::from(count), bytes);
                }
                sent
            }
            Evicted::Originals(originals) => {
                let (element, fan_in, priority) = (originals.element, originals.fan_in, originals.priority);
                let flags = flags(element, originals.overflow, false).with(repeated(originals.again));
                let header = Self::header_to_server((job, key), Kind::Gradient, element, fan_in, 1);
                let Some(header) = header else { return false };
                originals.fold(false, |any, (rank, packet)| {
                    let header = Header { flags, rank, own: Own::sum(priority, u16::MAX), ..header };
                    let bytes = packet.bytes().len() as u64;
                    let sent = server::send(self.emitter, self.server, job, &header, packet);
                    self.count_eviction(job, sent, 1, bytes);
                    sent || any
                })
            }
            Evicted::Result | Evicted::GivenUp => false,
        }
    }

    /// Lets go of what the parameter server does not get; the ranks send it again.
    fn give_up(&mut self, what: Evicted<I::Buf>) {
        match what {
            Evicted::Partial(Partial { packet, .. }) => self.emitter.recycle(packet),
            Evicted::Originals(originals) => originals.for_each(|(_, packet)| self.emitter.recycle(packet)),
            Evicted::Result | Evicted::GivenUp => {}
        }
    }

    /// Counts contributions that went to the parameter server, or for which it had no room.
    fn count_eviction(&self, job: &Job, sent: bool, count: u64, bytes: u64) {
        if sent {
            job.cells.count(self.number, JobEvent::Evicted, count);
            job.cells.count(self.number, JobEvent::EvictedBytes, bytes);
        } else {
            job.cells.count(self.number, JobEvent::ServerFull, 1);
        }
    }

    /// A rank waits for a PSN of which nothing is known here: the parameter server collects what there is.
    pub(super) fn ask_server(&mut self, job: &Job, request: &Request, packet: I::Buf) {
        let header =
            Self::header_to_server((job, request.key), Kind::Reminder, request.element, job.fan_in, 0);
        let Some(header) = header else { return self.emitter.recycle(packet) };
        if !self.may_send(job, request.now) {
            return self.emitter.discard(packet, DropReason::ServerShare);
        }
        let nothing = Payload::new(request.offset.into(), 0);
        let own = Own::vote(request.priority, u16::MAX);
        let header = Header { rank: request.rank, own, ..header };
        server::pass_on(self.emitter, self.server, job, &header, nothing, packet);
    }

    /// A slot was vacated, of which more is to be said than that a result made room.
    #[inline(never)]
    pub(super) fn lost(&mut self, key: Key, what: Evicted<I::Buf>, cause: Cause) {
        if cause == Cause::Preempted {
            self.count(Counter::Preempted);
            self.count_of(key, JobEvent::Preempted);
        }
        if cause == Cause::Share {
            self.count_of(key, JobEvent::GivenBack);
        }
        if let (Cause::NoRoom(why), Evicted::Partial(partial)) = (cause, &what) {
            self.finds_no_slot(key, why, partial.count.into());
        }
        match what {
            Evicted::Result => self.count(Counter::DisplacedResults),
            Evicted::GivenUp => {
                self.count(Counter::DisplacedPartials);
                self.count_of(key, JobEvent::GivenUp);
                let (table, now) = (self.table, self.emitter.io.now());
                if let Some(job) = Self::job_of(table, key) {
                    self.charge_unproductive(job, now);
                }
            }
            Evicted::Partial(_) | Evicted::Originals(_) => {
                let sent = self.evict(key, what, cause);
                self.count(if sent { Counter::Evicted } else { Counter::DisplacedPartials });
            }
        }
    }
}

/// The flag that tells the parameter server that this may have been in a sum before.
const fn repeated(again: bool) -> Flags {
    if again { Flags::RETRANSMISSION } else { Flags::NONE }
}
