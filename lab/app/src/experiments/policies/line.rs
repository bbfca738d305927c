//! A line: packets leave in order, one after the other at its rate, and arrive after its delay.

use std::collections::VecDeque;

use super::agenda::NEVER;
use pascaline_sim::random::Random;

/// Properties of a line.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// Picoseconds per byte.
    pub(super) byte: u64,
    /// Delay in picoseconds.
    pub(super) delay: u64,
    /// Losses per million packets.
    pub(super) loss: u32,
}

/// What becomes of a packet that is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// It is the only one under way, so that [`Line::next`] has changed.
    First,
    /// It follows others.
    Queued,
    /// It will not arrive.
    Lost,
}

/// One direction of a line, with an unbounded queue before it.
#[derive(Debug)]
pub(super) struct Line<P> {
    kind: Kind,
    free_at: u64,
    under_way: VecDeque<(u64, P)>,
    random: Random,
}

impl<P> Line<P> {
    pub(super) fn new(kind: Kind, seed: u64) -> Self {
        Self { kind, free_at: 0, under_way: VecDeque::new(), random: Random::new(seed) }
    }

    /// Sends a packet of `bytes` bytes; a lost packet takes its time too. `loss` of a million are lost, where
    /// it is not the line's own.
    pub(super) fn send(&mut self, now: u64, bytes: u64, packet: P, loss: Option<u32>) -> Fate {
        self.free_at = self.free_at.max(now) + bytes * self.kind.byte;
        let loss = loss.unwrap_or(self.kind.loss);
        if loss > 0 && self.random.chance(loss) {
            return Fate::Lost;
        }
        self.under_way.push_back((self.free_at + self.kind.delay, packet));
        if self.under_way.len() == 1 { Fate::First } else { Fate::Queued }
    }

    /// When the next packet arrives.
    pub(super) fn next(&self) -> u64 {
        self.under_way.front().map_or(NEVER, |&(at, _)| at)
    }

    /// The next packet with its time of arrival, if it has arrived by now.
    pub(super) fn receive(&mut self, now: u64) -> Option<(u64, P)> {
        if self.next() <= now { self.under_way.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests;
