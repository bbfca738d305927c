//! The one source of randomness: a schedule's seed determines everything in it.

/// SplitMix64.
#[derive(Debug, Clone)]
pub struct Random(u64);

/// Spreads every bit of `x` over all bits of the result; the finisher of SplitMix64.
pub const fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

impl Random {
    /// Neighbouring seeds give unrelated sequences.
    pub const fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x5bd1_e995_9e37_79b9))
    }

    /// The next 64 bits.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// Uniform below `bound`; 0 if that is 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        if bound == 0 { 0 } else { self.next() % bound }
    }

    /// Uniform between both ends, which may be drawn themselves.
    pub const fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.below(most.saturating_sub(least).saturating_add(1))
    }

    /// An index below `len`.
    #[expect(clippy::cast_possible_truncation, reason = "below a usize")]
    pub const fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// True `per_million` times in a million.
    pub const fn chance(&mut self, per_million: u32) -> bool {
        per_million > 0 && self.below(1_000_000) < per_million as u64
    }

    /// One of the choices; the default of the type if there are none.
    pub fn pick<T: Copy + Default>(&mut self, choices: &[T]) -> T {
        let at = self.index(choices.len());
        choices.get(at).copied().unwrap_or_default()
    }
}
