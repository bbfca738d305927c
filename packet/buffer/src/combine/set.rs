//! One function per kernel, for each instruction set.

use pascaline_wire::DType;

use super::{Combine, InOrder, NonFinite, WideSum};

/// How a type is added.
#[derive(Clone, Copy)]
pub(super) enum Sums {
    /// Each payload as it is.
    Plain(Combine),
    /// In an accumulator of wider elements.
    Wide(WideSum),
    /// All payloads at once, which needs no accumulator that outlives a call.
    AtOnce,
}

/// The kernels of one element type.
#[derive(Clone, Copy)]
pub(super) struct Table {
    pub(super) sum: Sums,
    pub(super) min: Combine,
    pub(super) max: Combine,
    /// Sum, min, max.
    pub(super) in_order: [InOrder; 3],
    pub(super) non_finite: NonFinite,
}

/// The kernels of all element types, in the order of [`DType::ALL`].
pub(super) type Set = [Table; DType::ALL.len()];

/// The set of a function that gives the table of a type.
macro_rules! set {
    ($table:path) => {{
        use pascaline_wire::DType;

        let mut all = [$table(DType::ALL[0]); DType::ALL.len()];
        let mut next = 1;
        while next < all.len() {
            all[next] = $table(DType::ALL[next]);
            next += 1;
        }
        all
    }};
}
pub(super) use set;

/// The table of a type that comes in blocks, from `sum` and `non_finite`.
macro_rules! at_once {
    ($sum:expr, $non_finite:expr) => {
        Table {
            sum: Sums::AtOnce,
            min: |_, _| false,
            max: |_, _| false,
            in_order: [$sum, |_, _| false, |_, _| false],
            non_finite: $non_finite,
        }
    };
}
pub(super) use at_once;
