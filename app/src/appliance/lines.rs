//! How many lines the journal gets of what others can cause.

use std::time::Duration;

/// Lines in a [`PERIOD`]: enough for the largest job to form.
const MOST: u32 = 2048;
const PERIOD: Duration = Duration::from_secs(60);

/// Lines that have been written lately.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// When the period began.
    began: Duration,
    written: u32,
    untold: u64,
}

impl Lines {
    /// Whether one more may be written, and how many have not been since the last one that was.
    pub(super) fn take(&mut self, now: Duration) -> Option<u64> {
        if now.saturating_sub(self.began) >= PERIOD {
            (self.began, self.written) = (now, 0);
        }
        if self.written == MOST {
            self.untold += 1;
            return None;
        }
        self.written += 1;
        Some(core::mem::take(&mut self.untold))
    }
}

#[cfg(test)]
mod tests;
