//! Registers of 512 bits.

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

super::kernels!("avx512f,avx512dq,avx512bw,popcnt");

/// The items of `Lanes` for a register of 512 bits: with the bytes of an element, and the conversions from a
/// register of integers and back.
macro_rules! register {
    ($element:literal, $from:path, $into:path) => {
        $crate::combine::simd::x86::register! {
            "avx512f,avx512dq,avx512bw,popcnt", 64, $element, 1,
            core::arch::x86_64::_mm512_loadu_si512, core::arch::x86_64::_mm512_storeu_si512, $from, $into
        }
    };
}
use register;

/// The kernels of this instruction set, where the processor has it.
pub(in super::super) fn kernels() -> Option<Kernels> {
    let has_all = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("popcnt");
    has_all.then_some(Kernels {
        f32_sum: combine::<F32, Sum>,
        switchml,
        switchml_in_order: crate::combine::switchml::in_order,
        isa: "avx512",
        set: &SET,
    })
}
