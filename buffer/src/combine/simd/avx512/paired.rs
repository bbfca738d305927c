//! bfloat16, of which those in even places and those in odd ones are added as binary32 in a register each.
//!
//! A bfloat16 is the upper half of a binary32. So those in odd places only have to be rid of what is below them, and the others
//! are moved up by 16 bits: two simple instructions for 32 values, where to spread them out in their order takes four.

use core::arch::x86_64::{
    __m512, __m512i, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_castps_si512,
    _mm512_castsi512_ps, _mm512_loadu_si512, _mm512_mask_mov_epi16, _mm512_set1_epi32, _mm512_slli_epi32,
    _mm512_srli_epi32, _mm512_storeu_si512,
};

use super::super::lanes::{Lanes, Sums};
use super::float::F32;
use super::part;

/// 32 of them.
#[derive(Clone, Copy)]
pub(super) struct PairedBf16 {
    even: F32,
    odd: F32,
}

impl PairedBf16 {
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    fn widen(narrow: __m512i) -> Self {
        let upper = _mm512_set1_epi32(0xffff_0000_u32.cast_signed());
        Self {
            even: F32(_mm512_castsi512_ps(_mm512_slli_epi32::<16>(narrow))),
            odd: F32(_mm512_castsi512_ps(_mm512_and_si512(narrow, upper))),
        }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    fn narrow(self) -> __m512i {
        const ODD: u32 = 0xaaaa_aaaa;
        // SAFETY: this function has the instruction set.
        let (even, odd) = unsafe { (self.even.settled().0, self.odd.settled().0) };
        _mm512_mask_mov_epi16(_mm512_srli_epi32::<16>(Self::rounded(even)), ODD, Self::rounded(odd))
    }

    /// The nearest values in the upper halves, to even where two are as near. `wide` has no NaNs but the canonical one, which
    /// stays what it is.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    fn rounded(wide: __m512) -> __m512i {
        // As integers: AVX-512's own conversion would take denormals for zeros.
        let bits = _mm512_castps_si512(wide);
        let even = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), even)
    }
}

// SAFETY: loads and stores of 512 bits, for unaligned addresses, or of as many bytes.
unsafe impl Lanes for PairedBf16 {
    const BYTES: usize = 64;
    const ELEMENT: usize = 2;

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self::widen(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_si512(to.cast(), self.narrow()) };
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
        // SAFETY: the caller's promise.
        Self::widen(unsafe { part::load(from, bytes) })
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn store_part(self, to: *mut u8, bytes: usize) {
        // SAFETY: the caller's promise.
        unsafe { part::store(to, bytes, self.narrow()) };
    }
}

impl Sums for PairedBf16 {
    type Flag = ();

    #[inline]
    unsafe fn clear() {}

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self {
            even: F32(_mm512_add_ps(self.even.0, other.even.0)),
            odd: F32(_mm512_add_ps(self.odd.0, other.odd.0)),
        }
    }

    #[inline]
    unsafe fn any((): ()) -> bool {
        false
    }

    /// Storing does it.
    #[inline]
    unsafe fn settled(self) -> Self {
        self
    }
}
