//! Whose MAC packets to a parent go to, where the configuration names an address in its place: it is asked
//! for by ARP or neighbour discovery, until it answers, and again while the parent is silent.

use core::time::Duration;

use pascaline_wire::frame::{Address, Mac};

use super::{Uplink, silence::PATIENCE, told::SILENT};
use crate::jobs::Endpoint;
use crate::membership::{Elapsed, Event};

/// The first interval between two questions, and the longest.
const FIRST: Duration = Duration::from_millis(100);
const LAST: Duration = Duration::from_secs(1);
/// Where the parent in force leaves requests of so long without an answer, its MAC may be another one by now.
/// It is asked for before another parent is sought.
const DOUBT: Duration = Duration::from_millis(250);
const _: () = assert!(DOUBT.as_nanos() < PATIENCE.as_nanos());

/// A question for a MAC, to be sent from a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Question {
    /// The port.
    pub port: usize,
    /// The own address that asks.
    pub from: Address,
    /// The address whose MAC it is.
    pub target: Address,
}

/// What a neighbour has answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Neighbour {
    /// The port on which it was heard.
    pub port: usize,
    /// Its address.
    pub address: Address,
    /// Its MAC.
    pub mac: Mac,
}

/// How it stands with whoever packets to a parent go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HopStatus {
    /// Whose MAC is asked for.
    pub address: Address,
    /// For how long that has not been answered.
    pub silent: Duration,
}

impl HopStatus {
    /// True if it has not answered for so long that it is worth saying.
    #[must_use]
    pub fn is_silent(&self) -> bool {
        self.silent >= SILENT
    }
}

/// The address whose MAC is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct NextHop {
    address: Address,
    /// When to ask next; `None` while its answer is not in doubt.
    pub(super) due: Option<Duration>,
    interval: Duration,
    /// Since when it has been asked without an answer.
    since: Option<Duration>,
    /// When it last answered.
    heard: Option<Duration>,
    told: bool,
}

impl NextHop {
    pub(super) const fn new(address: Address) -> Self {
        let due = Some(Duration::ZERO);
        Self { address, due, interval: FIRST, since: None, heard: None, told: false }
    }

    pub(super) fn status(&self, now: Duration) -> HopStatus {
        let silent = self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        HopStatus { address: self.address, silent }
    }

    /// It is to be asked again, unless it has answered lately.
    pub(super) fn doubt(&mut self, now: Duration) {
        let lately = self.heard.is_some_and(|heard| now.saturating_sub(heard) < LAST);
        if !lately {
            self.due = self.due.or(Some(now));
        }
    }
}

impl Uplink {
    /// The addresses whose MACs are asked for.
    pub(in crate::membership) fn next_hops(&self) -> impl Iterator<Item = Address> {
        self.ways.all.iter().filter_map(|way| Some(way.hop?.address))
    }

    /// Asks for the MACs that are due.
    pub(in crate::membership) fn ask_hops(&mut self, now: Duration, elapsed: &mut Elapsed) {
        let doubts = self.silence.unanswered(now) >= DOUBT;
        let (job, in_force) = (self.job, self.ways.at);
        for (at, way) in self.ways.all.iter_mut().enumerate() {
            let Endpoint { port, local: from, address: parent, .. } = way.parent.endpoint;
            let Some(hop) = &mut way.hop else { continue };
            if doubts && at == in_force {
                hop.doubt(now);
            }
            if hop.due.is_none_or(|due| due > now) {
                continue;
            }
            hop.since = hop.since.or(Some(now));
            hop.due = Some(now.saturating_add(hop.interval));
            hop.interval = (hop.interval * 2).min(LAST);
            self.ways.questions += 1;
            let address = hop.address;
            elapsed.questions.push(Question { port, from, target: address });
            if !hop.told && hop.status(now).is_silent() {
                hop.told = true;
                elapsed.events.push(Event::HopSilent { job, parent, address });
            }
        }
    }

    /// A neighbour has answered. `None` if it was not asked; else what is new of it.
    pub(in crate::membership) fn found(
        &mut self,
        now: Duration,
        said: &Neighbour,
        events: &mut Vec<Event>,
    ) -> Option<bool> {
        let &Neighbour { port, address, mac } = said;
        let (mut asked, mut changed) = (false, false);
        for way in &mut self.ways.all {
            let endpoint = &mut way.parent.endpoint;
            let asks =
                |hop: &&mut NextHop| (hop.address, endpoint.port) == (address, port) && hop.since.is_some();
            let Some(hop) = way.hop.as_mut().filter(asks) else { continue };
            let new = endpoint.mac != mac;
            if new || hop.told {
                let (job, parent) = (self.job, endpoint.address);
                events.push(Event::HopFound { job, parent, address, mac });
            }
            endpoint.mac = mac;
            *hop = NextHop { due: None, heard: Some(now), ..NextHop::new(hop.address) };
            (asked, changed) = (true, changed || new);
        }
        // What could not be sent before.
        if changed && self.asking.due() < Duration::MAX {
            self.asking.begin_again();
        }
        asked.then_some(changed)
    }
}
