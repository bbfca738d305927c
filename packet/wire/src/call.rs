//! Which collective operation a rank calls, in the sixteen bits above an operation's length.

use core::fmt;

use crate::codes::codes;
use crate::element::DType;

codes! {
    /// An operation of all ranks.
    pub enum Collective {
        /// Every rank gets the combination of all tensors.
        Allreduce = 0 "allreduce",
        /// One rank gets it, the root.
        Reduce = 1 "reduce",
        /// Every rank gets the root's tensor.
        Broadcast = 2 "broadcast",
        /// No rank continues before all have come.
        Barrier = 3 "barrier",
        /// Every rank gets its part of the combination of all tensors.
        ReduceScatter = 4 "reduce_scatter",
        /// Every rank gets the parts of all.
        Allgather = 5 "allgather",
    }
}

impl Collective {
    /// True if bytes are passed on unchanged: as integers, to which other ranks add zeros.
    #[must_use]
    pub const fn copies(self) -> bool {
        match self {
            Self::Broadcast | Self::Allgather => true,
            Self::Allreduce | Self::Reduce | Self::Barrier | Self::ReduceScatter => false,
        }
    }

    /// True if the first PSN compares the ranks' calls.
    #[must_use]
    pub const fn compares(self) -> bool {
        !matches!(self, Self::Allreduce)
    }
}

/// A collective operation and its root, or a digest of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Call {
    /// The operation.
    pub collective: Collective,
    /// Of reduce and broadcast, the root's rank. Of reduce_scatter and allgather 0 if the parts are even,
    /// otherwise a number that most likely differs for other parts. 12 bits.
    pub argument: u16,
}

impl Call {
    /// An allreduce.
    pub const ALLREDUCE: Self = Self { collective: Collective::Allreduce, argument: 0 };
    /// One more than the largest argument.
    pub const ARGUMENTS: u16 = 1 << 12;

    const SHIFT: u32 = 48;

    /// Reads a call, and the bytes of the operation below it.
    #[must_use]
    pub fn split(value: u64) -> Option<(Self, u64)> {
        let [code, low, ..] = value.to_be_bytes();
        let collective = Collective::from_code(code >> 4)?;
        let argument = u16::from_be_bytes([code & 0x0f, low]);
        Some((Self { collective, argument }, value & ((1 << Self::SHIFT) - 1)))
    }

    /// Both in one number; lengths from 2⁴⁸ on are cut.
    #[must_use]
    pub const fn join(self, bytes: u64) -> u64 {
        let call = (self.collective as u64) << 12 | (self.argument % Self::ARGUMENTS) as u64;
        call << Self::SHIFT | bytes & ((1 << Self::SHIFT) - 1)
    }

    /// Bytes of a full packet of an operation: the whole elements that there is room for. Copied bytes go in
    /// whole integers.
    #[must_use]
    pub const fn full(self, dtype: DType, payload: u16) -> usize {
        let travels = if self.collective.copies() { DType::I32 } else { dtype };
        travels.whole(payload as usize)
    }

    /// How many PSNs an operation on this many bytes has. Of copied bytes, those that fill no integer go with
    /// the PSN that compares.
    #[must_use]
    pub fn packets(self, bytes: u64, dtype: DType, payload: u16) -> u32 {
        let rest = if self.collective.copies() { bytes % 4 } else { 0 };
        let packets = (bytes - rest).div_ceil(self.full(dtype, payload).max(1) as u64);
        let packets = packets.saturating_add(u64::from(self.collective.compares()));
        u32::try_from(packets).unwrap_or(u32::MAX).min(1 << 31)
    }

    /// True if an operation is in flight: a barrier has no bytes.
    #[must_use]
    pub const fn is_under_way(self, bytes: u64) -> bool {
        bytes > 0 || self.collective.compares()
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { collective, argument } = self;
        match collective {
            Collective::Allreduce | Collective::Barrier => f.write_str(collective.name()),
            Collective::Reduce => write!(f, "reduce to rank {argument}"),
            Collective::Broadcast => write!(f, "broadcast from rank {argument}"),
            Collective::ReduceScatter | Collective::Allgather => {
                let parts = if *argument == 0 { "even" } else { "uneven" };
                write!(f, "{} in {parts} parts", collective.name())
            }
        }
    }
}
