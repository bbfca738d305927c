//! Updates and the answers to them, as an lcore comes across them.

use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason, JobEvent, Moment};
use pascaline_wire::Datagram;
use pascaline_wire::control::Status;
use pascaline_wire::datagram::Payload;
use pascaline_wire::header::{Flags, Header, Kind};
use pascaline_wire::trailer::Trailer;

use super::Lcore;
use crate::classify::Objection;
use crate::io::{BURST, Io};
use crate::jobs::{Above, Job};
use crate::updates::{Offer, Refused, acknowledge, answered};

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Takes in a burst's updates. What is no number is kept out here, before it is combined with anything,
    /// and what has come before.
    pub(super) fn offer_updates(&mut self, now: u64, offers: ArrayVec<Offer<I::Buf>, BURST>) {
        let unix_ns = self.end.unix_ns(now);
        let mut sound = ArrayVec::new();
        let mut refused = None;
        for Offer { port, update, packet } in offers {
            let job = u16::try_from(update.cluster).ok().and_then(|id| self.table.get(id));
            if let Some(job) = job {
                job.cells.ranks_of(self.number).heard(update.worker, update.psn, Moment::at(now));
                job.cells.count(self.number, JobEvent::UpdateBytes, u64::from(update.len));
            }
            let values = Payload::new(update.offset.into(), update.len.into()).of(packet.bytes());
            if (self.kernels.non_finite(update.element.dtype))(values) != 0 {
                self.emitter.discard(packet, DropReason::UpdateNotFinite);
                let (expected, got) = (0, 0);
                refused =
                    Some(Refused { update, why: Objection { status: Status::NotFinite, expected, got } });
            } else if let Some(job) = job.filter(|job| !job.window.is_first(update.worker, update.psn)) {
                job.cells.dropped(self.number, DropReason::Duplicate);
                self.emitter.discard(packet, DropReason::Duplicate);
            } else {
                // As many as came.
                let _ = sound.try_push(Offer { port, update, packet });
            }
        }
        match &mut self.updates {
            Some(updates) => {
                refused = updates.offer(&mut self.emitter, sound, unix_ns).or(refused);
            }
            // A job that is configured so comes with queues; a driver without them has none to drain them.
            None => {
                for offer in sound {
                    self.emitter.discard(offer.packet, DropReason::NoServer);
                }
            }
        }
        if let Some(refused) = refused {
            self.tell(now, &refused);
        }
    }

    /// This lcore's share of the queues' work in a turn. Says when it began, if there was any.
    #[inline]
    pub(super) fn update_queues(&mut self) -> Option<u64> {
        let updates = self.updates.as_mut()?;
        let now = self.emitter.io.now();
        let (busy, refused) = updates.turn(&mut self.emitter, &self.table, now, self.end.unix_ns(now));
        if let Some(refused) = refused {
            self.tell(now, &refused);
        }
        busy.then_some(now)
    }

    /// Tells a worker why its update was not taken.
    #[cold]
    #[inline(never)]
    fn tell(&mut self, now: u64, &Refused { update, why }: &Refused) {
        let table = Arc::clone(&self.table);
        let job = u16::try_from(update.cluster).ok().and_then(|id| table.get(id));
        let Some(job) = job.filter(|job| job.epoch == update.epoch) else { return };
        let Some(member) = job.member(update.worker) else { return };
        let header = Header {
            rank: update.worker,
            psn: update.psn,
            fan_in: job.fan_in,
            count: update.count,
            ..Header::about(Kind::Update, update.element, job.id, job.epoch)
        };
        self.with_pool(|_, sink| sink.refuse(now, (&member.endpoint, 0), &header, why));
    }

    /// An answer of a cluster's server, or of the appliance above. Of the queues that it has passed, the
    /// bottleneck's state goes on: this one's only if it is narrower (Olaf, sections 5 and 7).
    pub(super) fn acknowledged(&mut self, now: u64, job: &Job, datagram: &Datagram, packet: I::Buf) {
        let unix_ns = self.end.unix_ns(now);
        let port = job.onward().map(|onward| onward.port);
        let here = self.updates.as_mut().zip(port).and_then(|(updates, port)| updates.state(port, unix_ns));
        let Trailer { update, queue: above, .. } = answered(datagram, packet.bytes()).unwrap_or_default();
        let header = match &job.parent {
            None => Some(datagram.header),
            Some(parent) => {
                self.emitter.tally.add(Counter::FromAbove, 1);
                job.cells.count(self.number, JobEvent::FromAbove, 1);
                let alone = datagram.header.flags.has(Flags::BYPASS);
                parent.downward(&datagram.header, job.fan_in, alone)
            }
        };
        // Too late: it is not known any more whose update it was.
        let Some(header) = header else { return self.emitter.discard(packet, DropReason::NotMember) };
        if let Some(update) = update {
            job.cells.answered(self.number, update.generated_ns);
        }
        let above = above.filter(|_| job.parent.is_some());
        let queue = match (above, here) {
            (Some(above), Some(here)) => Some(above.narrower(here)),
            (above, here) => above.or(here),
        };
        let trailer = Trailer { update, queue, ..Trailer::default() };
        acknowledge(&mut self.emitter, job, &header, datagram.payload, &trailer, packet);
    }

    /// A rank's packet for the parameter server, where the way leads by the appliance above. It goes up as
    /// one of this appliance's own.
    pub(super) fn pass_up(&mut self, job: &Job, above: &Above, datagram: &Datagram, mut packet: I::Buf) {
        let Datagram { header, payload, .. } = datagram;
        if header.fan_in != job.fan_in {
            job.cells.dropped(self.number, DropReason::FanInMismatch);
            return self.emitter.discard(packet, DropReason::FanInMismatch);
        }
        if !packet.advance(usize::from(payload.offset)) {
            return self.emitter.discard(packet, DropReason::ServerFull);
        }
        packet.truncate(usize::from(payload.total));
        let (port, template) = (above.member.endpoint.port, &above.member.template);
        let sent = match self.emitter.sealed_above(above, &above.upward(*header), packet) {
            Some((header, packet)) => self.emitter.send_in_place(port, template, &header, packet),
            None => false,
        };
        if sent {
            self.emitter.tally.add(Counter::Forwarded, 1);
            self.emitter.tally.add(Counter::SentUp, 1);
            job.cells.count(self.number, JobEvent::SentUp, 1);
        } else {
            self.emitter.tally.drop_one(DropReason::ServerFull);
        }
    }
}
