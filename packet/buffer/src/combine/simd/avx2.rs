//! Registers of 256 bits.

mod float;
mod integer;
mod paired;
mod part;
mod sixteen;

use super::super::Kernels;
use super::super::half::{Bf16, F16};
use float::{F32, F64};
use paired::Paired;
use sixteen::{ExactBf16, ExactF16, Widened};

super::kernels!("avx2,f16c,popcnt");

/// The items of `Lanes` for a register of 256 bits: with the bytes of an element, its registers in a row, and
/// the conversions from a register of integers and back. Parts are whole 32-bit words.
macro_rules! register {
    ($element:literal, $in_a_row:literal, $from:path, $into:path) => {
        $crate::combine::simd::x86::register! {
            "avx2,f16c,popcnt", 32, $element, $in_a_row,
            core::arch::x86_64::_mm256_loadu_si256, core::arch::x86_64::_mm256_storeu_si256, $from, $into
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
        switchml,
        switchml_in_order: crate::combine::switchml::in_order,
        isa: "avx2",
        set: &SET,
    })
}
