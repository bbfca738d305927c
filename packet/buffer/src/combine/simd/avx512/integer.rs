//! 512 bits of integers.

use core::arch::x86_64::{
    __m512i, __mmask16, _mm512_add_epi32, _mm512_and_si512, _mm512_mask_mov_epi32, _mm512_max_epi32,
    _mm512_max_epu32, _mm512_min_epi32, _mm512_min_epu32, _mm512_movepi32_mask, _mm512_set1_epi32,
    _mm512_srai_epi32, _mm512_xor_si512,
};
use core::convert::identity;

use super::super::lanes::{Lanes, Sums};
use super::register;

/// 16 signed integers of 32 bits, which saturate.
#[derive(Clone, Copy)]
pub(super) struct I32(__m512i);

// SAFETY: loads and stores of 512 bits, for unaligned addresses, or of the bytes given.
unsafe impl Lanes for I32 {
    register!(4, identity, identity);
}

impl Sums for I32 {
    type Flag = __mmask16;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn clear() -> __mmask16 {
        0
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn sum(self, other: Self, saturated: &mut __mmask16) -> Self {
        let sum = _mm512_add_epi32(self.0, other.0);
        // The sum overflowed where its sign differs from the signs of both terms.
        let overflow = _mm512_and_si512(_mm512_xor_si512(self.0, sum), _mm512_xor_si512(other.0, sum));
        let overflow = _mm512_movepi32_mask(overflow);
        let limit = _mm512_xor_si512(_mm512_srai_epi32::<31>(self.0), _mm512_set1_epi32(i32::MAX));
        *saturated |= overflow;
        Self(_mm512_mask_mov_epi32(sum, overflow, limit))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn any(saturated: __mmask16) -> bool {
        saturated != 0
    }
}

super::super::compared!("avx512f,avx512dq,avx512bw,popcnt", I32, _mm512_min_epi32, _mm512_max_epi32);

/// 16 unsigned integers of 32 bits, which wrap.
#[derive(Clone, Copy)]
pub(super) struct U32(__m512i);

// SAFETY: loads and stores of 512 bits, for unaligned addresses, or of the bytes given.
unsafe impl Lanes for U32 {
    register!(4, identity, identity);
}

impl Sums for U32 {
    super::super::never_saturates!();

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self(_mm512_add_epi32(self.0, other.0))
    }
}

super::super::compared!("avx512f,avx512dq,avx512bw,popcnt", U32, _mm512_min_epu32, _mm512_max_epu32);
