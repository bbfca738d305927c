//! A line: packets come out in the order in which they went in, one after the other at its rate, and later by its delay.

use std::collections::VecDeque;

use super::agenda::NEVER;
use pascaline_sim::random::Random;

/// What a line is like.
#[derive(Debug, Clone, Copy)]
pub(super) struct Kind {
    /// Picoseconds for a byte.
    pub(super) byte: u64,
    /// Picoseconds that a packet is on its way.
    pub(super) delay: u64,
    /// Packets lost in a million.
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

    /// Sends a packet of so many bytes. A packet that is lost takes its time all the same. True if the line was empty, so
    /// that [`next`](Self::next) has changed.
    pub(super) fn send(&mut self, now: u64, bytes: u64, packet: P) -> bool {
        self.free_at = self.free_at.max(now) + bytes * self.kind.byte;
        if self.kind.loss > 0 && self.random.chance(self.kind.loss) {
            return false;
        }
        self.under_way.push_back((self.free_at + self.kind.delay, packet));
        self.under_way.len() == 1
    }

    /// When the next packet arrives.
    pub(super) fn next(&self) -> u64 {
        self.under_way.front().map_or(NEVER, |&(at, _)| at)
    }

    /// The next packet, if it has arrived by now, with the time at which it did.
    pub(super) fn receive(&mut self, now: u64) -> Option<(u64, P)> {
        if self.next() <= now { self.under_way.pop_front() } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_leave_one_after_the_other_and_arrive_later() {
        let mut line = Line::new(Kind { byte: 10, delay: 1000, loss: 0 }, 1);
        assert!(line.send(0, 5, 'a'));
        assert!(!line.send(20, 5, 'b'), "waits for the first");
        assert!(!line.send(500, 5, 'c'), "the line was idle");
        assert_eq!(line.receive(1049), None);
        assert_eq!(line.receive(5000), Some((1050, 'a')));
        assert_eq!(line.receive(5000), Some((1100, 'b')));
        assert_eq!(line.next(), 1550);
        assert_eq!(line.receive(5000), Some((1550, 'c')));
        assert_eq!((line.receive(5000), line.next()), (None, NEVER));
    }

    #[test]
    fn what_is_lost_does_not_arrive() {
        let mut line = Line::new(Kind { byte: 1, delay: 0, loss: 500_000 }, 1);
        for n in 0..1000 {
            line.send(n, 1, ());
        }
        let arrived = core::iter::from_fn(|| line.receive(NEVER - 1)).count();
        assert!((400..600).contains(&arrived), "{arrived}");
    }
}
