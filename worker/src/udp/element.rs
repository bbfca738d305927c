use half::{bf16, f16};
use pascaline_wire::DType;

mod sealed {
    pub trait Sealed: zerocopy::FromBytes + zerocopy::IntoBytes + zerocopy::Immutable {
        const DTYPE: pascaline_wire::DType;
    }
}

/// A type of elements that an appliance can combine: `f32`, `f64`, `i32`, [`f16`](crate::f16),
/// [`bf16`](crate::bf16).
pub trait Element: sealed::Sealed {}

macro_rules! elements {
    ($($element:ty => $dtype:ident),+) => {$(
        impl sealed::Sealed for $element {
            const DTYPE: DType = DType::$dtype;
        }
        impl Element for $element {}
    )+};
}

elements!(f32 => F32, f64 => F64, i32 => I32, f16 => F16, bf16 => Bf16);

pub(super) const fn dtype<T: Element>() -> DType {
    T::DTYPE
}
