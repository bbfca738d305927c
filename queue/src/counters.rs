//! A queue's counters.

use crate::outcome::UpdateRejection;

/// Updates and their contributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct UpdateCount {
    /// Packets.
    pub updates: u64,
    /// The sum of their `count`.
    pub contributions: u64,
}

impl UpdateCount {
    #[inline]
    pub(crate) fn add(&mut self, count: u16) {
        self.updates += 1;
        self.contributions += u64::from(count);
    }
}

/// Totals since the queue was made.
///
/// Of contributions, with those that [wait](crate::UpdateQueue::waiting):
///
/// ```text
/// accepted = departed + waiting + full + low_reward + displaced + superseded + lapsed
/// ```
///
/// The same for updates, with `aggregated` also on the right-hand side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Offered and not rejected.
    pub accepted: UpdateCount,
    /// Accepted and combined with another.
    pub aggregated: UpdateCount,
    /// Departed.
    pub departed: UpdateCount,
    /// Dropped because no segment was free.
    pub full: UpdateCount,
    /// Dropped on arrival by the reward filter.
    pub low_reward: UpdateCount,
    /// Dropped while waiting, for one with a higher reward.
    pub displaced: UpdateCount,
    /// Replaced by a newer one of the same worker, or by one of another generation.
    pub superseded: UpdateCount,
    /// Dropped when it was its turn: its receiver was gone.
    pub lapsed: UpdateCount,
    rejected: [u64; UpdateRejection::ALL.len()],
}

impl Counters {
    /// Updates rejected for this reason.
    #[must_use]
    pub const fn rejected(&self, reason: UpdateRejection) -> u64 {
        self.rejected[reason as usize]
    }

    #[inline]
    pub(crate) fn reject(&mut self, reason: UpdateRejection) {
        self.rejected[reason as usize] += 1;
    }
}

#[cfg(test)]
mod tests;
