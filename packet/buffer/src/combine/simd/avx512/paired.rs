//! Floats of 16 bits, 32 at a time: those of one register become two of binary32.
//!
//! Which of them go into which of the two does not matter as long as they return to their places. A bfloat16
//! is the upper half of a binary32: elements in odd places only need their lower half cleared, and the others
//! are moved up by 16 bits. These are two simple instructions; to widen them in order takes four.

use core::arch::x86_64::{
    __m512, __m512i, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_castps_si512,
    _mm512_castsi256_si512, _mm512_castsi512_ps, _mm512_castsi512_si256, _mm512_extracti64x4_epi64,
    _mm512_inserti64x4, _mm512_loadu_si512, _mm512_mask_mov_epi16, _mm512_set1_epi32, _mm512_slli_epi32,
    _mm512_srli_epi32, _mm512_storeu_si512,
};
use core::marker::PhantomData;

use super::super::super::half::{Bf16, F16};
use super::super::lanes::{Lanes, Sums};
use super::float::F32;
use super::part;
use super::sixteen::Convert;

super::super::x86::paired! {
    "avx512f,avx512dq,avx512bw,popcnt", 64, __m512i, __m512, _mm512_loadu_si512, _mm512_storeu_si512,
    _mm512_add_ps,
    more {
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
}

impl Split for F16 {
    /// The lower and the upper half.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn widen(narrow: __m512i) -> [__m512; 2] {
        let halves = [_mm512_castsi512_si256(narrow), _mm512_extracti64x4_epi64::<1>(narrow)];
        // SAFETY: this function has the instruction set.
        unsafe { [<Self as Convert>::widen(halves[0]), <Self as Convert>::widen(halves[1])] }
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn narrow(wide: [__m512; 2]) -> __m512i {
        // SAFETY: this function has the instruction set.
        let halves = unsafe { [<Self as Convert>::narrow(wide[0]), <Self as Convert>::narrow(wide[1])] };
        _mm512_inserti64x4::<1>(_mm512_castsi256_si512(halves[0]), halves[1])
    }
}

impl Split for Bf16 {
    /// Those in even places and those in odd ones.
    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn widen(narrow: __m512i) -> [__m512; 2] {
        let upper = _mm512_set1_epi32(0xffff_0000_u32.cast_signed());
        let (even, odd) = (_mm512_slli_epi32::<16>(narrow), _mm512_and_si512(narrow, upper));
        [_mm512_castsi512_ps(even), _mm512_castsi512_ps(odd)]
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
    unsafe fn narrow(wide: [__m512; 2]) -> __m512i {
        const ODD: u32 = 0xaaaa_aaaa;
        _mm512_mask_mov_epi16(_mm512_srli_epi32::<16>(rounded(wide[0])), ODD, rounded(wide[1]))
    }
}

/// The nearest bfloat16 in the upper halves. The canonical NaN is unchanged.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
fn rounded(wide: __m512) -> __m512i {
    // As integers: AVX-512's own conversion would take denormals for zeros.
    let bits = _mm512_castps_si512(wide);
    let even = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
    _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), even)
}
