//! The reminder mechanism (DSA, section IV.B): when an entry is late, ask for what is missing.

use core::time::Duration;

use super::Job;
use crate::counters::Counters;
use crate::entry::Ask;

impl Job {
    /// When [`on_due`](Self::on_due) wants to be called next.
    pub(crate) fn next_timer(&self) -> Option<Duration> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Handles the first timer, if it is due: gives the entry up at its age limit, else asks (again).
    pub(crate) fn on_due(&mut self, now: Duration, counters: &mut Counters) {
        let Some(&(_, psn)) = self.timers.first().filter(|&&(at, _)| at <= now) else { return };
        let Some(entry) = self.entries.get(&psn) else { return };
        if now >= entry.opened.saturating_add(self.config.age_limit) {
            self.close_entry(psn);
            counters.given_up += 1;
        } else {
            self.begin_asking(now, psn);
        }
    }

    /// Makes an entry due: at once, or one timeout after it was last asked for, so that many reminders do not become
    /// many rounds of asking.
    pub(super) fn hasten(&mut self, now: Duration, psn: u32) {
        let Some(entry) = self.entries.get(&psn) else { return };
        let at = entry.asked.map_or(now, |asked| asked.saturating_add(self.estimator.timeout(0)));
        if at <= now {
            self.begin_asking(now, psn);
        } else {
            let earlier = at.min(entry.wake);
            self.set_timer(psn, earlier);
        }
    }

    /// Begins a round of asking; one that is still under way goes on instead.
    fn begin_asking(&mut self, now: Duration, psn: u32) {
        let ticket = self.next_ticket;
        let Some(entry) = self.entries.get_mut(&psn) else { return };
        entry.tries += 1;
        entry.asked = Some(now);
        let timeout = self.estimator.timeout(entry.tries);
        let wake = now.saturating_add(timeout).min(entry.opened.saturating_add(self.config.age_limit));
        if entry.ask.is_none() {
            entry.ask = Some(Ask { ticket, fetch: true, next_rank: 0 });
            self.asking.insert(ticket, psn);
            self.next_ticket += 1;
        }
        self.set_timer(psn, wake);
    }

    fn set_timer(&mut self, psn: u32, wake: Duration) {
        let Some(entry) = self.entries.get_mut(&psn) else { return };
        self.timers.remove(&(entry.wake, psn));
        entry.wake = wake;
        self.timers.insert((wake, psn));
    }
}
