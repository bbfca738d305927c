//! What happens to each frame: the decisions of an imperfect link, with no socket and no clock of its own.
//!
//! Frames go in with the time, frames come out in the order in which they are to be sent. Nothing else
//! happens, so the same seed gives the same decisions for the same sequence of frames, on any machine and at
//! any speed.
//!
//! What always holds, whatever the rates: `received = forwarded - duplicated + lost + overflow + held`, and a
//! frame that is held back comes out after [`MAX_HOLD`] at the latest, or when the link is
//! [flushed](Impairment::flush).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;

/// A frame is held back until this many later frames have passed it, at most: enough to arrive out of order,
/// little enough not to look like loss.
const MAX_OVERTAKERS: u64 = 3;

/// A frame is held back for this long at most: nothing may follow it, and then nobody would ever let it go.
pub(crate) const MAX_HOLD: Duration = Duration::from_millis(3);

/// Frames held back at a time in one direction. Beyond it a frame passes unharmed, so memory stays bounded.
const MAX_HELD: usize = 64;

/// How often each thing happens to a frame, each in percent of all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// The frame disappears.
    pub(crate) loss: f64,
    /// The frame arrives twice.
    pub(crate) duplicate: f64,
    /// The frame arrives after frames that were sent later.
    pub(crate) reorder: f64,
}

/// What was done to the frames of one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Counters {
    /// Frames that came in.
    pub(crate) received: u64,
    /// Frames that went out, duplicates included.
    pub(crate) forwarded: u64,
    /// Frames that disappeared on purpose.
    pub(crate) lost: u64,
    /// Additional copies that went out.
    pub(crate) duplicated: u64,
    /// Frames that were really overtaken by a later one.
    pub(crate) reordered: u64,
    /// Frames that could not be taken or sent: lost, but not on purpose.
    pub(crate) overflow: u64,
}

/// A frame that waits to be overtaken.
#[derive(Debug)]
struct Held<F> {
    frame: F,
    /// Later frames that have still to pass it.
    waits_for: u64,
    overtaken: bool,
    until: Instant,
}

/// One direction of an imperfect link. `F` is a frame: anything that can be sent twice.
#[derive(Debug)]
pub(crate) struct Impairment<F> {
    rates: Rates,
    random: SplitMix64,
    /// Oldest first; every frame is held for the same time, so the first one is also the first to be due.
    held: VecDeque<Held<F>>,
    counters: Counters,
}

impl<F: Clone> Impairment<F> {
    /// A link that decides by `seed`.
    pub(crate) fn new(rates: Rates, seed: u64) -> Self {
        Self {
            rates,
            random: SplitMix64(seed),
            held: VecDeque::with_capacity(MAX_HELD),
            counters: Counters::default(),
        }
    }

    /// Takes a frame that arrived at `now` and appends to `out` what leaves because of it: nothing, the
    /// frame, the frame twice, and any held frames that it has overtaken.
    pub(crate) fn offer(&mut self, now: Instant, frame: F, out: &mut Vec<F>) {
        self.counters.received += 1;
        // Four draws for every frame, needed or not: the fate of the n-th frame then depends on the seed and
        // on n alone.
        let lost = self.random.happens(self.rates.loss);
        let duplicated = self.random.happens(self.rates.duplicate);
        let reordered = self.random.happens(self.rates.reorder);
        let overtakers = 1 + self.random.next() % MAX_OVERTAKERS;

        if lost {
            self.counters.lost += 1;
            return;
        }
        if reordered && self.held.len() < MAX_HELD {
            // Its duplicate, if it has one, goes ahead: two copies held side by side would come out in order
            // again.
            if duplicated {
                self.counters.duplicated += 1;
                self.emit(frame.clone(), out);
                self.overtake(out);
            }
            let until = now + MAX_HOLD;
            self.held.push_back(Held { frame, waits_for: overtakers, overtaken: false, until });
            return;
        }
        if duplicated {
            self.counters.duplicated += 1;
            self.emit(frame.clone(), out);
        }
        self.emit(frame, out);
        self.overtake(out);
    }

    /// Appends to `out` the frames that have been held for long enough.
    pub(crate) fn release_due(&mut self, now: Instant, out: &mut Vec<F>) {
        while self.held.front().is_some_and(|held| held.until <= now) {
            self.release_first(out);
        }
    }

    /// When [`release_due`](Self::release_due) will next have something to do.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.held.front().map(|held| held.until)
    }

    /// Appends every held frame to `out`: nothing is lost that was not meant to be.
    pub(crate) fn flush(&mut self, out: &mut Vec<F>) {
        while !self.held.is_empty() {
            self.release_first(out);
        }
    }

    /// What was done so far.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// Takes back `frames` that were to leave but could not: the device refused them.
    pub(crate) fn not_sent(&mut self, frames: u64) {
        self.counters.forwarded -= frames;
        self.counters.overflow += frames;
    }

    /// Counts `frames` that came to the interface but could not be taken: too long, or no room in the
    /// kernel's queue.
    pub(crate) fn not_taken(&mut self, frames: u64) {
        self.counters.received += frames;
        self.counters.overflow += frames;
    }

    fn emit(&mut self, frame: F, out: &mut Vec<F>) {
        self.counters.forwarded += 1;
        out.push(frame);
    }

    /// A frame has just passed all those that are held: lets go of the ones that were waiting only for it.
    fn overtake(&mut self, out: &mut Vec<F>) {
        for held in &mut self.held {
            held.waits_for -= 1;
            held.overtaken = true;
        }
        let mut index = 0;
        while index < self.held.len() {
            if self.held[index].waits_for > 0 {
                index += 1;
            } else if let Some(held) = self.held.remove(index) {
                self.let_go(held, out);
            }
        }
    }

    fn release_first(&mut self, out: &mut Vec<F>) {
        if let Some(held) = self.held.pop_front() {
            self.let_go(held, out);
        }
    }

    fn let_go(&mut self, held: Held<F>, out: &mut Vec<F>) {
        self.counters.reordered += u64::from(held.overtaken);
        self.emit(held.frame, out);
    }
}

/// Steele, Lea and Flood's `SplitMix64`: eight bytes of state and good enough to toss coins with.
#[derive(Debug)]
struct SplitMix64(u64);

impl SplitMix64 {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// True in `percent` of all cases.
    fn happens(&mut self, percent: f64) -> bool {
        // 2^53 equally likely numbers are what an f64 holds exactly.
        #[allow(clippy::cast_precision_loss)]
        let uniform = (self.next() >> 11) as f64 / (1_u64 << 53) as f64;
        uniform * 100.0 < percent
    }
}

#[cfg(test)]
mod tests;
