//! AVX2 and AVX-512 kernels.
//!
//! Written with intrinsics and not left to the auto-vectoriser: that prefers 256-bit registers on processors where
//! 512-bit ones are faster, and has no saturating 32-bit add to offer.

use core::arch::x86_64::{
    __m256i, __m512i, _mm256_add_epi32, _mm256_add_ps, _mm256_and_si256, _mm256_blendv_ps,
    _mm256_castps_si256, _mm256_castsi256_ps, _mm256_loadu_ps, _mm256_loadu_si256, _mm256_movemask_ps,
    _mm256_or_si256, _mm256_set1_epi32, _mm256_setzero_si256, _mm256_srai_epi32, _mm256_storeu_ps,
    _mm256_storeu_si256, _mm256_xor_si256, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512,
    _mm512_loadu_ps, _mm512_loadu_si512, _mm512_mask_mov_epi32, _mm512_movepi32_mask, _mm512_set1_epi32,
    _mm512_srai_epi32, _mm512_storeu_ps, _mm512_storeu_si512, _mm512_xor_si512,
};

use super::{Kernels, scalar};

pub(super) fn avx2() -> Option<Kernels> {
    is_x86_feature_detected!("avx2").then_some(Kernels {
        // SAFETY: the kernel is only reachable through this set, which only exists where the processor has AVX2.
        f32_sum: |into, from| unsafe { f32_sum_avx2(into, from) },
        // SAFETY: as above.
        i32_sum: |into, from| unsafe { i32_sum_avx2(into, from) },
        isa: "avx2",
    })
}

pub(super) fn avx512() -> Option<Kernels> {
    (is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512dq")).then_some(Kernels {
        // SAFETY: the kernel is only reachable through this set, which only exists where the processor has both features.
        f32_sum: |into, from| unsafe { f32_sum_avx512(into, from) },
        // SAFETY: as above.
        i32_sum: |into, from| unsafe { i32_sum_avx512(into, from) },
        isa: "avx512",
    })
}

#[target_feature(enable = "avx2")]
fn f32_sum_avx2(into: &mut [u8], from: &[u8]) -> bool {
    let (into, into_rest) = into.as_chunks_mut::<32>();
    let (from, from_rest) = from.as_chunks::<32>();
    let whole = into.len().min(from.len());
    for (a, b) in into.iter_mut().zip(from) {
        // SAFETY: both point at 32 readable bytes, the first also writable; unaligned access is what the
        // instructions are for.
        unsafe {
            let sum = _mm256_add_ps(_mm256_loadu_ps(a.as_ptr().cast()), _mm256_loadu_ps(b.as_ptr().cast()));
            _mm256_storeu_ps(a.as_mut_ptr().cast(), sum);
        }
    }
    tail(whole, into, into_rest, from, from_rest, scalar::f32_sum)
}

#[target_feature(enable = "avx2")]
fn i32_sum_avx2(into: &mut [u8], from: &[u8]) -> bool {
    let (into, into_rest) = into.as_chunks_mut::<32>();
    let (from, from_rest) = from.as_chunks::<32>();
    let whole = into.len().min(from.len());
    let mut saturated = _mm256_setzero_si256();
    for (a, b) in into.iter_mut().zip(from) {
        // SAFETY: as in f32_sum_avx2.
        unsafe {
            let x = _mm256_loadu_si256(a.as_ptr().cast::<__m256i>());
            let y = _mm256_loadu_si256(b.as_ptr().cast::<__m256i>());
            let sum = _mm256_add_epi32(x, y);
            // The sum overflowed where its sign differs from the signs of both terms.
            let overflow = _mm256_and_si256(_mm256_xor_si256(x, sum), _mm256_xor_si256(y, sum));
            let limit = _mm256_xor_si256(_mm256_srai_epi32::<31>(x), _mm256_set1_epi32(i32::MAX));
            saturated = _mm256_or_si256(saturated, overflow);
            let clamped = _mm256_blendv_ps(
                _mm256_castsi256_ps(sum),
                _mm256_castsi256_ps(limit),
                _mm256_castsi256_ps(overflow),
            );
            _mm256_storeu_si256(a.as_mut_ptr().cast::<__m256i>(), _mm256_castps_si256(clamped));
        }
    }
    let saturated = _mm256_movemask_ps(_mm256_castsi256_ps(saturated)) != 0;
    tail(whole, into, into_rest, from, from_rest, scalar::i32_sum) | saturated
}

#[target_feature(enable = "avx512f,avx512dq")]
fn f32_sum_avx512(into: &mut [u8], from: &[u8]) -> bool {
    let (into, into_rest) = into.as_chunks_mut::<64>();
    let (from, from_rest) = from.as_chunks::<64>();
    let whole = into.len().min(from.len());
    for (a, b) in into.iter_mut().zip(from) {
        // SAFETY: both point at 64 readable bytes, the first also writable; unaligned access is what the
        // instructions are for.
        unsafe {
            let sum = _mm512_add_ps(_mm512_loadu_ps(a.as_ptr().cast()), _mm512_loadu_ps(b.as_ptr().cast()));
            _mm512_storeu_ps(a.as_mut_ptr().cast(), sum);
        }
    }
    tail(whole, into, into_rest, from, from_rest, scalar::f32_sum)
}

#[target_feature(enable = "avx512f,avx512dq")]
fn i32_sum_avx512(into: &mut [u8], from: &[u8]) -> bool {
    let (into, into_rest) = into.as_chunks_mut::<64>();
    let (from, from_rest) = from.as_chunks::<64>();
    let whole = into.len().min(from.len());
    let mut saturated = 0u16;
    for (a, b) in into.iter_mut().zip(from) {
        // SAFETY: as in f32_sum_avx512.
        unsafe {
            let x = _mm512_loadu_si512(a.as_ptr().cast::<__m512i>());
            let y = _mm512_loadu_si512(b.as_ptr().cast::<__m512i>());
            let sum = _mm512_add_epi32(x, y);
            // The sum overflowed where its sign differs from the signs of both terms.
            let overflow =
                _mm512_movepi32_mask(_mm512_and_si512(_mm512_xor_si512(x, sum), _mm512_xor_si512(y, sum)));
            let limit = _mm512_xor_si512(_mm512_srai_epi32::<31>(x), _mm512_set1_epi32(i32::MAX));
            saturated |= overflow;
            _mm512_storeu_si512(
                a.as_mut_ptr().cast::<__m512i>(),
                _mm512_mask_mov_epi32(sum, overflow, limit),
            );
        }
    }
    tail(whole, into, into_rest, from, from_rest, scalar::i32_sum) | (saturated != 0)
}

/// What does not fill a register: the bytes after the last whole block of both slices.
#[inline]
fn tail<const N: usize>(
    whole: usize,
    into: &mut [[u8; N]],
    into_rest: &mut [u8],
    from: &[[u8; N]],
    from_rest: &[u8],
    combine: super::Combine,
) -> bool {
    let into = into[whole..].first_mut().map_or(into_rest, |block| &mut block[..]);
    let from = from[whole..].first().map_or(from_rest, |block| &block[..]);
    !into.is_empty() && !from.is_empty() && combine(into, from)
}
