//! Updates and the answers to them, as an lcore comes across them.

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{DropReason, JobEvent, Moment};
use pascaline_wire::Datagram;
use pascaline_wire::trailer::Trailer;

use super::Lcore;
use crate::io::{BURST, Io};
use crate::jobs::{Job, Server};
use crate::updates::{Offer, acknowledge, answered};

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Takes in a burst's updates.
    pub(super) fn offer_updates(&mut self, now: u64, offers: ArrayVec<Offer<I::Buf>, BURST>) {
        let unix_ns = self.end.unix_ns(now);
        for Offer { update, .. } in &offers {
            if let Some(job) = u16::try_from(update.cluster).ok().and_then(|id| self.table.get(id)) {
                job.cells.ranks_of(self.number).heard(update.worker, update.psn, Moment::at(now));
                job.cells.count(self.number, JobEvent::UpdateBytes, u64::from(update.len));
            }
        }
        match &mut self.updates {
            Some(updates) => updates.offer(&mut self.emitter, offers, unix_ns),
            // A job that is configured so comes with queues; a driver without them has none to drain them.
            None => {
                for offer in offers {
                    self.emitter.discard(offer.packet, DropReason::NoServer);
                }
            }
        }
    }

    /// This lcore's share of the queues' work in a turn. True if there was any.
    #[inline]
    pub(super) fn update_queues(&mut self) -> bool {
        let Some(updates) = &mut self.updates else { return false };
        let now = self.emitter.io.now();
        updates.turn(&mut self.emitter, &self.table, now, self.end.unix_ns(now))
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
