//! Floats of 16 bits, 16 at a time: those of one register become two of binary32.
//!
//! As with registers of 512 bits, which of them go into which of the two does not matter as long as they
//! return to their places: to widen bfloat16 in order takes the only unit that moves data between the halves
//! of a register, twice for each register; any unit can do a shift and a mask.

use core::arch::asm;
use core::arch::x86_64::{
    __m256, __m256i, _CMP_UNORD_Q, _mm256_add_epi32, _mm256_add_ps, _mm256_and_si256, _mm256_blend_epi16,
    _mm256_castps_si256, _mm256_castsi128_si256, _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmp_ps,
    _mm256_extracti128_si256, _mm256_inserti128_si256, _mm256_loadu_si256, _mm256_movemask_ps, _mm256_or_ps,
    _mm256_set1_epi32, _mm256_setzero_ps, _mm256_slli_epi32, _mm256_srli_epi32, _mm256_storeu_si256,
};
use core::marker::PhantomData;

use super::super::super::half::{Bf16, F16};
use super::super::lanes::{Lanes, Sums};
use super::float::F32;
use super::sixteen::Convert;

super::super::x86::paired! {
    "avx2,f16c,popcnt", 32, __m256i, __m256, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_add_ps,
    more {
        // Two registers each, of 16.
        const ABREAST: usize = 4;

        /// There is rarely a NaN among them.
        #[inline]
        #[target_feature(enable = "avx2,f16c,popcnt")]
        unsafe fn store_all<const N: usize>(all: [Self; N], to: *mut u8) {
            let mut nans = _mm256_setzero_ps();
            for Self([a, b], _) in all {
                nans = _mm256_or_ps(nans, _mm256_cmp_ps::<_CMP_UNORD_Q>(a, b));
            }
            let none = _mm256_movemask_ps(nans) == 0;
            for (index, one) in all.into_iter().enumerate() {
                // SAFETY: the caller's promise; this function has the instruction set.
                unsafe {
                    let to = to.add(index * Self::BYTES);
                    if none {
                        _mm256_storeu_si256(to.cast(), S::narrow(one.0));
                    } else {
                        one.store(to);
                    }
                }
            }
        }
    }
}

impl Split for F16 {
    /// The lower and the upper half.
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn widen(narrow: __m256i) -> [__m256; 2] {
        let halves = [_mm256_castsi256_si128(narrow), _mm256_extracti128_si256::<1>(narrow)];
        // SAFETY: this function has the instruction set.
        unsafe { [<Self as Convert>::widen(halves[0]), <Self as Convert>::widen(halves[1])] }
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn narrow(wide: [__m256; 2]) -> __m256i {
        // SAFETY: this function has the instruction set.
        let halves = unsafe { [<Self as Convert>::narrow(wide[0]), <Self as Convert>::narrow(wide[1])] };
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(halves[0]), halves[1])
    }
}

impl Split for Bf16 {
    /// Those in even places and those in odd ones.
    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn widen(narrow: __m256i) -> [__m256; 2] {
        let upper = _mm256_set1_epi32(0xffff_0000_u32.cast_signed());
        let (even, odd) = (_mm256_slli_epi32::<16>(narrow), and(narrow, upper));
        [_mm256_castsi256_ps(even), _mm256_castsi256_ps(odd)]
    }

    #[inline]
    #[target_feature(enable = "avx2,f16c,popcnt")]
    unsafe fn narrow(wide: [__m256; 2]) -> __m256i {
        const ODD: i32 = 0b1010_1010;
        _mm256_blend_epi16::<ODD>(_mm256_srli_epi32::<16>(rounded(wide[0])), rounded(wide[1]))
    }
}

/// The bits of both. Compilers turn a mask of whole 16-bit places into a blend with zeros, which has half as
/// many units (Zen 3), the same two that shift.
#[inline]
#[target_feature(enable = "avx2,f16c,popcnt")]
fn and(a: __m256i, b: __m256i) -> __m256i {
    let both;
    // SAFETY: an instruction of this function's set, on registers only.
    unsafe {
        asm!(
            "vpand {both}, {a}, {b}",
            a = in(ymm_reg) a,
            b = in(ymm_reg) b,
            both = lateout(ymm_reg) both,
            options(pure, nomem, nostack, preserves_flags)
        );
    }
    both
}

/// The nearest bfloat16 in the upper halves. The canonical NaN is unchanged.
#[inline]
#[target_feature(enable = "avx2,f16c,popcnt")]
fn rounded(wide: __m256) -> __m256i {
    let bits = _mm256_castps_si256(wide);
    let even = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
    _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), even)
}
