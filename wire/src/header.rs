//! The 22-byte aggregation header.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+-------+-------+
//! |    version    |     kind      |     flags     |  op   | dtype |
//! +---------------+---------------+---------------+-------+-------+
//! |              job              |             rank              |
//! +-------------------------------+-------------------------------+
//! |                              psn                              |
//! +-------------------------------+-------------------------------+
//! |            fan_in             |             count             |
//! +-------------------------------+-------------------------------+
//! |           priority            |            wnd_cap            |
//! +---------------+---------------+-------------------------------+
//! |     tree      |     epoch     |
//! +---------------+---------------+
//! ```
//!
//! All fields in network byte order; the payload that follows is little endian.

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::VERSION;
use crate::malformed::{Malformed, NoRoom};

/// Length of the header in bytes.
pub const LEN: usize = 22;

/// What a packet is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// A worker's contribution to one PSN.
    Gradient = 1,
    /// A complete aggregate, on its way to the workers; or a worker's kept copy of one, sent back to help another.
    Result = 2,
    /// An incomplete aggregate with the bitmap of what it contains.
    Partial = 3,
    /// A worker's asynchronous update (Olaf).
    Update = 4,
    /// An acknowledgement that carries queue state (Olaf).
    Ack = 5,
    /// "This PSN is late": from a worker that waits, or to the ranks that are missing (DSA, section IV).
    Reminder = 6,
    /// A request for the contents of one PSN.
    Fetch = 7,
    /// Membership and job control; the body says which (iSwitch, Table 2).
    Control = 8,
}

impl Kind {
    /// The kind with the given code.
    #[must_use]
    #[inline]
    pub const fn from_code(code: u8) -> Option<Self> {
        Some(match code {
            1 => Self::Gradient,
            2 => Self::Result,
            3 => Self::Partial,
            4 => Self::Update,
            5 => Self::Ack,
            6 => Self::Reminder,
            7 => Self::Fetch,
            8 => Self::Control,
            _ => return None,
        })
    }
}

/// The flag bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(u8);

impl Flags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// Congestion was experienced on the way (PANAMA, section 4.2).
    pub const ECN_ECHO: Self = Self(1);
    /// The last packet of a job (PANAMA, section 5).
    pub const FIN: Self = Self(1 << 1);
    /// The sender has sent this before.
    pub const RETRANSMISSION: Self = Self(1 << 2);
    /// Not to be aggregated.
    pub const BYPASS: Self = Self(1 << 3);
    /// An element saturated.
    pub const OVERFLOW: Self = Self(1 << 4);
    /// A trailer follows the payload.
    pub const TRAILER: Self = Self(1 << 5);

    const DEFINED: u8 = 0b0011_1111;

    /// The flags with exactly these bits, if all of them are defined.
    #[must_use]
    #[inline]
    pub const fn from_bits(bits: u8) -> Option<Self> {
        if bits & !Self::DEFINED == 0 { Some(Self(bits)) } else { None }
    }

    /// The bits.
    #[must_use]
    #[inline]
    pub const fn bits(self) -> u8 {
        self.0
    }

    /// True if every flag of `other` is set.
    #[must_use]
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Both sets together.
    #[must_use]
    #[inline]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// This set without those of `other`.
    #[must_use]
    #[inline]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }
}

/// The type of the payload's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum DType {
    /// IEEE 754 binary32.
    F32 = 1,
    /// Two's-complement 32-bit integers; sums saturate and flag the overflow.
    I32 = 2,
    /// IEEE 754 binary16.
    F16 = 3,
    /// bfloat16.
    Bf16 = 4,
    /// IEEE 754 binary64.
    F64 = 5,
}

impl DType {
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

    /// The name as it appears in commands and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::I32 => "i32",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F64 => "f64",
        }
    }
}

/// How two elements are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    /// Addition.
    Sum = 0,
    /// The smaller one.
    Min = 1,
    /// The larger one.
    Max = 2,
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
    pub const F32_SUM: Self = Self { dtype: DType::F32, op: Op::Sum };
    /// Saturating sums of 32-bit integers.
    pub const I32_SUM: Self = Self { dtype: DType::I32, op: Op::Sum };

    /// The element with the given code.
    #[must_use]
    #[inline]
    pub const fn from_code(code: u8) -> Option<Self> {
        let dtype = match code & 0x0f {
            1 => DType::F32,
            2 => DType::I32,
            3 => DType::F16,
            4 => DType::Bf16,
            5 => DType::F64,
            _ => return None,
        };
        let op = match code >> 4 {
            0 => Op::Sum,
            1 => Op::Min,
            2 => Op::Max,
            _ => return None,
        };
        Some(Self { dtype, op })
    }

    /// The code on the wire.
    #[must_use]
    #[inline]
    pub const fn code(self) -> u8 {
        self.dtype as u8 | (self.op as u8) << 4
    }
}

/// The header's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// What the packet is for.
    pub kind: Kind,
    /// Flag bits.
    pub flags: Flags,
    /// Element type and operation.
    pub element: Element,
    /// The job (DSA's JobID, PANAMA's JID, Olaf's Cluster_ID).
    pub job: u16,
    /// The sender's rank in the job (DSA's RankID, Olaf's Worker_ID).
    pub rank: u16,
    /// Packet sequence number: which part of the tensor (DSA's PSN, PANAMA's VID, iSwitch's Seg).
    pub psn: u32,
    /// Contributions that complete the PSN (iSwitch's H).
    pub fan_in: u16,
    /// Contributions already inside.
    pub count: u16,
    /// Preemption priority (DSA, equation 1, quantised).
    pub priority: u16,
    /// Least free aggregator memory on the path, in packets (PANAMA).
    pub wnd_cap: u16,
    /// Aggregation tree (PANAMA's TID).
    pub tree: u8,
    /// Generation of the job; a packet of another generation is refused.
    pub epoch: u8,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    version: u8,
    kind: u8,
    flags: u8,
    element: u8,
    job: U16,
    rank: U16,
    psn: U32,
    fan_in: U16,
    count: U16,
    priority: U16,
    wnd_cap: U16,
    tree: u8,
    epoch: u8,
}

const _: () = assert!(size_of::<Raw>() == LEN);

impl Header {
    /// Reads the header at the start of `bytes`; the rest is what follows it.
    ///
    /// # Errors
    /// `Truncated`, `Version`, `Kind`, `Flags` or `DType`, looked for in this order.
    #[inline]
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        let (raw, rest) = Raw::ref_from_prefix(bytes).map_err(|_| Malformed::Truncated)?;
        if raw.version != VERSION {
            return Err(Malformed::Version);
        }
        let header = Self {
            kind: Kind::from_code(raw.kind).ok_or(Malformed::Kind)?,
            flags: Flags::from_bits(raw.flags).ok_or(Malformed::Flags)?,
            element: Element::from_code(raw.element).ok_or(Malformed::DType)?,
            job: raw.job.get(),
            rank: raw.rank.get(),
            psn: raw.psn.get(),
            fan_in: raw.fan_in.get(),
            count: raw.count.get(),
            priority: raw.priority.get(),
            wnd_cap: raw.wnd_cap.get(),
            tree: raw.tree,
            epoch: raw.epoch,
        };
        Ok((header, rest))
    }

    /// The header as bytes.
    #[must_use]
    #[inline(always)]
    pub fn to_bytes(&self) -> [u8; LEN] {
        from_words(self.to_words())
    }

    /// The header in four numbers, most significant byte first on the wire: offsets 0, 8, 16 and 20.
    ///
    /// Put together in registers and written in four pieces: field by field it would be written in small pieces and
    /// read back in large ones, which processors cannot forward from one to the other.
    #[inline(always)]
    pub(crate) fn to_words(self) -> (u64, u64, u32, u16) {
        let first = u64::from(VERSION) << 56
            | (self.kind as u64) << 48
            | u64::from(self.flags.bits()) << 40
            | u64::from(self.element.code()) << 32
            | u64::from(self.job) << 16
            | u64::from(self.rank);
        let second = u64::from(self.psn) << 32 | u64::from(self.fan_in) << 16 | u64::from(self.count);
        let third = u32::from(self.priority) << 16 | u32::from(self.wnd_cap);
        (first, second, third, u16::from(self.tree) << 8 | u16::from(self.epoch))
    }

    /// Writes the header to the start of `out` and returns what lies behind it.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`LEN`].
    #[inline]
    pub fn emit<'a>(&self, out: &'a mut [u8]) -> Result<&'a mut [u8], NoRoom> {
        let (head, rest) = out.split_first_chunk_mut::<LEN>().ok_or(NoRoom)?;
        *head = self.to_bytes();
        Ok(rest)
    }
}

/// The bytes of a header given as [`Header::to_words`] gives it.
#[inline(always)]
pub(crate) fn from_words((first, second, third, fourth): (u64, u64, u32, u16)) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[0..8].copy_from_slice(&first.to_be_bytes());
    bytes[8..16].copy_from_slice(&second.to_be_bytes());
    bytes[16..20].copy_from_slice(&third.to_be_bytes());
    bytes[20..22].copy_from_slice(&fourth.to_be_bytes());
    bytes
}
