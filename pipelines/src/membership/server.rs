//! A job's parameter server, where that is a process of its own.

use pascaline_wire::control::{SERVER_RANK, Status};

use super::job::{Decision, JobRecord, source};
use super::rate::Bucket;
use super::reply::ControlRequest;
use super::spec::ServerMode;
use crate::jobs::Endpoint;

/// A server that has registered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Serving {
    pub(super) session: u64,
    pub(super) endpoint: Endpoint,
    pub(super) bucket: Bucket,
}

impl JobRecord {
    /// A server registers, or says that it is still there.
    pub(super) fn serve(&mut self, request: &ControlRequest) -> Result<Decision, Decision> {
        let ControlRequest { header, control, from, .. } = request;
        if header.rank != SERVER_RANK {
            let (expected, got) = (u32::from(SERVER_RANK), u32::from(header.rank));
            return Err(Decision::new(Status::RankOutOfRange, expected, got));
        }
        let ServerMode::External { address, udp_port } = self.spec.server else {
            return Err(Decision::new(Status::Unsupported, 0, control.action as u32));
        };
        if source(from) != (address, udp_port) {
            return Err(Decision::of(Status::SourceRefused));
        }
        if self.server.is_some_and(|known| control.session < known.session) {
            return Err(Decision::of(Status::StaleSession));
        }
        let changed = self.server.is_none_or(|known| known.endpoint != *from);
        let bucket = self.server.map_or_else(Bucket::default, |known| known.bucket);
        self.server = Some(Serving { session: control.session, endpoint: *from, bucket });
        // How many contributions complete a PSN of this generation.
        let needed = if self.needed() == self.spec.fan_in { 0 } else { u32::from(self.needed()) };
        Ok(Decision { changed, ..Decision::new(Status::Ok, needed, 0) })
    }
}
