//! Combines the contributions of one element type and operation. Only this module uses the kernels.

use pascaline_buffer::combine::{Combine, InOrder, Kernels};
use pascaline_wire::Element;

/// The kernels for one element type and operation.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Combiner {
    /// One at a time; none for sums of 16-bit floats, which would be rounded each time.
    combine: Option<Combine>,
    in_order: InOrder,
}

impl Combiner {
    /// The kernels for an element.
    pub(crate) fn new(kernels: &Kernels, element: Element) -> Self {
        let Element { dtype, op } = element;
        Self { combine: kernels.combine(dtype, op), in_order: kernels.in_order(dtype, op) }
    }

    /// Adds a payload, and returns whether an element saturated.
    pub(crate) fn add(&self, accumulator: &mut [u8], payload: &[u8]) -> bool {
        self.combine.is_some_and(|combine| combine(accumulator, payload))
    }

    /// Combines those of the adjacent `len`-byte payloads that have the given ascending numbers, strictly in
    /// this order; only the result is left. Returns whether an element saturated.
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
