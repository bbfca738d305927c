//! Floats of 16 bits: compared as they are, added as binary32.

use core::arch::aarch64::{
    float32x4_t, int16x8_t, uint16x8_t, vaddq_f32, vaddq_u32, vaddvq_u16, vandq_s16, vandq_u32, vbslq_s16,
    vceqq_s16, vcgtq_s16, vcvt_f16_f32, vcvt_f32_f16, vcvt_high_f16_f32, vcvt_high_f32_f16, vdupq_n_s16,
    vdupq_n_u16, vdupq_n_u32, veorq_s16, vget_low_f16, vld1q_u8, vmaxq_s16, vminq_s16, vreinterpretq_f16_u16,
    vreinterpretq_f32_u16, vreinterpretq_s16_u8, vreinterpretq_u8_s16, vreinterpretq_u8_u16,
    vreinterpretq_u16_f16, vreinterpretq_u16_u8, vreinterpretq_u16_u32, vreinterpretq_u32_f32, vshrq_n_s16,
    vshrq_n_u16, vshrq_n_u32, vst1q_u8, vuzp2q_u16, vzip1q_u16, vzip2q_u16,
};
use core::marker::PhantomData;

use super::super::super::half::{Bf16, F16};
use super::super::lanes::{Extremes, Finite, Lanes, Sums, Wide};
use super::float::F32;
use super::register;

/// 8 floats of 16 bits as they are, of the type that has this infinity and this NaN.
#[derive(Clone, Copy)]
pub(super) struct Exact<const INFINITY: i16, const NAN: i16>(int16x8_t);

pub(super) type ExactF16 = Exact<0x7c00, 0x7e00>;
pub(super) type ExactBf16 = Exact<0x7f80, 0x7fc0>;

impl<const INFINITY: i16, const NAN: i16> Exact<INFINITY, NAN> {
    /// Numbers of which the order, as integers, is that of the floats, -0 below +0; and back again.
    #[inline]
    #[target_feature(enable = "neon")]
    fn ordered(value: int16x8_t) -> int16x8_t {
        veorq_s16(value, vandq_s16(vshrq_n_s16::<15>(value), vdupq_n_s16(i16::MAX)))
    }

    /// `joined`, with the canonical NaN where one of the others has a NaN.
    #[inline]
    #[target_feature(enable = "neon")]
    fn with_nans_of(joined: int16x8_t, a: int16x8_t, b: int16x8_t) -> Self {
        let magnitude = vdupq_n_s16(i16::MAX);
        let larger = vmaxq_s16(vandq_s16(a, magnitude), vandq_s16(b, magnitude));
        let nans = vcgtq_s16(larger, vdupq_n_s16(INFINITY));
        Self(vbslq_s16(nans, vdupq_n_s16(NAN), joined))
    }
}

// SAFETY: one load and one store of 16 bytes, which as bytes have no alignment.
unsafe impl<const INFINITY: i16, const NAN: i16> Lanes for Exact<INFINITY, NAN> {
    register!(2, 1, vreinterpretq_s16_u8, vreinterpretq_u8_s16);
}

impl<const INFINITY: i16, const NAN: i16> Extremes for Exact<INFINITY, NAN> {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn min(self, other: Self) -> Self {
        let least = vminq_s16(Self::ordered(self.0), Self::ordered(other.0));
        Self::with_nans_of(Self::ordered(least), self.0, other.0)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn max(self, other: Self) -> Self {
        let most = vmaxq_s16(Self::ordered(self.0), Self::ordered(other.0));
        Self::with_nans_of(Self::ordered(most), self.0, other.0)
    }
}

impl<const INFINITY: i16, const NAN: i16> Finite for Exact<INFINITY, NAN> {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn non_finite(self) -> u32 {
        let infinity = vdupq_n_s16(INFINITY);
        let found = vceqq_s16(vandq_s16(self.0, infinity), infinity);
        u32::from(vaddvq_u16(vshrq_n_u16::<15>(found)))
    }
}

/// A 16-bit type as these registers convert it.
pub(super) trait Convert: Copy {
    /// The same values in binary32, in their order.
    unsafe fn widen(narrow: uint16x8_t) -> [float32x4_t; 2];
    /// The nearest values, to even where two are as near. `wide` has no NaNs but the canonical one.
    unsafe fn narrow(wide: [float32x4_t; 2]) -> uint16x8_t;
}

impl Convert for F16 {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn widen(narrow: uint16x8_t) -> [float32x4_t; 2] {
        let narrow = vreinterpretq_f16_u16(narrow);
        [vcvt_f32_f16(vget_low_f16(narrow)), vcvt_high_f32_f16(narrow)]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn narrow(wide: [float32x4_t; 2]) -> uint16x8_t {
        vreinterpretq_u16_f16(vcvt_high_f16_f32(vcvt_f16_f32(wide[0]), wide[1]))
    }
}

impl Convert for Bf16 {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn widen(narrow: uint16x8_t) -> [float32x4_t; 2] {
        // Each becomes the upper half of a binary32, above zeros.
        let zeros = vdupq_n_u16(0);
        let (low, high) = (vzip1q_u16(zeros, narrow), vzip2q_u16(zeros, narrow));
        [vreinterpretq_f32_u16(low), vreinterpretq_f32_u16(high)]
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn narrow(wide: [float32x4_t; 2]) -> uint16x8_t {
        // The upper halves.
        vuzp2q_u16(rounded(wide[0]), rounded(wide[1]))
    }
}

/// The nearest bfloat16 in the upper halves. The canonical NaN is unchanged.
#[inline]
#[target_feature(enable = "neon")]
fn rounded(wide: float32x4_t) -> uint16x8_t {
    // As integers: not every processor that has NEON has an instruction for it.
    let bits = vreinterpretq_u32_f32(wide);
    let even = vandq_u32(vshrq_n_u32::<16>(bits), vdupq_n_u32(1));
    vreinterpretq_u16_u32(vaddq_u32(vaddq_u32(bits, vdupq_n_u32(0x7fff)), even))
}

/// 8 floats of 16 bits, widened to binary32.
#[derive(Clone, Copy)]
pub(super) struct Widened<S>([float32x4_t; 2], PhantomData<S>);

/// Their bytes when widened.
const WIDE: usize = 32;

// SAFETY: one load and one store of 16 bytes, which as bytes have no alignment.
unsafe impl<S: Convert> Lanes for Widened<S> {
    const BYTES: usize = WIDE / 2;
    const ELEMENT: usize = 2;

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        let narrow = vreinterpretq_u16_u8(unsafe { vld1q_u8(from) });
        // SAFETY: this function has the instruction set.
        Self(unsafe { S::widen(narrow) }, PhantomData)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn store(self, to: *mut u8) {
        // SAFETY: this function has the instruction set.
        let narrow = unsafe { S::narrow([F32(self.0[0]).canonical().0, F32(self.0[1]).canonical().0]) };
        // SAFETY: the caller's promise.
        unsafe { vst1q_u8(to, vreinterpretq_u8_u16(narrow)) };
    }
}

// SAFETY: two loads or stores of `F32`, one behind the other, of as many bytes together as twice those of a
// register; in a copy where there are fewer. Elements have 2 bytes.
unsafe impl<S: Convert> Wide for Widened<S> {
    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load_wide(from: *const u8) -> Self {
        // SAFETY: the caller's promise.
        Self(unsafe { [F32::load(from).0, F32::load(from.add(F32::BYTES)).0] }, PhantomData)
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn store_wide(self, to: *mut u8) {
        // SAFETY: the caller's promise.
        unsafe {
            F32(self.0[0]).store(to);
            F32(self.0[1]).store(to.add(F32::BYTES));
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn load_wide_part(from: *const u8, bytes: usize) -> Self {
        let mut copy = [0; WIDE];
        // SAFETY: the caller's promise, and the copy has room for all.
        unsafe {
            from.copy_to_nonoverlapping(copy.as_mut_ptr(), bytes);
            Self::load_wide(copy.as_ptr())
        }
    }

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn store_wide_part(self, to: *mut u8, bytes: usize) {
        let mut copy = [0; WIDE];
        // SAFETY: the caller's promise, and the copy has room for all.
        unsafe {
            self.store_wide(copy.as_mut_ptr());
            to.copy_from_nonoverlapping(copy.as_ptr(), bytes);
        }
    }
}

impl<S: Convert> Sums for Widened<S> {
    super::super::never_saturates!();

    #[inline]
    #[target_feature(enable = "neon")]
    unsafe fn sum(self, other: Self, (): &mut ()) -> Self {
        Self([vaddq_f32(self.0[0], other.0[0]), vaddq_f32(self.0[1], other.0[1])], PhantomData)
    }
}
