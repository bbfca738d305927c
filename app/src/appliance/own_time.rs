//! Time in which this process ran.
//!
//! A process that was stopped, or whose machine was suspended, has heard nobody in the meantime: that was
//! its own silence, not the ranks'. So membership is told of a time that stands still while the control plane
//! does not turn.

#[cfg(test)]
mod tests;

use std::time::Duration;

/// A control plane that has not turned for so long has been stopped. It turns every millisecond; a busy
/// machine keeps it waiting for some tens of them.
const PAUSE: Duration = Duration::from_millis(250);

/// The clock of one control plane.
#[derive(Debug, Default)]
pub(super) struct OwnTime {
    last: Duration,
    paused: Duration,
}

impl OwnTime {
    /// The time of a turn, `elapsed` after the start by the machine's clock; and how long the process has
    /// just been stopped, if it has been.
    pub(super) fn turn(&mut self, elapsed: Duration) -> (Duration, Option<Duration>) {
        let gap = elapsed.saturating_sub(self.last);
        self.last = elapsed;
        let pause = (gap >= PAUSE).then_some(gap);
        self.paused += pause.unwrap_or_default();
        (elapsed.saturating_sub(self.paused), pause)
    }
}
