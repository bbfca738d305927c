//! A worker's place in a job.

use core::fmt;

use pascaline_wire::control::{self, Action, Control};
use pascaline_wire::{CongestionControl, Element, Flags, Header, Kind, MulticastGroup, Own, header};

use crate::rejection::{Reason, Rejection};

/// A worker's place in a job, as configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity {
    /// The job.
    pub job: u16,
    /// This worker's rank, below `ranks`.
    pub rank: u16,
    /// How many ranks it believes the job has.
    pub ranks: u16,
    /// Payload bytes of a full packet.
    pub payload: u16,
}

impl Identity {
    pub(crate) const fn header(&self, kind: Kind, element: Element, psn: u32, epoch: u16) -> Header {
        Header {
            kind,
            flags: Flags::NONE,
            element,
            job: self.job,
            rank: self.rank,
            psn,
            fan_in: self.ranks,
            count: 0,
            own: Own::NONE,
            epoch,
        }
    }

    /// A rejection of this worker.
    pub(crate) const fn rejection(&self, reason: Reason, expected: u32, got: u32) -> Rejection {
        Rejection { job: self.job, rank: self.rank, expected, got, reason }
    }

    /// A Join of a session that starts from nothing; `number` is the one that the Ack repeats.
    pub(crate) fn join(
        &self,
        number: u32,
        session: u64,
        spread: u16,
        told: Option<u16>,
    ) -> (Header, Control) {
        let body = Control {
            number,
            payload: self.payload,
            window: spread,
            got: control::naming(told),
            ..Control::request(Action::Join, session)
        };
        (self.about(0), body)
    }

    /// A Leave.
    pub(crate) fn leave(&self, epoch: u16, number: u32, session: u64) -> (Header, Control) {
        (self.about(epoch), Control { number, ..Control::request(Action::Leave, session) })
    }

    /// The header of a request in a generation.
    pub(crate) const fn about(&self, epoch: u16) -> Header {
        self.header(Kind::Control, Element::F32_SUM, 0, epoch)
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} in job {}", self.rank, self.ranks, self.job)
    }
}

/// Length of a control packet.
pub const CONTROL_LEN: usize = header::LEN + control::LEN;

/// The terms that an appliance has agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// The admitted worker, with the payload that the ranks have agreed on.
    pub identity: Identity,
    /// Whether this worker accepts a shorter payload, should its ranks agree on one when they begin anew.
    pub flexible: bool,
    /// This worker's session.
    pub session: u64,
    /// The number of the session's latest request: answers to those up to it are out of date.
    pub requests: u32,
    /// The job's generation; may be followed by others with the same session.
    pub epoch: u16,
    /// How far a PSN may run ahead of the oldest one without a result; at least 1.
    pub spread: u16,
    /// The first PSN of the generation, if it resumes no other.
    pub base: u32,
    /// What proves this worker's address to the appliance.
    pub cookie: u64,
    /// The job's congestion control, if the appliance has named one that this worker knows.
    pub congestion: Option<CongestionControl>,
    /// The multicast group that results may come by, if there is one.
    pub group: Option<MulticastGroup>,
    /// Workers whose contributions are in a result, where its sums continue to other appliances; otherwise 0.
    pub workers: u32,
}
