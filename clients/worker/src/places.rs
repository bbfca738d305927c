//! Which of several appliances a worker turns to: the first one of its list, or a backup of that one.
//!
//! The list is the same at all ranks of a job, and so are its rules (protocol, section 9, "Backup
//! appliances"):
//!
//! 1. If it is silent for [`SILENCE`] while an answer is due, or packets are [refused](crate::way::CLOSED) on
//!    the way, the worker turns to the next one.
//! 2. A rank that waits for `ok` at a backup searches for the others each [`STAY`]: they may be at the
//!    appliance that it came from, which may only have been slow.
//! 3. A rank that is back among the others, or has got `ok` elsewhere, may also have been sent an `ok` where
//!    it was, and lost it. If it is stalled, it asks there.
//!
//! No rule takes a rank back to a generation that it has left: so the job continues in one place.

use core::time::Duration;

/// A silent appliance is given up after this time, unless configured otherwise: five heartbeats.
pub const SILENCE: Duration = Duration::from_millis(500);

/// For how long a worker waits at a backup for the others, and may make no progress where it is.
pub const STAY: Duration = Duration::from_secs(1);

/// The most appliances in a list.
pub const MOST: usize = 8;

/// The appliances of a worker, as numbers in its list, and its present one.
#[derive(Debug, Clone, Copy)]
pub struct Places {
    count: usize,
    silence: Duration,
    at: usize,
    /// The place of the worker's generation; the first one while it belongs to none.
    home: usize,
    /// The latest generation that it was in at each.
    epochs: [Option<u16>; MOST],
    /// Where it has joined and may have been counted on, a bit each.
    joined: u8,
    /// Where it has asked anything, a bit each.
    tried: u8,
    /// The first request since the last answer.
    asked: Option<Duration>,
    /// When it turned to this appliance, or last made progress.
    since: Duration,
    /// It has come from an appliance that answers, and only looks.
    looks: bool,
}

impl Default for Places {
    fn default() -> Self {
        Self::new(1, SILENCE)
    }
}

impl Places {
    /// This many appliances, at most [`MOST`], each given up after this silence.
    #[must_use]
    pub fn new(count: usize, silence: Duration) -> Self {
        Self {
            count: count.clamp(1, MOST),
            silence,
            at: 0,
            home: 0,
            epochs: [None; MOST],
            joined: 0,
            tried: 0,
            asked: None,
            since: Duration::ZERO,
            looks: false,
        }
    }

    /// The number of the appliance that everything is sent to.
    #[must_use]
    pub const fn at(&self) -> usize {
        self.at
    }

    /// True where the worker's generation is.
    pub(crate) const fn is_home(&self) -> bool {
        self.at == self.home
    }

    /// A wait begins: datagrams that have not been read yet are no silence.
    pub(crate) const fn begin(&mut self, now: Duration) {
        (self.asked, self.since) = (None, now);
    }

    /// A request has been sent.
    pub(crate) fn asked(&mut self, now: Duration) {
        self.asked.get_or_insert(now);
        self.tried |= 1 << self.at;
    }

    /// Whether it has asked anything at one of them.
    pub(crate) const fn has_tried(&self, place: usize) -> bool {
        self.tried & 1 << place != 0
    }

    /// The request was a Join that may count.
    pub(crate) const fn note_join(&mut self) {
        self.joined |= 1 << self.at;
    }

    /// The appliance has answered.
    pub(crate) const fn note_answer(&mut self) {
        self.asked = None;
    }

    /// There is a result.
    pub(crate) const fn note_progress(&mut self, now: Duration) {
        self.since = now;
    }

    /// The worker belongs to a generation here.
    pub(crate) const fn settle(&mut self, now: Duration, epoch: u16) {
        self.home = self.at;
        self.epochs[self.at] = Some(epoch);
        self.looks = false;
        self.begin(now);
    }

    /// Turns to the place of the worker's generation.
    pub(crate) const fn return_home(&mut self, now: Duration) {
        self.go(now, self.home, false);
    }

    /// Whether there is another one to turn to.
    pub(crate) const fn has_others(&self) -> bool {
        self.count > 1
    }

    /// When it gives this appliance up: after a silence, or once the way `closes`.
    fn gives_up_at(&self, closes: Option<Duration>) -> Option<Duration> {
        let silent = self.asked.map(|asked| asked.saturating_add(self.silence));
        silent.into_iter().chain(closes).min()
    }

    /// When to turn to another one, as things stand: `admitted` in a generation here, or not. The way here
    /// `closes` where packets are refused.
    pub(crate) fn poll_timeout(&self, admitted: bool, closes: Option<Duration>) -> Option<Duration> {
        if !self.has_others() {
            return None;
        }
        let elsewhere = self.joined & !(1 << self.at) != 0;
        let waits = elsewhere || !admitted && !self.is_home();
        // If ranks were sent away by two appliances, they meet at the first in the list.
        let stay = if admitted && self.at == 0 { 3 * STAY } else { STAY };
        let stays = waits.then(|| self.since.saturating_add(stay));
        self.gives_up_at(closes).into_iter().chain(stays).min()
    }

    /// Turns to another one, if it is time to. Returns whether it did.
    pub(crate) fn turn(&mut self, now: Duration, admitted: bool, closes: Option<Duration>) -> bool {
        if self.poll_timeout(admitted, closes).is_none_or(|due| now < due) {
            return false;
        }
        let gone = self.gives_up_at(closes).is_some_and(|gone| gone <= now);
        let after = |step: usize| (self.at + step) % self.count;
        let (next, looks) = match (gone, admitted) {
            _ if self.looks => (self.home, false),
            (false, true) => {
                let joined = (1..self.count).map(after).find(|place| self.joined & 1 << place != 0);
                (joined.unwrap_or(self.home), true)
            }
            _ => (after(1), false),
        };
        self.go(now, next, looks);
        true
    }

    /// Ends a visit that only looks: no rank has got `ok` here, or the generation here is one that it has
    /// left. True if it goes back.
    pub(crate) fn has_looked(&mut self, now: Duration, epoch: u16, counted: bool) -> bool {
        let back = self.looks && (counted || self.epochs[self.at] == Some(epoch));
        if back {
            self.go(now, self.home, false);
        }
        back
    }

    const fn go(&mut self, now: Duration, place: usize, looks: bool) {
        (self.at, self.looks) = (place, looks);
        self.begin(now);
    }
}

#[cfg(test)]
mod tests;
