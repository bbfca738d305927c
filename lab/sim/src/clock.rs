//! The clocks of the parts: no two show the same time or run at the same rate.

use core::time::Duration;

use pascaline_pipelines::OwnTime;

use crate::plan::{MICRO, MILLI};
use crate::random::Random;
use crate::wheel::nanos;

/// How far ahead a clock may be: updates carry the time at which they were made, with a tolerance of half a
/// second.
const AHEAD: u64 = 400 * MILLI;
/// The most that a clock is faster or slower than it should be, in millionths.
pub(crate) const DRIFT: u32 = 10_000;

/// The clock of one part. All times are nanoseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Drift {
    ahead: u64,
    ppm: i64,
}

impl Drift {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let ppm = i64::try_from(random.below(2 * u64::from(DRIFT))).unwrap_or(0) - i64::from(DRIFT);
        Self { ahead: random.below(AHEAD), ppm }
    }

    /// The time on the clock.
    pub(crate) const fn local(self, now: u64) -> u64 {
        let drift = (now / MICRO).cast_signed() * self.ppm / 1_000;
        self.ahead + now.saturating_add_signed(drift)
    }

    /// When it shows this time, or a later one for the first time.
    pub(crate) fn global(self, local: u64) -> u64 {
        if self.ppm == 0 || local >= u64::MAX / 2 {
            return local.saturating_sub(self.ahead);
        }
        let elapsed = local.saturating_sub(self.ahead);
        let rate = 1_000_000_u64.saturating_add_signed(self.ppm);
        // Divisions of 128 bits are slow, and a schedule takes less than five hours.
        let guess = elapsed.checked_mul(1_000_000).map_or_else(
            || u64::try_from(u128::from(elapsed) * 1_000_000 / u128::from(rate)).unwrap_or(u64::MAX),
            |millionths| millionths / rate,
        );
        let mut at = guess.saturating_sub(2 * MICRO);
        // Makes up for the rounding of `local`.
        while self.local(at) < local {
            at += (local - self.local(at)).div_ceil(2).max(1);
        }
        at
    }
}

/// The time in which the appliance's process ran. It turns all the time, although the harness simulates only
/// turns with work.
#[derive(Debug)]
pub(crate) struct Awake {
    own: OwnTime,
    began: u64,
    /// Until when it is known to have turned.
    until: u64,
    shows: u64,
    /// When an lcore did not turn, as the appliance sees it.
    held_up: Vec<(u64, u64)>,
    /// A defect: it counts the time in which it was stopped.
    pub(crate) sleepless: bool,
}

impl Awake {
    /// It begins to run when its machine's clock shows this.
    pub(crate) fn new(began: u64) -> Self {
        Self {
            own: OwnTime::default(),
            began,
            until: began,
            shows: began,
            held_up: Vec::new(),
            sleepless: false,
        }
    }

    /// The time of a turn.
    pub(crate) fn turn(&mut self, local: u64) -> Duration {
        const OFTEN: u64 = 100 * MILLI;
        while self.until + OFTEN < local {
            self.advance(self.until + OFTEN);
        }
        self.advance(local.max(self.until));
        Duration::from_nanos(self.shows)
    }

    /// The time that the control plane receives.
    pub(crate) const fn reported(&self) -> Duration {
        Duration::from_nanos(if self.sleepless { self.until } else { self.shows })
    }

    /// It is stopped between these two times.
    pub(crate) fn pause(&mut self, from: u64, to: u64) {
        self.turn(from);
        // Another pause may have been longer.
        self.advance(to.max(self.until));
    }

    /// An lcore does not turn between these two times. That is noticed after a quarter of a second, and that
    /// it turns again after a while.
    pub(crate) fn hold_up(&mut self, from: u64, to: u64) {
        self.held_up.push((from + 250 * MILLI, to + 100 * MILLI));
    }

    fn advance(&mut self, local: u64) {
        let held_up = self.held_up.iter().any(|&(from, to)| from <= self.until && self.until < to);
        self.own.turn(Duration::from_nanos(local.saturating_sub(self.began)), held_up);
        self.until = local;
        self.shows = self.began + nanos(self.own.hearing());
    }

    /// The time on the machine's clock at a time of the control plane.
    pub(crate) const fn local(&self, reported: u64) -> u64 {
        if self.sleepless { reported } else { reported.saturating_add(self.until - self.shows) }
    }
}

#[cfg(test)]
mod tests;
