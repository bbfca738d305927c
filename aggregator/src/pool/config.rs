//! How a pool is laid out.

use core::fmt;
use core::time::Duration;

use crate::set::MAX_WAYS;

/// How a pool is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolConfig {
    /// Slots in all; a power of two.
    pub slots: usize,
    /// Slots at the end for the regions of jobs that have one, in whole sets. The others are shared by hash.
    pub reserved: usize,
    /// Slots per set: 1 (the papers' direct mapping), 2, 4 or 8.
    pub ways: usize,
    /// How long a partial may keep other PSNs out. One that has received no packet or request in this time is
    /// evicted even before cached results.
    pub age_limit: Duration,
    /// Least time between two reminders to the missing ranks of a PSN.
    pub remind_interval: Duration,
}

impl Default for PoolConfig {
    /// 4,096 slots in sets of 4.
    fn default() -> Self {
        Self {
            slots: 4096,
            reserved: 0,
            ways: 4,
            age_limit: Duration::from_millis(500),
            remind_interval: Duration::from_millis(1),
        }
    }
}

impl PoolConfig {
    /// Checks that a pool can be laid out like this.
    ///
    /// # Errors [`PoolConfigError`] if slots or ways are not as the fields' documentation requires.
    pub const fn check(&self) -> Result<(), PoolConfigError> {
        const MOST: usize = 1 << 28;
        if !self.ways.is_power_of_two() || self.ways > MAX_WAYS {
            return Err(PoolConfigError::Ways(self.ways));
        }
        if !self.slots.is_power_of_two() || self.slots < self.ways || self.slots > MOST {
            return Err(PoolConfigError::Slots(self.slots));
        }
        if !self.reserved.is_multiple_of(self.ways) || self.reserved > self.slots {
            return Err(PoolConfigError::Reserved(self.reserved));
        }
        Ok(())
    }
}

/// Why a pool cannot be laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PoolConfigError {
    /// The number of slots is not a power of two, or not between `ways` and 2²⁸.
    Slots(usize),
    /// The number of ways is not 1, 2, 4 or 8.
    Ways(usize),
    /// The reserved slots are not whole sets, or exceed all slots.
    Reserved(usize),
}

impl fmt::Display for PoolConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Slots(slots) => {
                write!(
                    f,
                    "{slots} slots: the number must be a power of two, at least `ways` and at most 2^28"
                )
            }
            Self::Ways(ways) => write!(f, "{ways} ways: the number must be 1, 2, 4 or 8"),
            Self::Reserved(slots) => {
                write!(
                    f,
                    "{slots} reserved slots: the number must be a multiple of `ways`, \
                     and at most that of all slots"
                )
            }
        }
    }
}

impl core::error::Error for PoolConfigError {}
