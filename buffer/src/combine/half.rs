//! The two 16-bit float types, in plain Rust.

/// A 16-bit float type.
pub(super) trait Sixteen: Copy {
    /// The canonical quiet NaN.
    const NAN: u16;

    /// The same value in binary32, exactly; a NaN stays one.
    fn widen(bits: u16) -> f32;

    /// The nearest value, to even where two are as near; a NaN becomes the canonical one.
    fn narrow(value: f32) -> u16;
}

/// IEEE 754 binary16: 5 bits of exponent, 10 of fraction.
#[derive(Debug, Clone, Copy)]
pub(super) struct F16;

/// bfloat16: 8 bits of exponent, 7 of fraction.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bf16;

/// What binary32 adds to an exponent beyond what binary16 adds, in place.
const REBIAS: u32 = (127 - 15) << 23;

/// Half a unit, short of it by one if `bits` is even where it will be cut: added before the cut, rounds to even.
const fn rounding(bits: u32, cut: u32) -> u32 {
    (1 << (cut - 1)) - 1 + ((bits >> cut) & 1)
}

/// The lower half of `bits`.
#[allow(clippy::cast_possible_truncation, reason = "that is the purpose")]
const fn low(bits: u32) -> u16 {
    bits as u16
}

impl Sixteen for F16 {
    const NAN: u16 = 0x7e00;

    fn widen(bits: u16) -> f32 {
        let sign = u32::from(bits & 0x8000) << 16;
        let magnitude = u32::from(bits & 0x7fff);
        let wide = match magnitude {
            // Without a leading one: multiples of the smallest value, 2^-24.
            0..0x0400 => (f32::from(bits & 0x7fff) * f32::from_bits((127 - 24) << 23)).to_bits(),
            0x0400..0x7c00 => (magnitude << 13) + REBIAS,
            0x7c00 => f32::INFINITY.to_bits(),
            // The processor's conversion makes NaNs quiet and keeps the rest of them.
            _ => (magnitude << 13) | 0x7fc0_0000,
        };
        f32::from_bits(sign | wide)
    }

    fn narrow(value: f32) -> u16 {
        if value.is_nan() {
            return Self::NAN;
        }
        let sign = low((value.to_bits() >> 16) & 0x8000);
        let magnitude = value.to_bits() & 0x7fff_ffff;
        let narrow = if magnitude >= 65536f32.to_bits() {
            0x7c00
        } else if magnitude < (127 - 14) << 23 {
            // A unit in the last place of 0.5 is 2^-24, the smallest value: the addition rounds.
            low((f32::from_bits(magnitude) + 0.5).to_bits() - 0.5f32.to_bits())
        } else {
            // A carry out of the fraction raises the exponent, which is right, up to infinity.
            low((magnitude - REBIAS + rounding(magnitude, 13)) >> 13)
        };
        sign | narrow
    }
}

impl Sixteen for Bf16 {
    const NAN: u16 = 0x7fc0;

    fn widen(bits: u16) -> f32 {
        f32::from_bits(u32::from(bits) << 16)
    }

    fn narrow(value: f32) -> u16 {
        if value.is_nan() {
            // Rounded like a number, it could become an infinity or, by carry, a zero.
            return Self::NAN;
        }
        let bits = value.to_bits();
        low((bits + rounding(bits, 16)) >> 16)
    }
}
