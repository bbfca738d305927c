//! The name of a PSN, and its place.

#[cfg(test)]
mod tests;

/// Job, generation and PSN in one word, whose highest byte is free.
///
/// Of the generation only the lower byte: packets of others are refused before, and no slot outlives 256 of
/// them, since sweeps vacate what is of a past one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Key(u64);

impl Key {
    /// The key of a PSN.
    #[must_use]
    #[inline]
    pub const fn new(job: u16, epoch: u16, psn: u32) -> Self {
        Self((job as u64) << 40 | (epoch as u64 & 0xff) << 32 | psn as u64)
    }

    /// The job.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "16 bits lie above bit 40")]
    pub const fn job(self) -> u16 {
        (self.0 >> 40) as u16
    }

    /// The lower byte of the job's generation.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the byte at bit 32")]
    pub const fn generation(self) -> u8 {
        (self.0 >> 32) as u8
    }

    /// True if this may be the job's generation.
    #[must_use]
    #[inline]
    pub const fn is_of(self, epoch: u16) -> bool {
        self.generation() == epoch.to_be_bytes()[1]
    }

    /// The PSN.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the low word")]
    pub const fn psn(self) -> u32 {
        self.0 as u32
    }

    /// The key as one number.
    #[must_use]
    #[inline]
    pub const fn to_bits(self) -> u64 {
        self.0
    }

    /// The key of a number made by [`to_bits`](Self::to_bits).
    #[must_use]
    #[inline]
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// True if the PSN, as a serial number, is before the other's (RFC 1982).
    #[must_use]
    #[inline]
    pub const fn is_before(self, other: Self) -> bool {
        let ahead = other.psn().wrapping_sub(self.psn());
        ahead != 0 && ahead < 1 << 31
    }

    /// An even chance that neither the sender nor the holder of a slot can easily foresee, and that is
    /// reproducible in a simulation.
    #[must_use]
    pub(crate) const fn coin(self, now: u64) -> bool {
        // One round of SplitMix64's mixing.
        let mut z = self.0 ^ now.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) & 1 != 0
    }

    /// A short form that differs between most keys, which a set compares before it reads a slot.
    #[must_use]
    #[inline]
    pub(crate) const fn tag(self) -> Tag {
        Tag::new(self.spread_job(), self.psn())
    }

    /// `hash(job, psn)`: the place among this many sets, fewer than 2³².
    ///
    /// Multiplication by the golden ratio spreads any arithmetic sequence of PSNs evenly (the three-distance
    /// theorem): a window of consecutive PSNs up to about a third of the sets meets no conflict of its own
    /// making, and so does every n-th PSN when a job's packets are dealt over n trees. Jobs and generations
    /// start at unrelated places.
    #[must_use]
    #[inline]
    pub const fn place(self, sets: usize) -> usize {
        place(self.spread_job(), self.psn(), sets)
    }

    /// Distinguishes jobs and generations in tags and places. Not the multiplier of `place`, or job n's PSNs
    /// would lie where job 0's lie a little later.
    #[inline]
    pub(crate) const fn spread_job(self) -> u32 {
        ((self.0 >> 32) as u32).wrapping_mul(0x85eb_ca6b)
    }
}

/// [`Key::place`], where `spread_job` is known.
#[inline(always)]
pub(crate) const fn place(spread_job: u32, psn: u32, sets: usize) -> usize {
    const GOLDEN: u32 = 0x9e37_79b1;
    let hash = psn.wrapping_mul(GOLDEN).wrapping_add(spread_job);
    ((hash as u64).wrapping_mul(sets as u64) >> 32) as usize
}

/// A short form of a key: keys that meet in a set nearly always differ in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag(pub(crate) u16);

impl Tag {
    /// The tag of a PSN of the job with this spread. PSNs that meet in a set may well be a multiple of 65,536
    /// apart: in the region of a job they are a multiple of its sets.
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the low half, with the other one folded in")]
    pub(crate) const fn new(spread_job: u32, psn: u32) -> Self {
        let both = psn ^ spread_job;
        Self((both ^ both >> 16) as u16)
    }
}
