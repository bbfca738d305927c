//! SwitchML's UDP packets, as its own clients send and expect them.
//!
//! ```text
//!  0 Ethernet 14 | IPv4 20 | UDP 8                                                      42 bytes
//! 42 kind u8       upper half 1; the lower three bits say how many elements: 1 = 64, 3 = 256
//! 43 operation u8  the number of the sender's operation
//! 44 packet u32    which packet of it; opaque, it comes back as it was sent
//! 48 place u16     bit 15: which of a slot's two sets; the rest: which slot
//! 50 exponents     two signed bytes; in the result, the larger ones of all
//! 52 elements      32-bit integers, big endian; in the result, their sums, which wrap
//! ```
//!
//! Requests carry neither an IPv4 checksum nor a UDP checksum that is reliable, so none is checked. The facts
//! are those of its client, p4lang/p4app-switchML.

use crate::checksum;
use crate::field::{at, be16, eth, get, ipv4, udp};
use crate::frame::{Address, ETH_LEN, ETHERTYPE_IPV4, IPV4_LEN, Mac, UDP_LEN, protocol};

/// The port that its clients send to.
pub const UDP_PORT: u16 = 0xbee0;
/// Most workers of a job: its bitmaps have 32 bits.
pub const MOST_WORKERS: u16 = 32;
/// Bytes before the summed part: the exponents and the elements.
pub const HEADERS: usize = ETH_LEN + IPV4_LEN + UDP_LEN + OWN;
/// Slots that a place can name.
pub const PLACES: u32 = 1 << 14;
/// The pool's code for the sums of such packets. No element of a packet of the protocol has it.
pub const ELEMENT: u8 = 0x0f;

/// Bytes of its own header.
const OWN: usize = 8;
const SECOND_SET: u16 = 1 << 15;
const KIND: u8 = 0x10;
const EXPONENTS: u16 = 2;

/// How long a job's packets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Size {
    /// 64 elements.
    Bytes256,
    /// 256 elements.
    Bytes1024,
}

impl Size {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Bytes256, Self::Bytes1024];

    /// The size with this code; `None` for those that its clients do not use.
    #[must_use]
    pub const fn from_code(code: u32) -> Option<Self> {
        match code {
            1 => Some(Self::Bytes256),
            3 => Some(Self::Bytes1024),
            _ => None,
        }
    }

    /// Its code, in packets and towards the controller.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Bytes256 => 1,
            Self::Bytes1024 => 3,
        }
    }

    /// Elements of a packet.
    #[must_use]
    pub const fn elements(self) -> usize {
        match self {
            Self::Bytes256 => 64,
            Self::Bytes1024 => 256,
        }
    }

    /// Bytes that are summed: the exponents and the elements.
    #[must_use]
    pub const fn summed(self) -> u16 {
        match self {
            Self::Bytes256 => EXPONENTS + 256,
            Self::Bytes1024 => EXPONENTS + 1024,
        }
    }
}

/// The operation and number of a packet: correct workers agree on them for one use of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// The number of the operation.
    pub operation: u8,
    /// Which packet of it, as it is on the wire.
    pub packet: u32,
}

/// A slot's number, and which of its sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Which slot; below [`PLACES`].
    pub slot: u16,
    /// The second set, not the first.
    pub second: bool,
}

impl Place {
    const fn from_bits(bits: u16) -> Option<Self> {
        let slot = bits & !SECOND_SET;
        if slot as u32 >= PLACES { None } else { Some(Self { slot, second: bits & SECOND_SET != 0 }) }
    }

    const fn to_bits(self) -> u16 {
        self.slot | if self.second { SECOND_SET } else { 0 }
    }
}

/// A packet of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    /// Its MAC.
    pub src_mac: Mac,
    /// The MAC that it was sent to.
    pub dst_mac: Mac,
    /// Its address.
    pub src: Address,
    /// The address that it was sent to.
    pub dst: Address,
    /// Its UDP port, which a result goes to at every worker.
    pub src_port: u16,
    /// The UDP port that it was sent to.
    pub dst_port: u16,
    /// Its content: `None` if no client sends such a packet.
    pub body: Option<Body>,
}

/// The content of a worker's packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Body {
    /// Its length.
    pub size: Size,
    /// Its operation and number.
    pub mark: Mark,
    /// Its slot.
    pub place: Place,
}

impl Packet {
    /// The packet that a frame holds, if it is untagged IPv4 without options that carries a whole UDP
    /// datagram.
    #[must_use]
    pub fn parse(frame: &[u8]) -> Option<Self> {
        let head = frame.first_chunk::<ETH_LEN>()?;
        let ip = frame.get(ETH_LEN..)?;
        let header = ip.first_chunk::<IPV4_LEN>()?;
        let total = usize::from(be16(header, ipv4::TOTAL_LEN));
        let fragment = be16(header, ipv4::FRAGMENT) & 0x3fff != 0;
        if be16(head, eth::TYPE) != ETHERTYPE_IPV4
            || header[ipv4::VERSION] != 0x45
            || header[ipv4::PROTOCOL] != protocol::UDP
            || fragment
        {
            return None;
        }
        let (datagram, own) = ip.get(IPV4_LEN..total)?.split_first_chunk::<UDP_LEN>()?;
        Some(Self {
            src_mac: Mac(get(head, eth::SRC)),
            dst_mac: Mac(get(head, eth::DST)),
            src: Address::from_v4(get(header, ipv4::SRC)),
            dst: Address::from_v4(get(header, ipv4::DST)),
            src_port: be16(datagram, udp::SRC_PORT),
            dst_port: be16(datagram, udp::DST_PORT),
            body: Body::parse(own),
        })
    }
}

impl Body {
    /// The content of a datagram; `None` if no client sends such a one.
    #[must_use]
    pub fn parse(datagram: &[u8]) -> Option<Self> {
        let (&[kind, operation, p0, p1, p2, p3, place, slot], summed) =
            datagram.split_first_chunk::<OWN>()?;
        let size = Size::from_code(u32::from(kind & 0x07)).filter(|_| kind & 0xf0 == KIND)?;
        let place = Place::from_bits(u16::from_be_bytes([place, slot]))?;
        let mark = Mark { operation, packet: u32::from_be_bytes([p0, p1, p2, p3]) };
        (summed.len() == usize::from(size.summed())).then_some(Self { size, mark, place })
    }

    /// The eight bytes in front of the exponents.
    #[must_use]
    pub fn to_bytes(self) -> [u8; OWN] {
        let [p0, p1, p2, p3] = self.mark.packet.to_be_bytes();
        let [place, slot] = self.place.to_bits().to_be_bytes();
        [KIND | self.size.code(), self.mark.operation, p0, p1, p2, p3, place, slot]
    }
}

/// Where a result goes, and where it comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// The worker's MAC, address and UDP port.
    pub to: (Mac, [u8; 4], u16),
    /// The appliance's, as the worker was given it.
    pub from: (Mac, [u8; 4], u16),
}

/// The headers of a frame with this content on this route, in front of the exponents. The client turns a
/// received result into its next request, in the same buffer, so all lengths are exact.
#[must_use]
pub fn headers(route: &Route, body: Body) -> [u8; HEADERS] {
    const L4: usize = ETH_LEN + IPV4_LEN;
    let Route { to: (dst_mac, dst, dst_port), from: (src_mac, src, src_port) } = *route;
    let mut out = [0; HEADERS];
    out[eth::DST].copy_from_slice(&dst_mac.0);
    out[eth::SRC].copy_from_slice(&src_mac.0);
    out[eth::TYPE].copy_from_slice(&ETHERTYPE_IPV4.to_be_bytes());
    // Below 2^16: the longest has 1,062 bytes.
    const { assert!(IPV4_LEN + UDP_LEN + OWN == 36) }
    let total = 36 + body.size.summed();
    out[ETH_LEN + ipv4::VERSION] = 0x45;
    out[at(ETH_LEN, ipv4::TOTAL_LEN)].copy_from_slice(&total.to_be_bytes());
    out[ETH_LEN + ipv4::TTL] = 64;
    out[ETH_LEN + ipv4::PROTOCOL] = protocol::UDP;
    out[at(ETH_LEN, ipv4::SRC)].copy_from_slice(&src);
    out[at(ETH_LEN, ipv4::DST)].copy_from_slice(&dst);
    let sum = checksum::finish(checksum::sum(&out[ETH_LEN..L4]));
    out[at(ETH_LEN, ipv4::CHECKSUM)].copy_from_slice(&sum.to_be_bytes());
    out[at(L4, udp::SRC_PORT)].copy_from_slice(&src_port.to_be_bytes());
    out[at(L4, udp::DST_PORT)].copy_from_slice(&dst_port.to_be_bytes());
    out[at(L4, udp::LEN)].copy_from_slice(&(total - 20).to_be_bytes());
    out[L4 + UDP_LEN..].copy_from_slice(&body.to_bytes());
    out
}

#[cfg(test)]
mod tests;
