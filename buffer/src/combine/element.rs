//! What payloads are made of, and how two of them become one.

/// The type of a payload's elements, all little endian.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Type {
    /// IEEE 754 binary32.
    F32,
    /// IEEE 754 binary64.
    F64,
    /// Two's-complement 32-bit integers.
    I32,
    /// IEEE 754 binary16.
    F16,
    /// bfloat16: the upper half of a binary32.
    Bf16,
}

impl Type {
    /// Every type.
    pub const ALL: [Self; 5] = [Self::F32, Self::F64, Self::I32, Self::F16, Self::Bf16];

    /// Bytes per element.
    #[must_use]
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 => 4,
            Self::F64 => 8,
        }
    }
}

/// How two elements become one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Op {
    /// Addition. Integers saturate; what becomes of floats is IEEE 754's, rounded to nearest even.
    Sum,
    /// The smaller one; of the two zeros that is -0. If either is a NaN, the type's canonical NaN.
    Min,
    /// The larger one; of the two zeros that is +0. If either is a NaN, the type's canonical NaN.
    Max,
}

impl Op {
    /// Every operation.
    pub const ALL: [Self; 3] = [Self::Sum, Self::Min, Self::Max];
}
