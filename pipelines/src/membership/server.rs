//! A job's parameter server, where that is a process of its own.
//!
//! It registers with Serve every 200 ms. Where none has come for [`SILENCE`] it is *gone*: lcores get a table
//! without it, so that the job goes on as without a server. Its next Serve takes it up again.

use core::time::Duration;

use pascaline_wire::control::{Control, SERVER_RANK, Status};

use super::job::{Decision, JobRecord, source};
use super::liveness::Event;
use super::rate::Asked;
use super::reply::ControlRequest;
use crate::jobs::Endpoint;

/// After how long without a Serve a server is gone: three may get lost, and the next be late.
pub const SILENCE: Duration = Duration::from_millis(800);

/// What is known of a job's parameter server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ServerState {
    /// None is expected: the job has none, or has it in this process.
    #[default]
    None,
    /// It has not come yet, and has had no time to.
    Awaited,
    /// It is here.
    Here,
    /// It has not come in [`SILENCE`].
    Missing,
    /// It has been here, and nothing has been heard of it for [`SILENCE`].
    Gone,
}

impl ServerState {
    /// True if it should be here and is not.
    #[must_use]
    pub const fn is_lacking(self) -> bool {
        matches!(self, Self::Missing | Self::Gone)
    }
}

/// A server that has registered.
#[derive(Debug, Clone, Copy)]
pub(super) struct Serving {
    pub(super) session: u64,
    /// The number of its latest request, where packets are sealed.
    pub(super) number: u32,
    pub(super) endpoint: Endpoint,
    pub(super) asked: Asked,
}

impl JobRecord {
    /// A server registers, or says that it is still there.
    pub(super) fn serve(&mut self, now: Duration, request: &ControlRequest) -> Result<Decision, Decision> {
        let ControlRequest { header, control, from, .. } = request;
        if header.rank != SERVER_RANK {
            let (expected, got) = (u32::from(SERVER_RANK), u32::from(header.rank));
            return Err(Decision::new(Status::RankOutOfRange, expected, got));
        }
        match self.spec.kind.server_at() {
            None => return Err(Decision::new(Status::Unsupported, 0, control.action as u32)),
            Some(at) if at != source(from) => return Err(Decision::of(Status::SourceRefused)),
            Some(_) => {}
        }
        // A server that is gone has no say in who comes after it. Of one that is here nobody else knows the
        // session; whoever takes its place has to receive what is sent there. What an earlier life sent and
        // is late has no such proof.
        let here = self.server.filter(|_| self.served.is_some());
        let other = here.is_some_and(|known| known.session != control.session);
        if other && control.cookie != self.cookie(request) {
            return Err(Decision::of(Status::Pending).hidden());
        }
        // Lcores know whose requests go first by their session, too.
        let changed = other || here.is_none_or(|known| known.endpoint != *from);
        let asked = self.server.map_or_else(Asked::default, |known| known.asked);
        let Control { session, number, .. } = *control;
        self.server = Some(Serving { session, number, endpoint: *from, asked });
        self.served = Some(now);
        if changed {
            // Its silence may be what is due next.
            self.due = Some(now);
        }
        // How many contributions complete a PSN of this generation.
        let needed = if self.needed() == self.spec.fan_in { 0 } else { u32::from(self.needed()) };
        Ok(Decision { changed, ..Decision::new(Status::Ok, needed, 0) })
    }

    /// Where the server is, as far as is known.
    pub(super) fn server_state(&self) -> ServerState {
        match (self.expects_server(), self.served, self.server) {
            (false, ..) => ServerState::None,
            (true, Some(_), None) => ServerState::Awaited,
            (true, Some(_), Some(_)) => ServerState::Here,
            (true, None, None) => ServerState::Missing,
            (true, None, Some(_)) => ServerState::Gone,
        }
    }

    fn expects_server(&self) -> bool {
        self.spec.kind.server_at().is_some()
    }

    /// Takes note if nothing has been heard of the server for too long. True if lcores need a new table.
    pub(super) fn miss_server(&mut self, now: Duration, events: &mut Vec<Event>) -> bool {
        if self.server_due().is_none_or(|due| due > now) {
            return false;
        }
        self.served = None;
        let came = self.server.is_some();
        events.push(Event::ServerGone { job: self.spec.id, came });
        came
    }

    /// When the server's silence will have been too long.
    pub(super) fn server_due(&self) -> Option<Duration> {
        self.served.filter(|_| self.expects_server()).map(|heard| heard.saturating_add(SILENCE))
    }
}
