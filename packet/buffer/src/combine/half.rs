//! The two 16-bit float types, in plain Rust.

use half::{bf16, f16};

/// A 16-bit float type.
pub(super) trait Sixteen: Copy {
    /// The canonical quiet NaN.
    const NAN: u16;

    /// The same value in binary32, exactly; a NaN stays one.
    fn widen(bits: u16) -> f32;

    /// The nearest value, to even on a tie; a NaN becomes the canonical one.
    fn narrow(value: f32) -> u16;
}

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
#[derive(Debug, Clone, Copy)]
pub(super) struct F16;

/// bfloat16: 8 bits of exponent, 7 of fraction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bf16;

impl Sixteen for F16 {
    const NAN: u16 = 0x7e00;

    fn widen(bits: u16) -> f32 {
        f16::from_bits(bits).to_f32()
    }

    fn narrow(value: f32) -> u16 {
        if value.is_nan() { Self::NAN } else { f16::from_f32(value).to_bits() }
    }
}

impl Sixteen for Bf16 {
    const NAN: u16 = 0x7fc0;

    fn widen(bits: u16) -> f32 {
        bf16::from_bits(bits).to_f32()
    }

    fn narrow(value: f32) -> u16 {
        if value.is_nan() { Self::NAN } else { bf16::from_f32(value).to_bits() }
    }
}
