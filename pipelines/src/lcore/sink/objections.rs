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
use pascaline_telemetry::Counter;

impl<I: Io> LcoreSink<'_, I> {
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
        self.refuse(request.now, &to, &header, Objection { status, expected, got });
    }
}
