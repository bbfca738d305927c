//! Updates and the answers to them, as an lcore comes across them.

use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{DropReason, JobEvent, Moment};
use pascaline_wire::Datagram;
use pascaline_wire::control::Status;
use pascaline_wire::datagram::Payload;
use pascaline_wire::header::{Header, Kind};
use pascaline_wire::trailer::Trailer;

use super::Lcore;
use crate::classify::Objection;
use crate::io::{BURST, Io};
use crate::jobs::{Job, Server};
use crate::updates::{Offer, Refused, acknowledge, answered};

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Takes in a burst's updates. What is no number is kept out here, before it is combined with anything.
    pub(super) fn offer_updates(&mut self, now: u64, offers: ArrayVec<Offer<I::Buf>, BURST>) {
        let unix_ns = self.end.unix_ns(now);
        let mut sound = ArrayVec::new();
        let mut refused = None;
        for Offer { port, update, packet } in offers {
            if let Some(job) = u16::try_from(update.cluster).ok().and_then(|id| self.table.get(id)) {
                job.cells.ranks_of(self.number).heard(update.worker, update.psn, Moment::at(now));
                job.cells.count(self.number, JobEvent::UpdateBytes, u64::from(update.len));
            }
            let values = Payload::new(update.offset.into(), update.len.into()).of(packet.bytes());
            if (self.kernels.non_finite(update.element.dtype))(values) == 0 {
                // As many as came.
                let _ = sound.try_push(Offer { port, update, packet });
            } else {
                self.emitter.discard(packet, DropReason::UpdateNotFinite);
                let (expected, got) = (0, 0);
                refused =
                    Some(Refused { update, why: Objection { status: Status::NotFinite, expected, got } });
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

    /// This lcore's share of the queues' work in a turn. True if there was any.
    #[inline]
    pub(super) fn update_queues(&mut self) -> bool {
        let Some(updates) = &mut self.updates else { return false };
        let now = self.emitter.io.now();
        let (busy, refused) = updates.turn(&mut self.emitter, &self.table, now, self.end.unix_ns(now));
        if let Some(refused) = refused {
            self.tell(now, &refused);
        }
        busy
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

    /// An answer of a cluster's server.
    pub(super) fn acknowledged(&mut self, now: u64, job: &Job, datagram: &Datagram, packet: I::Buf) {
        let unix_ns = self.end.unix_ns(now);
        let state = match (&mut self.updates, &job.server) {
            (Some(updates), Server::External { endpoint, .. }) => updates.state(endpoint.port, unix_ns),
            _ => None,
        };
        let update = answered(datagram, packet.bytes());
        if let Some(update) = update {
            job.cells.answered(self.number, update.generated_ns);
        }
        let trailer = Trailer { update, queue: state, ..Trailer::default() };
        acknowledge(&mut self.emitter, job, datagram, &trailer, packet);
    }
}
