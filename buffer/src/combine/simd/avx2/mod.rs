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
