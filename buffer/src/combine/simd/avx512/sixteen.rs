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

/// 32 floats of 16 bits as they are, of the type that has this infinity and this NaN.
#[derive(Clone, Copy)]
pub(super) struct Exact<const INFINITY: i16, const NAN: i16>(__m512i);

pub(super) type ExactF16 = Exact<0x7c00, 0x7e00>;
pub(super) type ExactBf16 = Exact<0x7f80, 0x7fc0>;

impl<const INFINITY: i16, const NAN: i16> Exact<INFINITY, NAN> {
    /// Numbers of which the order, as integers, is that of the floats, -0 below +0; and back again.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    fn ordered(value: __m512i) -> __m512i {
        let flip = _mm512_and_si512(_mm512_srai_epi16::<15>(value), _mm512_set1_epi16(i16::MAX));
        _mm512_xor_si512(value, flip)
    }

    /// `joined`, with the canonical NaN where one of the others has a NaN.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    fn with_nans_of(joined: __m512i, a: __m512i, b: __m512i) -> Self {
        let magnitude = _mm512_set1_epi16(i16::MAX);
        let larger = _mm512_max_epi16(_mm512_and_si512(a, magnitude), _mm512_and_si512(b, magnitude));
        let nans = _mm512_cmpgt_epi16_mask(larger, _mm512_set1_epi16(INFINITY));
        Self(_mm512_mask_mov_epi16(joined, nans, _mm512_set1_epi16(NAN)))
    }
}

// SAFETY: loads and stores of 512 bits, for unaligned addresses, or of as many bytes.
unsafe impl<const INFINITY: i16, const NAN: i16> Lanes for Exact<INFINITY, NAN> {
    register!(2, identity, identity);
}

impl<const INFINITY: i16, const NAN: i16> Extremes for Exact<INFINITY, NAN> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn min(self, other: Self) -> Self {
        let least = _mm512_min_epi16(Self::ordered(self.0), Self::ordered(other.0));
        Self::with_nans_of(Self::ordered(least), self.0, other.0)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn max(self, other: Self) -> Self {
        let most = _mm512_max_epi16(Self::ordered(self.0), Self::ordered(other.0));
        Self::with_nans_of(Self::ordered(most), self.0, other.0)
    }
}

impl<const INFINITY: i16, const NAN: i16> Finite for Exact<INFINITY, NAN> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn non_finite(self) -> u32 {
        let infinity = _mm512_set1_epi16(INFINITY);
        _mm512_cmpeq_epi16_mask(_mm512_and_si512(self.0, infinity), infinity).count_ones()
    }
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
        // As integers: AVX-512's own conversion would take denormals for zeros. The canonical NaN stays what
        // it is.
        let bits = _mm512_castps_si512(wide);
        let even = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        let rounded = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), even);
        _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded))
    }
}

/// 16 floats of 16 bits that have become binary32.
#[derive(Clone, Copy)]
pub(super) struct Widened<S>(F32, PhantomData<S>);

// SAFETY: loads and stores of 256 bits, for unaligned addresses, or of as many bytes.
unsafe impl<S: Convert> Lanes for Widened<S> {
    const BYTES: usize = 32;
    const ELEMENT: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        let narrow = unsafe { _mm256_loadu_si256(from.cast()) };
        // SAFETY: this function has the instruction set.
        Self(F32(unsafe { S::widen(narrow) }), PhantomData)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        let narrow = unsafe { S::narrow(self.0.settled().0) };
        // SAFETY: as above.
        unsafe { _mm256_storeu_si256(to.cast(), narrow) };
    }

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

// SAFETY: the loads and stores of `F32`, a register of twice as many bytes; elements have 2 bytes.
unsafe impl<S: Convert> Wide for Widened<S> {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn load_wide(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { F32::load(from) }, PhantomData)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn store_wide(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store(to) };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn load_wide_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { F32::load_part(from, bytes) }, PhantomData)
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn store_wide_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { self.0.store_part(to, bytes) };
    }
}

impl<S: Convert> Sums for Widened<S> {
    super::super::never_saturates!();

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self(F32(_mm512_add_ps(self.0.0, other.0.0)), PhantomData)
    }

    /// Storing does it.
    #[inline]
    unsafe fn settled(self) -> Self {
        self
    }
}
