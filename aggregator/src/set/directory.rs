//! The contents of a set's ways, in one cache line.

use wide::{i16x8, u8x16, u16x8};

use super::MAX_WAYS;
use crate::key::Tag;
use crate::sabotage::Sabotage;
use crate::share::Tenant;

/// Read before any slot: the tags of the keys, and which slots are in use. It fills a cache line.
pub(crate) struct Directory {
    tags: [u16; MAX_WAYS],
    /// When cached results were last used: the value of `uses` then.
    stamps: [u16; MAX_WAYS],
    /// When partials were opened, in units of [`TICK`], wrapping after a minute.
    opened: [u16; MAX_WAYS],
    /// The tenant of each way.
    tenants: [u8; MAX_WAYS],
    uses: u16,
    used: u8,
    /// Ways with a cached result.
    results: u8,
}

/// Nanoseconds, as a power of two: about a millisecond.
const TICK: u32 = 20;

/// Time in units of [`TICK`].
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "wraps by design")]
const fn ticks(nanos: u64) -> u16 {
    (nanos >> TICK) as u16
}

/// The age from which a partial may be evicted, in units of [`TICK`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limit(u16);

impl Limit {
    /// The limit of this many nanoseconds.
    #[expect(clippy::cast_possible_truncation, reason = "at most half of what 16 bits hold")]
    pub(crate) const fn of(nanos: u64) -> Self {
        const MOST: u64 = 1 << 15;
        // A longer limit counts as half a minute: partials older than that are looked at.
        let ticks = nanos >> TICK;
        Self(if ticks < MOST { ticks } else { MOST } as u16)
    }
}

impl Directory {
    pub(crate) const fn new() -> Self {
        Self {
            tags: [0; MAX_WAYS],
            stamps: [0; MAX_WAYS],
            opened: [0; MAX_WAYS],
            tenants: [0; MAX_WAYS],
            uses: 0,
            used: 0,
            results: 0,
        }
    }

    /// Notes that a way's cached result is used now.
    #[inline]
    pub(crate) fn use_result(&mut self, way: usize) {
        self.uses = self.uses.wrapping_add(1);
        if let Some(stamp) = self.stamps.get_mut(way) {
            *stamp = self.uses;
            self.results |= 1 << way;
        }
    }

    /// The way with the longest idle result.
    ///
    /// It reads no slot, since each is a cache line. After 65,536 uses of its neighbours a result may be
    /// taken for a younger one; in a set of eight that is harmless.
    #[inline]
    pub(super) fn longest_idle_result(&self) -> Option<usize> {
        self.longest_idle_among(u8::MAX)
    }

    /// The same among some ways, a bit for each.
    #[inline]
    pub(crate) fn longest_idle_among(&self, among: u8) -> Option<usize> {
        let mut best = None;
        let mut left = self.results & among;
        while left != 0 {
            let way = left.trailing_zeros() as usize;
            let unused = self.uses.wrapping_sub(self.stamps[way]);
            if best.is_none_or(|(most, _)| unused > most) {
                best = Some((unused, way));
            }
            left &= left - 1;
        }
        best.map(|(_, way)| way)
    }

    /// The ways that may hold a key with this tag, a bit for each.
    #[inline(always)]
    pub(super) fn candidates(&self, tag: Tag) -> u8 {
        // All tags at once, whatever the number of ways.
        let tags = i16x8::new(self.tags.map(u16::cast_signed));
        let equal = tags.simd_eq(i16x8::splat(tag.0.cast_signed())).to_bitmask();
        #[expect(clippy::cast_possible_truncation, reason = "eight ways, eight bits")]
        let equal = equal as u8;
        equal & self.used
    }

    /// True if no key with this tag is here.
    #[inline(always)]
    pub(crate) fn misses(&self, tag: Tag) -> bool {
        self.candidates(tag) == 0
    }

    /// The way that holds the key with this tag, or otherwise the one that it will probably get; of this many
    /// ways.
    #[inline(always)]
    pub(crate) fn predict(&self, tag: Tag, ways: usize) -> usize {
        match self.candidates(tag) {
            0 => self.empty(ways).or_else(|| self.longest_idle_result()).unwrap_or(0),
            candidates => candidates.trailing_zeros() as usize,
        }
    }

    /// True if a key with this tag, which is not here, gets this way without reading the slots: it holds no
    /// partial, and no partial that might be evicted first is older than the limit. Reading each partial
    /// would cost a cache line. One that is a minute older than the limit is sometimes taken for a young one.
    #[inline(always)]
    pub(crate) fn is_free_for(&self, tag: Tag, way: usize, now: u64, limit: Limit) -> bool {
        // All ways at once: a processor cannot predict which ones are open.
        let ages = u16x8::splat(ticks(now)) - u16x8::new(self.opened);
        let old = u16x8::splat(limit.0).saturating_sub(ages).simd_eq(u16x8::ZERO).to_bitmask();
        let open = u32::from(self.used & !self.results);
        let free = (old | 1 << (way % MAX_WAYS)) & open == 0 && self.candidates(tag) == 0;
        free && !Sabotage::WrongVictim.is_on() && !Sabotage::SlotNeverFreed.is_on()
    }

    /// Notes that a way, which is empty or held a result, is about to hold a key with this tag.
    #[inline(always)]
    pub(crate) fn occupy(&mut self, tag: Tag, way: usize, tenant: Tenant, now: u64) {
        let way = way % MAX_WAYS;
        self.opened[way] = ticks(now);
        self.tenants[way] = tenant.0;
        self.tags[way] = tag.0;
        self.used |= 1 << way;
        self.results &= !(1 << way);
    }

    /// Notes that a way is empty.
    pub(crate) fn vacated(&mut self, way: usize) {
        self.used &= !(1 << way);
        self.results &= !(1 << way);
    }

    /// An empty one of this many ways.
    #[inline]
    pub(crate) fn empty(&self, ways: usize) -> Option<usize> {
        let empty = (!self.used).trailing_zeros() as usize;
        (empty < ways).then_some(empty)
    }

    /// The ways in use by a tenant, a bit for each.
    #[inline]
    pub(crate) fn ways_of(&self, tenant: Tenant) -> u8 {
        let mut tenants = [0; 2 * MAX_WAYS];
        tenants[..MAX_WAYS].copy_from_slice(&self.tenants);
        let equal = u8x16::new(tenants).simd_eq(u8x16::splat(tenant.0)).to_bitmask();
        #[expect(clippy::cast_possible_truncation, reason = "eight ways, eight bits")]
        let equal = equal as u8;
        equal & self.used
    }

    /// The tenant of a way in use.
    #[inline(always)]
    pub(super) fn tenant_of(&self, way: usize) -> Tenant {
        Tenant(self.tenants[way % MAX_WAYS])
    }

    /// True if a way is empty, or in use by this tenant.
    #[inline(always)]
    pub(crate) fn is_its_own(&self, way: usize, tenant: Tenant) -> bool {
        let way = way % MAX_WAYS;
        self.used & 1 << way == 0 || self.tenants[way] == tenant.0
    }

    /// The ways with results that were begun before the limit, a bit for each.
    pub(super) fn stale_results(&self, now: u64, limit: Limit) -> u8 {
        let ages = u16x8::splat(ticks(now)) - u16x8::new(self.opened);
        let old = u16x8::splat(limit.0).saturating_sub(ages).simd_eq(u16x8::ZERO).to_bitmask();
        #[expect(clippy::cast_possible_truncation, reason = "eight ways, eight bits")]
        let old = old as u8;
        old & self.results
    }

    /// The ways that hold results, a bit for each.
    pub(super) const fn results_mask(&self) -> u8 {
        self.results
    }

    /// The ways in use, a bit for each.
    pub(super) const fn used_mask(&self) -> u8 {
        self.used
    }

    /// The ways that hold partials.
    pub(super) fn open_ways(&self) -> impl Iterator<Item = usize> + use<> {
        ways(self.used & !self.results)
    }

    /// The ways in use.
    pub(crate) fn used_ways(&self) -> impl Iterator<Item = usize> + use<> {
        ways(self.used)
    }
}

/// The ways whose bits are set.
fn ways(mut bits: u8) -> impl Iterator<Item = usize> {
    core::iter::from_fn(move || {
        let way = bits.trailing_zeros() as usize;
        bits &= bits.wrapping_sub(1);
        (way < MAX_WAYS).then_some(way)
    })
}
