//! How the contributions of one element type and operation become one. The only place that knows the kernels.

use pascaline_buffer::combine::{self, Combine, InOrder, Kernels, Type, WideSum};
use pascaline_wire::{DType, Element, Op};

#[derive(Debug, Clone, Copy)]
enum Step {
    /// The accumulator has the form of a payload.
    Plain(Combine),
    /// Sums of 16-bit floats: the accumulator is in binary32, and rounded once, at the end.
    Wide(WideSum),
}

/// The kernels for one element type and operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Combiner {
    step: Step,
    in_order: InOrder,
}

impl Combiner {
    /// The kernels for an element; `None` if there are none.
    pub(crate) fn new(kernels: &Kernels, element: Element) -> Option<Self> {
        let (of, op) = (type_of(element.dtype), op_of(element.op));
        let step = match kernels.combine(of, op) {
            Some(plain) => Step::Plain(plain),
            None => Step::Wide(kernels.wide_sum(of)?),
        };
        Some(Self { step, in_order: kernels.in_order(of, op) })
    }

    /// An accumulator that holds one payload.
    pub(crate) fn begin(&self, payload: &[u8]) -> Vec<u8> {
        match &self.step {
            Step::Plain(_) => payload.to_vec(),
            Step::Wide(sum) => {
                let mut accumulator = vec![0; 2 * payload.len()];
                accumulator[..payload.len()].copy_from_slice(payload);
                (sum.widen)(&mut accumulator);
                accumulator
            }
        }
    }

    /// Adds a payload, and tells whether an element saturated.
    pub(crate) fn add(&self, accumulator: &mut [u8], payload: &[u8]) -> bool {
        match &self.step {
            Step::Plain(combine) => combine(accumulator, payload),
            Step::Wide(sum) => (sum.next)(accumulator, payload),
        }
    }

    /// Gives an accumulator the form of a payload of `len` bytes.
    pub(crate) fn end(&self, accumulator: &mut Vec<u8>, len: usize) {
        if let Step::Wide(sum) = &self.step {
            (sum.narrow)(accumulator);
        }
        accumulator.truncate(len);
        accumulator.shrink_to_fit();
    }

    /// Combines `len`-byte payloads that stand one behind the other, those with the given ascending numbers, strictly
    /// in this order; the result is all that is left. Tells whether an element saturated.
    pub(crate) fn in_order(
        &self,
        places: &mut Vec<u8>,
        len: usize,
        mut numbers: impl Iterator<Item = u16>,
    ) -> bool {
        let Some(first) = numbers.next().map(|number| usize::from(number) * len) else { return false };
        places.copy_within(first..first + len, 0);
        let (sum, rest) = places.split_at_mut(len);
        // Only place 0 begins before `len`, and if that is among them, it came first.
        let others: Vec<&[u8]> =
            numbers.map(|number| &rest[(usize::from(number) - 1) * len..][..len]).collect();
        let saturated = (self.in_order)(sum, &others);
        places.truncate(len);
        places.shrink_to_fit();
        saturated
    }
}

/// Bytes of an accumulator of payloads of `len` bytes.
#[must_use]
pub fn accumulator_len(element: Element, len: usize) -> usize {
    match (element.dtype, element.op) {
        (DType::F16 | DType::Bf16, Op::Sum) => len.saturating_mul(2),
        _ => len,
    }
}

const fn type_of(dtype: DType) -> Type {
    match dtype {
        DType::F32 => Type::F32,
        DType::F64 => Type::F64,
        DType::I32 => Type::I32,
        DType::F16 => Type::F16,
        DType::Bf16 => Type::Bf16,
    }
}

const fn op_of(op: Op) -> combine::Op {
    match op {
        Op::Sum => combine::Op::Sum,
        Op::Min => combine::Op::Min,
        Op::Max => combine::Op::Max,
    }
}
