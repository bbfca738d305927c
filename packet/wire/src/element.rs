//! The elements of a payload: their type, and how two of them become one.

use core::fmt;

use crate::codes::codes;
use crate::mx;

codes! {
    /// The type of a payload's elements, all little endian.
    pub enum DType {
        /// IEEE 754 binary32.
        F32 = 1 "f32",
        /// Two's-complement 32-bit integers; sums saturate and flag the overflow.
        I32 = 2 "i32",
        /// IEEE 754 binary16.
        F16 = 3 "f16",
        /// bfloat16: the upper half of a binary32.
        Bf16 = 4 "bf16",
        /// IEEE 754 binary64.
        F64 = 5 "f64",
        /// Blocks of 32 numbers of E4M3 that share a scale: [`mx::Fp8`]. Only added.
        MxFp8 = 6 "mxfp8",
        /// Blocks of 32 bytes that share a scale: [`mx::Int8`]. Only added.
        MxInt8 = 7 "mxint8",
        /// Unsigned 32-bit integers; sums wrap, as do those of signed ones sent as these. They have no mean.
        U32 = 8 "u32",
    }
}

impl DType {
    /// Its place in [`ALL`](Self::ALL).
    #[must_use]
    #[inline]
    pub const fn place(self) -> usize {
        // The codes are 1, 2, … without gaps.
        const { assert!(Self::ALL[Self::ALL.len() - 1] as usize == Self::ALL.len()) }
        self as usize - 1
    }

    /// Bytes per element; of the types that come in blocks, per block.
    #[must_use]
    #[inline]
    pub const fn size(self) -> usize {
        match self {
            Self::MxFp8 | Self::MxInt8 => mx::BYTES,
            Self::F16 | Self::Bf16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 => 8,
        }
    }

    /// True if `len` bytes are a whole number of elements.
    #[must_use]
    #[inline(always)]
    pub(crate) const fn divides(self, len: usize) -> bool {
        // All but blocks have sizes that are powers of two: no division on the way of every packet.
        if self.is_block() { len.is_multiple_of(mx::BYTES) } else { len & Self::ODD[self as usize & 15] == 0 }
    }

    /// By code, of four bits: the bits of a length below the size of an element, if that is a power of two.
    const ODD: [usize; 16] = {
        let (mut parts, mut at) = ([0; 16], 0);
        while at < Self::ALL.len() {
            parts[Self::ALL[at] as usize] = Self::ALL[at].size() - 1;
            at += 1;
        }
        parts
    };

    /// The bytes of the whole elements that fit into `room` bytes.
    #[must_use]
    #[inline]
    pub const fn whole(self, room: usize) -> usize {
        room - room % self.size()
    }

    /// True if the type has NaNs.
    #[must_use]
    pub const fn is_float(self) -> bool {
        !matches!(self, Self::I32 | Self::U32)
    }

    /// True if elements come in blocks that share a scale. They can be added and not compared.
    #[must_use]
    pub const fn is_block(self) -> bool {
        matches!(self, Self::MxFp8 | Self::MxInt8)
    }

    /// True for floats whose sums are made in binary32 and rounded once.
    #[must_use]
    pub const fn sums_wide(self) -> bool {
        match self {
            Self::F16 | Self::Bf16 | Self::MxFp8 | Self::MxInt8 => true,
            Self::F32 | Self::I32 | Self::F64 | Self::U32 => false,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

codes! {
    /// How two elements become one.
    pub enum Op {
        /// Addition. Signed integers saturate, unsigned ones wrap; floats follow IEEE 754, rounded to nearest
        /// even. 16-bit floats and blocks are added in binary32 and rounded at the end.
        Sum = 0 "sum",
        /// The smaller one; of the two zeros that is -0. If either is a NaN, the type's canonical NaN.
        Min = 1 "min",
        /// The larger one; of the two zeros that is +0. If either is a NaN, the type's canonical NaN.
        Max = 2 "max",
        /// The sum divided by the number of ranks inside. The sum travels, under a code of its own, so that
        /// ranks that want sums and ranks that want means disagree. Each worker divides, once, in binary64,
        /// and rounds to the element type: to nearest, and from halfway to even, integers too. So an `i32`
        /// mean of 1 and 2 is 2, and the mean of a saturated sum is too near 0.
        Mean = 3 "mean",
    }
}

impl Op {
    /// True if elements are added.
    #[must_use]
    #[inline]
    pub const fn adds(self) -> bool {
        match self {
            Self::Sum | Self::Mean => true,
            Self::Min | Self::Max => false,
        }
    }
}

/// Element type and operation: one byte of the header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Element {
    /// The type of the elements.
    pub dtype: DType,
    /// How they are combined.
    pub op: Op,
}

impl Element {
    /// Sums of binary32.
    pub const F32_SUM: Self = Self::sum(DType::F32);
    /// Saturating sums of 32-bit integers.
    pub const I32_SUM: Self = Self::sum(DType::I32);

    /// Beside a code, in the same byte: the packet is the last one of its operation. No code has this bit.
    pub const LAST: u8 = 0x80;

    /// Sums of a type.
    #[must_use]
    pub const fn sum(dtype: DType) -> Self {
        Self { dtype, op: Op::Sum }
    }

    /// Every type with every operation that it has.
    pub fn all() -> impl Iterator<Item = Self> {
        let every = |dtype| Op::ALL.into_iter().map(move |op| Self { dtype, op });
        DType::ALL.into_iter().flat_map(every).filter(|element| element.exists())
    }

    /// True if the type has the operation: blocks have no minima and maxima, and integers whose sums wrap
    /// have no mean.
    #[must_use]
    #[inline]
    pub const fn exists(self) -> bool {
        match self.op {
            Op::Sum => true,
            Op::Min | Op::Max => !self.dtype.is_block(),
            Op::Mean => !matches!(self.dtype, DType::U32),
        }
    }

    /// The element with the given code.
    #[must_use]
    #[inline(always)]
    pub const fn from_code(code: u8) -> Option<Self> {
        Self::BY_CODE[code as usize]
    }

    /// The element of each code, by code: it is looked up for each packet.
    const BY_CODE: [Option<Self>; 256] = {
        let mut table = [None; 256];
        let mut code = 0_u8;
        loop {
            if let (Some(dtype), Some(op)) = (DType::from_code(code & 0x0f), Op::from_code(code >> 4)) {
                let element = Self { dtype, op };
                table[code as usize] = if element.exists() { Some(element) } else { None };
            }
            if code == u8::MAX {
                break table;
            }
            code += 1;
        }
    };

    /// The element of a byte that may have [`LAST`](Self::LAST).
    #[must_use]
    #[inline]
    pub const fn from_byte(byte: u8) -> Option<Self> {
        Self::from_code(byte & !Self::LAST)
    }

    /// The code on the wire, with [`LAST`](Self::LAST) of a packet that is the last one of its operation.
    #[must_use]
    #[inline]
    pub const fn byte(self, last: bool) -> u8 {
        self.code() | (last as u8) << Self::LAST.trailing_zeros()
    }

    /// The code on the wire.
    #[must_use]
    #[inline]
    pub const fn code(self) -> u8 {
        self.dtype as u8 | (self.op as u8) << 4
    }
}
