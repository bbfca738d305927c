//! The reminder mechanism (DSA, section IV.B): when an entry is late, ask for the missing contributions.

use core::time::Duration;

use super::Job;
use crate::config::Order;
use crate::counters::Counters;
use crate::entry::{Ask, Vote};
use pascaline_wire::RankSet;

impl Job {
    /// When to call [`on_due`](Self::on_due) next.
    pub(crate) fn next_timer(&self) -> Option<Duration> {
        self.timers.first().map(|&(at, _)| at)
    }

    /// Handles the first timer, if it is due: gives the entry up at its age limit, otherwise asks (again).
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

    /// Makes an entry due: at once, or one timeout after it was last asked for, so that many reminders do not
    /// become many rounds of asking.
    pub(super) fn make_due(&mut self, now: Duration, psn: u32) {
        let Some(entry) = self.entries.get(&psn) else { return };
        let at = entry.asked.map_or(now, |asked| asked.saturating_add(self.estimator.timeout(0)));
        if at <= now {
            self.begin_asking(now, psn);
        } else {
            let earlier = at.min(entry.wake);
            self.set_timer(psn, earlier);
        }
    }

    /// Begins a round of asking, or continues one in progress. An entry that could be asked for, or is
    /// complete, but not [certain](Self::is_certain), is put to the vote.
    pub(super) fn begin_asking(&mut self, now: Duration, psn: u32) {
        let ticket = self.next_ticket;
        let put = self.entries.get(&psn).is_some_and(|entry| {
            let uncertain = match &entry.content {
                Some(content) => !self.is_certain(content),
                None => self.params.order == Order::Arrival,
            };
            entry.vote.is_none() && uncertain
        });
        let promised = RankSet::EMPTY;
        let vote = put.then(|| Box::new(Vote { round: self.number_round(), promised }));
        let needed = self.params.needed();
        let Some(entry) = self.entries.get_mut(&psn) else { return };
        if vote.is_some() {
            entry.vote = vote;
            entry.helped = true;
            // A new question: no rank has left it unanswered yet.
            entry.tries = 0;
            // Ranks that were asked without it are asked again.
            if let Some(ask) = entry.ask.take() {
                self.asking.remove(&ask.ticket);
            }
        }
        entry.tries += 1;
        entry.asked = Some(now);
        let timeout = self.estimator.timeout(entry.tries);
        let wake = now.saturating_add(timeout).min(entry.opened.saturating_add(self.config.age_limit));
        if entry.ask.is_none() {
            let fetch = entry.ranks().len() < needed;
            entry.ask = Some(Ask { ticket, new: true, fetch, next_rank: 0 });
            self.asking.insert(ticket, psn);
            self.next_ticket += 1;
        }
        self.set_timer(psn, wake);
    }

    /// An answer has come: the rest is requested soon, not after a pause that has grown without answers.
    pub(super) fn answered(&mut self, psn: u32) {
        let Some(entry) = self.entries.get_mut(&psn) else { return };
        entry.tries = 0;
        let (asked, wake) = (entry.asked, entry.wake);
        let soon = asked.map(|asked| asked.saturating_add(self.estimator.timeout(0)));
        self.set_timer(psn, soon.unwrap_or(wake).min(wake));
    }

    fn set_timer(&mut self, psn: u32, wake: Duration) {
        let Some(entry) = self.entries.get_mut(&psn) else { return };
        self.timers.remove(&(entry.wake, psn));
        entry.wake = wake;
        self.timers.insert((wake, psn));
    }
}
