//! An appliance's reports on ranks: the operations that two of them call, and why some are missing.

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::call::Call;
use crate::codes::codes;
use crate::element::Element;
use crate::frame::Address;

/// The operation that a rank calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operation {
    /// The rank.
    pub rank: u16,
    /// Element type and operation; `None` if it calls nothing.
    pub element: Option<Element>,
    /// The first PSN.
    pub first: u32,
    /// The call.
    pub call: Call,
    /// Payload bytes of the whole operation, below 2⁴⁸.
    pub bytes: u64,
}

/// Two operations that differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Operations {
    /// The operation of most ranks; a rank of theirs.
    pub most: Operation,
    /// The operation of another rank.
    pub differing: Operation,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawOperation {
    rank: U16,
    element: u8,
    reserved: u8,
    first: U32,
    bytes: U64,
}

impl Operation {
    fn parse(raw: &RawOperation) -> Option<Self> {
        let element = match raw.element {
            0 => None,
            code => Some(Element::from_code(code)?),
        };
        let (rank, first) = (raw.rank.get(), raw.first.get());
        let (call, bytes) = Call::split(raw.bytes.get())?;
        (raw.reserved == 0).then_some(Self { rank, element, first, call, bytes })
    }

    fn raw(&self) -> RawOperation {
        RawOperation {
            rank: self.rank.into(),
            element: self.element.map_or(0, Element::code),
            reserved: 0,
            first: self.first.into(),
            bytes: self.call.join(self.bytes).into(),
        }
    }
}

impl Operations {
    pub(super) const LEN: usize = 2 * size_of::<RawOperation>();

    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let [most, differing] = <[RawOperation; 2]>::ref_from_bytes(value).ok()?;
        Some(Self { most: Operation::parse(most)?, differing: Operation::parse(differing)? })
    }

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        zerocopy::transmute!([self.most.raw(), self.differing.raw()])
    }
}

codes! {
    /// The state of a missing rank.
    pub enum RankState {
        /// It has not joined.
        NeverJoined = 1 "never_joined",
        /// It has left.
        Left = 2 "left",
        /// It has been declared lost.
        Lost = 3 "lost",
        /// Nothing has arrived from it for a while.
        Silent = 4 "silent",
        /// It is alive, and behind.
        Behind = 5 "behind",
        /// It is alive, and nothing is wrong with it.
        Here = 6 "here",
        /// It is alive and inside an operation, but its contributions do not arrive.
        Blocked = 7 "blocked",
        /// It is alive, and waits for results that the appliance keeps no longer.
        Overtaken = 8 "overtaken",
    }
}

/// The report on one rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RankReport {
    /// The rank.
    pub rank: u16,
    /// Its state.
    pub state: RankState,
    /// For how long nothing has arrived from it, in milliseconds.
    pub silent_ms: u32,
    /// By how many packets it is behind the PSN that was asked about.
    pub behind: u32,
    /// The UDP port that it has joined from; 0 if it has not.
    pub port: u16,
    /// The address that it has joined from; all zeros if it has not.
    pub address: Address,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct RawReport {
    rank: U16,
    state: u8,
    reserved: u8,
    silent_ms: U32,
    behind: U32,
    port: U16,
    reserved_2: U16,
    address: [u8; 16],
}

impl RankReport {
    pub(super) const LEN: usize = size_of::<RawReport>();

    /// A report with only the state.
    #[must_use]
    pub const fn new(rank: u16, state: RankState) -> Self {
        Self { rank, state, silent_ms: 0, behind: 0, port: 0, address: Address::from_v6([0; 16]) }
    }

    fn parse(raw: &RawReport) -> Option<Self> {
        (raw.reserved == 0 && raw.reserved_2.get() == 0).then_some(Self {
            rank: raw.rank.get(),
            state: RankState::from_code(raw.state)?,
            silent_ms: raw.silent_ms.get(),
            behind: raw.behind.get(),
            port: raw.port.get(),
            address: Address::from_v6(raw.address),
        })
    }

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        zerocopy::transmute!(RawReport {
            rank: self.rank.into(),
            state: self.state as u8,
            reserved: 0,
            silent_ms: self.silent_ms.into(),
            behind: self.behind.into(),
            port: self.port.into(),
            reserved_2: 0.into(),
            address: self.address.octets(),
        })
    }
}

/// Reports on up to seven ranks: the most that one trailer element holds.
#[derive(Debug, Clone, Copy)]
pub struct RankReports {
    reports: [RankReport; Self::MAX],
    len: u8,
}

impl RankReports {
    /// The largest number allowed.
    pub const MAX: usize = 7;

    /// None yet; a trailer needs at least one.
    pub const EMPTY: Self = Self { reports: [RankReport::new(0, RankState::NeverJoined); Self::MAX], len: 0 };

    /// Adds one. False if there is no room for it.
    #[must_use]
    pub fn push(&mut self, report: RankReport) -> bool {
        let place = self.reports.get_mut(usize::from(self.len));
        let fits = place.map(|place| *place = report).is_some();
        self.len += u8::from(fits);
        fits
    }

    /// All of them.
    #[must_use]
    pub fn as_slice(&self) -> &[RankReport] {
        self.reports.get(..usize::from(self.len)).unwrap_or_default()
    }

    pub(super) fn value_len(&self) -> usize {
        usize::from(self.len) * RankReport::LEN
    }

    pub(super) fn parse(value: &[u8]) -> Option<Self> {
        let raw = <[RawReport]>::ref_from_bytes(value).ok().filter(|raw| !raw.is_empty())?;
        let mut reports = Self::EMPTY;
        for report in raw {
            if !reports.push(RankReport::parse(report)?) {
                return None;
            }
        }
        Some(reports)
    }
}

impl Default for RankReports {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl PartialEq for RankReports {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for RankReports {}
