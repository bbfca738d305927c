//! How many packets are worth having in flight, where nobody has said: as many as are delivered within a
//! round trip, and as many again.
//!
//! The first lot keeps the path busy; the second covers that results come in bunches. The round trip is the
//! shortest of late, which has the least of queues in it; each operation finds the path empty and measures it
//! again. Of the rate only what was delivered while there was more to send counts. More in flight would only
//! wait in queues; fewer would leave the path idle.

use core::time::Duration;

use crate::window::Window;

/// In flight at first, and at least: what a rack's path holds at 10 Gbit/s.
pub const FIRST: u32 = 64;
/// For how long a shortest round trip is believed: paths change.
const MEMORY: Duration = Duration::from_secs(10);
/// Results that a measurement of the rate takes at least.
const SAMPLE: u32 = 32;

/// What is known of the path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pace {
    shortest: Option<Duration>,
    measured: Duration,
    /// When the measurement of the rate began, and the results since then.
    since: Option<Duration>,
    results: u32,
}

impl Pace {
    /// An operation begins: the path is empty.
    pub fn begin(&mut self) {
        self.since = None;
    }

    /// Takes note of a result that came `elapsed` after its only sending, and tells the window what is worth
    /// having in flight.
    pub fn on_result(&mut self, now: Duration, elapsed: Duration, window: &mut Window) {
        let old = self.since.is_none() && now.saturating_sub(self.measured) > MEMORY;
        if old || self.shortest.is_none_or(|shortest| elapsed <= shortest) {
            (self.shortest, self.measured) = (Some(elapsed), now);
        }
        // What limits the rate at the end of an operation is that there is no more to send.
        let (Some(since), true) = (self.since, window.unsent() > 0) else {
            (self.since, self.results) = (Some(now), 0);
            return;
        };
        self.results += 1;
        let taken = now.saturating_sub(since);
        let shortest = self.shortest.unwrap_or(elapsed);
        if self.results < SAMPLE.max(window.allowed()) || taken < shortest {
            return;
        }
        let delivered = u128::from(self.results) * shortest.as_nanos() / taken.as_nanos().max(1);
        window.aim(u32::try_from(2 * delivered).unwrap_or(u32::MAX).max(FIRST));
        (self.since, self.results) = (Some(now), 0);
    }
}

#[cfg(test)]
mod tests;
