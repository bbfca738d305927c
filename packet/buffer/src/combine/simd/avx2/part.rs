//! The first words of a register.

use core::arch::x86_64::{
    __m256i, _mm256_cmpgt_epi32, _mm256_maskload_epi32, _mm256_maskstore_epi32, _mm256_set1_epi32,
    _mm256_setr_epi32,
};

/// The first `bytes`, of at most 31, a multiple of 4.
#[inline]
#[target_feature(enable = "avx2,f16c,popcnt")]
#[allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "at most 7")]
fn first(bytes: usize) -> __m256i {
    _mm256_cmpgt_epi32(_mm256_set1_epi32((bytes / 4) as i32), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7))
}

/// The words, and zeros behind them.
///
/// # Safety
/// `from` points at `bytes` readable bytes, whole words.
#[inline]
#[target_feature(enable = "avx2,f16c,popcnt")]
pub(super) unsafe fn load(from: *const u8, bytes: usize) -> __m256i {
    // SAFETY: words that the mask leaves out are not read; any alignment will do.
    unsafe { _mm256_maskload_epi32(from.cast(), first(bytes)) }
}

/// # Safety
/// `to` points at `bytes` writable bytes, whole words.
#[inline]
#[target_feature(enable = "avx2,f16c,popcnt")]
pub(super) unsafe fn store(to: *mut u8, bytes: usize, register: __m256i) {
    // SAFETY: words that the mask leaves out are not written; any alignment will do.
    unsafe { _mm256_maskstore_epi32(to.cast(), first(bytes), register) };
}
