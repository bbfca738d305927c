//! Time from the processor's counter.

use pascaline_dpdk_sys as sys;

use crate::eal::Eal;

/// Reads the time without a system call: nanoseconds since the clock was made.
///
/// Copies share their origin, so times of different lcores compare, provided the counter runs at one rate on
/// all cores and never stops (`constant_tsc` and `nonstop_tsc` in `/proc/cpuinfo`, as on every server
/// processor of the last decade).
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: u64,
    scale: Scale,
}

/// Counter ticks to nanoseconds by one multiplication.
#[derive(Debug, Clone, Copy)]
struct Scale {
    /// Nanoseconds per tick, times 2^40.
    factor: u64,
}

impl Scale {
    const SHIFT: u32 = 40;

    fn new(hz: u64) -> Self {
        let factor = (1_000_000_000_u128 << Self::SHIFT) / u128::from(hz.max(1));
        Self { factor: u64::try_from(factor).unwrap_or(u64::MAX) }
    }

    #[inline]
    #[allow(clippy::cast_possible_truncation, reason = "2^64 ns are 584 years")]
    fn nanoseconds(self, ticks: u64) -> u64 {
        ((u128::from(ticks) * u128::from(self.factor)) >> Self::SHIFT) as u64
    }
}

impl Clock {
    /// A clock that starts now. EAL has measured the counter's rate.
    #[must_use]
    pub fn new(_eal: &Eal) -> Self {
        // SAFETY: EAL runs; reads a variable that it has set.
        let hz = unsafe { sys::rte_get_tsc_hz() };
        Self { origin: cycles(), scale: Scale::new(hz) }
    }

    /// Nanoseconds since the clock was made. Never goes back on one lcore.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.scale.nanoseconds(cycles().saturating_sub(self.origin))
    }

    /// The length of this many ticks in nanoseconds: for differences of [`cycles`].
    #[inline]
    #[must_use]
    pub fn span_ns(&self, ticks: u64) -> u64 {
        self.scale.nanoseconds(ticks)
    }
}

/// The processor's counter.
#[inline]
#[must_use]
pub fn cycles() -> u64 {
    // A call of the shim would cost as much as the reading.
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has this instruction.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    // SAFETY: reads a counter.
    return unsafe { sys::psc_rdtsc() };
}

#[cfg(test)]
mod tests;
