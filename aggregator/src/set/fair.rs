//! Which of the jobs that share a set gives way.
//!
//! Each job is guaranteed its share of the ways. More of them are borrowed: from an owner that does not use
//! them, and until it needs them. So a job under its share takes a way of one over its share, whatever that
//! holds; a job that has its share takes one of its own, one unused for long, or one of a job that has
//! borrowed more. Only between jobs that have borrowed equally much, and among a job's own PSNs, does the
//! conflict policy decide.

use core::cmp::Ordering;

use pascaline_buffer::PacketBuf;

use super::{Directory, Limit, Set};
use crate::sabotage::Sabotage;
use crate::share::{Shares, Tenant};

/// Which ways a newcomer may have; a bit for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Claims {
    /// Those whose content is old enough.
    pub(super) by_age: u8,
    /// Those borrowed from this job, whatever they hold.
    pub(super) back: u8,
    /// Those that the conflict policy decides.
    pub(super) contested: u8,
    /// The job has its share, and others have theirs.
    pub(super) limited: bool,
}

impl Claims {
    /// If shares do not count.
    pub(super) const ALL: Self = Self { by_age: u8::MAX, back: 0, contested: u8::MAX, limited: false };
}

/// Ways of a tenant beyond those guaranteed; negative if it may have more. One way is never borrowed:
/// otherwise a job without a way of its own here could not complete these PSNs while others are busy.
fn borrowed(directory: &Directory, shares: &Shares, tenant: Tenant, set: usize, ways: usize) -> i64 {
    let held = directory.ways_of(tenant).count_ones();
    i64::from(held) - i64::from(shares.guaranteed_ways(tenant, set, ways).max(1))
}

/// True if a newcomer of a tenant may replace the result of another one: it is under its share, and the other
/// one over its own.
pub(crate) fn may_replace(
    directory: &Directory,
    shares: &Shares,
    tenant: Tenant,
    way: usize,
    (set, ways): (usize, usize),
) -> bool {
    let borrowed = |tenant| borrowed(directory, shares, tenant, set, ways);
    borrowed(tenant) < 0 && borrowed(directory.tenant_of(way)) > 0 && !Sabotage::ShareKept.is_on()
}

impl<B: PacketBuf, const WORDS: usize> Set<'_, B, WORDS> {
    /// Which ways of this set, which is full, a newcomer of a tenant may have. After `idle`, a result is of
    /// no more use.
    pub(super) fn claims(&self, tenant: Tenant, now: u64, idle: Limit) -> Claims {
        let ways = self.slots.len();
        let borrowed = |tenant| borrowed(self.directory, self.shares, tenant, self.number, ways);
        let own = self.directory.ways_of(tenant);
        let stale = self.directory.stale_results(now, idle);
        // With the newcomer.
        let mine = borrowed(tenant) + 1;
        let limited = mine > 0 && (self.shares.guaranteed_ways(tenant, self.number, ways) as usize) < ways;
        let mut claims = Claims { by_age: own | stale, back: 0, contested: own, limited };
        if Sabotage::ShareKept.is_on() {
            return claims;
        }
        if mine <= 0 {
            // Others have borrowed, or there are more jobs here than ways.
            (claims.by_age, claims.contested) = (stale, 0);
        }
        let mut most = mine.max(0);
        let mut left = self.directory.used_mask() & !own;
        while left != 0 {
            let other = self.directory.tenant_of(left.trailing_zeros() as usize);
            let (theirs, its) = (borrowed(other), self.directory.ways_of(other));
            left &= !its;
            match theirs.cmp(&mine.max(0)) {
                Ordering::Greater => claims.by_age |= its,
                Ordering::Equal if mine > 0 => match its & self.directory.results_mask() {
                    0 => claims.contested |= its,
                    results => claims.by_age |= results,
                },
                _ => {}
            }
            if theirs > most {
                (most, claims.back) = (theirs, its);
            }
        }
        if mine <= 0 && claims.back == 0 {
            // A tenant without a way here gets one by age, however busy that one's job is.
            claims.by_age = self.directory.used_mask();
            claims.contested = self.directory.used_mask();
        }
        claims
    }

    /// The partial to evict when its job has to give a way back: the longest idle one.
    pub(super) fn given_back(&self, among: u8, now: u64) -> Option<usize> {
        let held = |way: usize| Some((way, self.slots.get(way)?.idle(now)));
        let partials = self.directory.open_ways().filter(|way| among & 1 << way != 0);
        partials.filter_map(held).max_by_key(|(_, idle)| *idle).map(|(way, _)| way)
    }
}
