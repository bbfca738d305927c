//! How long nothing has come of what a worker sends.

use core::time::Duration;

use pascaline_wire::control::Status;

use super::Why;

/// This many attempts must have had no effect: a worker that rarely sends may lose one.
const ATTEMPTS: u32 = 3;

/// What has been tried since something was applied, or was at least compared with what was.
#[derive(Debug, Default)]
pub(super) struct Futile {
    since: Option<Duration>,
    attempts: u32,
    refused: Option<Status>,
    /// The appliance's last answer of any kind.
    heard: Option<Duration>,
}

impl Futile {
    /// Something is sent, or cannot be because the membership is in doubt.
    pub(super) fn try_once(&mut self, now: Duration) {
        self.since.get_or_insert(now);
        self.attempts += 1;
    }

    /// There is something to send that has to wait for an answer.
    pub(super) const fn wait(&mut self) {
        if self.since.is_some() {
            self.attempts += 1;
        }
    }

    /// The server has taken something into account.
    pub(super) const fn succeed(&mut self) {
        (self.since, self.attempts, self.refused) = (None, 0, None);
    }

    /// Something was refused.
    pub(super) const fn refuse(&mut self, why: Status) {
        self.refused = Some(why);
    }

    /// The appliance has said something.
    pub(super) const fn note_answer(&mut self, now: Duration) {
        self.heard = Some(now);
    }

    /// For how long no update was applied, and why, once that is too long.
    pub(super) fn verdict(&self, now: Duration, patience: Duration) -> Option<(Duration, Why)> {
        let since = self.since.filter(|_| self.attempts >= ATTEMPTS)?;
        let after = now.saturating_sub(since);
        // What came before half of that time says little about now.
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
