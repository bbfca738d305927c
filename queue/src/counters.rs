//! What a queue has done so far.

use crate::verdict::Refusal;

/// Updates, and what they stood for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Tally {
    /// Packets.
    pub updates: u64,
    /// The sum of their `count`.
    pub contributions: u64,
}

impl Tally {
    #[inline]
    pub(crate) fn add(&mut self, count: u16) {
        self.updates += 1;
        self.contributions += u64::from(count);
    }
}

/// Everything since the queue was made; nothing is ever taken back.
///
/// Nothing gets lost in between, neither updates nor contributions. Of contributions, where those that wait
/// are what [`UpdateQueue::waiting`](crate::UpdateQueue::waiting) shows:
///
/// ```text
/// accepted = departed + waiting + full + low_reward + displaced + superseded
/// ```
///
/// Of updates the same, with `aggregated` on the right-hand side too: each of them has become part of
/// another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Offered, with nothing wrong.
    pub accepted: Tally,
    /// Accepted and combined with another.
    pub aggregated: Tally,
    /// Departed.
    pub departed: Tally,
    /// Dropped because no segment was free.
    pub full: Tally,
    /// Dropped on arrival by the reward filter.
    pub low_reward: Tally,
    /// Dropped by the reward filter while they waited, for one with a higher reward.
    pub displaced: Tally,
    /// Given up for a newer one of the same worker, which knows all that they knew, or for one of a newer
    /// generation, which has no use for them.
    pub superseded: Tally,
    refused: [u64; Refusal::ALL.len()],
}

impl Counters {
    /// Updates refused for this reason.
    #[must_use]
    pub const fn refused(&self, reason: Refusal) -> u64 {
        self.refused[reason as usize]
    }

    /// Updates refused.
    #[must_use]
    pub fn refused_total(&self) -> u64 {
        self.refused.iter().sum()
    }

    #[inline]
    pub(crate) fn refuse(&mut self, reason: Refusal) {
        self.refused[reason as usize] += 1;
    }
}

#[cfg(test)]
mod tests;
