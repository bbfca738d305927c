//! One function per kernel: what an instruction set fills in.

use super::{Combine, InOrder, NonFinite, WideSum};

/// How a type is added.
pub(super) enum Sums {
    /// Each payload as it is.
    Plain(Combine),
    /// In an accumulator of wider elements.
    Wide(WideSum),
}

/// The kernels of one element type.
pub(super) struct Table {
    pub(super) sum: Sums,
    pub(super) min: Combine,
    pub(super) max: Combine,
    /// Sum, min, max.
    pub(super) in_order: [InOrder; 3],
    pub(super) non_finite: NonFinite,
}

/// The kernels of all element types.
pub(super) struct Set {
    pub(super) f32: Table,
    pub(super) f64: Table,
    pub(super) i32: Table,
    pub(super) f16: Table,
    pub(super) bf16: Table,
}
