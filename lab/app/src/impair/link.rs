//! The decisions of a bad link about each frame, without sockets and without a clock.
//!
//! Frames go in with the time and come out in the order of sending. So the same seed gives the same decisions
//! for the same sequence of frames, on any machine and at any speed.
//!
//! Always holds: `received = forwarded - duplicated + lost + overflow + held`. A held frame comes out after
//! [`MAX_HOLD`] at the latest, or when the link is [flushed](Impairment::flush).

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fastrand::Rng;
use serde::Serialize;

/// A held frame waits for at most this many later frames: enough to arrive out of order, too few to look
/// lost.
const MAX_OVERTAKERS: u64 = 3;

/// A held frame waits at most this long, since nothing may follow it.
pub(crate) const MAX_HOLD: Duration = Duration::from_millis(3);

/// Most frames held in one direction. Further ones pass unharmed, so memory stays bounded.
const MAX_HELD: usize = 64;

/// Rates, in percent of all frames.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Rates {
    /// The frame disappears.
    pub(crate) loss: f64,
    /// The frame arrives twice.
    pub(crate) duplicate: f64,
    /// The frame arrives after frames that were sent later.
    pub(crate) reorder: f64,
}

/// Counts of one direction.
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
    /// Frames that a later one did overtake.
    pub(crate) reordered: u64,
    /// Frames that the interfaces could not take or send: lost, but not on purpose.
    pub(crate) overflow: u64,
}

/// A frame that waits to be overtaken.
#[derive(Debug)]
struct Held<F> {
    frame: F,
    /// Later frames that must still pass it.
    waits_for: u64,
    overtaken: bool,
    until: Instant,
}

/// One direction of an imperfect link. `F` is a frame: anything that can be sent twice.
#[derive(Debug)]
pub(crate) struct Impairment<F> {
    rates: Rates,
    random: Rng,
    /// Oldest first. All are held for the same time, so the first is the first to be due.
    held: VecDeque<Held<F>>,
    counters: Counters,
}

impl<F: Clone> Impairment<F> {
    /// A link whose decisions follow from `seed`.
    pub(crate) fn new(rates: Rates, seed: u64) -> Self {
        Self {
            rates,
            random: Rng::with_seed(seed),
            held: VecDeque::with_capacity(MAX_HELD),
            counters: Counters::default(),
        }
    }

    /// Takes a frame that arrived at `now`. Appends to `out` the frames that leave because of it: none, the
    /// frame, the frame twice, and held frames that it has overtaken.
    pub(crate) fn offer(&mut self, now: Instant, frame: F, out: &mut Vec<F>) {
        self.counters.received += 1;
        // Four draws for every frame, so that the fate of the n-th depends on the seed and n alone.
        let mut happens = |percent| self.random.f64() * 100.0 < percent;
        let lost = happens(self.rates.loss);
        let duplicated = happens(self.rates.duplicate);
        let reordered = happens(self.rates.reorder);
        let overtakers = self.random.u64(1..=MAX_OVERTAKERS);

        if lost {
            self.counters.lost += 1;
            return;
        }
        if reordered && self.held.len() < MAX_HELD {
            // Its duplicate goes ahead: two held copies would come out in order again.
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

    /// Appends to `out` the frames whose time is over.
    pub(crate) fn release_due(&mut self, now: Instant, out: &mut Vec<F>) {
        while self.held.front().is_some_and(|held| held.until <= now) {
            self.release_first(out);
        }
    }

    /// When [`release_due`](Self::release_due) next has something to do.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.held.front().map(|held| held.until)
    }

    /// Appends every held frame to `out`.
    pub(crate) fn flush(&mut self, out: &mut Vec<F>) {
        while !self.held.is_empty() {
            self.release_first(out);
        }
    }

    /// The counts so far.
    pub(crate) fn counters(&self) -> Counters {
        self.counters
    }

    /// Counts `frames` that the device did not take as not sent.
    pub(crate) fn not_sent(&mut self, frames: u64) {
        self.counters.forwarded -= frames;
        self.counters.overflow += frames;
    }

    /// Counts `frames` that could not be taken from the interface: too long, or no room in the kernel's
    /// queue.
    pub(crate) fn not_taken(&mut self, frames: u64) {
        self.counters.received += frames;
        self.counters.overflow += frames;
    }

    fn emit(&mut self, frame: F, out: &mut Vec<F>) {
        self.counters.forwarded += 1;
        out.push(frame);
    }

    /// A frame has just passed all held ones: releases those that waited only for it.
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

#[cfg(test)]
mod tests;
