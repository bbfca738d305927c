//! How much a job may send to the parameter server, and to the pool, that comes to nothing.
//!
//! One server and one pool work for all jobs, and what a job sends without end, because its PSNs never
//! complete, costs the others their time. What comes to results may be sent again; beyond that there is a
//! rate, shared by jobs.

use pascaline_aggregator::{TENANTS, Tenant};

/// Packets that a job may have sent without a result: of 8 ranks, a window of 512.
const MOST: u32 = 4096;
/// Between two refills, in nanoseconds.
const REFILL_NS: u64 = 10_000_000;
/// Packets of a refill, for all jobs together: 4,000 in a second.
const REFILL: u32 = 40;

/// What one lcore may still take, by tenant.
#[derive(Debug)]
pub(crate) struct Credit {
    refilled: u64,
    /// None has been spent yet.
    whole: bool,
    left: Box<[u32; TENANTS]>,
}

impl Default for Credit {
    fn default() -> Self {
        Self { refilled: 0, whole: true, left: Box::new([MOST; TENANTS]) }
    }
}

impl Credit {
    /// Takes one packet off a tenant's credit. False if there is none left.
    pub(crate) fn spend(&mut self, tenant: Tenant, now: u64, weights: &[u32; TENANTS]) -> bool {
        if now.saturating_sub(self.refilled) >= REFILL_NS {
            self.refill(now, weights);
        }
        self.whole = false;
        let left = &mut self.left[usize::from(tenant.0)];
        let taken = left.checked_sub(1);
        *left = taken.unwrap_or(0);
        taken.is_some()
    }

    /// Gives a tenant credit for a result: as much again as it can have taken, with what was asked for once
    /// more.
    #[inline(always)]
    pub(crate) fn earn(&mut self, tenant: Tenant, fan_in: u16) {
        if !self.whole {
            self.add(tenant, fan_in);
        }
    }

    #[inline(never)]
    fn add(&mut self, tenant: Tenant, fan_in: u16) {
        let left = &mut self.left[usize::from(tenant.0)];
        *left = left.saturating_add(2 * u32::from(fan_in) + 2).min(MOST);
    }

    fn refill(&mut self, now: u64, weights: &[u32; TENANTS]) {
        let all: u32 = weights.iter().sum();
        for (left, weight) in self.left.iter_mut().zip(weights) {
            let share = (REFILL * weight).checked_div(all).unwrap_or(0).max(1);
            *left = left.saturating_add(share).min(MOST);
        }
        self.refilled = now;
    }
}

#[cfg(test)]
mod tests;
