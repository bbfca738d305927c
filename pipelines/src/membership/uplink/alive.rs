//! A member that has nothing to ask: that it is alive, and whether its ranks get on.

use core::time::Duration;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::header::{Element, Header, Kind};

use super::{Granted, News, State, Uplink, Upward};
use crate::membership::progress::Called;

/// A member that nobody waits in says this often that it is alive: another one that wants its place learns
/// by that whether it has it.
const EVERY: Duration = Duration::from_millis(150);
/// Ranks that have waited for the same PSN for so long do not get on, and who says nothing for so long does
/// not wait.
const STUCK: Duration = Duration::from_secs(1);

/// What the ranks here wait for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Waited {
    /// The oldest PSN without a result.
    una: u32,
    since: Duration,
    /// When one of them last said so.
    latest: Duration,
}

impl Waited {
    pub(super) fn is_fresh(&self, now: Duration) -> bool {
        now.saturating_sub(self.latest) < STUCK
    }
}

impl Uplink {
    /// Takes note of what a rank waits for.
    pub(super) fn note_waiting(&mut self, now: Duration, called: Called) {
        let before = self.waited.filter(|waited| waited.una == called.una && waited.is_fresh(now));
        let since = before.map_or(now, |waited| waited.since);
        self.waited = Some(Waited { una: called.una, since, latest: now });
        self.stuck = now.saturating_sub(since) >= STUCK;
    }

    /// When a member says next that it is alive, if it has nothing else to say until then.
    pub(super) fn alive_due(&self) -> Option<Duration> {
        matches!(self.state, State::Member(_)).then(|| self.said.saturating_add(EVERY))
    }

    /// A Query, which says that it is alive, if it is time.
    pub(super) fn alive(&mut self, now: Duration) -> Option<Upward> {
        self.alive_due().filter(|due| *due <= now)?;
        let Granted { epoch, base, .. } = self.granted()?;
        self.said = now;
        self.number = self.number.wrapping_add(1);
        let request = Control::request(Action::Query, self.session);
        let control = Control { number: self.number, psn: base, ..request };
        let header = Header::about(Kind::Control, Element::F32_SUM, self.job, epoch);
        Some(self.parent().asked(header, control))
    }

    /// What it hears to that.
    pub(super) const fn alive_answered(&mut self, same: bool, status: Status) -> News {
        match status {
            Status::Ok | Status::RankLeft if same => News::Nothing,
            Status::TooMany => News::Nothing,
            _ => self.over(),
        }
    }
}
