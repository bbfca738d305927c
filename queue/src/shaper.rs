//! A token bucket: how fast a queue is drained, where that is not up to the port.

use core::num::NonZeroU64;
use core::time::Duration;

use thiserror::Error;

const NANOS: u64 = 1_000_000_000;

/// A rate in bits per second, and how much may be saved up.
///
/// Tokens come in at the rate, up to the burst. A packet may leave whenever the bucket is not in debt, and
/// may put it into debt: so a packet larger than the burst leaves too, and over any time t no more than rate
/// × t + burst + one packet leaves. While something is always ready to leave, it is exactly rate × t:
/// fractions of a nanosecond are carried over.
#[derive(Debug, Clone)]
pub struct Shaper {
    bits_per_second: NonZeroU64,
    /// How long the bucket takes to fill.
    burst_ns: u64,
    /// When the bucket is, was, or will be empty: before now there are tokens, after now there is debt.
    empty_ns: u64,
    /// Bits × 10⁹ by which `empty_ns` is too early; less than the rate, that is, less than a nanosecond.
    remainder: u64,
}

/// The bucket is in debt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("no packet may leave before {ready_ns} ns")]
pub struct InDebt {
    /// When it no longer is: try again then.
    pub ready_ns: u64,
}

impl Shaper {
    /// A bucket that is full at any time since the clock began, and fills in `burst`; zero lets packets leave
    /// only one after the other, as a line does.
    #[must_use]
    pub fn new(bits_per_second: NonZeroU64, burst: Duration) -> Self {
        let burst_ns = u64::try_from(burst.as_nanos()).unwrap_or(u64::MAX);
        Self { bits_per_second, burst_ns, empty_ns: 0, remainder: 0 }
    }

    /// Pays for a packet of so many bits that is about to leave.
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
        // Not `empty_ns`: at the earliest possible time, what is left of a nanosecond must not be forgotten.
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

    /// When a packet may leave, if it has not been possible before.
    #[must_use]
    #[inline]
    pub fn ready_ns(&self) -> u64 {
        self.empty_ns.saturating_add(u64::from(self.remainder > 0))
    }
}
