//! Tensors whose combinations every rank can compute: small whole numbers, so that no type rounds a sum.

use fastrand::Rng;
use half::{bf16, f16};
use pascaline_wire::DType;
use pascaline_worker::{Collective, Op, Parts};

/// One operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Operation {
    pub(crate) elements: usize,
    pub(crate) dtype: DType,
    pub(crate) op: Op,
    pub(crate) call: Call,
}

/// Which collective it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Call {
    Allreduce,
    Reduce { root: u16 },
    Broadcast { root: u16 },
    Barrier,
    ReduceScatter { even: bool },
    Allgather { even: bool },
}

impl Operation {
    pub(crate) const fn i32_sum(elements: usize) -> Self {
        Self { elements, dtype: DType::I32, op: Op::Sum, call: Call::Allreduce }
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.elements * self.dtype.size()
    }

    pub(crate) fn packets(&self, payload: u16) -> u32 {
        let bytes = match self.call {
            Call::Broadcast { .. } | Call::Allgather { .. } => self.bytes() / 4 * 4,
            _ => self.bytes(),
        };
        let first = u32::from(self.call != Call::Allreduce);
        first + u32::try_from(bytes.div_ceil(usize::from(payload))).unwrap()
    }

    /// The elements of each rank's part: with every number that divides by 3, a rank has none.
    pub(crate) fn counts(&self, ranks: u16) -> Vec<usize> {
        let mut left = self.elements;
        let mut counts: Vec<usize> = (1..ranks)
            .map(|rank| {
                let count = if rank % 3 == 0 { 0 } else { left * usize::from(rank % 7) / 7 };
                left -= count;
                count
            })
            .collect();
        counts.push(left);
        counts
    }

    /// As the worker is given it.
    pub(crate) fn collective<'a>(&self, counts: &'a [usize]) -> Collective<'a> {
        let (op, parts) = (self.op, |even| if even { Parts::Even } else { Parts::Counts(counts) });
        match self.call {
            Call::Allreduce => Collective::Allreduce(op),
            Call::Reduce { root } => Collective::Reduce { op, root },
            Call::Broadcast { root } => Collective::Broadcast { root },
            Call::Barrier => Collective::Barrier,
            Call::ReduceScatter { even } => Collective::ReduceScatter { op, parts: parts(even) },
            Call::Allgather { even } => Collective::Allgather { parts: parts(even) },
        }
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
    // Numbers below zero wrap.
    let place = |value: &i32| match operation.dtype {
        DType::U32 => i64::from(value.cast_unsigned()),
        _ => i64::from(*value),
    };
    let element = |index| {
        let values = || ranks.iter().map(|&rank| value(rank, number, index));
        let sum = f64::from(values().sum::<i32>());
        let value = match operation.op {
            Op::Sum => sum,
            Op::Min => values().min_by_key(place).unwrap().into(),
            Op::Max => values().max_by_key(place).unwrap().into(),
            Op::Mean => sum / ranks.len() as f64,
        };
        encode(operation.dtype, value)
    };
    (0..operation.elements).flat_map(element).collect()
}

/// What a rank's tensor holds after the operation, if those inside took part in it.
pub(crate) fn left_with(rank: u16, ranks: u16, inside: &[u16], number: usize, one: &Operation) -> Vec<u8> {
    let whole = || expected(inside, number, one);
    let counts = one.counts(ranks);
    let (elements, size) = (one.elements, one.dtype.size());
    let part = |even, rank| {
        let parts = if even { Parts::Even } else { Parts::Counts(&counts) };
        let part = parts.of(rank, ranks, elements).unwrap();
        part.start * size..part.end * size
    };
    let own = tensor(rank, number, one);
    match one.call {
        Call::Allreduce => whole(),
        Call::Reduce { root } if root == rank => whole(),
        Call::Reduce { .. } | Call::Barrier => own,
        Call::Broadcast { root } => tensor(root, number, one),
        Call::ReduceScatter { even } => {
            let (mut own, part) = (own, part(even, rank));
            own[part.clone()].copy_from_slice(&whole()[part]);
            own
        }
        Call::Allgather { even } => {
            (0..ranks).flat_map(|rank| tensor(rank, number, one)[part(even, rank)].to_vec()).collect()
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
pub(crate) fn encode(dtype: DType, value: f64) -> Vec<u8> {
    match dtype {
        DType::F64 => value.to_le_bytes().to_vec(),
        DType::F32 => (value as f32).to_le_bytes().to_vec(),
        DType::F16 => f16::from_f64(value).to_le_bytes().to_vec(),
        DType::Bf16 => bf16::from_f64(value).to_le_bytes().to_vec(),
        // To nearest, from halfway to even.
        DType::I32 | DType::U32 => (value.round_ties_even() as i32).to_le_bytes().to_vec(),
        DType::MxFp8 | DType::MxInt8 => unreachable!("not among them"),
    }
}
