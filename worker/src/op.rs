//! How an allreduce combines the ranks' elements; the mean is made here, from the sum and its count.

use half::{bf16, f16};
use pascaline_wire::{self as wire, DType};

/// What an allreduce replaces each element by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Op {
    /// The sum over the ranks. Sums of `f16` and `bf16` are made in `f32` and rounded at the end; sums of
    /// `i32` saturate.
    #[default]
    Sum,
    /// The smallest; NaN if one of them is NaN.
    Min,
    /// The largest; NaN if one of them is NaN.
    Max,
    /// The sum divided by the number of ranks inside. The appliance makes the sum, as for [`Op::Sum`]; the
    /// division happens here, once, in `f64`, and its result is rounded to the element type: to nearest, and
    /// from halfway to even, integers too. So an `i32` mean of 1 and 2 is 2, and the mean of a saturated sum
    /// is too near 0.
    Mean,
}

impl Op {
    /// What the appliance is asked for.
    #[must_use]
    pub const fn on_the_wire(self) -> wire::Op {
        match self {
            Self::Sum => wire::Op::Sum,
            Self::Mean => wire::Op::Mean,
            Self::Min => wire::Op::Min,
            Self::Max => wire::Op::Max,
        }
    }
}

impl From<wire::Op> for Op {
    fn from(op: wire::Op) -> Self {
        match op {
            wire::Op::Sum => Self::Sum,
            wire::Op::Min => Self::Min,
            wire::Op::Max => Self::Max,
            wire::Op::Mean => Self::Mean,
        }
    }
}

/// Divides every element, little endian as on the wire, by `count`. Bytes that do not fill an element are
/// left alone, and a count of 0 counts as 1.
///
/// The quotient is rounded twice, to `f64` and to the element, and is still the nearest one: a quotient by at
/// most 1,024 that is not halfway between two elements is farther from there than the rounding to `f64` moves
/// it.
pub fn divide(dtype: DType, bytes: &mut [u8], count: u16) {
    let count = f64::from(count.max(1));
    match dtype {
        DType::F64 => each(bytes, |x| (f64::from_le_bytes(x) / count).to_le_bytes()),
        DType::F32 => each(bytes, |x| narrow(f64::from(f32::from_le_bytes(x)) / count).to_le_bytes()),
        DType::F16 => each(bytes, |x| f16::from_f64(f16::from_le_bytes(x).to_f64() / count).to_le_bytes()),
        DType::Bf16 => each(bytes, |x| bf16::from_f64(bf16::from_le_bytes(x).to_f64() / count).to_le_bytes()),
        DType::I32 => each(bytes, |x| whole(f64::from(i32::from_le_bytes(x)) / count).to_le_bytes()),
    }
}

fn each<const N: usize>(bytes: &mut [u8], mean: impl Fn([u8; N]) -> [u8; N]) {
    for place in bytes.as_chunks_mut::<N>().0 {
        *place = mean(*place);
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
const fn narrow(value: f64) -> f32 {
    value as f32
}

#[expect(clippy::cast_possible_truncation, reason = "whole, and no larger than the i32 that was divided")]
const fn whole(value: f64) -> i32 {
    value.round_ties_even() as i32
}
