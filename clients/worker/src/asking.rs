//! When a request is sent again: in intervals that grow, until an answer comes or patience ends.

use core::time::Duration;

use crate::membership::{FIRST_INTERVAL, LAST_INTERVAL};

/// When to ask again.
#[derive(Debug)]
pub(crate) struct Asking {
    next: Duration,
    interval: Duration,
    end: Duration,
}

impl Asking {
    pub(crate) fn new(now: Duration, patience: Duration) -> Self {
        Self { next: now, interval: FIRST_INTERVAL, end: now.saturating_add(patience) }
    }

    /// Asks for the first time after a while, and never gives up.
    pub(crate) const fn after(now: Duration, pause: Duration) -> Self {
        Self { next: now.saturating_add(pause), interval: FIRST_INTERVAL, end: Duration::MAX }
    }

    pub(crate) fn is_due(&mut self, now: Duration) -> bool {
        let due = self.next <= now;
        if due {
            self.next = now + self.interval;
            self.interval = (self.interval * 3 / 2).min(LAST_INTERVAL);
        }
        due
    }

    pub(crate) fn poll_timeout(&self) -> Duration {
        self.next.min(self.end)
    }

    /// When patience ends.
    pub(crate) const fn end(&self) -> Duration {
        self.end
    }

    pub(crate) fn is_over(&self, now: Duration) -> bool {
        now >= self.end
    }

    /// Asks again at once, and in short intervals.
    pub(crate) const fn begin_again(&mut self) {
        self.next = Duration::ZERO;
        self.interval = FIRST_INTERVAL;
    }
}
