//! Numbers that everyone can compute, and their sums.

use pascaline_worker::Element;

/// A type of elements of which samples can be drawn and sums checked.
pub(super) trait Sample: Element + Default + core::fmt::Debug {
    /// The element of a stream at an index.
    fn sample(stream: u64, index: u64) -> Self;
    /// The sum as it should be, if this is not the sum of `addends`.
    fn differs(self, addends: impl Iterator<Item = Self>) -> Option<f64>;
    /// The bits.
    fn to_raw_bits(self) -> u32;
}

/// Murmur3's finaliser: every bit of the input moves half the bits of the output.
pub(super) const fn mix(value: u64) -> u64 {
    let value = (value ^ (value >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let value = (value ^ (value >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    value ^ (value >> 33)
}

/// The numbers of one rank in one iteration.
pub(super) const fn stream(seed: u64, rank: u16, iteration: u32) -> u64 {
    mix(mix(seed) ^ ((rank as u64) << 32) ^ iteration as u64)
}

/// Twenty-four random bits and a sign: what both types represent exactly.
const fn signed_24(stream: u64, index: u64) -> i32 {
    (mix(stream.wrapping_add(index)).cast_signed() >> 39) as i32
}

impl Sample for i32 {
    /// Below 2²⁰ in magnitude: the sum over 1,024 ranks does not saturate.
    fn sample(stream: u64, index: u64) -> Self {
        signed_24(stream, index) >> 4
    }

    fn differs(self, addends: impl Iterator<Item = Self>) -> Option<f64> {
        let sum: Self = addends.sum();
        (self != sum).then_some(f64::from(sum))
    }

    fn to_raw_bits(self) -> u32 {
        self.cast_unsigned()
    }
}

impl Sample for f32 {
    /// From −1 to below 1, a multiple of 2⁻²⁴.
    #[expect(clippy::cast_precision_loss, reason = "24 bits fit")]
    fn sample(stream: u64, index: u64) -> Self {
        signed_24(stream, index) as Self / 16_777_216.0
    }

    /// Adding N numbers in whatever order takes N − 1 additions, each of which changes its result by a factor of
    /// at most 1 + u, u = 2⁻²⁴. No number takes part in more than N − 1 of them, so the sum is off by at most
    /// ((1 + u)^(N−1) − 1) Σ|x| < (N − 1) u Σ|x| (1 + 2⁻¹³), since (N − 1) u < 2⁻¹⁴ for N ≤ 1,024. The reference in
    /// f64 is off by N 2⁻⁵³ Σ|x| at most, which doubling the 2⁻¹³ more than covers.
    fn differs(self, addends: impl Iterator<Item = Self>) -> Option<f64> {
        let (mut count, mut sum, mut magnitude) = (0_u32, 0.0, 0.0);
        for addend in addends.map(f64::from) {
            count += 1;
            sum += addend;
            magnitude += addend.abs();
        }
        let unit = f64::powi(2.0, -24) * (1.0 + f64::powi(2.0, -12));
        let bound = f64::from(count.saturating_sub(1)) * unit * magnitude;
        // Not `>`: a NaN is no sum of these.
        let within = (f64::from(self) - sum).abs() <= bound;
        (!within).then_some(sum)
    }

    fn to_raw_bits(self) -> u32 {
        self.to_bits()
    }
}
