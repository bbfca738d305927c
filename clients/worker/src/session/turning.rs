//! Turning from one appliance to another (see [`places`](crate::places)): the worker resumes there as it
//! would at one that was restarted.

use core::net::SocketAddr;
use core::time::Duration;

use super::{Event, Session};
use crate::places::Places;
use crate::way::Way;

/// How much longer a session stays that has no part in what the caller waits for: a pause of the appliance
/// would otherwise scatter the ranks, of which not all are in a call.
const UNHURRIED: Duration = Duration::from_secs(5);

impl Session {
    /// Turns to one of several appliances, which the Join has [found](crate::Join::places).
    #[must_use]
    pub const fn among(mut self, places: Places) -> Self {
        self.places = places;
        self.places.settle(Duration::ZERO, self.membership.epoch);
        self
    }

    /// The destination of all packets: look at it after each call with a time, before sending. Datagrams that
    /// still come from another appliance may be handed in, or not.
    #[must_use]
    pub const fn places(&self) -> &Places {
        &self.places
    }

    /// For drivers: names the appliance that it has turned to, for error texts only.
    pub const fn turned_to(&mut self, appliance: SocketAddr) {
        self.appliance = Some(appliance);
    }

    /// When to turn, if nothing changes.
    pub(super) fn next_turn(&self) -> Option<Duration> {
        let turn = self.places.poll_timeout(!self.is_in_doubt(), self.way.closes());
        if self.state.waits() { turn } else { turn.filter(|_| self.attended)?.checked_add(UNHURRIED) }
    }

    /// Turns to another appliance, if it is time to.
    pub(super) fn turn(&mut self, now: Duration) -> Option<Event> {
        if self.places.turn(now, !self.is_in_doubt(), self.way.closes()) {
            self.arrive(now);
        }
        None
    }

    /// Notes this appliance's answer about the generation that it forms, `counted` if the Join counts. A
    /// worker that only looks may then be done.
    pub(super) fn has_looked(&mut self, now: Duration, epoch: u16, counted: bool) -> bool {
        let back = self.places.has_looked(now, epoch, counted);
        if back {
            self.arrive(now);
        }
        back
    }

    /// Asks at the new place, where it is unknown.
    fn arrive(&mut self, now: Duration) {
        self.counters.turned += 1;
        self.membership.cookie = 0;
        self.forget_group();
        self.way = Way::default();
        self.lose_generation(now, None);
        if let Some(rejoin) = self.state.rejoin_mut() {
            rejoin.ask_anew(now);
        }
        if self.is_over() && self.places.is_home() {
            // It has sent a Leave there: a Join would be refused.
            self.state.take_rejoin();
        }
        self.requests.outdate();
    }
}
