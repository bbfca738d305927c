//! A control by delay, for paths without marks.
//!
//! The window grows by one packet for each round trip, and halves when results take longer than an empty path
//! plus what may wait in queues: as much as the path itself holds, or [`QUEUED`] packets of one's own if that
//! is more, or more yet where hosts handle packets in large [bunches](BUNCHES). So a halved window still
//! fills the path. All flows in a queue see the same delay and halve together: the larger window loses more,
//! and all become equal, as with TCP's. And each halving empties the queue, so that every flow sees again how
//! long the empty path takes.
//!
//! From Swift comes the delay as the signal and its bound by the flow's own rate; from BBR the shortest round
//! trip of late, and the rule that losses count only if there are many.
//!
//! The measured time of a result contains the wait for the slowest rank. Two rules keep a late rank from
//! being taken for a queue: two rounds in a row must be slow, since ranks that wait for one catch up as soon
//! as it arrives; and packets sent before an operation's first result do not count. The mean of a round
//! counts: a rank that catches up gets its first results sooner than any queue would let it.
//!
//! **Beside BBR.** Version 1, Linux's, ignores delays and marks, and nearly ignores losses. It keeps in
//! flight twice its estimate of the empty path's capacity, and every ten seconds it leaves the queues for 200
//! ms to measure how long the empty path takes. If it finds our queue there, it takes that for the path, and
//! keeps twice that in flight. So when results come sooner than usual, and more of them, though the window is
//! what it was, another flow has left the queues, and we [step aside](ASIDE) for some rounds, so that both
//! can measure the path. This is not done for a flow with a small share: our queue, once measured, makes it
//! larger.

use core::time::Duration;

use super::Sample;

/// The window at first: what a rack's path holds at 10 Gbit/s.
pub const FIRST: f64 = 64.0;
/// The least window after a halving.
pub const LEAST: f64 = 16.0;
/// Own packets that may wait in queues in any case: hosts handle packets in bunches.
pub const QUEUED: u32 = 64;
/// If results come in bunches, as many packets may wait as this many bunches hold. Then hosts are the limit,
/// not the network, and a larger bunch costs less for each packet.
pub const BUNCHES: u32 = 32;
/// The most packets that may wait for that reason.
pub const BUNCHED: u32 = 256;
/// The longest that packets beyond [`QUEUED`] may wait. A slow link's results also come in bunches if a
/// processor is busy.
pub const HELD: Duration = Duration::from_millis(2);
/// For how long the shortest time counts without being seen again: paths change.
pub const MEMORY: Duration = Duration::from_secs(10);
/// If one of this many packets of a round is lost, the queue is too short for the window.
pub const LOSSES: u32 = 8;
/// Rounds in a row that must show that another flow has left the queues.
pub const LEFT: u32 = 3;
/// A round shows it if it brings at least this multiple of a usual round's results in the same time.
pub const MORE: f64 = 1.25;
/// Its results must also take at most this part of the usual time.
pub const SOONER: f64 = 0.85;
/// The weight of each round in the usual one: the mean spans a few times the rounds in which a window halves
/// and grows again.
pub const WEIGHT: f64 = 1.0 / 32.0;
/// The part of its window that it keeps in flight while it steps aside.
pub const ASIDE: f64 = 1.0 / 3.0;
/// It steps aside for this many rounds. In the first of them the rest of its packets leaves the queues.
pub const ASIDE_FOR: u32 = 3;

/// The results that come within a round trip.
#[derive(Debug, Clone, Copy)]
struct Round {
    began: Duration,
    /// It is the first one of its operation: its results have waited for the slowest rank.
    first: bool,
    /// Of the results of packets sent once: their total time, and their number.
    took: Duration,
    timed: u32,
    results: u32,
    /// When the latest result came.
    latest: Duration,
    /// How many bunches came. Results that are read at once are one bunch.
    bunches: u32,
    marked: bool,
    lost: u32,
}

impl Round {
    const fn begin(began: Duration, first: bool) -> Self {
        let (took, latest) = (Duration::ZERO, Duration::MAX);
        Self { began, first, took, timed: 0, results: 0, latest, bunches: 0, marked: false, lost: 0 }
    }

    /// How long packets of one's own may wait in queues, by the rate at which they left them.
    fn own(&self, now: Duration) -> Duration {
        let lasted = now.saturating_sub(self.began);
        let each = |packets: u32| lasted * packets / self.results.max(1);
        let bunched = (self.results * BUNCHES / self.bunches.max(1)).min(BUNCHED);
        each(QUEUED).max(HELD.min(each(bunched)))
    }
}

/// The mean of recent rounds.
#[derive(Debug, Clone, Copy)]
struct Usual {
    /// Results in a second.
    rate: f64,
    /// Seconds that one takes.
    took: f64,
}

impl Usual {
    fn of(round: &Round, now: Duration) -> Self {
        let lasted = now.saturating_sub(round.began).as_secs_f64();
        let took = round.took.as_secs_f64() / f64::from(round.timed.max(1));
        Self { rate: f64::from(round.results) / lasted.max(f64::MIN_POSITIVE), took }
    }

    fn note(&mut self, round: Self) {
        self.rate += WEIGHT * (round.rate - self.rate);
        self.took += WEIGHT * (round.took - self.took);
    }
}

/// The state of the path.
#[derive(Debug, Clone)]
pub struct Delay {
    window: f64,
    /// It doubles with each round.
    rising: bool,
    /// The round before was slow.
    slow: bool,
    /// The shortest time that a result has taken, and when it took hardly more.
    shortest: Option<(Duration, Duration)>,
    /// Since the operation's first result.
    round: Option<Round>,
    /// Rounds of late, since the window has found its size, or has stepped aside.
    usual: Option<Usual>,
    /// Rounds in a row in which another flow seems to have left the queues.
    left: u32,
    /// Rounds for which it steps aside from now on.
    aside: u32,
}

impl Default for Delay {
    fn default() -> Self {
        Self {
            window: FIRST,
            rising: true,
            slow: false,
            shortest: None,
            round: None,
            usual: None,
            left: 0,
            aside: 0,
        }
    }
}

impl Delay {
    /// An operation begins.
    pub const fn begin(&mut self) {
        (self.round, self.slow, self.left, self.aside) = (None, false, 0, 0);
    }

    /// Notes packets that count as lost.
    pub const fn on_loss(&mut self, packets: u32) {
        if let Some(round) = &mut self.round {
            round.lost += packets;
        }
    }

    /// Notes a result. A round ends with the first result of a packet that was sent in it.
    pub fn on_result(&mut self, sample: &Sample, most: f64) {
        let &Sample { now, sent_at, ambiguous, signal, limited } = sample;
        let round = self.round.get_or_insert(Round::begin(now, true));
        round.results += 1;
        round.bunches += u32::from(now != round.latest);
        round.latest = now;
        round.marked |= signal.marked;
        if ambiguous {
            return;
        }
        let took = now.saturating_sub(sent_at);
        round.took = round.took.saturating_add(took);
        round.timed += 1;
        let so_far = *round;
        self.note(now, took);
        if sent_at >= so_far.began {
            self.adapt(now, &so_far, limited.then_some(most));
            self.round = Some(Round::begin(now, false));
        }
    }

    /// Keeps the shortest time.
    fn note(&mut self, now: Duration, took: Duration) {
        match &mut self.shortest {
            Some((shortest, seen)) if took >= *shortest => {
                if took <= *shortest * 9 / 8 {
                    *seen = now;
                } else if now.saturating_sub(*seen) > MEMORY {
                    (*shortest, *seen) = (took, now);
                }
            }
            shortest => *shortest = Some((took, now)),
        }
    }

    /// Changes the window at a round's end. It may grow up to `most`, if it may.
    fn adapt(&mut self, now: Duration, round: &Round, most: Option<f64>) {
        let Some((empty, _)) = self.shortest else { return };
        if self.aside > 0 {
            self.aside -= 1;
            return;
        }
        if !(round.first || self.rising) && most.is_some() && self.has_left(Usual::of(round, now)) {
            (self.aside, self.usual) = (ASIDE_FOR, None);
            return;
        }
        let slow = !round.first && round.took / round.timed.max(1) > empty + empty.max(round.own(now));
        let full = round.marked || round.lost * LOSSES > round.results;
        if full || slow && self.slow {
            self.window = (self.window / 2.0).max(LEAST);
        } else if let (false, Some(most)) = (slow, most) {
            let grown = if self.rising { 2.0 * self.window } else { self.window + 1.0 };
            self.window = grown.min(most);
        }
        self.rising &= !(slow || full);
        self.slow = slow && !(full || self.slow);
    }

    /// Whether another flow has left the queues.
    fn has_left(&mut self, round: Usual) -> bool {
        let usual = self.usual.get_or_insert(round);
        if round.rate < MORE * usual.rate || round.took > SOONER * usual.took {
            usual.note(round);
            self.left = 0;
            return false;
        }
        self.left = (self.left + 1) % LEFT;
        self.left == 0
    }

    /// Packets.
    #[must_use]
    pub const fn window(&self) -> f64 {
        if self.aside > 0 { self.window * ASIDE } else { self.window }
    }
}

#[cfg(test)]
mod tests;
