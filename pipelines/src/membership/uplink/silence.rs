//! For how long the parent in force has not answered.

use core::time::Duration;

/// A parent that is silent for so long while there is something to ask is left for another one.
pub(super) const PATIENCE: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(super) struct Silence {
    /// When the latest request was sent.
    pub(super) sent: Duration,
    /// Since when there has been no answer.
    since: Option<Duration>,
    /// Since when it has been asked again and again without an answer.
    asked: Option<Duration>,
}

impl Silence {
    /// It begins, or ends with an answer.
    pub(super) const fn begin(&mut self, since: Option<Duration>) {
        (self.since, self.asked) = (since, None);
    }

    /// A request is sent.
    pub(super) fn asked(&mut self, now: Duration) {
        self.asked = self.asked.filter(|_| self.is_asking(now)).or(Some(now));
        (self.sent, self.since) = (now, self.since.or(Some(now)));
    }

    /// For how long there has been no answer.
    pub(super) fn lasts(&self, now: Duration) -> Duration {
        self.since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// For how long it has been asked without an answer, if it still is.
    pub(super) fn unanswered(&self, now: Duration) -> Duration {
        self.asked.filter(|_| self.is_asking(now)).map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    fn is_asking(&self, now: Duration) -> bool {
        now.saturating_sub(self.sent) < PATIENCE
    }
}
