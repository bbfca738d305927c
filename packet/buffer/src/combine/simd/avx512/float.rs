//! 512 bits of floats that are added and compared as they are.

use core::arch::x86_64::{
    __m512, __m512d, _mm512_add_pd, _mm512_add_ps, _mm512_and_si512, _mm512_castpd_si512,
    _mm512_castps_si512, _mm512_castsi512_pd, _mm512_castsi512_ps, _mm512_cmpeq_epi32_mask,
    _mm512_cmpeq_epi64_mask, _mm512_cmpunord_pd_mask, _mm512_cmpunord_ps_mask, _mm512_mask_mov_pd,
    _mm512_mask_mov_ps, _mm512_range_pd, _mm512_range_ps, _mm512_set1_epi32, _mm512_set1_epi64,
    _mm512_set1_pd, _mm512_set1_ps,
};

use super::super::lanes::{Extremes, Finite, Lanes, Sums};
use super::register;

macro_rules! float {
    (
        $(#[$doc:meta])* $name:ident($register:ty), $element:literal bytes,
        nan $nan:expr, infinity $infinity:expr;
        $from:ident, $into:ident, $add:ident, $range:ident, $unordered:ident, $blend:ident, $equal:ident
    ) => {
        $(#[$doc])*
        #[derive(Clone, Copy)]
        pub(super) struct $name(pub(super) $register);

        impl $name {
            /// This one, with the canonical NaN where either of two is a NaN.
            #[inline]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
            fn with_nans_of(self, a: Self, b: Self) -> Self {
                Self($blend(self.0, $unordered(a.0, b.0), $nan))
            }
        }

        // SAFETY: `register` loads and stores 512 bits, or the bytes that it is given.
        unsafe impl Lanes for $name {
            register!($element, $from, $into);
        }

        impl Sums for $name {
            super::super::never_saturates!();

            #[inline]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
            unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
                Self($add(self.0, other.0))
            }

            #[inline]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
            unsafe fn settled(self) -> Self {
                self.with_nans_of(self, self)
            }
        }

        // Of the two zeros, this instruction takes -0 to be the smaller one.
        impl Extremes for $name {
            #[inline]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
            unsafe fn min(self, other: Self) -> Self {
                Self($range::<0b0100>(self.0, other.0)).with_nans_of(self, other)
            }

            #[inline]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
            unsafe fn max(self, other: Self) -> Self {
                Self($range::<0b0101>(self.0, other.0)).with_nans_of(self, other)
            }
        }

        impl Finite for $name {
            #[inline]
            #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
            unsafe fn non_finite(self) -> u32 {
                let exponent = _mm512_and_si512($into(self.0), $infinity);
                $equal(exponent, $infinity).count_ones()
            }
        }
    };
}

float! {
    /// 16 of binary32.
    F32(__m512), 4 bytes,
    nan _mm512_set1_ps(f32::from_bits(0x7fc0_0000)), infinity _mm512_set1_epi32(0x7f80_0000);
    _mm512_castsi512_ps, _mm512_castps_si512, _mm512_add_ps, _mm512_range_ps,
    _mm512_cmpunord_ps_mask, _mm512_mask_mov_ps, _mm512_cmpeq_epi32_mask
}

float! {
    /// 8 of binary64.
    F64(__m512d), 8 bytes,
    nan _mm512_set1_pd(f64::from_bits(0x7ff8_0000_0000_0000)),
    infinity _mm512_set1_epi64(0x7ff0_0000_0000_0000);
    _mm512_castsi512_pd, _mm512_castpd_si512, _mm512_add_pd, _mm512_range_pd,
    _mm512_cmpunord_pd_mask, _mm512_mask_mov_pd, _mm512_cmpeq_epi64_mask
}
