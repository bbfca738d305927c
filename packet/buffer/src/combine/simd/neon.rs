//! Registers of 128 bits, of which there are 32.

mod float;
mod integer;
mod sixteen;

use std::arch::is_aarch64_feature_detected;

use super::super::Kernels;
use super::super::half::{Bf16, F16};
use float::{F32, F64};
use sixteen::{ExactBf16, ExactF16, Widened};

/// Widening 16-bit floats in order takes no more instructions than in any other, and there are enough
/// registers for two of each that are added abreast.
type Paired<S> = Widened<S>;

super::kernels!("neon");

/// The items of `Lanes` for a register of 128 bits: with the bytes of an element, its registers in a row, and
/// the conversions from a register of bytes and back.
macro_rules! register {
    ($element:literal, $in_a_row:literal, $from:path, $into:path) => {
        const BYTES: usize = 16;
        const ELEMENT: usize = $element;
        const IN_A_ROW: usize = $in_a_row;

        #[inline]
        #[target_feature(enable = "neon")]
        unsafe fn load(from: *const u8) -> Self {
            // SAFETY: the caller's promise; any alignment will do.
            Self($from(unsafe { core::arch::aarch64::vld1q_u8(from) }))
        }

        #[inline]
        #[target_feature(enable = "neon")]
        unsafe fn store(self, to: *mut u8) {
            // SAFETY: the caller's promise; any alignment will do.
            unsafe { core::arch::aarch64::vst1q_u8(to, $into(self.0)) };
        }
    };
}
use register;

/// The kernels of this instruction set, where the processor has it.
pub(in super::super) fn kernels() -> Option<Kernels> {
    is_aarch64_feature_detected!("neon").then_some(Kernels {
        f32_sum: combine::<F32, Sum>,
        switchml,
        switchml_in_order: crate::combine::switchml::in_order,
        isa: "neon",
        set: &SET,
    })
}
