//! 512 bits of floats that are added and compared as they are.

use core::arch::x86_64::{
    __m512, __m512d, __mmask8, __mmask16, _mm512_add_pd, _mm512_add_ps, _mm512_and_si512,
    _mm512_castpd_si512, _mm512_castps_si512, _mm512_castsi512_pd, _mm512_castsi512_ps,
    _mm512_cmpeq_epi32_mask, _mm512_cmpeq_epi64_mask, _mm512_cmpunord_pd_mask, _mm512_cmpunord_ps_mask,
    _mm512_loadu_pd, _mm512_loadu_ps, _mm512_mask_mov_pd, _mm512_mask_mov_ps, _mm512_range_pd,
    _mm512_range_ps, _mm512_set1_epi32, _mm512_set1_epi64, _mm512_set1_pd, _mm512_set1_ps, _mm512_storeu_pd,
    _mm512_storeu_ps,
};

use super::super::lanes::{Extremes, Finite, Lanes, Sums};
use super::part;

/// 16 of binary32.
#[derive(Clone, Copy)]
pub(super) struct F32(pub(super) __m512);

impl F32 {
    /// This one, with the canonical NaN in the given lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    fn with_nans(self, nans: __mmask16) -> Self {
        Self(_mm512_mask_mov_ps(self.0, nans, _mm512_set1_ps(f32::from_bits(0x7fc0_0000))))
    }
}

// SAFETY: loads and stores of 512 bits, for unaligned addresses, or of as many bytes.
unsafe impl Lanes for F32 {
    const BYTES: usize = 64;
    const ELEMENT: usize = 4;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm512_loadu_ps(from.cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(to.cast(), self.0) };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(_mm512_castsi512_ps(unsafe { part::load(from, bytes) }))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { part::store(to, bytes, _mm512_castps_si512(self.0)) };
    }
}

impl Sums for F32 {
    type Flag = ();

    #[inline]
    unsafe fn clear() {}

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self(_mm512_add_ps(self.0, other.0))
    }

    #[inline]
    unsafe fn any((): ()) -> bool {
        false
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn settled(self) -> Self {
        self.with_nans(_mm512_cmpunord_ps_mask(self.0, self.0))
    }
}

impl Extremes for F32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn min(self, other: Self) -> Self {
        // Of the two zeros, this instruction takes -0 to be the smaller one.
        Self(_mm512_range_ps::<0b0100>(self.0, other.0)).with_nans(_mm512_cmpunord_ps_mask(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn max(self, other: Self) -> Self {
        Self(_mm512_range_ps::<0b0101>(self.0, other.0)).with_nans(_mm512_cmpunord_ps_mask(self.0, other.0))
    }
}

impl Finite for F32 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn non_finite(self) -> u32 {
        let infinity = _mm512_set1_epi32(0x7f80_0000);
        let exponent = _mm512_and_si512(_mm512_castps_si512(self.0), infinity);
        _mm512_cmpeq_epi32_mask(exponent, infinity).count_ones()
    }
}

/// 8 of binary64.
#[derive(Clone, Copy)]
pub(super) struct F64(__m512d);

impl F64 {
    /// This one, with the canonical NaN in the given lanes.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    fn with_nans(self, nans: __mmask8) -> Self {
        Self(_mm512_mask_mov_pd(self.0, nans, _mm512_set1_pd(f64::from_bits(0x7ff8_0000_0000_0000))))
    }
}

// SAFETY: loads and stores of 512 bits, for unaligned addresses, or of as many bytes.
unsafe impl Lanes for F64 {
    const BYTES: usize = 64;
    const ELEMENT: usize = 8;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { _mm512_loadu_pd(from.cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_pd(to.cast(), self.0) };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(_mm512_castsi512_pd(unsafe { part::load(from, bytes) }))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { part::store(to, bytes, _mm512_castpd_si512(self.0)) };
    }
}

impl Sums for F64 {
    type Flag = ();

    #[inline]
    unsafe fn clear() {}

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self(_mm512_add_pd(self.0, other.0))
    }

    #[inline]
    unsafe fn any((): ()) -> bool {
        false
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn settled(self) -> Self {
        self.with_nans(_mm512_cmpunord_pd_mask(self.0, self.0))
    }
}

impl Extremes for F64 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn min(self, other: Self) -> Self {
        // Of the two zeros, this instruction takes -0 to be the smaller one.
        Self(_mm512_range_pd::<0b0100>(self.0, other.0)).with_nans(_mm512_cmpunord_pd_mask(self.0, other.0))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn max(self, other: Self) -> Self {
        Self(_mm512_range_pd::<0b0101>(self.0, other.0)).with_nans(_mm512_cmpunord_pd_mask(self.0, other.0))
    }
}

impl Finite for F64 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn non_finite(self) -> u32 {
        let infinity = _mm512_set1_epi64(0x7ff0_0000_0000_0000);
        let exponent = _mm512_and_si512(_mm512_castpd_si512(self.0), infinity);
        _mm512_cmpeq_epi64_mask(exponent, infinity).count_ones()
    }
}
