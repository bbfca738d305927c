//! How elements are combined, by the header's code.

use pascaline_buffer::combine::{Combine, InOrder, Kernels};
use pascaline_wire::{Element, switchml};

/// How elements of one code are combined.
#[derive(Clone, Copy)]
pub(super) struct Kernel {
    /// One at a time; none if that would lose bits.
    pub(super) combine: Option<Combine>,
    /// All at once; none if there is no such code.
    pub(super) in_order: Option<InOrder>,
}

/// The kernels by an element's byte.
pub(super) fn table(kernels: &Kernels) -> Box<[Kernel; 256]> {
    let mut table = Box::new([Kernel { combine: None, in_order: None }; 256]);
    for element in Element::all() {
        let Element { dtype, op } = element;
        let (combine, in_order) = (kernels.combine(dtype, op), Some(kernels.in_order(dtype, op)));
        for last in [false, true] {
            table[usize::from(element.byte(last))] = Kernel { combine, in_order };
        }
    }
    let (combine, in_order) = (Some(kernels.switchml), Some(kernels.switchml_in_order));
    table[usize::from(switchml::ELEMENT)] = Kernel { combine, in_order };
    table
}
