//! Who is cut when an lcore has more to do than it can.
//!
//! While its bursts are full turn after turn, packets wait in the receive queues, and in the end are lost
//! there: anybody's. So what a job sends beyond its share is dropped before the pool, which is as cheap as a
//! packet that cannot be parsed. What comes to results does not count: workers send no more of that than
//! their windows allow, and dropping it would only have it sent again.

use pascaline_aggregator::{TENANTS, Tenant};

use crate::meter::{PACKET, PerTenant, RECEIVED};

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
    /// The clock of the meter: it counts received packets.
    received: u64,
    /// Tenants that have sent packets in this interval.
    sent: [bool; TENANTS],
    meter: PerTenant,
}

impl Default for Overload {
    fn default() -> Self {
        Self { full: 0, received: 0, sent: [false; TENANTS], meter: PerTenant::default() }
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
        self.full = 0;
        self.sent = [false; TENANTS];
        self.meter.reset();
    }

    /// Divides what may be wasted of the packets received among the tenants that have sent any.
    #[inline(never)]
    fn allow(&mut self, weights: &[u32; TENANTS]) {
        let senders = self.sent.iter().filter(|sent| **sent).count();
        if senders > 0 {
            let sent = self.sent.iter().zip(weights);
            let parts = sent.map(|(&sent, &weight)| u64::from(sent) * u64::from(weight)).sum();
            self.meter.share_out(RECEIVED, weights, if senders > 1 { parts } else { 0 });
            self.sent = [false; TENANTS];
        }
    }

    /// Counts a packet. False if it is to be dropped.
    #[inline]
    pub(crate) fn admits(&mut self, tenant: Tenant) -> bool {
        self.sent[usize::from(tenant.0)] = true;
        self.received += PACKET;
        self.meter.take(tenant, self.received)
    }

    /// Notes that as many contributions of a tenant are in a result.
    #[inline(always)]
    pub(crate) fn came_to_a_result(&mut self, tenant: Tenant, contributions: u16) {
        self.meter.give(tenant, contributions.into());
    }
}

#[cfg(test)]
mod tests;
