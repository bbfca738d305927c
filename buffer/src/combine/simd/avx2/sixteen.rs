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

/// 16 floats of 16 bits as they are, of the type that has this infinity and this NaN.
#[derive(Clone, Copy)]
pub(super) struct Exact<const INFINITY: i16, const NAN: i16>(__m256i);

pub(super) type ExactF16 = Exact<0x7c00, 0x7e00>;
pub(super) type ExactBf16 = Exact<0x7f80, 0x7fc0>;

impl<const INFINITY: i16, const NAN: i16> Exact<INFINITY, NAN> {
    /// Numbers of which the order, as integers, is that of the floats, -0 below +0; and back again.
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    fn ordered(value: __m256i) -> __m256i {
        let flip = _mm256_and_si256(_mm256_srai_epi16::<15>(value), _mm256_set1_epi16(i16::MAX));
        _mm256_xor_si256(value, flip)
    }

    /// `joined`, with the canonical NaN where one of the others has a NaN.
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    fn with_nans_of(joined: __m256i, a: __m256i, b: __m256i) -> Self {
        let magnitude = _mm256_set1_epi16(i16::MAX);
        let larger = _mm256_max_epi16(_mm256_and_si256(a, magnitude), _mm256_and_si256(b, magnitude));
        let nans = _mm256_cmpgt_epi16(larger, _mm256_set1_epi16(INFINITY));
        Self(_mm256_blendv_epi8(joined, _mm256_set1_epi16(NAN), nans))
    }
}

// SAFETY: one load and one store of 256 bits, for unaligned addresses.
unsafe impl<const INFINITY: i16, const NAN: i16> Lanes for Exact<INFINITY, NAN> {
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
}

impl<const INFINITY: i16, const NAN: i16> Extremes for Exact<INFINITY, NAN> {
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn min(self, other: Self) -> Self {
        let least = _mm256_min_epi16(Self::ordered(self.0), Self::ordered(other.0));
        Self::with_nans_of(Self::ordered(least), self.0, other.0)
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn max(self, other: Self) -> Self {
        let most = _mm256_max_epi16(Self::ordered(self.0), Self::ordered(other.0));
        Self::with_nans_of(Self::ordered(most), self.0, other.0)
    }
}

impl<const INFINITY: i16, const NAN: i16> Finite for Exact<INFINITY, NAN> {
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn non_finite(self) -> u32 {
        let infinity = _mm256_set1_epi16(INFINITY);
        let found = _mm256_cmpeq_epi16(_mm256_and_si256(self.0, infinity), infinity);
        // Two bits for each element.
        _mm256_movemask_epi8(found).count_ones() / 2
    }
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
        // As integers: AVX-512's own conversion would take denormals for zeros. The canonical NaN stays what
        // it is.
        let bits = _mm256_castps_si256(wide);
        let even = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
        let rounded = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), even);
        let rounded = _mm256_srli_epi32::<16>(rounded);
        // Packing works within halves of the register: their lower quarters are what is wanted.
        let packed = _mm256_packus_epi32(rounded, rounded);
        _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b10_00>(packed))
    }
}

/// 8 floats of 16 bits that have become binary32.
#[derive(Clone, Copy)]
pub(super) struct Widened<S>(F32, PhantomData<S>);

// SAFETY: one load and one store of 128 bits, for unaligned addresses.
unsafe impl<S: Convert> Lanes for Widened<S> {
    const BYTES: usize = 16;
    const ELEMENT: usize = 2;

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        let narrow = unsafe { _mm_loadu_si128(from.cast()) };
        // SAFETY: this function has the instruction set.
        Self(F32(unsafe { S::widen(narrow) }), PhantomData)
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        let narrow = unsafe { S::narrow(self.0.settled().0) };
        // SAFETY: as above.
        unsafe { _mm_storeu_si128(to.cast(), narrow) };
    }
}

// SAFETY: the loads and stores of `F32`, a register of twice as many bytes; elements have 2 bytes.
unsafe impl<S: Convert> Wide for Widened<S> {
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn load_wide(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { F32::load(from) }, PhantomData)
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn store_wide(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store(to) };
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn load_wide_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { F32::load_part(from, bytes) }, PhantomData)
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn store_wide_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store_part(to, bytes) };
    }
}

impl<S: Convert> Sums for Widened<S> {
    super::super::never_saturates!();

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self(F32(_mm256_add_ps(self.0.0, other.0.0)), PhantomData)
    }

    /// Storing does it.
    #[inline]
    unsafe fn settled(self) -> Self {
        self
    }
}
