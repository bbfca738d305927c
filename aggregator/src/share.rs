//! Shares: how many ways of each set a job is guaranteed, whatever the others do.

#[cfg(test)]
mod tests;

/// A job among those that share the pool: a small number, which it keeps for its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Tenant(pub u8);

/// Tenants that can be distinguished.
pub const TENANTS: usize = 1 << 8;

/// Parts into which a pool is divided, as a power of two.
const SCALE: u32 = 15;

/// A part of the pool, from here to there in units of 2^-[`SCALE`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Share {
    from: u16,
    to: u16,
}

/// The part of the shared pool that each tenant is guaranteed.
///
/// The shares lie one after the other on a line of the length of a set. Each set lays its ways on it, from an
/// offset of its own, and a tenant is guaranteed the ways that end in its share. So every way of a set has an
/// owner, over all sets each tenant has exactly its part, and no lcore needs to know what another one's sets
/// hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares([Share; TENANTS]);

impl Default for Shares {
    fn default() -> Self {
        Self::NONE
    }
}

impl Shares {
    /// No tenant has a guarantee.
    pub const NONE: Self = Self([Share { from: 0, to: 0 }; TENANTS]);

    /// Shares in proportion to weights; several entries of a tenant are added up.
    #[must_use]
    pub fn by_weight(weights: impl IntoIterator<Item = (Tenant, u16)>) -> Self {
        let mut by_tenant = [0_u64; TENANTS];
        for (tenant, weight) in weights {
            by_tenant[usize::from(tenant.0)] += u64::from(weight);
        }
        let all: u64 = by_tenant.iter().sum();
        let mut shares = Self::NONE;
        let place =
            |sum: u64| u16::try_from((sum << SCALE).checked_div(all).unwrap_or(0)).unwrap_or(u16::MAX);
        let mut sum = 0;
        for (share, weight) in shares.0.iter_mut().zip(by_tenant) {
            share.from = place(sum);
            sum += weight;
            share.to = place(sum);
        }
        shares
    }

    /// How many of the ways of a set a tenant is guaranteed.
    #[inline]
    #[must_use]
    pub fn guaranteed_ways(&self, tenant: Tenant, set: usize, ways: usize) -> u32 {
        const GOLDEN: u32 = 0x9e37_79b1;
        let Share { from, to } = self.0[usize::from(tenant.0)];
        #[expect(clippy::cast_possible_truncation, reason = "at most 8 ways of at most 2^28 sets")]
        let (offset, ways) = ((set as u32).wrapping_mul(GOLDEN) >> (u32::BITS - SCALE), ways as u32);
        let end = |place: u16| (u32::from(place) * ways + offset) >> SCALE;
        end(to) - end(from)
    }

    /// The part of the pool that a tenant is guaranteed, from 0 to 1.
    #[must_use]
    pub fn part(&self, tenant: Tenant) -> f64 {
        let Share { from, to } = self.0[usize::from(tenant.0)];
        f64::from(to - from) / f64::from(1_u32 << SCALE)
    }
}
