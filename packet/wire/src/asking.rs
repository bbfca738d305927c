//! When a request is sent again, and which answers count: for workers, and for appliances that are ranks of
//! others (protocol, section 9).

use core::time::Duration;

/// The first interval between two requests.
pub const FIRST_INTERVAL: Duration = Duration::from_millis(20);
/// The longest.
pub const LAST_INTERVAL: Duration = Duration::from_millis(100);

/// When a request is sent: repeatedly, in intervals that grow.
#[derive(Debug)]
pub struct Asking {
    due: Duration,
    interval: Duration,
}

impl Asking {
    /// For the first time then.
    #[must_use]
    pub const fn new(first: Duration) -> Self {
        Self { due: first, interval: FIRST_INTERVAL }
    }

    /// When it is sent next; [`Duration::MAX`] for never.
    #[must_use]
    pub const fn due(&self) -> Duration {
        self.due
    }

    /// True if it is to be sent now, and counts as sent then.
    pub fn is_due(&mut self, now: Duration) -> bool {
        let due = self.due <= now;
        if due {
            self.due = now.saturating_add(self.interval);
            self.interval = (self.interval * 3 / 2).min(LAST_INTERVAL);
        }
        due
    }

    /// It is sent again at once, and in short intervals.
    pub const fn begin_again(&mut self) {
        *self = Self::new(Duration::ZERO);
    }

    /// It is sent then at the latest.
    pub fn hasten(&mut self, latest: Duration) {
        self.due = self.due.min(latest);
    }

    /// The intervals from the next request on are no longer than that, until they grow again.
    pub fn shorten(&mut self, longest: Duration) {
        self.interval = self.interval.min(longest);
    }

    /// It is not sent any more.
    pub const fn stop(&mut self) {
        self.due = Duration::MAX;
    }
}

/// The numbers of a session's requests, which Acks repeat, so that a late answer to an earlier request is not
/// taken for the answer to a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Requests {
    /// The number of the latest request.
    latest: u32,
    /// Answers up to this one's are out of date.
    over: u32,
}

impl Requests {
    /// Continues the numbers; all requests so far are out of date.
    #[must_use]
    pub const fn after(latest: u32) -> Self {
        Self { latest, over: latest }
    }

    /// The number of the next request.
    pub const fn next(&mut self) -> u32 {
        self.latest = self.latest.wrapping_add(1);
        self.latest
    }

    /// The number of the latest request; 0 before the first.
    #[must_use]
    pub const fn latest(&self) -> u32 {
        self.latest
    }

    /// Answers to all requests so far are out of date.
    pub const fn outdate(&mut self) {
        self.over = self.latest;
    }

    /// True if a request with this number has been sent and an answer to it is not out of date. Numbers are
    /// serial numbers (RFC 1982). A number that was never sent was damaged on its way, or belongs to another
    /// life.
    #[must_use]
    pub const fn awaits(&self, number: u32) -> bool {
        let since = number.wrapping_sub(self.over);
        since != 0 && since <= self.latest.wrapping_sub(self.over)
    }
}

#[cfg(test)]
mod tests;
