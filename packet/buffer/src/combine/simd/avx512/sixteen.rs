//! Floats of 16 bits: compared as they are, added as binary32.

use core::arch::x86_64::{
    __m256i, __m512, __m512i, _MM_FROUND_TO_NEAREST_INT, _mm256_loadu_si256, _mm256_storeu_si256,
    _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_castps_si512, _mm512_castsi256_si512,
    _mm512_castsi512_ps, _mm512_castsi512_si256, _mm512_cmpeq_epi16_mask, _mm512_cmpgt_epi16_mask,
    _mm512_cvtepi32_epi16, _mm512_cvtepu16_epi32, _mm512_cvtph_ps, _mm512_cvtps_ph, _mm512_mask_mov_epi16,
    _mm512_max_epi16, _mm512_min_epi16, _mm512_set1_epi16, _mm512_set1_epi32, _mm512_slli_epi32,
    _mm512_srai_epi16, _mm512_srli_epi32, _mm512_xor_si512,
};
use core::convert::identity;
use core::marker::PhantomData;

use super::super::super::half::{Bf16, F16};
use super::super::lanes::{Extremes, Finite, Lanes, Sums, Wide};
use super::float::F32;
use super::{part, register};

super::super::x86::exact! {
    "avx512f,avx512dq,avx512bw,popcnt", __m512i, lanes { register!(2, identity, identity); },
    _mm512_and_si512, _mm512_xor_si512, _mm512_srai_epi16, _mm512_set1_epi16, _mm512_min_epi16,
    _mm512_max_epi16, nans with_nans, count equal
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
fn with_nans(joined: __m512i, magnitudes: __m512i, infinity: __m512i, nan: __m512i) -> __m512i {
    _mm512_mask_mov_epi16(joined, _mm512_cmpgt_epi16_mask(magnitudes, infinity), nan)
}

#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
fn equal(a: __m512i, b: __m512i) -> u32 {
    _mm512_cmpeq_epi16_mask(a, b).count_ones()
}

/// A 16-bit type as these registers convert it.
pub(super) trait Convert: Copy {
    /// The same values in binary32.
    unsafe fn widen(narrow: __m256i) -> __m512;
    /// The nearest values, to even where two are as near. `wide` has no NaNs but the canonical one.
    unsafe fn narrow(wide: __m512) -> __m256i;
}

impl Convert for F16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn widen(narrow: __m256i) -> __m512 {
        _mm512_cvtph_ps(narrow)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn narrow(wide: __m512) -> __m256i {
        _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide)
    }
}

impl Convert for Bf16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn widen(narrow: __m256i) -> __m512 {
        _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(narrow)))
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn narrow(wide: __m512) -> __m256i {
        // As integers: AVX-512's own conversion would take denormals for zeros. The canonical NaN is
        // unchanged.
        let bits = _mm512_castps_si512(wide);
        let even = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), even);
        _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded))
    }
}

super::super::x86::widened! {
    "avx512f,avx512dq,avx512bw,popcnt", 32, _mm256_loadu_si256, _mm256_storeu_si256, _mm512_add_ps,
    part {
        #[inline]
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
        unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
            // SAFETY: the caller's promise.
            let narrow = _mm512_castsi512_si256(unsafe { part::load(from, bytes) });
            // SAFETY: this function has the instruction set.
            Self(F32(unsafe { S::widen(narrow) }), PhantomData)
        }

        #[inline]
        #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
        unsafe fn store_part(self, to: *mut u8, bytes: usize) {
            // SAFETY: the caller's promise.
            let narrow = unsafe { S::narrow(self.0.settled().0) };
            // SAFETY: as above.
            unsafe { part::store(to, bytes, _mm512_castsi256_si512(narrow)) };
        }
    }
}
