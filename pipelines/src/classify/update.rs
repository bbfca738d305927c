//! Updates of asynchronous workers, and the server's answers to them (Olaf, sections 4 and 7).

use pascaline_queue::Update;
use pascaline_telemetry::DropReason;
use pascaline_wire::control::Status;
use pascaline_wire::frame::Address;
use pascaline_wire::header::{Flags, Header};

use super::{Class, Classifier, narrow, place, refuse};
use crate::jobs::{Mode, Server};

impl Classifier<'_> {
    /// An update. What is not of a cluster of this appliance is somebody else's to combine: it passes unchanged where
    /// there is a way.
    pub(super) fn update(
        &self,
        header: &Header,
        rest: &[u8],
        offset: usize,
        sender: (Address, u16),
    ) -> Class {
        let (payload, trailer) = match header.payload(rest) {
            Ok(parts) => parts,
            Err(malformed) => return malformed.into(),
        };
        let job = match self.member_of(header, sender) {
            Ok(job) if job.mode == Mode::Olaf => job,
            Ok(_) => return self.or_bypass(Class::Drop(DropReason::UnhandledKind)),
            Err(stranger) => return self.or_bypass(stranger),
        };
        if header.fan_in != job.fan_in {
            return refuse(DropReason::FanInMismatch, Status::FanInMismatch, job.fan_in, header.fan_in);
        }
        let len = narrow(payload.len());
        if len > job.payload {
            return refuse(DropReason::UpdateTooLong, Status::PayloadMismatch, job.payload, len);
        }
        let Some(about) = trailer.and_then(|trailer| trailer.update) else {
            return Class::Drop(DropReason::UpdateMissing);
        };
        let Server::External { endpoint, .. } = &job.server else {
            return Class::Drop(DropReason::NoServer);
        };
        let update = Update {
            cluster: u32::from(job.id),
            worker: header.rank,
            psn: header.psn,
            epoch: header.epoch,
            count: header.count,
            reward: about.reward,
            generated_ns: about.generated_ns,
            element: header.element,
            offset: narrow(offset),
            len,
            overflow: header.flags.has(Flags::OVERFLOW),
        };
        Class::Update(endpoint.port, update)
    }

    /// What comes from nobody that is known here passes, if the port has a peer. A member of another generation is known.
    fn or_bypass(&self, refused: Class) -> Class {
        let unknown = match refused {
            Class::Refuse(reason, _) => matches!(reason, DropReason::UnknownJob | DropReason::NotMember),
            Class::Drop(_) => true,
            _ => false,
        };
        let passes = unknown && self.setup.ports.get(self.port).is_some_and(|port| port.peer.is_some());
        if passes { Class::Bypass } else { refused }
    }

    /// An answer to an update: only of the cluster's own server. It is never answered itself.
    pub(super) fn ack(&self, header: &Header, rest: &[u8], offset: usize, sender: (Address, u16)) -> Class {
        match self.table.get(header.job) {
            None => Class::Drop(DropReason::UnknownJob),
            Some(job) if !job.server.is_at(sender) => Class::Drop(DropReason::RankSpoofed),
            Some(job) if job.mode != Mode::Olaf => Class::Drop(DropReason::UnhandledKind),
            Some(job) => match header.payload(rest) {
                Ok((payload, _)) if payload.len() > usize::from(job.payload) => {
                    Class::Drop(DropReason::PayloadLength)
                }
                Ok((payload, _)) => Class::FromServer(*header, place(offset, payload, rest)),
                Err(malformed) => malformed.into(),
            },
        }
    }
}
