//! The keys with which packets to parents are sealed.

use std::sync::Arc;

use pascaline_seal::{Holder, SharedEnd};
use pascaline_wire::control::{Action, Control};
use pascaline_wire::frame::Address;

use super::{Uplink, Upward};
use crate::membership::job::source;
use crate::seals::{Numbers, Sealing, SealsAbove, asking};

/// The end of the path to one parent.
#[derive(Debug)]
pub(super) struct End {
    end: Arc<SharedEnd>,
    /// The latest request that it has answered.
    answered: u32,
}

impl End {
    pub(super) fn new(holder: &Holder) -> Self {
        Self { end: Arc::new(SharedEnd::new(holder.clone())), answered: 0 }
    }

    /// Has it use these keys as soon as the parent does.
    pub(super) fn offer(&mut self, holder: &Holder) {
        if let Some(end) = self.end.with_offer(holder.clone()) {
            self.end = Arc::new(end);
        }
    }

    /// Learns from an answer, which has been opened. True if lcores need a new table.
    fn learn(&mut self, ack: &Control) -> bool {
        let before = Arc::clone(&self.end);
        let settled = self.end.settled();
        self.end = settled.map_or_else(|| Arc::clone(&before), Arc::new);
        // An older one may be of another life of the parent.
        if ack.number.wrapping_sub(self.answered) < 1 << 31 {
            self.answered = ack.number;
            if let Some(end) = self.end.with_salt(ack.salt()).filter(|_| ack.answers == Some(Action::Join)) {
                self.end = Arc::new(end);
            }
        }
        !Arc::ptr_eq(&before, &self.end)
    }
}

impl Uplink {
    /// As lcores are to seal and open; `None` if packets to the parents are not sealed.
    pub(in crate::membership) fn seals(&self, numbers: &Numbers) -> Option<SealsAbove> {
        let in_force = Arc::clone(&self.ways.all[self.ways.at].end.as_ref()?.end);
        let end =
            |way: &super::ways::Way| Some((source(&way.parent.endpoint), Arc::clone(&way.end.as_ref()?.end)));
        Some(SealsAbove {
            ends: self.ways.all.iter().filter_map(end).collect(),
            in_force,
            session: self.session,
            numbers: numbers.clone(),
            demand: self.demand.clone(),
        })
    }

    /// The seal of a request to one of the parents.
    pub(in crate::membership) fn sealing(&self, ask: &Upward, numbers: &Numbers) -> Option<Sealing<'_>> {
        let to = source(&ask.to);
        let way = self.ways.all.iter().find(|way| source(&way.parent.endpoint) == to)?;
        // With either key in turn, while there are two.
        let offered = ask.control.number % 2 == 1;
        Some(asking(&way.end.as_ref()?.end, ask.control.session, numbers.next(), offered))
    }

    /// Learns keys and salt from an answer of a parent. True if lcores need a new table.
    pub(in crate::membership) fn proven(&mut self, sender: (Address, u16), ack: &Control) -> bool {
        let at = self.senders().position(|parent| parent == sender);
        let Some(at) = at.filter(|_| ack.session == self.session && ack.answers.is_some()) else {
            return false;
        };
        if at == self.ways.at {
            self.demand.forget();
        }
        self.ways.all[at].end.as_mut().is_some_and(|end| end.learn(ack))
    }

    /// What the parent says that it demands of packets, where it cannot open those it gets.
    pub(super) fn demanded(&self) -> Option<u32> {
        self.demand.code()
    }
}
