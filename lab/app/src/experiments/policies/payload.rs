//! The addends: eight bytes that identify their owner, in place of a payload.

use core::fmt;

use super::Violation;
use pascaline_sim::random::mix;

/// Two 32-bit integers. The sum over all ranks is right only if it contains each rank's exactly once, for
/// this PSN.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Payload([i32; 2]);

/// Bytes of it.
pub(super) const LEN: u16 = 8;

/// The most ranks of a job: each has its own digit.
pub(super) const MAX_RANKS: u16 = 8;

impl Payload {
    /// A rank's contribution to a PSN.
    pub(super) const fn of(job: u16, rank: u16, psn: u32) -> Self {
        // The rank's own hexadecimal digit counts how often it is inside.
        Self([1 << (4 * rank), Self::base(job, psn) + 1021 * rank as i32])
    }

    /// The sum of all ranks' contributions.
    pub(super) const fn sum(job: u16, ranks: u16, psn: u32) -> Self {
        let all = ranks as i32;
        let digits = if ranks >= MAX_RANKS { 0x1111_1111 } else { ((1 << (4 * ranks)) - 1) / 15 };
        Self([digits, all * Self::base(job, psn) + 1021 * (all * (all - 1) / 2)])
    }

    /// A number that identifies the PSN, below 2²⁴.
    const fn base(job: u16, psn: u32) -> i32 {
        (mix((job as u64) << 32 | psn as u64) >> 40) as i32
    }

    pub(super) fn to_bytes(self) -> [u8; LEN as usize] {
        let [first, second] = self.0.map(i32::to_le_bytes);
        let mut bytes = [0; LEN as usize];
        bytes[..4].copy_from_slice(&first);
        bytes[4..].copy_from_slice(&second);
        bytes
    }

    /// The payload at the start of a packet.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (first, rest) = bytes.split_first_chunk()?;
        let second = rest.first_chunk()?;
        Some(Self([i32::from_le_bytes(*first), i32::from_le_bytes(*second)]))
    }

    /// Checks a result that a rank received.
    pub(super) fn check(self, job: u16, rank: u16, ranks: u16, psn: u32) -> Result<(), Violation> {
        let expected = Self::sum(job, ranks, psn);
        if self == expected { Ok(()) } else { Err(Violation::Sum { job, rank, psn, expected, got: self }) }
    }
}

impl fmt::Debug for Payload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x} {}", self.0[0], self.0[1])
    }
}

#[cfg(test)]
mod tests;
