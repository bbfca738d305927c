//! 256 bits of floats that are added and compared as they are.

use core::arch::x86_64::{
    __m256, __m256d, _CMP_UNORD_Q, _mm256_add_pd, _mm256_add_ps, _mm256_and_pd, _mm256_and_ps,
    _mm256_and_si256, _mm256_blendv_pd, _mm256_blendv_ps, _mm256_castpd_si256, _mm256_castps_si256,
    _mm256_castsi256_pd, _mm256_castsi256_ps, _mm256_cmp_pd, _mm256_cmp_ps, _mm256_cmpeq_epi32,
    _mm256_cmpeq_epi64, _mm256_max_pd, _mm256_max_ps, _mm256_min_pd, _mm256_min_ps, _mm256_movemask_pd,
    _mm256_movemask_ps, _mm256_or_pd, _mm256_or_ps, _mm256_set1_epi32, _mm256_set1_epi64x, _mm256_set1_pd,
    _mm256_set1_ps,
};

use super::super::lanes::{Extremes, Finite, Lanes, Sums};
use super::register;

macro_rules! float {
    (
        $(#[$doc:meta])* $name:ident($register:ty), $element:literal bytes,
        nan $nan:expr, infinity $infinity:expr;
        $from:ident, $into:ident, $add:ident, $min:ident, $max:ident, $and:ident, $or:ident,
        $compare:ident, $blend:ident, $equal:ident, $mask:ident
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name(pub(super) $register);

        impl $name {
            /// This one, with the canonical NaN where either of two is a NaN.
            #[inline]
            #[target_feature(enable = "avx2,f16c,popcnt")]
            fn with_nans_of(self, a: Self, b: Self) -> Self {
                Self($blend(self.0, $nan, $compare::<_CMP_UNORD_Q>(a.0, b.0)))
            }
        }

        // SAFETY: `register` loads and stores 256 bits, or the 32-bit words that the bytes fill.
        unsafe impl Lanes for $name {
            register!($element, 8, $from, $into);
        }

        impl Sums for $name {
            super::super::never_saturates!();

            #[inline]
            #[target_feature(enable = "avx2,f16c,popcnt")]
            unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
                Self($add(self.0, other.0))
            }

            #[inline]
            #[target_feature(enable = "avx2,f16c,popcnt")]
            unsafe fn settled(self) -> Self {
                self.with_nans_of(self, self)
            }
        }

        // Of two zeros the instructions give the second. In both orders of operands they give both, so that
        // -0 can be chosen as the smaller and +0 as the larger; other numbers are the same in both.
        impl Extremes for $name {
            #[inline]
            #[target_feature(enable = "avx2,f16c,popcnt")]
            unsafe fn min(self, other: Self) -> Self {
                Self($or($min(self.0, other.0), $min(other.0, self.0))).with_nans_of(self, other)
            }

            #[inline]
            #[target_feature(enable = "avx2,f16c,popcnt")]
            unsafe fn max(self, other: Self) -> Self {
                Self($and($max(self.0, other.0), $max(other.0, self.0))).with_nans_of(self, other)
            }
        }

        impl Finite for $name {
            #[inline]
            #[target_feature(enable = "avx2,f16c,popcnt")]
            unsafe fn non_finite(self) -> u32 {
                let exponent = _mm256_and_si256($into(self.0), $infinity);
                $mask($from($equal(exponent, $infinity))).count_ones()
            }
        }
    };
}

float! {
    /// 8 of binary32.
    F32(__m256), 4 bytes,
    nan _mm256_set1_ps(f32::from_bits(0x7fc0_0000)), infinity _mm256_set1_epi32(0x7f80_0000);
    _mm256_castsi256_ps, _mm256_castps_si256, _mm256_add_ps, _mm256_min_ps, _mm256_max_ps,
    _mm256_and_ps, _mm256_or_ps, _mm256_cmp_ps, _mm256_blendv_ps, _mm256_cmpeq_epi32, _mm256_movemask_ps
}

float! {
    /// 4 of binary64.
    F64(__m256d), 8 bytes,
    nan _mm256_set1_pd(f64::from_bits(0x7ff8_0000_0000_0000)),
    infinity _mm256_set1_epi64x(0x7ff0_0000_0000_0000);
    _mm256_castsi256_pd, _mm256_castpd_si256, _mm256_add_pd, _mm256_min_pd, _mm256_max_pd,
    _mm256_and_pd, _mm256_or_pd, _mm256_cmp_pd, _mm256_blendv_pd, _mm256_cmpeq_epi64, _mm256_movemask_pd
}
