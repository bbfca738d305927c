//! Who is cut when an lcore has more to do than it can.
//!
//! While its bursts are full turn after turn, packets wait in the receive queues, and in the end are lost
//! there: anybody's. So what a job sends beyond its share is dropped before the pool, which is as cheap as a
//! packet that cannot be parsed. What comes to results does not count: workers send no more of that than
//! their windows allow, and dropping it would only have it sent again.

use pascaline_aggregator::{TENANTS, Tenant};

/// Turns in a row with a full burst after which an lcore counts as overloaded: longer than it takes to work
/// off what the windows of some jobs let their workers send at once.
const SUSTAINED: u32 = 256;
/// Turns after which it is decided anew who may send how much.
const INTERVAL: u32 = 64;

/// What one lcore knows of it.
#[derive(Debug)]
pub(crate) struct Overload {
    /// Turns in a row with a full burst.
    full: u32,
    /// Packets of each tenant in this interval.
    seen: [u32; TENANTS],
    /// These, less the contributions in results.
    wasted: [u32; TENANTS],
    /// How many may be wasted.
    allowed: [u32; TENANTS],
}

impl Default for Overload {
    fn default() -> Self {
        Self { full: 0, seen: [0; TENANTS], wasted: [0; TENANTS], allowed: [u32::MAX; TENANTS] }
    }
}

impl Overload {
    /// True while there is more to do than the lcore can.
    #[inline(always)]
    pub(crate) const fn is_on(&self) -> bool {
        self.full >= SUSTAINED
    }

    /// Notes a turn, and whether one of its bursts was full.
    #[inline(always)]
    pub(crate) fn turn(&mut self, full: bool, weights: &[u32; TENANTS]) {
        if full {
            self.full = self.full.saturating_add(1);
            if self.full > SUSTAINED && self.full.is_multiple_of(INTERVAL) {
                self.allow(weights);
            }
        } else if self.is_on() {
            self.end();
        } else {
            self.full = 0;
        }
    }

    #[cold]
    #[inline(never)]
    fn end(&mut self) {
        *self = Self::default();
    }

    /// Decides how much of the next interval each may waste: its share of what came in this one, among those
    /// that sent.
    #[inline(never)]
    fn allow(&mut self, weights: &[u32; TENANTS]) {
        let sent = || self.seen.iter().zip(weights).filter(|(seen, _)| **seen > 0);
        let all: u64 = sent().map(|(&seen, _)| u64::from(seen)).sum();
        let parts: u64 = sent().map(|(_, &weight)| u64::from(weight)).sum();
        let alone = sent().count() <= 1;
        for (allowed, &weight) in self.allowed.iter_mut().zip(weights) {
            let share = (all * u64::from(weight)).checked_div(parts).unwrap_or(0);
            *allowed = if alone { u32::MAX } else { u32::try_from(share).unwrap_or(u32::MAX) };
        }
        (self.seen, self.wasted) = ([0; TENANTS], [0; TENANTS]);
    }

    /// Counts a packet. False if it is to be dropped.
    #[inline]
    pub(crate) fn admits(&mut self, tenant: Tenant) -> bool {
        let at = usize::from(tenant.0);
        self.seen[at] = self.seen[at].saturating_add(1);
        self.wasted[at] = self.wasted[at].saturating_add(1);
        self.wasted[at] <= self.allowed[at]
    }

    /// Notes that as many contributions of a tenant are in a result.
    #[inline(always)]
    pub(crate) fn came_to_a_result(&mut self, tenant: Tenant, contributions: u16) {
        if self.is_on() {
            let wasted = &mut self.wasted[usize::from(tenant.0)];
            *wasted = wasted.saturating_sub(u32::from(contributions));
        }
    }
}

#[cfg(test)]
mod tests;
