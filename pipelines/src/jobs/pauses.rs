//! Jobs of which nothing is added for a moment, because too much of what they sent came to nothing.

use core::sync::atomic::{AtomicU64, Ordering};

use pascaline_aggregator::{TENANTS, Tenant};

/// For how long, in nanoseconds: what still comes through after it, until it is found out once more, is
/// little beside what comes in this time.
const PAUSE_NS: u64 = 50_000_000;

/// Until when each tenant is paused, in nanoseconds of the lcores' clock: any lcore that finds out tells all.
#[derive(Debug)]
pub(super) struct Pauses {
    /// The last of these times.
    latest: AtomicU64,
    until: [AtomicU64; TENANTS],
}

impl Default for Pauses {
    fn default() -> Self {
        Self { latest: AtomicU64::new(0), until: [const { AtomicU64::new(0) }; TENANTS] }
    }
}

impl Pauses {
    pub(super) fn begin(&self, tenant: Tenant, now: u64) {
        let until = now.saturating_add(PAUSE_NS);
        // Each says all that there is to know: nothing else is read with it.
        self.until[usize::from(tenant.0)].store(until, Ordering::Relaxed);
        self.latest.fetch_max(until, Ordering::Relaxed);
    }

    #[inline(always)]
    pub(super) fn any(&self, now: u64) -> bool {
        now < self.latest.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn has(&self, tenant: Tenant, now: u64) -> bool {
        now < self.until[usize::from(tenant.0)].load(Ordering::Relaxed)
    }
}
