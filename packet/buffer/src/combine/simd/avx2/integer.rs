//! 256 bits of integers.

use core::arch::x86_64::{
    __m256i, _mm256_add_epi32, _mm256_and_si256, _mm256_blendv_ps, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_max_epi32, _mm256_max_epu32, _mm256_min_epi32, _mm256_min_epu32, _mm256_movemask_ps,
    _mm256_or_si256, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_srai_epi32, _mm256_xor_si256,
};
use core::convert::identity;

use super::super::lanes::{Lanes, Sums};
use super::register;

/// 8 signed integers of 32 bits, which saturate.
#[derive(Clone, Copy)]
pub(super) struct I32(__m256i);

// SAFETY: loads and stores of 256 bits, for unaligned addresses, or of those 32-bit words that the bytes
// fill.
unsafe impl Lanes for I32 {
    register!(4, 4, identity, identity);
}

impl Sums for I32 {
    type Flag = __m256i;

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn clear() -> __m256i {
        _mm256_setzero_si256()
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn sum(self, other: Self, saturated: &mut __m256i) -> Self {
        let sum = _mm256_add_epi32(self.0, other.0);
        // The sum overflowed where its sign differs from the signs of both terms.
        let overflow = _mm256_and_si256(_mm256_xor_si256(self.0, sum), _mm256_xor_si256(other.0, sum));
        let limit = _mm256_xor_si256(_mm256_srai_epi32::<31>(self.0), _mm256_set1_epi32(i32::MAX));
        *saturated = _mm256_or_si256(*saturated, overflow);
        Self(_mm256_castps_si256(_mm256_blendv_ps(
            _mm256_castsi256_ps(sum),
            _mm256_castsi256_ps(limit),
            _mm256_castsi256_ps(overflow),
        )))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn any(saturated: __m256i) -> bool {
        _mm256_movemask_ps(_mm256_castsi256_ps(saturated)) != 0
    }
}

super::super::compared!("avx2,f16c,popcnt", I32, _mm256_min_epi32, _mm256_max_epi32);

/// 8 unsigned integers of 32 bits, which wrap.
#[derive(Clone, Copy)]
pub(super) struct U32(__m256i);

// SAFETY: loads and stores of 256 bits, for unaligned addresses, or of those 32-bit words that the bytes
// fill.
unsafe impl Lanes for U32 {
    register!(4, 4, identity, identity);
}

impl Sums for U32 {
    super::super::never_saturates!();

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self(_mm256_add_epi32(self.0, other.0))
    }
}

super::super::compared!("avx2,f16c,popcnt", U32, _mm256_min_epu32, _mm256_max_epu32);
