//! The Rust types of elements.

use half::{bf16, f16};
pub use pascaline_wire::DType;
use pascaline_wire::mx;
use zerocopy::{FromBytes, Immutable, IntoBytes};

mod sealed {
    pub trait Sealed {}
}

/// A type of elements that an appliance can combine: `f32`, `f64`, `i32`, `u32`, `f16`, `bf16`, and [`MxFp8`]
/// and [`MxInt8`], whose elements are blocks of 32 numbers.
pub trait Element: sealed::Sealed + FromBytes + IntoBytes + Immutable + Copy {
    /// Its name on the wire.
    const DTYPE: DType;
    /// Bits of the significand, or of an integer's magnitude.
    const DIGITS: u32;

    /// The nearest element, of two the even one; a block of 32 times that.
    #[must_use]
    fn nearest(value: f64) -> Self;

    /// The same number; exact. Of a block, its first.
    #[must_use]
    fn value(self) -> f64;

    /// From bytes as on the wire; `None` if there are too few or too many.
    #[must_use]
    fn read(bytes: &[u8]) -> Option<Self> {
        Self::read_from_bytes(bytes).ok()
    }

    /// Appends its bytes as on the wire.
    fn write(self, into: &mut impl Extend<u8>) {
        into.extend(self.as_bytes().iter().copied());
    }
}

macro_rules! blocks {
    ($($(#[$doc:meta])* $block:ident: $format:ident, $digits:literal;)+) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, FromBytes, IntoBytes, Immutable)]
        #[repr(transparent)]
        pub struct $block(pub mx::Block);

        impl $block {
            /// The block of these numbers.
            #[must_use]
            pub fn of(values: &mx::Values) -> Self {
                Self(mx::encode::<mx::$format>(values))
            }

            /// Its numbers.
            #[must_use]
            pub fn values(&self) -> mx::Values {
                mx::decode::<mx::$format>(&self.0)
            }
        }

        impl Default for $block {
            fn default() -> Self {
                Self([0; mx::BYTES])
            }
        }

        impl sealed::Sealed for $block {}

        impl Element for $block {
            const DTYPE: DType = DType::$block;
            const DIGITS: u32 = $digits;

            #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
            fn nearest(value: f64) -> Self {
                Self::of(&[value as f32; mx::ELEMENTS])
            }

            fn value(self) -> f64 {
                self.values()[0].into()
            }
        }
    )+};
}

blocks! {
    /// 32 numbers of OCP MXFP8 (E4M3).
    MxFp8: Fp8, 4;
    /// 32 numbers of OCP MXINT8.
    MxInt8: Int8, 7;
}

macro_rules! elements {
    ($($element:ident: $dtype:ident, $digits:expr, $nearest:expr, $value:expr;)+) => {$(
        impl sealed::Sealed for $element {}

        impl Element for $element {
            const DTYPE: DType = DType::$dtype;
            const DIGITS: u32 = $digits;

            #[inline]
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "rounding is wanted")]
            fn nearest(value: f64) -> Self {
                ($nearest)(value)
            }

            #[inline]
            fn value(self) -> f64 {
                ($value)(self)
            }
        }
    )+};
}

elements! {
    f32: F32, Self::MANTISSA_DIGITS, |value| value as Self, f64::from;
    f64: F64, Self::MANTISSA_DIGITS, |value| value, |value| value;
    i32: I32, 31, |value: f64| value.round_ties_even() as Self, f64::from;
    u32: U32, Self::BITS, |value: f64| value.round_ties_even() as Self, f64::from;
    f16: F16, Self::MANTISSA_DIGITS, |value| Self::from_f32(to_odd(value)), Self::to_f64;
    bf16: Bf16, Self::MANTISSA_DIGITS, |value| Self::from_f32(to_odd(value)), Self::to_f64;
}

/// One of the two nearest numbers, the odd one unless the value is exact: rounded to a type with fewer bits,
/// that is the nearest one to the value. (`half` drops bits of a binary64 before it rounds.)
#[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
pub(crate) fn to_odd(value: f64) -> f32 {
    let near = value as f32;
    let (magnitude, bits) = (f64::from(near.abs()), near.to_bits());
    let off = u32::from(magnitude != value.abs() && !value.is_nan()) & !bits & 1;
    f32::from_bits(if magnitude < value.abs() { bits + off } else { bits - off })
}

/// Evaluates an expression with the Rust type of an element type: `with_element!(dtype, T =>
/// size_of::<T>())`.
#[macro_export]
macro_rules! with_element {
    ($dtype:expr, $type:ident => $act:expr) => {
        $crate::with_element! {
            $dtype, $type => $act,
            F32: f32, F64: f64, I32: i32, U32: u32, F16: $crate::f16, Bf16: $crate::bf16,
            MxFp8: $crate::element::MxFp8, MxInt8: $crate::element::MxInt8
        }
    };
    ($dtype:expr, $type:ident => $act:expr, $($name:ident: $element:ty),+) => {
        match $dtype {$(
            $crate::element::DType::$name => {
                type $type = $element;
                $act
            }
        )+}
    };
}

/// Divides every element, little endian as on the wire, by `count`. Bytes that do not fill an element stay as
/// they are, and a count of 0 counts as 1.
///
/// The quotient is rounded twice, to `f64` and to the element, and is still the nearest one: a quotient by at
/// most 1,024 that is not halfway between two elements is farther from there than the rounding to `f64` moves
/// it. The numbers of blocks are divided in `f32`, and the block is rounded once more.
#[expect(clippy::cast_precision_loss, reason = "the mean of over 16 million is as near as an element tells")]
pub fn divide(dtype: DType, bytes: &mut [u8], count: u32) {
    let (wide, count) = (f64::from(count.max(1)), count.max(1) as f32);
    let mean = |values: mx::Values| values.map(|value| value / count);
    match dtype {
        DType::MxFp8 => each(bytes, |block: MxFp8| MxFp8::of(&mean(block.values()))),
        DType::MxInt8 => each(bytes, |block: MxInt8| MxInt8::of(&mean(block.values()))),
        _ => with_element!(dtype, T => each::<T>(bytes, |value| T::nearest(value.value() / wide))),
    }
}

fn each<T: Element>(bytes: &mut [u8], mean: impl Fn(T) -> T) {
    for place in bytes.chunks_exact_mut(size_of::<T>()) {
        if let Some(value) = T::read(place) {
            place.copy_from_slice(mean(value).as_bytes());
        }
    }
}
