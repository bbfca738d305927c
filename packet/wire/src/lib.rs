//! Every byte Pascaline puts on or takes off the wire.
//!
//! Contract of this crate: pure functions over byte slices, no I/O, no allocation, no clock. The normative
//! text of the protocol is `docs/protocol.md`; its test vectors are run by `tests/it/vectors.rs`.
//!
//! **Panics.** No function that takes received bytes panics, whatever they are: a parser checks the length
//! once and returns [`Malformed`] with the reason. Functions that *write* take a buffer from the caller and
//! return [`NoRoom`] if it is too short.
//!
//! The layers, from the outside in:
//!
//! ```text
//! +----------+------+-----------+-----+--------------------+---------+---------+
//! | Ethernet | VLAN | IPv4/IPv6 | UDP | aggregation header | payload | trailer |
//! |    14    | 0..8 |   20/40   |  8  |         22         |         |         |
//! +----------+------+-----------+-----+--------------------+---------+---------+
//!  frame ........................       header               element   trailer
//!  datagram: all of it, parsed once     control: the payload of control packets
//! ```
//!
//! [`frame`] finds the layers and [`Datagram`] holds their fields; [`fast_path`] recognises a gradient by one
//! masked compare instead. [`template`] writes whole frames. [`arp`] and [`icmp`] answer for the appliance's
//! own addresses, [`neighbour`] asks for others. [`payload`] says how long a payload may be, [`ports`] which
//! UDP port a PSN goes to, [`round`] how a result was agreed upon, [`congestion`] how workers share the
//! network, [`former`] what workers of the version before hear, [`asking`] when requests are sent again and
//! which answers count. [`RankSet`] is the one bitmap of ranks, [`Element`] the one list of element types.
//!
//! ```
//! use pascaline_wire::{Element, Flags, Header, Kind, Malformed, Own};
//!
//! let header = Header {
//!     kind: Kind::Gradient,
//!     flags: Flags::NONE,
//!     element: Element::F32_SUM,
//!     job: 1,
//!     rank: 0,
//!     psn: 7,
//!     fan_in: 2,
//!     count: 1,
//!     own: Own::FREE,
//!     epoch: 0,
//! };
//! let mut packet = header.to_bytes().to_vec();
//! packet.extend(1.5_f32.to_le_bytes());
//!
//! let (parsed, body) = Header::parse(&packet)?;
//! let (payload, trailer) = parsed.payload(body)?;
//! assert_eq!((parsed, payload, trailer), (header, &body[..4], None));
//! assert_eq!(Header::parse(&packet[..21]), Err(Malformed::Truncated));
//! # Ok::<(), Malformed>(())
//! ```
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods, clippy::disallowed_types))]

pub mod arp;
pub mod asking;
pub mod call;
pub mod checksum;
mod codes;
pub mod congestion;
pub mod control;
pub mod datagram;
pub mod element;
pub mod fast_path;
mod field;
pub mod former;
pub mod frame;
pub mod header;
pub mod icmp;
mod line;
pub mod malformed;
pub mod multicast;
pub mod mx;
pub mod neighbour;
pub mod payload;
pub mod ports;
mod rank_set;
pub mod round;
pub mod shorten;
pub mod switchml;
pub mod template;
pub mod trailer;

pub use call::{Call, Collective};
pub use congestion::{CongestionControl, ecn};
pub use datagram::Datagram;
pub use element::{DType, Element, Op};
pub use frame::{Address, Frame, Mac, Net, VlanTags};
pub use header::{Flags, Header, Kind, Own};
pub use malformed::{Malformed, NoRoom};
pub use multicast::MulticastGroup;
pub use ports::UdpPorts;
pub use rank_set::RankSet;
pub use trailer::Trailer;

/// The UDP port that an appliance listens on unless configured otherwise.
///
/// Not RoCE's 4791: NICs give that port special treatment.
pub const DEFAULT_PORT: u16 = 16420;

/// The protocol version this crate speaks.
pub const VERSION: u8 = 3;

/// Ranks a job may have at the most, by the width of the bitmap trailer.
pub const MAX_RANKS: u16 = 1024;
