//! What others are told of an appliance's place below another.

use core::time::Duration;

use pascaline_wire::control::{Control, Status};
use pascaline_wire::frame::{Address, Mac};
use pascaline_wire::header::{Element, Header, Kind};

use super::{HopStatus, State, Uplink};
use crate::jobs::Endpoint;

/// Who has not answered for so long is silent.
pub(super) const SILENT: Duration = Duration::from_secs(1);

/// The appliance above, and as whom it knows this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parent {
    /// Where it is, and which of the own addresses, ports and MACs lead there.
    pub endpoint: Endpoint,
    /// The rank of this appliance in its job.
    pub rank: u16,
    /// The ranks of its job.
    pub ranks: u16,
    /// Whose MAC packets to it go to, if that is to be asked for: its own address, or that of a router on the
    /// way. The MAC of the endpoint is zero then, until it is known.
    pub next_hop: Option<Address>,
}

impl Parent {
    /// As it was written: without a MAC that has been asked for.
    pub(super) fn written(mut self) -> Self {
        if self.next_hop.is_some() {
            self.endpoint.mac = Mac::default();
        }
        self
    }

    /// A request to it, as one of its ranks makes it.
    pub(super) const fn asked(&self, job: u16, epoch: u16, control: Control) -> Upward {
        let &Self { endpoint: to, rank, ranks: fan_in, .. } = self;
        let header = Header::about(Kind::Control, Element::F32_SUM, job, epoch);
        Upward { to, header: Header { rank, fan_in, ..header }, control }
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
    /// Whoever packets to it go to, where that one's MAC is asked for.
    pub hop: Option<HopStatus>,
    /// How often a MAC has been asked for, of the parent or of a backup.
    pub questions: u64,
    /// What the parent says that it demands of packets, by the [code](pascaline_seal::Protection::code) of a
    /// protection, where it cannot open those of this appliance.
    pub demand: Option<u32>,
}

impl Uplink {
    pub(in crate::membership) fn status(&self, now: Duration) -> UplinkStatus {
        let silent = self.silence.lasts(now);
        let state = match (self.state, self.refused) {
            (State::Idle | State::Resetting { next: None, .. }, _) if !self.lacks_number() => {
                UplinkState::Idle
            }
            // Also one that has refused, and has died since.
            _ if silent >= SILENT => UplinkState::NoAnswer,
            (_, Some((status, _))) => UplinkState::Refused(status),
            (State::Idle | State::Joining { .. } | State::Resetting { .. }, None) => UplinkState::Pending,
            (State::Member(_), None) => UplinkState::Joined,
            (State::Leaving { .. }, None) => UplinkState::Leaving,
        };
        let workers = self.granted().map_or(0, |granted| granted.workers);
        let (parent, place) = (*self.parent(), self.ways.at);
        let (hop, questions) = (self.ways.all[place].hop.map(|hop| hop.status(now)), self.ways.questions);
        let (joined, demand) = (self.joined, self.demanded());
        UplinkStatus { parent, place, state, joined, workers, silent, hop, questions, demand }
    }
}
