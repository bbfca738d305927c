//! The first bytes of a register.

use core::arch::x86_64::{__m512i, __mmask64, _mm512_mask_storeu_epi8, _mm512_maskz_loadu_epi8};

/// The first `bytes`, of at most 63.
#[inline]
fn first(bytes: usize) -> __mmask64 {
    (1 << bytes) - 1
}

/// The bytes, and zeros behind them.
///
/// # Safety
/// `from` points at `bytes` readable bytes, at most 63.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
pub(super) unsafe fn load(from: *const u8, bytes: usize) -> __m512i {
    // SAFETY: bytes that the mask leaves out are not read.
    unsafe { _mm512_maskz_loadu_epi8(first(bytes), from.cast()) }
}

/// # Safety
/// `to` points at `bytes` writable bytes, at most 63.
#[inline]
#[target_feature(enable = "avx512f,avx512dq,avx512bw,popcnt")]
pub(super) unsafe fn store(to: *mut u8, bytes: usize, register: __m512i) {
    // SAFETY: bytes that the mask leaves out are not written.
    unsafe { _mm512_mask_storeu_epi8(to.cast(), first(bytes), register) };
}
