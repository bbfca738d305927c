//! What workers are told about packets that were dropped.

use pascaline_aggregator::{Rejection, Request};
use pascaline_wire::Element;
use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::header::{Header, Kind};

use super::LcoreSink;
use crate::classify::Objection;
use crate::io::Io;
use crate::jobs::Endpoint;
use crate::membership::{Reply, answer_header};
use crate::meter::REFUSALS;
use pascaline_telemetry::Counter;

impl<I: Io> LcoreSink<'_, I> {
    /// Tells the sender of a packet of this length why it was dropped, at most once per interval. A sender
    /// that is no member hears nothing that it has not said itself, and gets back no more bytes than it sent.
    #[cold]
    pub(crate) fn refuse(
        &mut self,
        now: u64,
        (to, len): (&Endpoint, usize),
        header: &Header,
        objection: Objection,
    ) {
        let job = self.table.get(header.job);
        let member = job.and_then(|job| Some((job, job.member(header.rank)?.endpoint)));
        let member = member.filter(|(_, at)| (at.address, at.udp_port) == (to.address, to.udp_port));
        let bucket = usize::from(member.is_some());
        if !self.limits.refusals[bucket].has(now, REFUSALS) {
            return;
        }
        let Some(port) = self.setup.ports.get(to.port) else { return };
        let (fan_in, epoch, expected) = match member {
            Some((job, _)) => (job.fan_in, job.epoch, objection.expected),
            None => (header.fan_in, header.epoch, 0),
        };
        let answer = answer_header(header, fan_in, epoch);
        let Objection { status, got, .. } = objection;
        let control = Control { status, expected, got, ..Control::request(Action::Ack, 0) };
        let counter = self.emitter.seal_number();
        let sealing = job.and_then(|job| job.seals.as_ref()).map(|seals| seals.unasked(counter));
        let reply = Reply::sealed(to, port.mac, (&answer, &control), sealing);
        let fits = member.is_some() || reply.frame().len() <= len;
        if fits && self.emitter.stage_bytes(reply.port, reply.frame()) {
            self.limits.refusals[bucket].take(now, REFUSALS);
            self.count(Counter::RefusalsSent);
        }
    }

    /// Tells the sender of a rejected contribution what is wrong with it: mistakes only, not the ordinary.
    #[cold]
    pub(super) fn explain(&mut self, request: &Request, why: Rejection) {
        let Some(job) = self.job(request.key) else { return };
        let Some(member) = job.member(request.rank) else { return };
        let Some(element) = Element::from_byte(request.element) else { return };
        let (status, expected, got) = match why {
            Rejection::FanInMismatch | Rejection::FanInChanged => {
                (Status::FanInMismatch, u32::from(job.fan_in), u32::from(request.fan_in))
            }
            Rejection::OperationChanged => (Status::OperationMismatch, 0, u32::from(request.len)),
            Rejection::LengthChanged => (Status::PayloadMismatch, 0, u32::from(request.len)),
            Rejection::ElementChanged | Rejection::ElementUnsupported => {
                (Status::ElementMismatch, 0, u32::from(element.code()))
            }
            Rejection::UnknownPsn => (Status::UnknownPsn, 0, request.key.psn()),
            Rejection::Conflict
            | Rejection::Quota
            | Rejection::Share
            | Rejection::Stale
            | Rejection::Duplicate
            | Rejection::RankOutOfRange
            | Rejection::BadCount
            | Rejection::Contention => return,
        };
        let header = Header {
            rank: request.rank,
            psn: request.key.psn(),
            fan_in: request.fan_in,
            count: request.count,
            ..Header::about(Kind::Gradient, element, job.id, job.epoch)
        };
        let to = member.endpoint;
        self.refuse(request.now, (&to, 0), &header, Objection { status, expected, got });
    }
}
