//! 256 bits of floats that are added and compared as they are.

use core::arch::x86_64::{
    __m256, __m256d, _CMP_UNORD_Q, _mm256_add_pd, _mm256_add_ps, _mm256_and_pd, _mm256_and_ps,
    _mm256_and_si256, _mm256_blendv_pd, _mm256_blendv_ps, _mm256_castpd_si256, _mm256_castps_si256,
    _mm256_castsi256_pd, _mm256_castsi256_ps, _mm256_cmp_pd, _mm256_cmp_ps, _mm256_cmpeq_epi32,
    _mm256_cmpeq_epi64, _mm256_loadu_pd, _mm256_loadu_ps, _mm256_max_pd, _mm256_max_ps, _mm256_min_pd,
    _mm256_min_ps, _mm256_movemask_pd, _mm256_movemask_ps, _mm256_or_pd, _mm256_or_ps, _mm256_set1_epi32,
    _mm256_set1_epi64x, _mm256_set1_pd, _mm256_set1_ps, _mm256_storeu_pd, _mm256_storeu_ps,
};

use super::super::lanes::{Extremes, Finite, Lanes, Sums};
use super::part;

/// 8 of binary32.
#[derive(Clone, Copy)]
pub(super) struct F32(pub(super) __m256);

impl F32 {
    /// This one, with the canonical NaN in the given lanes.
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    fn with_nans(self, nans: __m256) -> Self {
        Self(_mm256_blendv_ps(self.0, _mm256_set1_ps(f32::from_bits(0x7fc0_0000)), nans))
    }
}

// SAFETY: loads and stores of 256 bits, for unaligned addresses, or of those 32-bit words that the bytes fill.
unsafe impl Lanes for F32 {
    const BYTES: usize = 32;
    const ELEMENT: usize = 4;
    const IN_A_ROW: usize = 8;

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm256_loadu_ps(from.cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_ps(to.cast(), self.0) };
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(_mm256_castsi256_ps(unsafe { part::load(from, bytes) }))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { part::store(to, bytes, _mm256_castps_si256(self.0)) };
    }
}

impl Sums for F32 {
    type Flag = ();

    #[inline]
    unsafe fn clear() {}

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self(_mm256_add_ps(self.0, other.0))
    }

    #[inline]
    unsafe fn any((): ()) -> bool {
        false
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn settled(self) -> Self {
        self.with_nans(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, self.0))
    }
}

impl Extremes for F32 {
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn min(self, other: Self) -> Self {
        // Of two zeros the instruction gives the second. Asked both ways it gives both, so that -0 can prevail; other
        // numbers are the same both ways.
        let least = _mm256_or_ps(_mm256_min_ps(self.0, other.0), _mm256_min_ps(other.0, self.0));
        Self(least).with_nans(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn max(self, other: Self) -> Self {
        // As above, but +0 prevails.
        let most = _mm256_and_ps(_mm256_max_ps(self.0, other.0), _mm256_max_ps(other.0, self.0));
        Self(most).with_nans(_mm256_cmp_ps::<_CMP_UNORD_Q>(self.0, other.0))
    }
}

impl Finite for F32 {
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn non_finite(self) -> u32 {
        let infinity = _mm256_set1_epi32(0x7f80_0000);
        let exponent = _mm256_and_si256(_mm256_castps_si256(self.0), infinity);
        let found = _mm256_castsi256_ps(_mm256_cmpeq_epi32(exponent, infinity));
        _mm256_movemask_ps(found).count_ones()
    }
}

/// 4 of binary64.
#[derive(Clone, Copy)]
pub(super) struct F64(__m256d);

impl F64 {
    /// This one, with the canonical NaN in the given lanes.
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    fn with_nans(self, nans: __m256d) -> Self {
        Self(_mm256_blendv_pd(self.0, _mm256_set1_pd(f64::from_bits(0x7ff8_0000_0000_0000)), nans))
    }
}

// SAFETY: loads and stores of 256 bits, for unaligned addresses, or of those 32-bit words that the bytes fill.
unsafe impl Lanes for F64 {
    const BYTES: usize = 32;
    const ELEMENT: usize = 8;
    const IN_A_ROW: usize = 8;

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm256_loadu_pd(from.cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_pd(to.cast(), self.0) };
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(_mm256_castsi256_pd(unsafe { part::load(from, bytes) }))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { part::store(to, bytes, _mm256_castpd_si256(self.0)) };
    }
}

impl Sums for F64 {
    type Flag = ();

    #[inline]
    unsafe fn clear() {}

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self(_mm256_add_pd(self.0, other.0))
    }

    #[inline]
    unsafe fn any((): ()) -> bool {
        false
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn settled(self) -> Self {
        self.with_nans(_mm256_cmp_pd::<_CMP_UNORD_Q>(self.0, self.0))
    }
}

impl Extremes for F64 {
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn min(self, other: Self) -> Self {
        // Of two zeros the instruction gives the second. Asked both ways it gives both, so that -0 can prevail; other
        // numbers are the same both ways.
        let least = _mm256_or_pd(_mm256_min_pd(self.0, other.0), _mm256_min_pd(other.0, self.0));
        Self(least).with_nans(_mm256_cmp_pd::<_CMP_UNORD_Q>(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn max(self, other: Self) -> Self {
        // As above, but +0 prevails.
        let most = _mm256_and_pd(_mm256_max_pd(self.0, other.0), _mm256_max_pd(other.0, self.0));
        Self(most).with_nans(_mm256_cmp_pd::<_CMP_UNORD_Q>(self.0, other.0))
    }
}

impl Finite for F64 {
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn non_finite(self) -> u32 {
        let infinity = _mm256_set1_epi64x(0x7ff0_0000_0000_0000);
        let exponent = _mm256_and_si256(_mm256_castpd_si256(self.0), infinity);
        let found = _mm256_castsi256_pd(_mm256_cmpeq_epi64(exponent, infinity));
        _mm256_movemask_pd(found).count_ones()
    }
}
