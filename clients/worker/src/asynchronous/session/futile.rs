//! For how long nothing that a worker sends has had an effect.

use core::time::Duration;

use pascaline_wire::control::Status;

use super::Why;

/// This many attempts must have had no effect: a worker that rarely sends may lose one.
const ATTEMPTS: u32 = 3;

/// Attempts since an update was last applied, or at least compared with one that was.
#[derive(Debug, Default)]
pub(super) struct Futile {
    since: Option<Duration>,
    attempts: u32,
    refused: Option<Status>,
    /// The appliance's last answer of any kind.
    heard: Option<Duration>,
}

impl Futile {
    /// Counts an attempt, also one that could not be sent because the membership is in doubt.
    pub(super) fn try_once(&mut self, now: Duration) {
        self.since.get_or_insert(now);
        self.attempts += 1;
    }

    /// There is an update to send that has to wait for an answer.
    pub(super) const fn wait(&mut self) {
        if self.since.is_some() {
            self.attempts += 1;
        }
    }

    /// The server has taken an update into account.
    pub(super) const fn succeed(&mut self) {
        (self.since, self.attempts, self.refused) = (None, 0, None);
    }

    /// An update was refused.
    pub(super) const fn refuse(&mut self, why: Status) {
        self.refused = Some(why);
    }

    /// The appliance has answered.
    pub(super) const fn note_answer(&mut self, now: Duration) {
        self.heard = Some(now);
    }

    /// For how long no update was applied, and why; `None` while that is not too long.
    pub(super) fn verdict(&self, now: Duration, patience: Duration) -> Option<(Duration, Why)> {
        let since = self.since.filter(|_| self.attempts >= ATTEMPTS)?;
        let after = now.saturating_sub(since);
        // Refusals before half of that time say little about now.
        let lately = since + after / 2;
        let why = match self.refused {
            Some(Status::NoServer) => Why::NoServer,
            Some(why) => Why::Refused(why),
            None if self.heard.is_some_and(|heard| heard >= lately) => Why::ServerSilent,
            None => Why::ApplianceSilent,
        };
        (after >= patience).then_some((after, why))
    }
}
