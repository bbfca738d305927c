//! 128 bits of integers.

use core::arch::aarch64::{
    int32x4_t, uint32x4_t, vaddq_s32, vaddq_u32, vdupq_n_u32, veorq_s32, vmaxq_s32, vmaxq_u32, vmaxvq_u32,
    vminq_s32, vminq_u32, vorrq_u32, vqaddq_s32, vreinterpretq_s32_u8, vreinterpretq_u8_s32,
    vreinterpretq_u8_u32, vreinterpretq_u32_s32, vreinterpretq_u32_u8,
};

use super::super::lanes::{Lanes, Sums};
use super::register;

/// 4 signed integers of 32 bits, which saturate.
#[derive(Clone, Copy)]
pub(super) struct I32(int32x4_t);

// SAFETY: one load and one store of 16 bytes, which as bytes have no alignment.
unsafe impl Lanes for I32 {
    register!(4, 4, vreinterpretq_s32_u8, vreinterpretq_u8_s32);
}

impl Sums for I32 {
    type Flag = uint32x4_t;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn clear() -> uint32x4_t {
        vdupq_n_u32(0)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn sum(self, other: Self, saturated: &mut uint32x4_t) -> Self {
        let sum = vqaddq_s32(self.0, other.0);
        // A clamped sum differs from the wrapped one. Rust gives no access to the processor's own flag for
        // it.
        let clamped = veorq_s32(sum, vaddq_s32(self.0, other.0));
        *saturated = vorrq_u32(*saturated, vreinterpretq_u32_s32(clamped));
        Self(sum)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn any(saturated: uint32x4_t) -> bool {
        vmaxvq_u32(saturated) != 0
    }
}

super::super::compared!("neon", I32, vminq_s32, vmaxq_s32);

/// 4 unsigned integers of 32 bits, which wrap.
#[derive(Clone, Copy)]
pub(super) struct U32(uint32x4_t);

// SAFETY: one load and one store of 16 bytes, which as bytes have no alignment.
unsafe impl Lanes for U32 {
    register!(4, 4, vreinterpretq_u32_u8, vreinterpretq_u8_u32);
}

impl Sums for U32 {
    super::super::never_saturates!();

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self(vaddq_u32(self.0, other.0))
    }
}

super::super::compared!("neon", U32, vminq_u32, vmaxq_u32);
