//! Leaving: how long a finished worker stays to help the others.
//!
//! It may hold the only copy of a result that another rank lacks. A rank that waits inside an allreduce
//! reports that to the appliance every [`HEARTBEAT`](super::HEARTBEAT), and the appliance reports it in its
//! answers to a Leave. So the limit is not on the time of leaving, but on the time since a rank last needed
//! help.

use core::time::Duration;

use crate::asking::Asking;
use crate::membership::Left;

/// How long to wait for an appliance that does not answer: about as long as one takes to restart. It has lost
/// the results that others lack, and they cannot continue without this worker.
pub const SILENCE: Duration = Duration::from_secs(5);

/// Asking whether all others have left.
#[derive(Debug)]
pub(super) struct Leaving {
    asking: Asking,
    /// It is not in the present generation: there is nothing to ask.
    outsider: bool,
    linger: Duration,
    /// The last sign that a rank may need this worker's results.
    needed: Duration,
    /// The last answer, or the last generation that has ended.
    heard: Duration,
    /// By then every allreduce that this worker has finished has ended for others too.
    last: Duration,
}

impl Leaving {
    /// Leaves when no rank has needed it for `linger`. Others may be inside an allreduce for up to `deadline`
    /// from now.
    pub(super) fn new(now: Duration, linger: Duration, deadline: Duration, outsider: bool) -> Self {
        let last = now.saturating_add(deadline).saturating_add(linger);
        Self { asking: Asking::after(now, Duration::ZERO), outsider, linger, needed: now, heard: now, last }
    }

    /// When it is over at the latest.
    pub(super) fn end(&self) -> Duration {
        self.heard.saturating_add(self.linger.max(SILENCE)).min(self.last)
    }

    /// Whether it is over without a word from the appliance.
    pub(super) fn is_over(&self, now: Duration) -> Option<Left> {
        let lingered = (now >= self.end()).then_some(Left::Lingered);
        if self.outsider { Some(Left::Everyone) } else { lingered }
    }

    /// Whether to ask now.
    pub(super) fn is_due(&mut self, now: Duration) -> bool {
        !self.outsider && self.asking.is_due(now)
    }

    /// When to ask again, or the end.
    pub(super) fn poll_timeout(&self) -> Duration {
        self.asking.poll_timeout().min(self.end())
    }

    /// The appliance has answered.
    pub(super) const fn note_answer(&mut self, now: Duration) {
        self.heard = now;
    }

    /// A rank asks for something that this worker holds.
    pub(super) const fn note_need(&mut self, now: Duration) {
        self.needed = now;
    }

    /// The appliance has said that others are still there, and whether any of them waits. Returns whether
    /// that is a reason to stay.
    pub(super) fn must_stay(&mut self, now: Duration, needed: bool) -> bool {
        if needed {
            self.needed = now;
        }
        now < self.needed.saturating_add(self.linger)
    }

    /// The generation is resumed in another, in which no rank is known to wait yet.
    pub(super) const fn begin_again(&mut self, now: Duration) {
        self.asking.begin_again();
        (self.needed, self.heard) = (now, now);
    }
}
