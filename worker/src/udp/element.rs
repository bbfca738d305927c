use pascaline_wire as wire;

mod sealed {
    pub trait Sealed: bytemuck::Pod {
        const ELEMENT: pascaline_wire::Element;
    }
}

/// A type whose sums an appliance can compute: `f32`, or `i32` with saturation.
pub trait Element: sealed::Sealed {}

impl sealed::Sealed for f32 {
    const ELEMENT: wire::Element = wire::Element::F32_SUM;
}
impl Element for f32 {}

impl sealed::Sealed for i32 {
    const ELEMENT: wire::Element = wire::Element::I32_SUM;
}
impl Element for i32 {}

pub(super) const fn code<T: Element>() -> wire::Element {
    T::ELEMENT
}
