//! Time in which this process ran.
//!
//! A process that was stopped, or whose machine was suspended, has heard nobody in the meantime: that was
//! its own silence, not the ranks'. The same is true while an lcore does not turn. So membership is told of a
//! time that stands still while the control plane does not turn, or an lcore does not.

#[cfg(test)]
mod tests;

use core::time::Duration;

/// A control plane that has not turned for so long has been stopped. It turns every millisecond; a busy
/// machine keeps it waiting for some tens of them.
const PAUSE: Duration = Duration::from_millis(250);

/// The clocks of one control plane.
#[derive(Debug, Default)]
pub struct OwnTime {
    last: Duration,
    /// In which this process ran.
    process: Duration,
    /// In which its lcores turned as well: in which it could hear.
    hearing: Duration,
}

impl OwnTime {
    /// The next turn, `elapsed` after the start by the machine's clock. Gives for how long the process has
    /// just been stopped, if it has been.
    pub fn turn(&mut self, elapsed: Duration, held_up: bool) -> Option<Duration> {
        let gap = elapsed.saturating_sub(self.last);
        self.last = elapsed;
        if gap >= PAUSE {
            return Some(gap);
        }
        self.process += gap;
        self.hearing += if held_up { Duration::ZERO } else { gap };
        None
    }

    /// Time in which the process ran.
    #[must_use]
    pub const fn process(&self) -> Duration {
        self.process
    }

    /// Time in which its lcores turned as well.
    #[must_use]
    pub const fn hearing(&self) -> Duration {
        self.hearing
    }
}
