//! A line with a rate, a queue, and a threshold from which on packets are marked (RFC 3168), without sockets
//! and without a clock: the kernel may have no queueing discipline that marks.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fastrand::Rng;
use pascaline_wire::frame::{ETH_LEN, IPV4_LEN};
use pascaline_wire::{checksum, ecn};

/// Preamble, frame check sequence and gap of Ethernet, in bytes.
const FRAMING: usize = 24;
/// Where IPv4's TOS and checksum are in an untagged frame, and IPv6's traffic class begins.
const CLASS: usize = ETH_LEN + 1;
const SUM: core::ops::Range<usize> = ETH_LEN + 10..ETH_LEN + 12;

/// A line's properties.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Line {
    /// Bits per second; 0 for no limit.
    pub(crate) rate: u64,
    /// Frames that wait at most; more are dropped.
    pub(crate) limit: usize,
    /// Queue length from which frames that may be marked are, at random, with a growing chance.
    pub(crate) threshold: Option<usize>,
    /// Queue length from which all are marked. Up to the threshold, or 0: no marks by chance.
    pub(crate) full: usize,
}

/// A frame in a queue: bytes that it may mark.
pub(crate) trait Bytes {
    /// All of them.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// One direction of a line, and its waiting frames.
#[derive(Debug)]
pub(crate) struct Queue<F> {
    line: Line,
    /// Waiting frames, and when each has left.
    waiting: VecDeque<(Instant, F)>,
    random: Rng,
    pub(crate) marked: u64,
    pub(crate) dropped: u64,
}

impl<F: Bytes> Queue<F> {
    /// A line whose random marks follow from `seed`.
    pub(crate) fn new(line: Line, seed: u64) -> Self {
        Self { line, waiting: VecDeque::new(), random: Rng::with_seed(seed), marked: 0, dropped: 0 }
    }

    /// Takes frames that arrive at `now`, and leaves those in `frames` that have left by now.
    pub(crate) fn pass(&mut self, now: Instant, frames: &mut Vec<F>) {
        if self.line.rate == 0 {
            return;
        }
        let arrived = core::mem::take(frames);
        self.release(now, frames);
        for mut frame in arrived {
            if self.waiting.len() >= self.line.limit {
                self.dropped += 1;
                continue;
            }
            self.marked += u64::from(self.marks() && mark(frame.bytes_mut()));
            let bits = 8 * (frame.bytes_mut().len() + FRAMING) as u64;
            let takes = Duration::from_nanos(bits * 1_000_000_000 / self.line.rate);
            let begins = self.waiting.back().map_or(now, |(left, _)| now.max(*left));
            self.waiting.push_back((begins + takes, frame));
        }
    }

    /// Whether the next frame is to be marked: with a chance that grows with the queue (as RED's; RFC 7567).
    fn marks(&mut self) -> bool {
        let Line { threshold, full, .. } = self.line;
        let over = threshold.and_then(|threshold| self.waiting.len().checked_sub(threshold));
        let range = full.saturating_sub(threshold.unwrap_or(full));
        over.is_some_and(|over| self.random.usize(..=range) <= over)
    }

    /// Appends frames that have left by `now`.
    fn release(&mut self, now: Instant, out: &mut Vec<F>) {
        while let Some((_, frame)) = self.waiting.pop_front_if(|(left, _)| *left <= now) {
            out.push(frame);
        }
    }

    /// When the next frame leaves.
    pub(crate) fn next_due(&self) -> Option<Instant> {
        self.waiting.front().map(|(left, _)| *left)
    }

    /// Appends all waiting frames at once.
    pub(crate) fn flush(&mut self, out: &mut Vec<F>) {
        out.extend(self.waiting.drain(..).map(|(_, frame)| frame));
    }
}

/// Marks an untagged IP packet of an ECN-capable sender. False for other packets.
fn mark(frame: &mut [u8]) -> bool {
    match frame.get(12..14) {
        Some([0x08, 0x00]) if frame.len() >= ETH_LEN + IPV4_LEN && frame[CLASS] & ecn::MASK != 0 => {
            let before = u16::from_be_bytes([frame[CLASS - 1], frame[CLASS]]);
            frame[CLASS] |= ecn::MARKED;
            let after = u16::from_be_bytes([frame[CLASS - 1], frame[CLASS]]);
            // Updates the checksum by the change only (RFC 1624): a queue does not check it.
            let sum = u16::from_be_bytes([frame[SUM.start], frame[SUM.start + 1]]);
            let sum = checksum::finish(u64::from(!sum) + u64::from(!before) + u64::from(after));
            frame[SUM].copy_from_slice(&sum.to_be_bytes());
            true
        }
        Some([0x86, 0xdd]) if frame.len() > CLASS && frame[CLASS] >> 4 & ecn::MASK != 0 => {
            frame[CLASS] |= ecn::MARKED << 4;
            true
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
