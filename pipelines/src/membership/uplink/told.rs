//! What others are told of an appliance's place below another.

use core::time::Duration;

use pascaline_wire::control::{Control, Status};
use pascaline_wire::header::Header;

use crate::jobs::Endpoint;

/// The appliance above, and as whom it knows this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Where it is, and which of the own addresses, ports and MACs lead there.
    pub endpoint: Endpoint,
    /// The rank of this appliance in its job.
    pub rank: u16,
    /// The ranks of its job.
    pub ranks: u16,
}

impl Parent {
    /// A request to it, as one of its ranks makes it.
    pub(super) const fn asked(&self, header: Header, control: Control) -> Upward {
        let &Self { endpoint: to, rank, ranks } = self;
        Upward { to, header: Header { rank, fan_in: ranks, ..header }, control }
    }
}

/// A request to a parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upward {
    /// Where it goes.
    pub to: Endpoint,
    /// Its header.
    pub header: Header,
    /// Its body.
    pub control: Control,
}

/// How an appliance stands with its parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UplinkState {
    /// It has not asked yet: ranks of its own are missing.
    Idle,
    /// It asks, and nothing has come back for a second or more.
    NoAnswer,
    /// It has joined, and other appliances are missing.
    Pending,
    /// The parent has refused it.
    Refused(Status),
    /// It is a member.
    Joined,
    /// It has left, and others have not.
    Leaving,
}

/// What is known of an appliance's place in its parent's job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UplinkStatus {
    /// The parent in force.
    pub parent: Parent,
    /// Its place among those that are configured; 0 for the first.
    pub place: usize,
    /// How it stands with it.
    pub state: UplinkState,
    /// Ranks of the parent's job that have joined, by its last answer.
    pub joined: u16,
    /// Workers whose contributions are in a result.
    pub workers: u32,
    /// For how long it has not answered.
    pub silent: Duration,
}
