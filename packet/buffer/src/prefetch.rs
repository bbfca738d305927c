//! Prefetching: hints to the processor.

const LINE: usize = 64;

/// Prefetches a value, all its cache lines.
#[inline(always)]
pub fn prefetch_value<T>(value: &T) {
    for line in 0..size_of::<T>().div_ceil(LINE) {
        prefetch(core::ptr::from_ref(value).cast::<u8>().wrapping_add(line * LINE));
    }
}

/// Prefetches values that lie one after the other, from the first on: at most `lines` cache lines.
#[inline]
pub fn prefetch_first<T>(values: &[T], lines: usize) {
    for line in 0..size_of_val(values).div_ceil(LINE).min(lines) {
        prefetch(values.as_ptr().cast::<u8>().wrapping_add(line * LINE));
    }
}

/// Prefetches the cache line of an address, which may be any.
#[inline(always)]
pub fn prefetch<T>(address: *const T) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: prefetching has no effect that a program can observe, at whatever address.
    unsafe {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address.cast::<i8>());
    }
    // The intrinsic for this is not stable.
    #[cfg(target_arch = "aarch64")]
    // SAFETY: as above; the instruction changes neither registers nor flags.
    unsafe {
        core::arch::asm!(
            "prfm pldl1keep, [{}]", in(reg) address,
            options(readonly, nostack, preserves_flags)
        );
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    let _ = address;
}
