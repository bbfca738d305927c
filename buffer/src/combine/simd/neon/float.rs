//! 128 bits of floats that are added and compared as they are.

use core::arch::aarch64::{
    float32x4_t, float64x2_t, vaddq_f32, vaddq_f64, vaddvq_u32, vandq_u32, vandq_u64, vbslq_f32, vbslq_f64,
    vceqq_f32, vceqq_f64, vceqq_u32, vceqq_u64, vdupq_n_f32, vdupq_n_f64, vdupq_n_u32, vdupq_n_u64, vld1q_u8,
    vmaxq_f32, vmaxq_f64, vminq_f32, vminq_f64, vreinterpretq_f32_u8, vreinterpretq_f64_u8,
    vreinterpretq_u8_f32, vreinterpretq_u8_f64, vreinterpretq_u32_f32, vreinterpretq_u32_u64,
    vreinterpretq_u64_f64, vshrq_n_u32, vst1q_u8,
};

use super::super::lanes::{Extremes, Finite, Lanes, Sums};

/// 4 of binary32.
#[derive(Clone, Copy)]
pub(super) struct F32(pub(super) float32x4_t);

impl F32 {
    /// This one, with the canonical NaN for any NaN.
    #[inline]
    #[target_feature(enable = "neon")]
    pub(super) fn canonical(self) -> Self {
        // Only a NaN differs from itself.
        let numbers = vceqq_f32(self.0, self.0);
        Self(vbslq_f32(numbers, self.0, vdupq_n_f32(f32::from_bits(0x7fc0_0000))))
    }
}

// SAFETY: one load and one store of 16 bytes, which as bytes have no alignment.
unsafe impl Lanes for F32 {
    const BYTES: usize = 16;
    const ELEMENT: usize = 4;
    const IN_A_ROW: usize = 4;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(vreinterpretq_f32_u8(unsafe { vld1q_u8(from) }))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { vst1q_u8(to, vreinterpretq_u8_f32(self.0)) };
    }
}

impl Sums for F32 {
    type Flag = ();

    #[inline]
    unsafe fn clear() {}

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self(vaddq_f32(self.0, other.0))
    }

    #[inline]
    unsafe fn any((): ()) -> bool {
        false
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn settled(self) -> Self {
        self.canonical()
    }
}

// Of a NaN and anything these instructions make a NaN, some NaN, and for them -0 is below +0.
impl Extremes for F32 {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn min(self, other: Self) -> Self {
        Self(vminq_f32(self.0, other.0)).canonical()
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn max(self, other: Self) -> Self {
        Self(vmaxq_f32(self.0, other.0)).canonical()
    }
}

impl Finite for F32 {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn non_finite(self) -> u32 {
        let infinity = vdupq_n_u32(0x7f80_0000);
        let found = vceqq_u32(vandq_u32(vreinterpretq_u32_f32(self.0), infinity), infinity);
        vaddvq_u32(vshrq_n_u32::<31>(found))
    }
}

/// 2 of binary64.
#[derive(Clone, Copy)]
pub(super) struct F64(float64x2_t);

impl F64 {
    /// This one, with the canonical NaN for any NaN.
    #[inline]
    #[target_feature(enable = "neon")]
    fn canonical(self) -> Self {
        let numbers = vceqq_f64(self.0, self.0);
        Self(vbslq_f64(numbers, self.0, vdupq_n_f64(f64::from_bits(0x7ff8_0000_0000_0000))))
    }
}

// SAFETY: one load and one store of 16 bytes, which as bytes have no alignment.
unsafe impl Lanes for F64 {
    const BYTES: usize = 16;
    const ELEMENT: usize = 8;
    const IN_A_ROW: usize = 4;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(vreinterpretq_f64_u8(unsafe { vld1q_u8(from) }))
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe { vst1q_u8(to, vreinterpretq_u8_f64(self.0)) };
    }
}

impl Sums for F64 {
    type Flag = ();

    #[inline]
    unsafe fn clear() {}

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self(vaddq_f64(self.0, other.0))
    }

    #[inline]
    unsafe fn any((): ()) -> bool {
        false
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn settled(self) -> Self {
        self.canonical()
    }
}

impl Extremes for F64 {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn min(self, other: Self) -> Self {
        Self(vminq_f64(self.0, other.0)).canonical()
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn max(self, other: Self) -> Self {
        Self(vmaxq_f64(self.0, other.0)).canonical()
    }
}

impl Finite for F64 {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn non_finite(self) -> u32 {
        let infinity = vdupq_n_u64(0x7ff0_0000_0000_0000);
        let found = vceqq_u64(vandq_u64(vreinterpretq_u64_f64(self.0), infinity), infinity);
        // Two words for each element.
        vaddvq_u32(vshrq_n_u32::<31>(vreinterpretq_u32_u64(found))) / 2
    }
}
