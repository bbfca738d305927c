//! Floats of 16 bits: compared as they are, added as binary32.

use core::arch::x86_64::{
    __m128i, __m256, __m256i, _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_add_epi32,
    _mm256_add_ps, _mm256_and_si256, _mm256_blendv_epi8, _mm256_castps_si256, _mm256_castsi256_ps,
    _mm256_castsi256_si128, _mm256_cmpeq_epi16, _mm256_cmpgt_epi16, _mm256_cvtepu16_epi32, _mm256_cvtph_ps,
    _mm256_cvtps_ph, _mm256_loadu_si256, _mm256_max_epi16, _mm256_min_epi16, _mm256_movemask_epi8,
    _mm256_packus_epi32, _mm256_permute4x64_epi64, _mm256_set1_epi16, _mm256_set1_epi32, _mm256_slli_epi32,
    _mm256_srai_epi16, _mm256_srli_epi32, _mm256_storeu_si256, _mm256_xor_si256,
};
use core::marker::PhantomData;

use super::super::super::half::{Bf16, F16};
use super::super::lanes::{Extremes, Finite, Lanes, Sums, Wide};
use super::float::F32;

super::super::x86::exact! {
    "avx2,f16c,popcnt", __m256i,
    lanes {
        const BYTES: usize = 32;
        const ELEMENT: usize = 2;

        #[inline]
        #[target_feature(enable = "avx2,f16c,popcnt")]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller's promise.
            Self(unsafe { _mm256_loadu_si256(from.cast()) })
        }

        #[inline]
        #[target_feature(enable = "avx2,f16c,popcnt")]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller's promise.
            unsafe { _mm256_storeu_si256(to.cast(), self.0) };
        }
    },
    _mm256_and_si256, _mm256_xor_si256, _mm256_srai_epi16, _mm256_set1_epi16, _mm256_min_epi16,
    _mm256_max_epi16, nans with_nans, count equal
}

#[inline]
#[target_feature(enable = "avx2,f16c,popcnt")]
fn with_nans(joined: __m256i, magnitudes: __m256i, infinity: __m256i, nan: __m256i) -> __m256i {
    _mm256_blendv_epi8(joined, nan, _mm256_cmpgt_epi16(magnitudes, infinity))
}

#[inline]
#[target_feature(enable = "avx2,f16c,popcnt")]
fn equal(a: __m256i, b: __m256i) -> u32 {
    // Two bits for each element.
    _mm256_movemask_epi8(_mm256_cmpeq_epi16(a, b)).count_ones() / 2
}

/// A 16-bit type as these registers convert it.
pub(super) trait Convert: Copy {
    /// The same values in binary32.
    unsafe fn widen(narrow: __m128i) -> __m256;
    /// The nearest values, to even where two are as near. `wide` has no NaNs but the canonical one.
    unsafe fn narrow(wide: __m256) -> __m128i;
}

impl Convert for F16 {
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn widen(narrow: __m128i) -> __m256 {
        _mm256_cvtph_ps(narrow)
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn narrow(wide: __m256) -> __m128i {
        _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(wide)
    }
}

impl Convert for Bf16 {
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn widen(narrow: __m128i) -> __m256 {
        _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(narrow)))
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn narrow(wide: __m256) -> __m128i {
        // As integers: AVX-512's own conversion would take denormals for zeros. The canonical NaN is
        // unchanged.
        let bits = _mm256_castps_si256(wide);
        let even = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), even);
        let rounded = _mm256_srli_epi32::<16>(rounded);
        // Packing works within halves of the register: the results are in their lower quarters.
        let packed = _mm256_packus_epi32(rounded, rounded);
        _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b10_00>(packed))
    }
}

super::super::x86::widened! {
    "avx2,f16c,popcnt", 16, _mm_loadu_si128, _mm_storeu_si128, _mm256_add_ps, part {}
}
