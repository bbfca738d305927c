//! Tensors whose combinations everybody can compute: small whole numbers, so that no type rounds a sum.

use fastrand::Rng;
use half::{bf16, f16};
use pascaline_wire::DType;
use pascaline_worker::Op;

/// One allreduce.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) elements: usize,
    pub(crate) dtype: DType,
    pub(crate) op: Op,
}

impl Operation {
    pub(crate) const fn i32_sum(elements: usize) -> Self {
        Self { elements, dtype: DType::I32, op: Op::Sum }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.elements * self.dtype.size()
    }

    pub(crate) fn packets(&self, payload: u16) -> u32 {
        u32::try_from(self.bytes().div_ceil(usize::from(payload))).unwrap()
    }
}

pub(crate) const DTYPES: [DType; 5] = [DType::F32, DType::I32, DType::F16, DType::Bf16, DType::F64];
pub(crate) const OPS: [Op; 4] = [Op::Sum, Op::Min, Op::Max, Op::Mean];

/// The value of one element of one rank's tensor: from −20 to 20. Five of them have a sum that bf16
/// represents.
pub(crate) fn value(rank: u16, number: usize, index: usize) -> i32 {
    let mut random = Rng::with_seed((u64::from(rank) << 48) ^ ((number as u64) << 32) ^ index as u64);
    i32::try_from(random.u64(..41)).unwrap() - 20
}

/// A rank's tensor in the operation of this number.
pub(crate) fn tensor(rank: u16, number: usize, operation: &Operation) -> Vec<u8> {
    let encode = |index| encode(operation.dtype, f64::from(value(rank, number, index)));
    (0..operation.elements).flat_map(encode).collect()
}

/// What the operation makes of the tensors of some ranks.
pub(crate) fn expected(ranks: &[u16], number: usize, operation: &Operation) -> Vec<u8> {
    let element = |index| {
        let values = || ranks.iter().map(|&rank| value(rank, number, index));
        let sum = f64::from(values().sum::<i32>());
        let value = match operation.op {
            Op::Sum => sum,
            Op::Min => values().min().unwrap().into(),
            Op::Max => values().max().unwrap().into(),
            Op::Mean => sum / ranks.len() as f64,
        };
        encode(operation.dtype, value)
    };
    (0..operation.elements).flat_map(element).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
pub(crate) fn encode(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        // To nearest, from halfway to even.
        DType::I32 => (value.round_ties_even() as i32).to_le_bytes().to_vec(),
    }
}
