//! A line: packets leave in order, one after the other at its rate, and arrive after its delay.

use std::collections::VecDeque;

use pascaline_sim::random::Random;

/// The time of an event that will not come.
pub(super) const NEVER: u64 = u64::MAX;

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

    /// Sends a packet of `bytes` bytes and returns when it arrives; `None` if it is lost, which takes its
    /// time too. `loss` packets per million are lost, in place of the line's own loss.
    pub(super) fn send(&mut self, now: u64, bytes: u64, packet: P, loss: Option<u32>) -> Option<u64> {
        self.free_at = self.free_at.max(now) + bytes * self.kind.byte;
        let loss = loss.unwrap_or(self.kind.loss);
        if loss > 0 && self.random.chance(loss) {
            return None;
        }
        let arrives = self.free_at + self.kind.delay;
        self.under_way.push_back((arrives, packet));
        Some(arrives)
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
