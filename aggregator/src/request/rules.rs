//! A job's policy in one word.

use crate::policy::{ConflictPolicy, Order, Policy};
use crate::share::Tenant;

/// A job's [`Policy`] for one packet.
///
/// One word: a copy is one load and one store. Single fields read together would wait in the processor's
/// store buffer, behind the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules(u64);

impl Rules {
    const REGION: u64 = 1 << 48;
    const SERVER: u64 = 1 << 49;
    const SHARED: u64 = 1 << 50;
    const TENANT: u32 = 52;

    /// The rules of a policy.
    #[must_use]
    pub const fn of(policy: &Policy) -> Self {
        let &Policy { conflict, order, region, quota, server, .. } = policy;
        Self(
            quota as u64
                | (conflict as u64) << 32
                | (order as u64) << 40
                | if region.is_some() { Self::REGION } else { 0 }
                | if server { Self::SERVER } else { 0 },
        )
    }

    /// The same with another way of settling conflicts.
    #[must_use]
    pub const fn with_conflict(self, conflict: ConflictPolicy) -> Self {
        Self(self.0 & !(0xff << 32) | (conflict as u64) << 32)
    }

    /// The same for a result that takes the place of a cached one, since its [round](pascaline_wire::round)
    /// was agreed upon later.
    #[must_use]
    pub const fn superseding(self) -> Self {
        Self(self.0 | Self::SERVER)
    }

    /// The same for a job that shares with others as this tenant: the way between lcores, and without a
    /// region the pool, where its share is guaranteed and it takes no other's.
    #[must_use]
    pub const fn of_tenant(self, tenant: Tenant) -> Self {
        let shared = if self.region() { 0 } else { Self::SHARED };
        Self(self.0 & !(0xff << Self::TENANT) | shared | (tenant.0 as u64) << Self::TENANT)
    }

    /// The tenant, if shares of the pool count.
    #[inline(always)]
    pub(crate) const fn tenant(self) -> Option<Tenant> {
        if self.0 & Self::SHARED == 0 { None } else { Some(self.sender()) }
    }

    /// The tenant, wherever its PSNs are placed.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "a byte")]
    pub(crate) const fn sender(self) -> Tenant {
        Tenant((self.0 >> Self::TENANT) as u8)
    }

    pub(crate) const fn word(self) -> u64 {
        self.0
    }

    pub(crate) const fn of_word(word: u64) -> Self {
        Self(word)
    }

    /// [`Policy::quota`]
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low word")]
    pub const fn quota(self) -> u32 {
        self.0 as u32
    }

    /// True if a slot may be opened without further checks: in the shared part, by a job without quota.
    #[inline(always)]
    pub(crate) const fn open_freely(self) -> bool {
        self.0 & (u32::MAX as u64 | Self::REGION) == 0
    }

    /// The same in the job's own region, after a check of the other ways of the set.
    #[inline(always)]
    pub(crate) const fn open_freely_in_region(self) -> bool {
        self.0 & (u32::MAX as u64 | Self::REGION) == Self::REGION
    }

    /// [`Policy::conflict`]
    #[must_use]
    pub const fn conflict(self) -> ConflictPolicy {
        ConflictPolicy::ALL[(self.0 >> 32) as usize & 0xff]
    }

    /// [`Policy::order`]
    #[must_use]
    #[inline]
    pub const fn order(self) -> Order {
        if (self.0 >> 40) & 0xff == Order::Arrival as u64 { Order::Arrival } else { Order::Rank }
    }

    /// True if the key belongs to the job's own region.
    #[must_use]
    pub const fn region(self) -> bool {
        self.0 & Self::REGION != 0
    }

    /// [`Policy::server`]
    #[must_use]
    #[inline]
    pub const fn server(self) -> bool {
        self.0 & Self::SERVER != 0
    }
}
