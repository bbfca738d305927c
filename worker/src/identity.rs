//! Who a worker says it is.

use core::fmt;

use pascaline_wire::{Element, Flags, Header, Kind, control, header};

/// A worker's place in a job, as it was told.
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
    pub(crate) const fn header(&self, kind: Kind, element: Element, psn: u32, epoch: u8) -> Header {
        Header {
            kind,
            flags: Flags::NONE,
            element,
            job: self.job,
            rank: self.rank,
            psn,
            fan_in: self.ranks,
            count: 0,
            priority: 0,
            wnd_cap: 0,
            tree: 0,
            epoch,
        }
    }

    pub(crate) fn control(&self, body: &control::Control, epoch: u8) -> [u8; CONTROL_LEN] {
        let mut packet = [0; CONTROL_LEN];
        let head = self.header(Kind::Control, Element::F32_SUM, 0, epoch).to_bytes();
        packet[..header::LEN].copy_from_slice(&head);
        packet[header::LEN..].copy_from_slice(&body.to_bytes());
        packet
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} in job {}", self.rank, self.ranks, self.job)
    }
}

/// Length of a control packet.
pub const CONTROL_LEN: usize = header::LEN + control::LEN;

/// What an appliance has agreed to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Membership {
    /// Who was admitted.
    pub identity: Identity,
    /// This worker's session.
    pub session: u64,
    /// The job's generation.
    pub epoch: u8,
    /// How far a PSN may run ahead of the oldest one without a result; at least 1.
    pub spread: u16,
}
