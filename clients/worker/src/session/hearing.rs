//! Results by a job's multicast group: finding out whether they arrive, and reporting it.
//!
//! The driver listens to the group that the appliance names. Joins say so, and the appliance sends a packet
//! to the group; once that has come the next Join says that the worker hears. If none arrives, or no longer,
//! results come by unicast, as without a group.

use core::fmt;
use core::time::Duration;

use pascaline_wire::control::Control;
use pascaline_wire::multicast::Hearing as Said;
use pascaline_wire::{Header, Kind, MulticastGroup};

use super::state::State;
use super::{Event, Session};

/// How often a worker reports that it listens before it concludes that the group does not reach it.
const ASKS: u32 = 20;
/// Results in a row by unicast only, after which a worker no longer believes that it hears, ...
const MISSED: u32 = 32;
/// ... if nothing has come by the group for this time: results on their way do not count.
const SILENT: Duration = Duration::from_millis(250);
/// How often it may conclude again that it hears.
const TRIES: u32 = 3;

/// The state of the group.
#[derive(Debug, Default)]
pub(super) struct Hearing {
    /// The driver listens.
    listens: bool,
    /// Something has come by the group.
    hears: bool,
    /// The contents of the latest Join.
    said: Said,
    /// Joins that have said that the worker listens.
    asked: u32,
    /// When something last came by the group.
    heard: Duration,
    /// Results since then that came by unicast.
    missed: u32,
    /// Times that the worker has ceased to hear.
    ceased: u32,
    told: bool,
}

impl Hearing {
    const fn state(&self) -> Said {
        match (self.listens, self.hears) {
            (true, true) => Said::Hears,
            (true, false) if self.asked < ASKS => Said::Listens,
            _ => Said::Deaf,
        }
    }

    /// Whether to report to the appliance soon.
    pub(super) fn is_urgent(&self) -> bool {
        let state = self.state();
        state != self.said || state == Said::Listens
    }

    /// The listening state that the next Join reports.
    pub(super) fn say(&mut self) -> Said {
        self.said = self.state();
        self.asked += u32::from(self.said == Said::Listens);
        self.said
    }

    /// Something has come by the group. True if that is new.
    fn note(&mut self, now: Duration) -> bool {
        (self.heard, self.missed) = (now, 0);
        let believes = self.listens && self.ceased < TRIES;
        believes && !core::mem::replace(&mut self.hears, true)
    }

    /// A result has been taken, by unicast unless `missed` is reset. True if the worker does not believe any
    /// longer that it hears.
    pub(super) fn note_result(&mut self, now: Duration) -> bool {
        self.missed += 1;
        let lost = self.hears && self.missed >= MISSED && now >= self.heard.saturating_add(SILENT);
        if lost {
            (self.hears, self.asked) = (false, 0);
            self.ceased += 1;
        }
        lost
    }

    /// A result is long overdue. True if the worker no longer believes that it hears, since nothing has come
    /// by the group either: a result that another rank brings back goes to the group, too. It soon hears
    /// again if only a rank is late: then its next Join has an answer by the group.
    pub(super) fn note_overdue(&mut self, now: Duration) -> bool {
        let doubts = self.hears && now >= self.heard.saturating_add(SILENT);
        if doubts {
            (self.hears, self.asked) = (false, 0);
        }
        doubts
    }
}

/// A group that does not reach this host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Unheard(pub MulticastGroup);

impl fmt::Display for Unheard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(group) = self;
        write!(
            f,
            "nothing comes by multicast group {group}, so results come by unicast; is there a switch on the \
                way that filters it, without an IGMP or MLD querier in the network?"
        )
    }
}

impl Session {
    /// The multicast group that results may come by, as the appliance has named it: for drivers, which listen
    /// to it if they can, and [say so](Self::listen). It may change with each datagram.
    #[must_use]
    pub const fn group(&self) -> Option<MulticastGroup> {
        self.membership.group
    }

    /// For drivers: whether they listen to the group. Without this nothing comes by it.
    pub fn listen(&mut self, listens: bool) {
        self.hearing = Hearing { listens, said: self.hearing.said, ..Hearing::default() };
        self.set_heartbeat(Duration::ZERO);
    }

    /// Handles a datagram of the appliance's that has come by the group, as
    /// [`handle_marked`](Self::handle_marked) does one that has come otherwise.
    pub fn handle_by_group(
        &mut self,
        now: Duration,
        datagram: &[u8],
        marked: bool,
        tensor: &mut [u8],
    ) -> Option<Event> {
        let header = Header::parse(datagram).ok().map(|(header, _)| header);
        let mine = header.filter(|header| header.job == self.membership.identity.job);
        if mine.is_some() && self.hearing.note(now) {
            self.set_heartbeat(now);
        }
        if mine.is_some_and(|header| header.kind == Kind::Control) {
            // Mostly another rank's Ack: only its arrival matters.
            self.counters.received += 1;
            self.counters.acks += 1;
            return None;
        }
        let event = self.handle_marked(now, datagram, marked, tensor);
        if mine.is_some() {
            self.hearing.missed = 0;
        }
        event
    }

    /// The notice to the user about a group that does not reach this host, once.
    pub fn unheard(&mut self) -> Option<Unheard> {
        let Hearing { listens, hears, asked, told, .. } = self.hearing;
        let news = listens && !hears && asked >= ASKS && !told;
        self.hearing.told |= news;
        self.membership.group.filter(|_| news).map(Unheard)
    }

    /// For drivers: has the next heartbeat sent now, since its answer would be news.
    pub const fn ask_soon(&mut self, now: Duration) {
        self.set_heartbeat(now);
    }

    /// Sends the next heartbeat at this time.
    pub(super) const fn set_heartbeat(&mut self, at: Duration) {
        if let State::Member(member) = &mut self.state {
            member.heartbeat = at;
        }
    }

    /// Notes the group that an Ack names, or that it names none.
    pub(super) fn note_group(&mut self, ack: &Control) {
        if core::mem::replace(&mut self.membership.group, ack.group) != ack.group {
            self.hearing = Hearing { said: self.hearing.said, ..Hearing::default() };
        }
    }

    /// Forgets the group: another appliance's may differ.
    pub(super) fn forget_group(&mut self) {
        (self.membership.group, self.hearing) = (None, Hearing::default());
    }
}
