//! Every byte Pascaline puts on or takes off the wire.
//!
//! Contract of this crate: pure functions over byte slices, no I/O, no allocation, no clock. The normative text of
//! the protocol is `docs/protocol.md`; its test vectors are run by `tests/vectors.rs`.
//!
//! **Panics.** No function that takes received bytes panics, whatever they are: a parser checks the length once and
//! returns [`Malformed`] with the reason. Functions that *write* take a buffer from the caller and return
//! [`NoRoom`] if it is too short.
//!
//! From the outside in: [`frame`] finds the layers of an Ethernet frame; [`arp`] and [`icmp`] answer for the
//! appliance's own address; [`header`] is the 22-byte aggregation header, [`payload`] says how long the payload
//! behind it may be, [`fast_path`] reads the common case in one pass, and [`trailer`] is what follows the payload; [`control`] is the body of control packets;
//! [`template`] writes whole frames; [`ports`] is which of an appliance's UDP ports a PSN goes to; [`round`] how a result was agreed upon; [`checksum`] is the Internet checksum.
#![forbid(unsafe_code)]

pub mod arp;
pub mod checksum;
mod codes;
pub mod control;
pub mod datagram;
pub mod element;
pub mod fast_path;
mod field;
pub mod frame;
pub mod header;
pub mod icmp;
mod line;
pub mod malformed;
pub mod payload;
pub mod ports;
mod rank_set;
pub mod round;
pub mod template;
pub mod trailer;

pub use datagram::Datagram;
pub use element::{DType, Element, Op};
pub use frame::{Address, Frame, Mac, Net, VlanTags};
pub use header::{Flags, Header, Kind};
pub use malformed::{Malformed, NoRoom};
pub use ports::UdpPorts;
pub use rank_set::RankSet;
pub use trailer::Trailer;

/// The UDP port an appliance listens on unless configured otherwise.
///
/// Not RoCE's 4791: NICs give that port special treatment.
pub const DEFAULT_PORT: u16 = 16420;

/// The protocol version this crate speaks.
pub const VERSION: u8 = 1;

/// Ranks a job may have at the most, by the width of the bitmap trailer.
pub const MAX_RANKS: u16 = 1024;
