//! A token bucket that limits how fast a queue drains.

use core::num::NonZeroU64;
use core::time::Duration;

use thiserror::Error;

const NANOS: u64 = 1_000_000_000;

/// A rate in bits per second, and a burst.
///
/// A packet may leave whenever the bucket is not in debt, and may put it into debt: so a packet larger than
/// the burst leaves too. Over any time t at most rate × t + burst + one packet leave. Under constant load it
/// is exactly rate × t: fractions of a nanosecond are carried over.
#[derive(Debug, Clone)]
pub struct Shaper {
    bits_per_second: NonZeroU64,
    /// How long the bucket takes to fill.
    burst_ns: u64,
    /// When the bucket is empty: in the past there are tokens, in the future there is debt.
    empty_ns: u64,
    /// Bits × 10⁹ by which `empty_ns` is too early: less than a nanosecond's worth.
    remainder: u64,
}

/// The bucket is in debt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no packet may leave before {ready_ns} ns")]
pub struct InDebt {
    /// When the debt ends.
    pub ready_ns: u64,
}

impl Shaper {
    /// A full bucket that fills in `burst`; zero lets packets leave one after the other, as on a line.
    #[must_use]
    pub fn new(bits_per_second: NonZeroU64, burst: Duration) -> Self {
        let burst_ns = u64::try_from(burst.as_nanos()).unwrap_or(u64::MAX);
        Self { bits_per_second, burst_ns, empty_ns: 0, remainder: 0 }
    }

    /// Pays for a packet of `bits` bits that is about to leave.
    ///
    /// # Errors
    /// [`InDebt`] if none may leave yet.
    #[inline]
    pub fn take(&mut self, now_ns: u64, bits: u32) -> Result<(), InDebt> {
        let ready_ns = self.ready_ns();
        if now_ns < ready_ns {
            return Err(InDebt { ready_ns });
        }
        let full = now_ns.saturating_sub(self.burst_ns);
        // Not `empty_ns`: at the earliest possible time the rest of a nanosecond still counts.
        if ready_ns < full {
            self.empty_ns = full;
            self.remainder = 0;
        }
        let rate = self.bits_per_second.get();
        let cost = u128::from(bits) * u128::from(NANOS) + u128::from(self.remainder);
        // Both quotients fit, even at one bit per second.
        self.empty_ns =
            self.empty_ns.saturating_add(u64::try_from(cost / u128::from(rate)).unwrap_or(u64::MAX));
        self.remainder = u64::try_from(cost % u128::from(rate)).unwrap_or(0);
        Ok(())
    }

    /// The earliest time at which a packet may leave.
    #[must_use]
    #[inline]
    pub fn ready_ns(&self) -> u64 {
        self.empty_ns.saturating_add(u64::from(self.remainder > 0))
    }
}
