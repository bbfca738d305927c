//! Registers of 256 bits.

mod float;
mod integer;
mod paired;
mod part;
mod sixteen;

use super::super::Kernels;
use super::super::half::{Bf16, F16};
use float::{F32, F64};
use integer::I32;
use paired::Paired;
use sixteen::{ExactBf16, ExactF16, Widened};

super::kernels!("avx2,f16c,popcnt");

/// The items of `Lanes` for a register of 256 bits: with the bytes of an element, its registers in a row, and
/// what makes the register of integers and turns it back. Parts are whole 32-bit words.
macro_rules! register {
    ($element:literal, $in_a_row:literal, $from:path, $into:path) => {
        const BYTES: usize = 32;
        const ELEMENT: usize = $element;
        const IN_A_ROW: usize = $in_a_row;

        #[inline]
        #[target_feature(enable = "avx2,f16c,popcnt")]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller's promise; any alignment will do.
            Self($from(unsafe { core::arch::x86_64::_mm256_loadu_si256(from.cast()) }))
        }

        #[inline]
        #[target_feature(enable = "avx2,f16c,popcnt")]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller's promise; any alignment will do.
            unsafe { core::arch::x86_64::_mm256_storeu_si256(to.cast(), $into(self.0)) };
        }

        #[inline]
        #[target_feature(enable = "avx2,f16c,popcnt")]
        unsafe fn load_part(from: *const u8, bytes: usize) -> Self {
            // SAFETY: the caller's promise.
            Self($from(unsafe { super::part::load(from, bytes) }))
        }

        #[inline]
        #[target_feature(enable = "avx2,f16c,popcnt")]
        unsafe fn store_part(self, to: *mut u8, bytes: usize) {
            // SAFETY: the caller's promise.
            unsafe { super::part::store(to, bytes, $into(self.0)) };
        }
    };
}
use register;

/// The kernels of this instruction set, where the processor has it.
pub(in super::super) fn kernels() -> Option<Kernels> {
    let has_all = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("f16c")
        && is_x86_feature_detected!("popcnt");
    has_all.then_some(Kernels {
        f32_sum: combine::<F32, Sum>,
        i32_sum: combine::<I32, Sum>,
        isa: "avx2",
        set: &SET,
    })
}
