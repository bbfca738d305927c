//! Lost packets, their aggregation tasks, and the packets that repair the loss.

use std::collections::HashMap;

use pascaline_wire::Kind;

use super::outcome::Datagram;
use super::worker::Up;

/// The purpose of a packet. A packet that travels two lines has the same one on both.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Role {
    /// A contribution that a worker sends for the first time.
    Gradient,
    /// One that it sends again.
    Again,
    /// A worker's message that it still waits.
    Reminder,
    /// A result to all ranks.
    Result,
    /// A result to the one rank that lacks it.
    Answer,
    /// A request to a rank, by the appliance or the server.
    Ask,
    /// A contribution or partial sum that lost its slot, to the server.
    Loser,
    /// A complete aggregate, to the server.
    Whole,
    /// The server's request for the appliance's partial.
    Fetch,
    /// The answer to that request.
    Fetched,
    /// A contribution for which the server has asked.
    Original,
    /// A result that a rank has and others lack.
    Held,
    /// The server's result.
    Served,
}

impl Role {
    /// The name in reports.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Gradient => "gradient to the switch",
            Self::Again => "gradient sent again",
            Self::Reminder => "worker's reminder",
            Self::Result => "result to a worker",
            Self::Answer => "answer to the worker that lacks a result",
            Self::Ask => "request to a worker",
            Self::Loser => "gradient or partial sum to the server",
            Self::Whole => "complete sum to the server",
            Self::Fetch => "server's request to the switch",
            Self::Fetched => "partial sum that the server fetches",
            Self::Original => "gradient that the server fetches",
            Self::Held => "result that a worker passes on",
            Self::Served => "server's result",
        }
    }

    /// The stage of the repair that sends it; `None` if it belongs to a PSN without loss.
    const fn repairs(self) -> Option<Repair> {
        match self {
            Self::Gradient | Self::Result | Self::Loser | Self::Whole | Self::Served => None,
            Self::Again => Some(Repair::SentAgain),
            Self::Answer => Some(Repair::Answered),
            Self::Reminder | Self::Ask | Self::Held => Some(Repair::Reminded),
            Self::Fetch | Self::Fetched | Self::Original => Some(Repair::Fetched),
        }
    }

    /// Of a worker's packet.
    pub(super) const fn up(packet: &Up) -> (Self, u32) {
        match *packet {
            Up::Gradient { psn, again: false, .. } => (Self::Gradient, psn),
            Up::Gradient { psn, again: true, .. } => (Self::Again, psn),
            Up::Original { psn, .. } => (Self::Original, psn),
            Up::Result { psn, .. } => (Self::Held, psn),
            Up::Reminder { psn } => (Self::Reminder, psn),
        }
    }

    /// Of a packet of the server.
    pub(super) fn from_server(datagram: &Datagram) -> Self {
        match datagram.header.kind {
            Kind::Reminder => Self::Ask,
            Kind::Result => Self::Served,
            _ => Self::Fetch,
        }
    }
}

/// The stage that a repair needed, the cheapest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Repair {
    /// The lost packet was not needed, or the PSN's usual packets replaced it.
    Nothing,
    /// Workers sent their contributions again.
    SentAgain,
    /// The appliance, or the server, still had the result.
    Answered,
    /// Ranks were asked for the missing packets by reminders.
    Reminded,
    /// The server fetched partial sums from the appliance and the workers.
    Fetched,
}

impl Repair {
    /// All of them.
    pub(crate) const ALL: [Self; 5] =
        [Self::Nothing, Self::SentAgain, Self::Answered, Self::Reminded, Self::Fetched];

    /// The name in reports.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Nothing => "by nothing",
            Self::SentAgain => "by gradients sent again",
            Self::Answered => "by an answer with the result",
            Self::Reminded => "by reminders",
            Self::Fetched => "by the server's fetching",
        }
    }
}

/// The aggregation tasks of DSA's analysis (section IV.C).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Task {
    /// No other PSN contended for its slot.
    Uncontended,
    /// It won every contest.
    Won,
    /// It lost one, so that a part of it went to the server.
    Lost,
}

impl Task {
    /// All of them.
    pub(crate) const ALL: [Self; 3] = [Self::Uncontended, Self::Won, Self::Lost];

    /// The paper's name.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Uncontended => "type I",
            Self::Won => "type II",
            Self::Lost => "type III",
        }
    }
}

/// A PSN that lost packets.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    /// Each packet that was lost, and when, in picoseconds.
    pub(crate) lost: Vec<(Role, u64)>,
    /// The stage of its repair.
    pub(crate) repair: Repair,
    /// Packets that were sent to repair it, lost ones too.
    pub(crate) packets: u32,
    /// When the last rank got its result.
    pub(crate) ends: u64,
    /// Which task it is, if that was watched.
    pub(crate) task: Task,
    /// Which it is by its first contest alone.
    pub(crate) first: Task,
}

/// The PSNs that lost packets, by job.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    cases: HashMap<(u16, u32), Case>,
}

impl Ledger {
    /// A packet was sent, and arrives then; `None` if it is lost.
    pub(super) fn sent(&mut self, now: u64, role: Role, psn: (u16, u32), arrives: Option<u64>) {
        if arrives.is_none() {
            let case = self.cases.entry(psn).or_insert_with(|| Case {
                lost: Vec::new(),
                repair: Repair::Nothing,
                packets: 0,
                ends: 0,
                task: Task::Uncontended,
                first: Task::Uncontended,
            });
            case.lost.push((role, now));
        }
        if let Some(repair) = role.repairs()
            && let Some(case) = self.cases.get_mut(&psn)
        {
            case.repair = case.repair.max(repair);
            case.packets += 1;
        }
    }

    /// A rank has got its result.
    pub(super) fn got(&mut self, now: u64, psn: (u16, u32)) {
        if !self.cases.is_empty()
            && let Some(case) = self.cases.get_mut(&psn)
        {
            case.ends = now;
        }
    }

    /// All of them, in order.
    pub(super) fn close(self, tasks: impl Fn(u16, u32) -> (Task, Task)) -> Vec<Case> {
        let mut cases: Vec<_> = self.cases.into_iter().collect();
        cases.sort_unstable_by_key(|&(psn, _)| psn);
        let named = |((job, psn), case)| {
            let (first, task) = tasks(job, psn);
            Case { task, first, ..case }
        };
        cases.into_iter().map(named).collect()
    }
}
