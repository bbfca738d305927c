//! One direction of a link: a queue, a line, and a threshold from which on packets are marked.

use core::time::Duration;

use pascaline_wire::frame::{ETH_LEN, IPV4_LEN};
use pascaline_wire::{checksum, ecn};

use super::Setting;
use crate::random::Random;
use crate::wheel::nanos;

#[derive(Debug)]
pub(super) struct Link {
    rate: u64,
    propagation: u64,
    queue: u64,
    marks_from: u64,
    loss_per_million: u32,
    framing: u64,
    /// The time of the bytes that may pass at once.
    bucket: u64,
    /// When the link will have had the time for all frames accepted so far; bytes that passed at once came
    /// earlier.
    free: u64,
    packet: u64,
    waits: Vec<(Duration, Duration)>,
    dropped: u64,
    marked: u64,
}

impl Link {
    pub(super) fn new(setting: &Setting) -> Self {
        Self {
            rate: setting.rate.max(1),
            propagation: nanos(setting.propagation),
            queue: setting.queue,
            marks_from: setting.marks_from.unwrap_or(u64::MAX),
            loss_per_million: setting.loss_per_million,
            framing: setting.framing,
            bucket: nanos(setting.line_time(setting.bucket)),
            free: 0,
            packet: nanos(setting.packet_time()).max(1),
            waits: Vec::new(),
            dropped: 0,
            marked: 0,
        }
    }

    /// Takes a frame, and marks it if the queue is long. Returns when it arrives; `None` if it does not.
    pub(super) fn carry(&mut self, now: u64, frame: &mut [u8], random: &mut Random) -> Option<u64> {
        let wait = self.free.saturating_sub(now + self.bucket);
        let waiting = wait / self.packet;
        self.waits.push((Duration::from_nanos(now), Duration::from_nanos(wait)));
        if waiting >= self.queue {
            self.dropped += 1;
            return None;
        }
        if waiting >= self.marks_from && mark(frame) {
            self.marked += 1;
        }
        let bits = 8 * (frame.len() as u64 + self.framing);
        self.free = self.free.max(now) + bits * 1_000_000_000 / self.rate;
        let leaves = self.free.saturating_sub(self.bucket).max(now);
        (!random.chance(self.loss_per_million)).then_some(leaves + self.propagation)
    }

    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) const fn marked(&self) -> u64 {
        self.marked
    }

    pub(super) fn into_waits(self) -> Vec<(Duration, Duration)> {
        self.waits
    }
}

/// Marks an IPv4 packet of an ECN-capable sender. False for other packets.
fn mark(frame: &mut [u8]) -> bool {
    let Some(ip) = frame.get_mut(ETH_LEN..ETH_LEN + IPV4_LEN) else { return false };
    if ip[1] & ecn::MASK == 0 {
        return false;
    }
    ip[1] |= ecn::MARKED;
    ip[10..12].fill(0);
    let sum = checksum::finish(checksum::sum(ip));
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    true
}
