//! Microscaling blocks: 32 elements of 8 bits that share a scale (OCP Microscaling Formats, version 1.0).
//!
//! ```text
//!   0  scale     E8M0: 2^(scale − 127); 255 makes every element a NaN
//!   1  element 0
//!   …
//!  32  element 31
//! ```
//!
//! An element of [`Fp8`] is OCP E4M3: sign, four bits of exponent (bias 7), three of fraction, up to 448; 7f
//! and ff are NaNs, and there is no infinity. One of [`Int8`] is a signed byte in sixty-fourths.
//!
//! **Rounding.** The scale is the largest power of two that is not above the largest magnitude, divided by
//! the largest power of two that an element can be (2⁸; 1), and at least 2⁻¹²⁷. Elements are rounded to
//! nearest, from halfway to even; those beyond the largest element become it (448; ±127/64). Infinities and
//! NaNs count for no scale: an [`Fp8`] becomes the NaN 7f, and a block of [`Int8`], which has none, becomes
//! the scale 255 and zeros. So with m as the block's largest magnitude, x is off by at most
//!
//! | | error |
//! |---|---|
//! | [`Fp8`] | the larger of \|x\|/16 and 2⁻¹⁸ m; above 464 times the scale (29/32 m or more), \|x\|/8 |
//! | [`Int8`] | m/128 |
//!
//! and by 2⁻¹³⁷ or 2⁻¹³⁴ where the scale would have to be below the smallest.
//!
//! Everything here is without branches on values, and inlined, so that callers that may use wide registers
//! get loops that do.

/// Elements of a block.
pub const ELEMENTS: usize = 32;
/// Bytes of a block.
pub const BYTES: usize = 1 + ELEMENTS;

/// A block on the wire.
pub type Block = [u8; BYTES];
/// Its values.
pub type Values = [f32; ELEMENTS];

mod sealed {
    pub trait Sealed {}
}

/// A type of elements in blocks.
pub trait Format: sealed::Sealed + Copy {
    /// The exponent of the largest power of two that an element can be.
    const LARGEST: u8;
    /// `decode` gives values 2^`UNIT` times too large.
    const UNIT: u32;

    /// The element's value, times 2^`UNIT`.
    fn decode(element: u8) -> f32;

    /// The element nearest to a finite value that has been divided by the scale.
    fn encode(scaled: f32) -> u8;

    /// Marks a block in which some values were not finite.
    fn spoil(block: &mut Block, values: &Values);
}

/// MXFP8 with elements of E4M3.
#[derive(Debug, Clone, Copy)]
pub enum Fp8 {}

/// MXINT8.
#[derive(Debug, Clone, Copy)]
pub enum Int8 {}

impl sealed::Sealed for Fp8 {}
impl sealed::Sealed for Int8 {}

impl Format for Fp8 {
    const LARGEST: u8 = 8;
    const UNIT: u32 = 0;

    #[inline(always)]
    fn decode(element: u8) -> f32 {
        let (sign, magnitude) = (u32::from(element & 0x80) << 24, u32::from(element & 0x7f));
        // Multiples of 2⁻⁹ below 2⁻⁶; otherwise the exponent's bias becomes that of binary32.
        #[expect(clippy::cast_precision_loss, reason = "7 bits")]
        let small = magnitude as f32 * POWER_OF_MINUS_9;
        let value = if magnitude < 8 { small.to_bits() } else { (magnitude << 20) + (120 << 23) };
        f32::from_bits(sign | if magnitude == 0x7f { NAN } else { value })
    }

    #[inline(always)]
    fn encode(scaled: f32) -> u8 {
        let sign = (scaled.to_bits() >> 24) & 0x80;
        let magnitude = f32::from_bits(scaled.to_bits() & MAGNITUDE).min(448.0);
        let bits = magnitude.to_bits();
        // The bits that go are rounded to even; a carry into the exponent is what it should be.
        let normal = (bits + 0x0007_ffff + ((bits >> 20) & 1)) >> 20;
        // An addition that leaves multiples of 2⁻⁹.
        let small = (magnitude + 16_384.0).to_bits().wrapping_sub(16_384_f32.to_bits());
        let rounded = if magnitude < 0.015_625 { small } else { normal.wrapping_sub(120 << 3) };
        low(sign | rounded)
    }

    #[inline(always)]
    fn spoil(block: &mut Block, values: &Values) {
        for (element, value) in block[1..].iter_mut().zip(values) {
            *element = if value.is_finite() { *element } else { 0x7f };
        }
    }
}

impl Format for Int8 {
    const LARGEST: u8 = 0;
    const UNIT: u32 = 6;

    #[inline(always)]
    fn decode(element: u8) -> f32 {
        f32::from(element.cast_signed())
    }

    #[inline(always)]
    fn encode(scaled: f32) -> u8 {
        let magnitude = f32::from_bits(scaled.to_bits() & MAGNITUDE) * 64.0;
        let count = (magnitude.min(127.0) + 8_388_608.0).to_bits() & 0x7f;
        low(if scaled.is_sign_negative() { count.wrapping_neg() } else { count })
    }

    #[inline(always)]
    fn spoil(block: &mut Block, _: &Values) {
        *block = [0; BYTES];
        block[0] = u8::MAX;
    }
}

const POWER_OF_MINUS_9: f32 = 0.001_953_125;
const MAGNITUDE: u32 = 0x7fff_ffff;
const INFINITY: u32 = 0x7f80_0000;
const NAN: u32 = 0x7fc0_0000;

#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "the low byte is what is wanted")]
const fn low(word: u32) -> u8 {
    word as u8
}

/// 2^(`exponent` − 149).
#[inline(always)]
const fn power(exponent: u32) -> f32 {
    f32::from_bits(if exponent < 23 { 1 << exponent } else { (exponent - 22) << 23 })
}

/// The values of a block. Those beyond `f32` become infinite.
#[must_use]
#[inline(always)]
pub fn decode<F: Format>(block: &Block) -> Values {
    let scale = if block[0] == u8::MAX { f32::NAN } else { power(u32::from(block[0]) + 22 - F::UNIT) };
    let mut values = [0.0; ELEMENTS];
    for (value, element) in values.iter_mut().zip(&block[1..]) {
        *value = F::decode(*element) * scale;
    }
    values
}

/// The block of values.
#[must_use]
#[inline(always)]
pub fn encode<F: Format>(values: &Values) -> Block {
    let (mut largest, mut all) = (0, 0);
    for value in values {
        let bits = value.to_bits() & MAGNITUDE;
        all = all.max(bits);
        largest = largest.max(if bits < INFINITY { bits } else { 0 });
    }
    let scale = low(largest >> 23).saturating_sub(F::LARGEST);
    // 2^(127 − scale)
    let inverse = power(127 + 149 - u32::from(scale));
    let mut block = [scale; BYTES];
    for (element, value) in block[1..].iter_mut().zip(values) {
        *element = F::encode(value * inverse);
    }
    if all >= INFINITY {
        F::spoil(&mut block, values);
    }
    block
}

/// The number of NaNs in a payload; bytes that fill no block do not count.
#[must_use]
#[inline(always)]
pub fn count_nans<F: Format>(bytes: &[u8]) -> usize {
    let blocks = bytes.as_chunks().0.iter();
    blocks.map(|block| decode::<F>(block).iter().filter(|value| !value.is_finite()).count()).sum()
}

/// Writes the blocks of `values` to `bytes`, as many as both have; the last one is filled up with zeros.
#[inline]
pub fn pack<F: Format>(values: &[f32], bytes: &mut [u8]) {
    for (some, block) in values.chunks(ELEMENTS).zip(bytes.as_chunks_mut().0) {
        let mut all = [0.0; ELEMENTS];
        all[..some.len()].copy_from_slice(some);
        *block = encode::<F>(&all);
    }
}

/// Writes the values of the blocks in `bytes` to `values`, as many as both have.
#[inline]
pub fn unpack<F: Format>(bytes: &[u8], values: &mut [f32]) {
    for (some, block) in values.chunks_mut(ELEMENTS).zip(bytes.as_chunks().0) {
        some.copy_from_slice(&decode::<F>(block)[..some.len()]);
    }
}
