//! Combining payloads element by element, in place.
//!
//! Payloads are byte slices in little endian, as on the wire, at any alignment. Each kernel exists once in
//! plain Rust ([`scalar`], the oracle of the tests and the fallback) and once per instruction set;
//! [`Kernels::detect`] picks the widest that the processor has, once, at start-up. All give the same bits.
//!
//! **NaNs.** Each float type has one canonical NaN, quiet, positive and with nothing else set: 7fc00000
//! (f32), 7ff8000000000000 (f64), 7e00 (f16), 7fc0 (bf16), 7f (mxfp8); a block of mxint8 is 255 and zeros.
//! Results have no other, so that the bits of a NaN depend neither on the order of arrival nor on the
//! processor. Two exceptions: sums of two payloads of f32 or f64, and the wide accumulators of [`WideSum`],
//! have some NaN, because IEEE 754 does not say which of two comes out.
//!
//! **Lengths.** No length is an error and none panics. Elements beyond the shortest of the slices, and bytes
//! that do not fill an element, stay as they are: callers check lengths beforehand, a kernel only has to be
//! safe.

mod blocks;
mod half;
pub mod scalar;
mod set;
#[cfg(any(target_arch = "x86_64", all(target_arch = "aarch64", target_endian = "little")))]
mod simd;
mod switchml;
mod wide;

use core::fmt;

use pascaline_wire::{DType, Op};
use set::{Set, Sums, Table};
pub use wide::WideSum;

/// Combines `from` into `into` and returns whether an element saturated.
///
/// Elements beyond the shorter of the two slices, and bytes that do not fill an element, stay as they are:
/// callers check lengths beforehand, a kernel only has to be safe.
pub type Combine = fn(into: &mut [u8], from: &[u8]) -> bool;

/// Combines all of `from` into `into`, strictly in the order of `from`, and returns whether an element
/// saturated.
///
/// With `into` as x0 and `from` as x1 … xk, each element becomes ((x0 ∘ x1) ∘ x2) ∘ … ∘ xk, where sums of
/// 16-bit floats and of blocks are accumulated in binary32 and rounded once. Each element of `into` is
/// written once, however many inputs there are. Without any input nothing is changed, not even a NaN.
/// Elements that one of the slices lacks stay as they are.
pub type InOrder = fn(into: &mut [u8], from: &[&[u8]]) -> bool;

/// Counts the elements of a payload that are infinite or NaN.
pub type NonFinite = fn(bytes: &[u8]) -> usize;

/// Changes the form of the values in a buffer.
pub type Reshape = fn(buffer: &mut [u8]);

/// One kernel per element type and operation.
#[derive(Clone, Copy)]
pub struct Kernels {
    /// Sums of binary32. Never reports saturation.
    pub f32_sum: Combine,
    /// The content of SwitchML's packets: the larger of two exponents each, and sums of big-endian integers
    /// that wrap. Never reports saturation.
    pub switchml: Combine,
    /// The same for many payloads.
    pub switchml_in_order: InOrder,
    /// The instruction set in use, for messages and metrics.
    pub isa: &'static str,
    set: &'static Set,
}

impl Kernels {
    /// The plain-Rust kernels.
    #[must_use]
    pub const fn scalar() -> Self {
        Self {
            f32_sum: scalar::f32_sum,
            switchml: switchml::scalar,
            switchml_in_order: switchml::in_order,
            isa: "scalar",
            set: &scalar::SET,
        }
    }

    /// The widest kernels that this processor runs.
    #[must_use]
    pub fn detect() -> Self {
        Self::available().last().copied().unwrap_or_else(Self::scalar)
    }

    /// Every set of kernels that this processor runs, narrowest first.
    #[must_use]
    pub fn available() -> Vec<Self> {
        #[allow(unused_mut, reason = "other architectures have the scalar kernels only")]
        let mut sets = vec![Self::scalar()];
        #[cfg(target_arch = "x86_64")]
        {
            sets.extend(simd::avx2::kernels());
            sets.extend(simd::avx512::kernels());
        }
        #[cfg(all(target_arch = "aarch64", target_endian = "little"))]
        sets.extend(simd::neon::kernels());
        sets
    }

    /// Combines two payloads; `None` for sums of 16-bit floats, which need a wide accumulator:
    /// [`wide_sum`](Self::wide_sum); and for blocks, which are combined all at once:
    /// [`in_order`](Self::in_order).
    #[must_use]
    pub fn combine(&self, of: DType, op: Op) -> Option<Combine> {
        let table = self.table(of);
        match (op, &table.sum) {
            (Op::Sum | Op::Mean, Sums::Plain(sum)) => Some(*sum),
            (Op::Sum | Op::Mean, Sums::Wide(_)) | (_, Sums::AtOnce) => None,
            (Op::Min, _) => Some(table.min),
            (Op::Max, _) => Some(table.max),
        }
    }

    /// Adds 16-bit floats in a wide accumulator; `None` for the other types.
    #[must_use]
    pub fn wide_sum(&self, of: DType) -> Option<WideSum> {
        match self.table(of).sum {
            Sums::Plain(_) | Sums::AtOnce => None,
            Sums::Wide(sum) => Some(sum),
        }
    }

    /// Combines many payloads in a given order. Blocks have no minima and maxima: their kernel leaves `into`
    /// as it is.
    #[must_use]
    pub fn in_order(&self, of: DType, op: Op) -> InOrder {
        let [sum, min, max] = self.table(of).in_order;
        match op {
            Op::Sum | Op::Mean => sum,
            Op::Min => min,
            Op::Max => max,
        }
    }

    /// Counts infinities and NaNs; always 0 for integers.
    #[must_use]
    pub fn non_finite(&self, of: DType) -> NonFinite {
        self.table(of).non_finite
    }

    const fn table(&self, of: DType) -> &'static Table {
        &self.set[of.place()]
    }
}

impl fmt::Debug for Kernels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Kernels").field("isa", &self.isa).finish_non_exhaustive()
    }
}
