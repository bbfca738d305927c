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
//! |                      own fields of the kind                   |
//! +-------------------------------+-------------------------------+
//! |             epoch             |
//! +-------------------------------+
//! ```
//!
//! All fields in network byte order; the payload that follows is little endian.

use core::fmt;
use core::time::Duration;

use zerocopy::byteorder::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::VERSION;
use crate::codes::codes;
use crate::control::Status;
pub use crate::element::{DType, Element, Op};
use crate::malformed::{Malformed, NoRoom};

/// Length of the header in bytes.
pub const LEN: usize = 22;

codes! {
    /// The purpose of a packet.
    pub enum Kind {
        /// A worker's contribution to one PSN.
        Gradient = 1 "gradient",
        /// A completed sum on its way to the workers, or a worker's cached copy of one, sent to help another.
        Result = 2 "result",
        /// An incomplete sum with the bitmap of the ranks inside.
        Partial = 3 "partial",
        /// A worker's asynchronous update (Olaf).
        Update = 4 "update",
        /// An acknowledgement that carries queue state (Olaf).
        Ack = 5 "ack",
        /// "This PSN is late": from a worker that waits, or to the ranks that are missing (DSA, section IV).
        Reminder = 6 "reminder",
        /// A request for the contents of one PSN.
        Fetch = 7 "fetch",
        /// Membership and job control; the body says which (iSwitch, Table 2).
        Control = 8 "control",
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

/// What [`Own::pause`] counts: for this many of these the server asks the cluster to send nothing.
pub const PAUSE_UNIT: Duration = Duration::from_micros(100);

/// The two fields that a kind has of its own (protocol, section 4). Which they are, the kind says; each kind
/// has a function here that makes its own, and one to read each of them.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Own(u32);

impl Own {
    /// Those of kinds that have none, and of updates and their acknowledgements where there is nothing to
    /// say.
    pub const NONE: Self = Self(0);
    /// Priority or round 0, no cap known.
    pub const FREE: Self = Self::sum(0, u16::MAX);

    /// Of a Gradient that is to be aggregated, and of a Partial: the preemption priority (DSA, equation 1,
    /// quantised), and the least free aggregator memory on the path in packets (PANAMA, section 4.2).
    #[must_use]
    #[inline(always)]
    pub const fn sum(priority: u16, wnd_cap: u16) -> Self {
        Self((priority as u32) << 16 | wnd_cap as u32)
    }

    /// Of a Result, a Reminder, and the Gradient with BYPASS that answers a Reminder: the
    /// [round](crate::round), and the free memory as in [`sum`](Self::sum).
    #[must_use]
    #[inline(always)]
    pub const fn vote(round: u16, wnd_cap: u16) -> Self {
        Self::sum(round, wnd_cap)
    }

    /// Of an Update from an appliance to its parent: which of the workers below it the update is of.
    #[must_use]
    #[inline(always)]
    pub const fn update(origin: u16) -> Self {
        Self::sum(origin, 0)
    }

    /// Of an Ack to an Update: its outcome, and for how many [`PAUSE_UNIT`]s the cluster should pause.
    #[must_use]
    #[inline(always)]
    pub const fn answer(status: Status, pause: u16) -> Self {
        Self::sum(status as u16, pause)
    }

    /// See [`sum`](Self::sum).
    #[must_use]
    #[inline(always)]
    pub const fn priority(self) -> u16 {
        (self.0 >> 16) as u16
    }

    /// See [`vote`](Self::vote).
    #[must_use]
    #[inline(always)]
    pub const fn round(self) -> u16 {
        self.priority()
    }

    /// See [`update`](Self::update).
    #[must_use]
    #[inline(always)]
    pub const fn origin(self) -> u16 {
        self.priority()
    }

    /// See [`answer`](Self::answer); `None` if this version does not define it.
    #[must_use]
    pub fn status(self) -> Option<Status> {
        u8::try_from(self.priority()).ok().and_then(Status::from_code)
    }

    /// See [`sum`](Self::sum).
    #[must_use]
    #[inline(always)]
    #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
    pub const fn wnd_cap(self) -> u16 {
        self.0 as u16
    }

    /// See [`answer`](Self::answer).
    #[must_use]
    #[inline(always)]
    pub const fn pause(self) -> u16 {
        self.wnd_cap()
    }
}

impl fmt::Debug for Own {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Own({}, {})", self.priority(), self.wnd_cap())
    }
}

/// The header's meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Header {
    /// The purpose of the packet.
    pub kind: Kind,
    /// Flag bits.
    pub flags: Flags,
    /// Element type and operation.
    pub element: Element,
    /// The job (DSA's JobID, PANAMA's JID, Olaf's Cluster_ID).
    pub job: u16,
    /// The sender's rank in the job (DSA's RankID, Olaf's Worker_ID).
    pub rank: u16,
    /// Packet sequence number: the part of the tensor (DSA's PSN, PANAMA's VID, iSwitch's Seg).
    pub psn: u32,
    /// Contributions that complete the PSN (iSwitch's H).
    pub fan_in: u16,
    /// Contributions already inside.
    pub count: u16,
    /// The fields that only this kind has.
    pub own: Own,
    /// Generation of the job; a packet of another generation is refused.
    pub epoch: u16,
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
    own: U32,
    epoch: U16,
}

const _: () = assert!(size_of::<Raw>() == LEN);

impl Header {
    /// A header in which all else is neutral: rank, PSN, fan-in, count, priority or round 0, no flag, no cap.
    #[must_use]
    #[inline(always)]
    pub const fn about(kind: Kind, element: Element, job: u16, epoch: u16) -> Self {
        let own = match kind {
            Kind::Gradient | Kind::Result | Kind::Partial | Kind::Reminder | Kind::Fetch => Own::FREE,
            Kind::Update | Kind::Ack | Kind::Control => Own::NONE,
        };
        Self { kind, flags: Flags::NONE, element, job, rank: 0, psn: 0, fan_in: 0, count: 0, own, epoch }
    }

    /// Reads the header at the start of `bytes`; returns it and the rest.
    ///
    /// # Errors `Truncated`, `Version`, `Kind`, `Flags` or `DType`, checked in this order.
    #[inline(always)]
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
            own: Own(raw.own.get()),
            epoch: raw.epoch.get(),
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
    /// Assembled in registers and written in four pieces: field by field it would be written in small pieces
    /// and read back in large ones, which processors cannot forward from one to the other.
    #[inline(always)]
    pub(crate) fn to_words(self) -> (u64, u64, u32, u16) {
        let first = u64::from(VERSION) << 56
            | (self.kind as u64) << 48
            | u64::from(self.flags.bits()) << 40
            | u64::from(self.element.code()) << 32
            | u64::from(self.job) << 16
            | u64::from(self.rank);
        let second = u64::from(self.psn) << 32 | u64::from(self.fan_in) << 16 | u64::from(self.count);
        (first, second, self.own.0, self.epoch)
    }

    /// Writes the header to the start of `out` and returns the rest of `out`.
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

/// The bytes of a header in the form of [`Header::to_words`].
#[inline(always)]
pub(crate) fn from_words((first, second, third, fourth): (u64, u64, u32, u16)) -> [u8; LEN] {
    let mut bytes = [0; LEN];
    bytes[0..8].copy_from_slice(&first.to_be_bytes());
    bytes[8..16].copy_from_slice(&second.to_be_bytes());
    bytes[16..20].copy_from_slice(&third.to_be_bytes());
    bytes[20..22].copy_from_slice(&fourth.to_be_bytes());
    bytes
}
