//! The kernels in plain Rust, which the vector kernels must match bit for bit.

mod element;
mod wide;

pub(super) use element::{Max, Min, Sum};

use pascaline_wire::{DType, mx};

use super::blocks;
use super::half::{Bf16, F16};
use super::set::{Set, Sums, Table, at_once, set};
use element::{Element, Exact, Rule, Widened};

/// `into[i] += from[i]` in binary32.
pub fn f32_sum(into: &mut [u8], from: &[u8]) -> bool {
    combine::<f32, Sum, 4>(into, from)
}

fn combine<T: Element<N>, R: Rule<T>, const N: usize>(into: &mut [u8], from: &[u8]) -> bool {
    let mut saturated = false;
    for (a, b) in into.as_chunks_mut::<N>().0.iter_mut().zip(from.as_chunks::<N>().0) {
        *a = R::join(T::read(*a), T::read(*b), &mut saturated).write();
    }
    saturated
}

fn in_order<T: Element<N>, R: Rule<T>, const N: usize>(into: &mut [u8], from: &[&[u8]]) -> bool {
    let mut saturated = false;
    let shortest = from.iter().map(|input| input.len()).min().unwrap_or(0).min(into.len());
    for (index, slot) in into[..shortest].as_chunks_mut::<N>().0.iter_mut().enumerate() {
        let first = T::read(*slot);
        let inputs = from.iter().map(|input| T::read(input.as_chunks::<N>().0[index]));
        let last = inputs.fold(first, |sum, input| R::join(sum, input, &mut saturated));
        *slot = R::settle(last).write();
    }
    saturated
}

fn non_finite<T: Element<N>, const N: usize>(bytes: &[u8]) -> usize {
    bytes.as_chunks::<N>().0.iter().filter(|bytes| T::read(**bytes).is_non_finite()).count()
}

/// The table of a type that is added as it is.
macro_rules! plain {
    ($element:ty, $size:literal) => {
        Table {
            sum: Sums::Plain(combine::<$element, Sum, $size>),
            min: combine::<$element, Min, $size>,
            max: combine::<$element, Max, $size>,
            in_order: [
                in_order::<$element, Sum, $size>,
                in_order::<$element, Min, $size>,
                in_order::<$element, Max, $size>,
            ],
            non_finite: non_finite::<$element, $size>,
        }
    };
}

/// The table of a 16-bit float type.
macro_rules! sixteen {
    ($sixteen:ty) => {
        Table {
            sum: Sums::Wide(wide::kernels::<$sixteen>()),
            min: combine::<Exact<$sixteen>, Min, 2>,
            max: combine::<Exact<$sixteen>, Max, 2>,
            in_order: [
                in_order::<Widened<$sixteen>, Sum, 2>,
                in_order::<Exact<$sixteen>, Min, 2>,
                in_order::<Exact<$sixteen>, Max, 2>,
            ],
            non_finite: non_finite::<Exact<$sixteen>, 2>,
        }
    };
}

const fn table(of: DType) -> Table {
    match of {
        DType::F32 => plain!(f32, 4),
        DType::F64 => plain!(f64, 8),
        DType::I32 => plain!(i32, 4),
        DType::U32 => plain!(u32, 4),
        DType::F16 => sixteen!(F16),
        DType::Bf16 => sixteen!(Bf16),
        DType::MxFp8 => at_once!(blocks::sum::<mx::Fp8>, mx::count_nans::<mx::Fp8>),
        DType::MxInt8 => at_once!(blocks::sum::<mx::Int8>, mx::count_nans::<mx::Int8>),
    }
}

pub(super) static SET: Set = set!(table);
