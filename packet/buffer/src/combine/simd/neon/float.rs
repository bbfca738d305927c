//! 128 bits of floats that are added and compared as they are.

use core::arch::aarch64::{
    float32x4_t, float64x2_t, vaddq_f32, vaddq_f64, vaddvq_u32, vandq_u32, vandq_u64, vbslq_f32, vbslq_f64,
    vceqq_f32, vceqq_f64, vceqq_u32, vceqq_u64, vdupq_n_f32, vdupq_n_f64, vdupq_n_u32, vdupq_n_u64,
    vmaxq_f32, vmaxq_f64, vminq_f32, vminq_f64, vreinterpretq_f32_u8, vreinterpretq_f64_u8,
    vreinterpretq_u8_f32, vreinterpretq_u8_f64, vreinterpretq_u32_f32, vreinterpretq_u32_u64,
    vreinterpretq_u64_f64, vshrq_n_u32,
};

use super::super::lanes::{Extremes, Finite, Lanes, Sums};
use super::register;

macro_rules! float {
    (
        $(#[$doc:meta])* $name:ident($register:ty), $element:literal bytes, nan $nan:expr;
        $from:ident, $into:ident, $add:ident, $min:ident, $max:ident,
        $equal:ident, $select:ident, $count:ident
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name(pub(super) $register);

        impl $name {
            /// This one, with the canonical NaN for any NaN.
            #[inline]
            #[target_feature(enable = "neon")]
            pub(super) fn canonical(self) -> Self {
                // Only a NaN differs from itself.
                Self($select($equal(self.0, self.0), self.0, $nan))
            }
        }

        // SAFETY: `register` loads and stores 16 bytes.
        unsafe impl Lanes for $name {
            register!($element, 4, $from, $into);
        }

        impl Sums for $name {
            super::super::never_saturates!();

            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
                Self($add(self.0, other.0))
            }

            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn settled(self) -> Self {
                self.canonical()
            }
        }

        // These instructions return some NaN if either operand is one, and -0 is below +0 for them.
        impl Extremes for $name {
            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn min(self, other: Self) -> Self {
                Self($min(self.0, other.0)).canonical()
            }

            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn max(self, other: Self) -> Self {
                Self($max(self.0, other.0)).canonical()
            }
        }

        impl Finite for $name {
            #[inline]
            #[target_feature(enable = "neon")]
            unsafe fn non_finite(self) -> u32 {
                $count(self.0)
            }
        }
    };
}

float! {
    /// 4 of binary32.
    F32(float32x4_t), 4 bytes, nan vdupq_n_f32(f32::from_bits(0x7fc0_0000));
    vreinterpretq_f32_u8, vreinterpretq_u8_f32, vaddq_f32, vminq_f32, vmaxq_f32,
    vceqq_f32, vbslq_f32, non_finite_32
}

float! {
    /// 2 of binary64.
    F64(float64x2_t), 8 bytes, nan vdupq_n_f64(f64::from_bits(0x7ff8_0000_0000_0000));
    vreinterpretq_f64_u8, vreinterpretq_u8_f64, vaddq_f64, vminq_f64, vmaxq_f64,
    vceqq_f64, vbslq_f64, non_finite_64
}

#[inline]
#[target_feature(enable = "neon")]
fn non_finite_32(value: float32x4_t) -> u32 {
    let infinity = vdupq_n_u32(0x7f80_0000);
    let found = vceqq_u32(vandq_u32(vreinterpretq_u32_f32(value), infinity), infinity);
    vaddvq_u32(vshrq_n_u32::<31>(found))
}

#[inline]
#[target_feature(enable = "neon")]
fn non_finite_64(value: float64x2_t) -> u32 {
    let infinity = vdupq_n_u64(0x7ff0_0000_0000_0000);
    let found = vceqq_u64(vandq_u64(vreinterpretq_u64_f64(value), infinity), infinity);
    // Two words for each element.
    vaddvq_u32(vshrq_n_u32::<31>(vreinterpretq_u32_u64(found))) / 2
}
