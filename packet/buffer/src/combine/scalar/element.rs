//! Single elements and their operations.

use core::marker::PhantomData;

use super::super::half::Sixteen;

/// One element of N payload bytes.
pub(in super::super) trait Element<const N: usize>: Copy {
    fn read(bytes: [u8; N]) -> Self;
    fn write(self) -> [u8; N];
    /// True for infinities and NaNs, which integers lack.
    fn is_non_finite(self) -> bool {
        false
    }
}

/// An element that can be added.
pub(in super::super) trait Sums: Copy {
    /// The sum; sets `saturated` where it had to be clamped.
    fn sum(self, other: Self, saturated: &mut bool) -> Self;
    /// The same, with the canonical NaN for any NaN, unless writing it does that.
    fn settled(self) -> Self {
        self
    }
}

/// An element that can be compared, in a way that the order of comparisons does not matter.
pub(in super::super) trait Extremes: Copy {
    fn min(self, other: Self) -> Self;
    fn max(self, other: Self) -> Self;
}

/// How two elements become one.
pub(in super::super) trait Rule<T> {
    fn join(a: T, b: T, saturated: &mut bool) -> T;
    /// Applied once, to the end of a chain of joins.
    fn settle(a: T) -> T {
        a
    }
}

/// [`Op::Sum`](pascaline_wire::Op::Sum)
pub(in super::super) struct Sum;
/// [`Op::Min`](pascaline_wire::Op::Min)
pub(in super::super) struct Min;
/// [`Op::Max`](pascaline_wire::Op::Max)
pub(in super::super) struct Max;

impl<T: Sums> Rule<T> for Sum {
    fn join(a: T, b: T, saturated: &mut bool) -> T {
        a.sum(b, saturated)
    }

    fn settle(a: T) -> T {
        a.settled()
    }
}

impl<T: Extremes> Rule<T> for Min {
    fn join(a: T, b: T, _: &mut bool) -> T {
        a.min(b)
    }
}

impl<T: Extremes> Rule<T> for Max {
    fn join(a: T, b: T, _: &mut bool) -> T {
        a.max(b)
    }
}

macro_rules! float {
    ($float:ty, $size:literal, $nan:literal) => {
        impl Element<$size> for $float {
            fn read(bytes: [u8; $size]) -> Self {
                Self::from_le_bytes(bytes)
            }

            fn write(self) -> [u8; $size] {
                self.to_le_bytes()
            }

            fn is_non_finite(self) -> bool {
                !self.is_finite()
            }
        }

        impl Sums for $float {
            fn sum(self, other: Self, _: &mut bool) -> Self {
                self + other
            }

            fn settled(self) -> Self {
                if self.is_nan() { Self::from_bits($nan) } else { self }
            }
        }

        // Apart from NaNs, the total order is the usual one with -0 below +0.
        impl Extremes for $float {
            fn min(self, other: Self) -> Self {
                if self.is_nan() || other.is_nan() {
                    Self::from_bits($nan)
                } else if self.total_cmp(&other).is_le() {
                    self
                } else {
                    other
                }
            }

            fn max(self, other: Self) -> Self {
                if self.is_nan() || other.is_nan() {
                    Self::from_bits($nan)
                } else if self.total_cmp(&other).is_ge() {
                    self
                } else {
                    other
                }
            }
        }
    };
}

float!(f32, 4, 0x7fc0_0000);
float!(f64, 8, 0x7ff8_0000_0000_0000);

macro_rules! integer {
    ($integer:ty, $sum:path) => {
        impl Element<4> for $integer {
            fn read(bytes: [u8; 4]) -> Self {
                Self::from_le_bytes(bytes)
            }

            fn write(self) -> [u8; 4] {
                self.to_le_bytes()
            }
        }

        impl Sums for $integer {
            fn sum(self, other: Self, saturated: &mut bool) -> Self {
                $sum(self, other, saturated)
            }
        }

        impl Extremes for $integer {
            fn min(self, other: Self) -> Self {
                Ord::min(self, other)
            }

            fn max(self, other: Self) -> Self {
                Ord::max(self, other)
            }
        }
    };
}

integer!(i32, clamped);
integer!(u32, wrapped);

fn clamped(a: i32, b: i32, saturated: &mut bool) -> i32 {
    *saturated |= a.checked_add(b).is_none();
    a.saturating_add(b)
}

const fn wrapped(a: u32, b: u32, _: &mut bool) -> u32 {
    a.wrapping_add(b)
}

/// A 16-bit float as it is, for comparing.
#[derive(Clone, Copy)]
pub(in super::super) struct Exact<S>(u16, PhantomData<S>);

impl<S: Sixteen> Exact<S> {
    fn of(value: f32, bits: u16) -> Self {
        Self(if value.is_nan() { S::NAN } else { bits }, PhantomData)
    }
}

impl<S: Sixteen> Element<2> for Exact<S> {
    fn read(bytes: [u8; 2]) -> Self {
        Self(u16::from_le_bytes(bytes), PhantomData)
    }

    fn write(self) -> [u8; 2] {
        self.0.to_le_bytes()
    }

    fn is_non_finite(self) -> bool {
        !S::widen(self.0).is_finite()
    }
}

// Widening is exact, so that the order in binary32 is the order.
impl<S: Sixteen> Extremes for Exact<S> {
    fn min(self, other: Self) -> Self {
        let (a, b) = (S::widen(self.0), S::widen(other.0));
        let least = Extremes::min(a, b);
        Self::of(least, if a.total_cmp(&b).is_le() { self.0 } else { other.0 })
    }

    fn max(self, other: Self) -> Self {
        let (a, b) = (S::widen(self.0), S::widen(other.0));
        let most = Extremes::max(a, b);
        Self::of(most, if a.total_cmp(&b).is_ge() { self.0 } else { other.0 })
    }
}

/// A 16-bit float that has become a binary32, for adding. Written, it is rounded.
#[derive(Clone, Copy)]
pub(in super::super) struct Widened<S>(pub(super) f32, PhantomData<S>);

impl<S> Widened<S> {
    pub(super) const fn new(value: f32) -> Self {
        Self(value, PhantomData)
    }
}

impl<S: Sixteen> Element<2> for Widened<S> {
    fn read(bytes: [u8; 2]) -> Self {
        Self::new(S::widen(u16::from_le_bytes(bytes)))
    }

    fn write(self) -> [u8; 2] {
        S::narrow(self.0).to_le_bytes()
    }

    fn is_non_finite(self) -> bool {
        !self.0.is_finite()
    }
}

impl<S: Copy> Sums for Widened<S> {
    fn sum(self, other: Self, _: &mut bool) -> Self {
        Self::new(self.0 + other.0)
    }
}
