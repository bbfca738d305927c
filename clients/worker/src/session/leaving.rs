//! Leaving: how long a finished worker stays to help the others.
//!
//! It may hold the only copy of a result that another rank lacks. A rank that waits inside an allreduce
//! reports that to the appliance every [`HEARTBEAT`](super::HEARTBEAT), and the appliance reports it in its
//! answers to a Leave. So the limit is not on the time of leaving, but on the time since a rank last needed
//! help.

use core::time::Duration;

use pascaline_wire::asking::Asking;

use super::generation::Rejoin;
use super::state::State;
use super::{Event, Session};
use crate::membership::Left;

/// How long to wait for an appliance that does not answer: about as long as one takes to restart. It has lost
/// the results that others lack, and they cannot continue without this worker.
pub const SILENCE: Duration = Duration::from_secs(5);

/// Asking whether all others have left.
#[derive(Debug)]
pub(super) struct Leaving {
    pub(super) asking: Asking,
    /// The appliance has lost its generation: it asks to continue in another, in which it can leave.
    pub(super) rejoin: Option<Rejoin>,
    linger: Duration,
    /// The last sign that a rank may need this worker's results.
    pub(super) needed: Duration,
    /// The last answer, or the last generation that has ended.
    pub(super) heard: Duration,
    /// By then every allreduce that this worker has finished has ended for others too.
    last: Duration,
}

impl Leaving {
    /// Leaves when no rank has needed it for `linger`. Others may be inside an allreduce for up to `deadline`
    /// from now.
    pub(super) fn new(now: Duration, linger: Duration, deadline: Duration, rejoin: Option<Rejoin>) -> Self {
        let last = now.saturating_add(deadline).saturating_add(linger);
        Self { asking: Asking::new(now), rejoin, linger, needed: now, heard: now, last }
    }

    /// When it is over at the latest.
    pub(super) fn end(&self) -> Duration {
        self.heard.saturating_add(self.linger.max(SILENCE)).min(self.last)
    }

    /// The appliance has said that others are still there, and whether any of them waits. Returns whether
    /// that is a reason to stay.
    pub(super) fn must_stay(&mut self, now: Duration, needed: bool) -> bool {
        if needed {
            self.needed = now;
        }
        now < self.needed.saturating_add(self.linger)
    }
}

impl Session {
    /// When the wait for the others is over, without a word from the appliance.
    pub(super) fn end_of_leaving(&self) -> Option<Duration> {
        match &self.state {
            State::Leaving(leaving) => Some(leaving.end()),
            State::Outside { since } => Some(*since),
            State::Member(_) | State::Over { .. } => None,
        }
    }

    pub(super) fn give_up_leaving(&mut self, _: Duration) -> Option<Event> {
        let outside = matches!(self.state, State::Outside { .. });
        Some(self.left(if outside { Left::Everyone } else { Left::Lingered }))
    }

    /// Ends the wait for the others.
    pub(super) fn left(&mut self, left: Left) -> Event {
        self.state = State::Over { farewells: 0 };
        Event::Left(left)
    }
}
