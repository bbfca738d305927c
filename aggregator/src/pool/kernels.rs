//! How elements are combined, by the header's code.

use pascaline_buffer::combine::{Combine, InOrder, Kernels, Op, Type};
use pascaline_wire::{self as wire, DType, Element};

/// How elements of one code are combined.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    /// One at a time; none where bits would be lost by that.
    pub(super) combine: Option<Combine>,
    /// All at once; none if there is no such code.
    pub(super) in_order: Option<InOrder>,
}

impl Kernel {
    const NONE: Self = Self { combine: None, in_order: None };
}

/// The kernels by element code.
pub(super) fn table(kernels: &Kernels) -> Box<[Kernel; 256]> {
    let mut table = Box::new([Kernel::NONE; 256]);
    for (code, place) in (0..=u8::MAX).zip(table.iter_mut()) {
        let Some(Element { dtype, op }) = Element::from_code(code) else { continue };
        let of = match dtype {
            DType::F32 => Type::F32,
            DType::I32 => Type::I32,
            DType::F16 => Type::F16,
            DType::Bf16 => Type::Bf16,
            DType::F64 => Type::F64,
        };
        let by = match op {
            wire::Op::Sum => Op::Sum,
            wire::Op::Min => Op::Min,
            wire::Op::Max => Op::Max,
        };
        *place = Kernel { combine: kernels.combine(of, by), in_order: Some(kernels.in_order(of, by)) };
    }
    table
}
