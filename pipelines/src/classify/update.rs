//! Updates of asynchronous workers, and the server's answers to them (Olaf, sections 4 and 7).

use pascaline_queue::Update;
use pascaline_telemetry::DropReason;
use pascaline_wire::control::Status;
use pascaline_wire::datagram::Datagram;
use pascaline_wire::header::Flags;

use super::{Class, Classifier, Untaken, reject, untaken};
use crate::jobs::{Job, Mode, Onward};

impl Classifier<'_> {
    /// An update. One that belongs to no cluster of this appliance passes unchanged where there is a way.
    pub(super) fn update(&self, bytes: &[u8], datagram: &mut Datagram) -> Result<Class, Untaken> {
        let trailer = datagram.split(bytes).map_err(untaken)?;
        let job = match self.olaf_job(datagram) {
            Ok(job) => job,
            Err(stranger) if self.may_pass(stranger) => return Ok(Class::Bypass),
            Err(stranger) => return Err(stranger),
        };
        let Datagram { header, payload, .. } = datagram;
        if header.fan_in != job.fan_in {
            let (right, got) = (job.fan_in, header.fan_in);
            return Err(reject(DropReason::FanInMismatch, Status::FanInMismatch, right, got));
        }
        if payload.len > job.payload {
            let (right, got) = (job.payload, payload.len);
            return Err(reject(DropReason::UpdateTooLong, Status::PayloadMismatch, right, got));
        }
        let appliance = job.member(header.rank).is_some_and(|member| member.appliance);
        if header.count != 1 && !(appliance && header.count > 0) {
            return Err(reject(DropReason::BadCount, Status::BadCount, 1u16, header.count));
        }
        let about = trailer.and_then(|trailer| trailer.update);
        let about = about.ok_or_else(|| reject(DropReason::UpdateMissing, Status::NoUpdate, 0u16, 0u16))?;
        let Some(Onward { port, .. }) = job.onward() else {
            return Err(reject(DropReason::NoServer, Status::NoServer, 0u16, 0u16));
        };
        let update = Update {
            cluster: u32::from(job.id),
            worker: header.rank,
            origin: if appliance { header.own.origin() } else { 0 },
            psn: header.psn,
            epoch: header.epoch,
            count: header.count,
            reward: about.reward,
            generated_ns: about.generated_ns,
            element: header.element,
            offset: payload.offset,
            len: payload.len,
            overflow: header.flags.has(Flags::OVERFLOW),
        };
        Ok(Class::Update(port, update))
    }

    fn olaf_job(&self, datagram: &Datagram) -> Result<&Job, Untaken> {
        let job = self.member_of(datagram)?;
        if job.mode == Mode::Olaf { Ok(job) } else { Err((DropReason::UnhandledKind, None)) }
    }

    /// True for a sender that is unknown here, if there is a way on from the port. A member of another
    /// generation is known.
    fn may_pass(&self, (reason, objection): Untaken) -> bool {
        let unknown = objection.is_none() || matches!(reason, DropReason::UnknownJob | DropReason::NotMember);
        unknown && !self.setup.beyond(self.port).is_empty()
    }

    /// An answer to an update: only of the cluster's own server, or of the job's parent. It is never answered
    /// itself.
    pub(super) fn ack(&self, bytes: &[u8], datagram: &mut Datagram) -> Result<Class, Untaken> {
        let drop = |reason| Err((reason, None));
        let (sender, fan_in) = (datagram.sender, datagram.header.fan_in);
        let above =
            |job: &Job| job.parent.as_deref().filter(|above| above.is_at(sender)).map(|above| above.ranks);
        match self.table.get(datagram.header.job) {
            None => drop(DropReason::UnknownJob),
            Some(job) if !job.server.is_at(sender) && above(job).is_none() => drop(DropReason::RankSpoofed),
            Some(job) if job.mode != Mode::Olaf => drop(DropReason::UnhandledKind),
            Some(job) if above(job).is_some_and(|ranks| ranks != fan_in) => drop(DropReason::FanInMismatch),
            Some(job) => {
                datagram.split(bytes).map_err(untaken)?;
                match datagram.payload.len > job.payload {
                    true => drop(DropReason::PayloadLength),
                    false => Ok(Class::FromServer(*datagram)),
                }
            }
        }
    }
}
