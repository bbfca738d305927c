//! What may be used without a result to show for it: a token bucket for each tenant and resource.
//!
//! A tenant is whatever is charged: a job, a member, a server, a stranger's address, a PSN. Times are
//! nanoseconds of the caller's clock.

use core::sync::atomic::{AtomicU64, Ordering};

use pascaline_aggregator::{Key, TENANTS, Tenant};

use crate::io::BURST;

/// How fast a bucket fills, and how much it holds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Rate {
    /// Nanoseconds from one token to the next; 0 for no limit.
    every: u64,
    burst: u64,
}

impl Rate {
    const fn per_second(tokens: u64, burst: u64) -> Self {
        Self { every: 1_000_000_000 / tokens, burst }
    }

    /// With a burst that is as many times as large.
    pub(crate) const fn times(self, factor: u64) -> Self {
        Self { burst: self.burst * factor, ..self }
    }
}

// The table of all rates. Sections are those of docs/protocol.md.

/// Control requests of a member or a server (9, Too many requests): several times what one sends that repeats
/// its requests every 20 ms.
pub(crate) const MEMBER: Rate = Rate::per_second(200, 64);
/// Those of all members at one address: heartbeats of 256 ranks, and the Joins of as many ranks as a job has.
pub(crate) const HOST: Rate = Rate::per_second(2560, 4096);
/// Those from an address that no member has joined from: enough for a host on which many ranks start at once.
pub(crate) const STRANGER: Rate = Rate::per_second(1000, 512);
/// Answers `too_many` to one source (9): enough to be noticed.
pub(crate) const TOO_MANY: Rate = Rate::per_second(10, 1);
/// Reminders, kept results and commands about PSNs of one member, by lcore (11, What one member may cause).
/// The burst is in windows: after a restart, everything in flight may have to be requested.
pub(crate) const ASKS: Rate = Rate::per_second(2000, 2);
/// Refusals of packets, by lcore, to members and to all others (9, Rejections outside of membership; 14; 15):
/// an lcore must not become an amplifier of mistakes.
pub(crate) const REFUSALS: Rate = Rate::per_second(1000, 1);
/// Answers to the protocol version before this one, by appliance (12).
pub(crate) const FORMER: Rate = Rate::per_second(1, 1);
/// What requests for one PSN make an lcore send to the other ranks, or to the parent (10): all ranks that
/// wait may ask, ...
const PSN: Rate = Rate::per_second(1000, 1);
/// ... and for many PSNs.
const PSNS: Rate = Rate::per_second(64_000, 64);
/// Unproductive packets of all jobs, by lcore (docs/operating.md, Shares): those that the one parameter
/// server has to handle, ...
const SERVER: Rate = Rate::per_second(4000, AT_ONCE);
/// ... and those that the pool has to. All lcores pause a job that exceeds its share (`jobs/pauses.rs`): such
/// packets are dropped before the pool.
const POOL: Rate = Rate::per_second(800, AT_ONCE);
/// What a job of 8 ranks with a window of 512 may have sent without a result.
const AT_ONCE: u64 = 8 * 512;
/// Unproductive packets of all jobs that an overloaded lcore accepts (docs/operating.md, Shares): as many as
/// it receives. The received packets are the time, too; a burst is what comes until shares change again.
pub(crate) const RECEIVED: Rate = Rate { every: PACKET, burst: 64 * BURST as u64 };
/// A packet as a time, fine enough for shares of it.
pub(crate) const PACKET: u64 = 1 << 16;

/// A token bucket; full when new.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Bucket {
    /// When it will be full.
    full: u64,
}

impl Bucket {
    /// Takes a token. False if there is none.
    pub(crate) fn take(&mut self, now: u64, rate: Rate) -> bool {
        let empty = now.saturating_add(rate.every.saturating_mul(rate.burst));
        // Also when its rate was lower before.
        self.full = self.full.max(now).min(empty);
        let has = self.has(now, rate);
        if has {
            self.full = self.full.saturating_add(rate.every);
        }
        has
    }

    /// True if there is a token.
    pub(crate) fn has(self, now: u64, Rate { every, burst }: Rate) -> bool {
        self.full <= now.saturating_add(every.saturating_mul(burst.saturating_sub(1)))
    }

    /// Takes a token from a bucket in a cell that only the caller writes.
    pub(crate) fn take_from(cell: &AtomicU64, now: u64, rate: Rate) -> bool {
        let mut bucket = Self { full: cell.load(Ordering::Relaxed) };
        let may = bucket.take(now, rate);
        cell.store(bucket.full, Ordering::Relaxed);
        may
    }

    /// Takes a token from a bucket in a cell that others write, too. False also if another was faster.
    pub(crate) fn take_shared(cell: &AtomicU64, now: u64, rate: Rate) -> bool {
        let (before, relaxed) = (cell.load(Ordering::Relaxed), Ordering::Relaxed);
        let mut bucket = Self { full: before };
        bucket.take(now, rate) && cell.compare_exchange(before, bucket.full, relaxed, relaxed).is_ok()
    }
}

/// A bucket for each tenant of the pool, filled at its share of a rate. Without shares there is no limit.
#[derive(Debug)]
pub(crate) struct PerTenant {
    /// Nothing has been taken yet that a limit is for.
    whole: bool,
    tenants: Box<[(Bucket, Rate); TENANTS]>,
}

impl Default for PerTenant {
    fn default() -> Self {
        Self { whole: true, tenants: Box::new([Default::default(); TENANTS]) }
    }
}

impl PerTenant {
    /// Forgets what was taken, and the shares.
    pub(crate) fn reset(&mut self) {
        self.whole = true;
        self.tenants.fill(Default::default());
    }

    /// Gives each tenant its part of a rate, by weight, where all parts make up `parts`. No parts: no limit.
    pub(crate) fn share_out(&mut self, rate: Rate, weights: &[u32; TENANTS], parts: u64) {
        for ((_, own), &weight) in self.tenants.iter_mut().zip(weights) {
            *own = Rate { every: rate.every * parts / u64::from(weight.max(1)), ..rate };
        }
    }

    /// Takes a token of a tenant's. False if there is none.
    pub(crate) fn take(&mut self, tenant: Tenant, now: u64) -> bool {
        let (bucket, rate) = &mut self.tenants[usize::from(tenant.0)];
        self.whole &= rate.every == 0;
        bucket.take(now, *rate)
    }

    /// Gives a tenant tokens for a result: as many as it can have taken, with what was requested once more.
    #[inline(always)]
    pub(crate) fn earn(&mut self, tenant: Tenant, fan_in: u16) {
        self.give(tenant, 2 * u64::from(fan_in) + 2);
    }

    /// Gives tokens back.
    #[inline(always)]
    pub(crate) fn give(&mut self, tenant: Tenant, tokens: u64) {
        if !self.whole {
            self.put(tenant, tokens);
        }
    }

    #[inline(never)]
    fn put(&mut self, tenant: Tenant, tokens: u64) {
        let (bucket, rate) = &mut self.tenants[usize::from(tenant.0)];
        bucket.full = bucket.full.saturating_sub(rate.every.saturating_mul(tokens));
    }
}

const PLACES: usize = 256;

/// Buckets for PSNs: a fixed number, so that PSNs may have to share one; consecutive ones do not.
#[derive(Debug)]
pub(crate) struct PerPsn {
    places: Box<[Bucket; PLACES]>,
    all: Bucket,
}

impl Default for PerPsn {
    fn default() -> Self {
        Self { places: Box::new([Bucket::default(); PLACES]), all: Bucket::default() }
    }
}

impl PerPsn {
    /// Takes a token of a PSN's, and one of all PSNs'. False if either is missing.
    pub(crate) fn take(&mut self, key: Key, now: u64) -> bool {
        let place = &mut self.places[(key.psn() as usize ^ usize::from(key.job())) % PLACES];
        self.all.has(now, PSNS) && place.take(now, PSN) && self.all.take(now, PSNS)
    }
}

/// What an lcore meters.
#[derive(Debug, Default)]
pub(crate) struct Limits {
    /// Refusals to strangers, and to members: neither take the others' tokens.
    pub(crate) refusals: [Bucket; 2],
    /// Reminders to all ranks of a PSN that the pool does not know: one frame in, one for each rank out. The
    /// pool itself limits reminders of PSNs that it knows.
    pub(crate) fan_outs: PerPsn,
    /// Sums and results that go to the parent once more: each rank that waits asks for it.
    pub(crate) climbs: PerPsn,
    /// The same for reminders. A worker sends one right behind a contribution, which must not take its token.
    pub(crate) asks: PerPsn,
    /// Packets to the parameter server without a result.
    pub(crate) server: PerTenant,
    /// Packets to the pool without a result.
    pub(crate) pool: PerTenant,
}

impl Limits {
    /// Divides what jobs share.
    pub(crate) fn share_out(&mut self, weights: &[u32; TENANTS]) {
        let parts = weights.iter().copied().map(u64::from).sum();
        self.server.share_out(SERVER, weights, parts);
        self.pool.share_out(POOL, weights, parts);
    }
}

#[cfg(test)]
mod tests;
