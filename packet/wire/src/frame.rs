//! The layers of an Ethernet frame, found and checked in one pass.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::checksum;
use crate::field::{be16, eth, get, ipv4, ipv6, udp, vlan};
use crate::malformed::Malformed;

/// Length of an untagged Ethernet header.
pub const ETH_LEN: usize = 14;
/// Length of one VLAN tag.
pub const VLAN_LEN: usize = 4;
/// Length of an IPv4 header without options.
pub const IPV4_LEN: usize = 20;
/// Length of an IPv6 header.
pub const IPV6_LEN: usize = 40;
/// Length of a UDP header.
pub const UDP_LEN: usize = 8;

pub(crate) const ETHERTYPE_IPV4: u16 = 0x0800;
pub(crate) const ETHERTYPE_ARP: u16 = 0x0806;
pub(crate) const ETHERTYPE_VLAN: u16 = 0x8100;
pub(crate) const ETHERTYPE_QINQ: u16 = 0x88a8;
pub(crate) const ETHERTYPE_IPV6: u16 = 0x86dd;

/// IP protocol numbers.
pub mod protocol {
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// UDP.
    pub const UDP: u8 = 17;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
}

/// An Ethernet address.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// The broadcast address.
    pub const BROADCAST: Self = Self([0xff; 6]);

    /// True for broadcast and multicast addresses.
    #[must_use]
    #[inline]
    pub const fn is_group(self) -> bool {
        self.0[0] & 1 != 0
    }
}

/// Whether a frame is on its way to one other station than this one.
#[must_use]
#[inline]
pub fn is_for_another(own: Mac, frame: &[u8]) -> bool {
    frame.first().is_some_and(|first| first & 1 == 0) && !frame.starts_with(&own.0)
}

impl fmt::Display for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An IP address of either family in one word, IPv4 in the mapped range `::ffff:0:0/96`: one compare tells
/// equality.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Address(u128);

const MAPPED: u128 = 0xffff_0000_0000;

impl Address {
    /// From an IPv4 address as it stands in a header.
    #[must_use]
    #[inline]
    pub const fn from_v4(octets: [u8; 4]) -> Self {
        Self(MAPPED | u32::from_be_bytes(octets) as u128)
    }

    /// From an IPv6 address as it stands in a header.
    #[must_use]
    #[inline]
    pub const fn from_v6(octets: [u8; 16]) -> Self {
        Self(u128::from_be_bytes(octets))
    }

    /// The IPv4 address, if it is one.
    #[must_use]
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "the mapped part is exactly the low 32 bits")]
    pub const fn as_v4(self) -> Option<[u8; 4]> {
        if self.0 >> 32 == MAPPED >> 32 { Some((self.0 as u32).to_be_bytes()) } else { None }
    }

    /// All 16 octets of the IPv6 form.
    #[must_use]
    #[inline]
    pub const fn octets(self) -> [u8; 16] {
        self.0.to_be_bytes()
    }
}

impl From<IpAddr> for Address {
    fn from(ip: IpAddr) -> Self {
        match ip {
            IpAddr::V4(v4) => Self::from_v4(v4.octets()),
            IpAddr::V6(v6) => Self::from_v6(v6.octets()),
        }
    }
}

impl From<Address> for IpAddr {
    fn from(address: Address) -> Self {
        match address.as_v4() {
            Some(octets) => Self::V4(Ipv4Addr::from(octets)),
            None => Self::V6(Ipv6Addr::from(address.octets())),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&IpAddr::from(*self), f)
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Up to two VLAN tags, outermost first, with the EtherType each was announced by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct VlanTags {
    tags: [(u16, u16); 2],
    len: u8,
}

impl VlanTags {
    /// No tag.
    pub const NONE: Self = Self { tags: [(0, 0); 2], len: 0 };

    /// Adds an inner tag: its TPID (0x8100 or 0x88a8) and TCI. False if there are two already.
    #[must_use]
    pub fn push(&mut self, tpid: u16, tci: u16) -> bool {
        // Not by index: so they stay in registers.
        self.tags = match (self.len, self.tags) {
            (0, _) => [(tpid, tci), (0, 0)],
            (1, [outer, _]) => [outer, (tpid, tci)],
            _ => return false,
        };
        self.len += 1;
        true
    }

    /// The tags as (TPID, TCI), outermost first.
    #[must_use]
    pub fn as_slice(&self) -> &[(u16, u16)] {
        &self.tags[..usize::from(self.len)]
    }

    /// Bytes they take in a frame.
    #[must_use]
    pub fn wire_len(&self) -> usize {
        usize::from(self.len) * VLAN_LEN
    }
}

/// A UDP header, its lengths checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Udp<'a> {
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Offset of the UDP payload from the start of the frame.
    pub offset: usize,
    /// The UDP payload.
    pub body: &'a [u8],
}

/// An IP packet, its header checked as far as [`Frame::parse`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ip {
    /// Source address.
    pub src: Address,
    /// Destination address.
    pub dst: Address,
    /// Upper-layer protocol (IPv6: the first next-header).
    pub protocol: u8,
    /// The two ECN bits.
    pub ecn: u8,
    /// The six bits of the differentiated services code point (RFC 2474).
    pub dscp: u8,
    /// Offset of the upper layer from the start of the frame.
    pub l4: usize,
    /// Length of the upper layer.
    pub l4_len: usize,
}

impl Ip {
    /// Reads the UDP header. The caller has checked that `protocol` is UDP; the checksum is not checked.
    ///
    /// # Errors `Truncated` if there is no room for a header, `Length` unless the UDP length is that of the
    /// IP packet's payload.
    #[inline]
    pub fn udp<'a>(&self, frame: &'a [u8]) -> Result<Udp<'a>, Malformed> {
        let segment = frame.get(self.l4..self.l4 + self.l4_len).ok_or(Malformed::Truncated)?;
        let (header, body) = segment.split_first_chunk::<UDP_LEN>().ok_or(Malformed::Truncated)?;
        if usize::from(be16(header, udp::LEN)) != segment.len() {
            return Err(Malformed::Length);
        }
        Ok(Udp {
            src_port: be16(header, udp::SRC_PORT),
            dst_port: be16(header, udp::DST_PORT),
            offset: self.l4 + UDP_LEN,
            body,
        })
    }
}

/// The layer above Ethernet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Net {
    /// An ARP packet.
    Arp,
    /// A whole IPv4 packet without options, or an IPv6 packet.
    Ip(Ip),
    /// An IP packet that can be forwarded but not understood here, and why. The destination is known
    /// nevertheless.
    OpaqueIp(Address, Malformed),
    /// Something else.
    Other(u16),
}

/// A frame's layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Destination MAC.
    pub dst: Mac,
    /// Source MAC.
    pub src: Mac,
    /// VLAN tags.
    pub vlan: VlanTags,
    /// Offset of the layer above Ethernet.
    pub l3: usize,
    /// The layer above Ethernet.
    pub net: Net,
}

impl Frame {
    /// Finds the layers of `frame`.
    ///
    /// IPv4: version, header length, total length against the frame, and the header checksum are checked;
    /// options and fragments give [`Net::OpaqueIp`], whose checksum was not checked. IPv6: version and
    /// payload length; extension headers and IPv4-mapped addresses give `OpaqueIp`. Bytes behind the IP
    /// packet are Ethernet padding.
    ///
    /// # Errors
    /// `Truncated`, `VlanDepth`, `IpHeader`, `Length`, `IpChecksum`.
    // Always: called rather than inlined, it made sorting any frame take 15 % more instructions.
    #[inline(always)]
    pub fn parse(frame: &[u8]) -> Result<Self, Malformed> {
        let head = frame.first_chunk::<ETH_LEN>().ok_or(Malformed::Truncated)?;
        let (dst, src) = (Mac(get(head, eth::DST)), Mac(get(head, eth::SRC)));
        let mut ethertype = be16(head, eth::TYPE);
        let mut tags = VlanTags::NONE;
        let mut l3 = ETH_LEN;
        while ethertype == ETHERTYPE_VLAN || ethertype == ETHERTYPE_QINQ {
            let tag = frame
                .get(l3..)
                .and_then(|rest| rest.first_chunk::<VLAN_LEN>())
                .ok_or(Malformed::Truncated)?;
            if !tags.push(ethertype, be16(tag, vlan::TCI)) {
                return Err(Malformed::VlanDepth);
            }
            ethertype = be16(tag, vlan::TYPE);
            l3 += VLAN_LEN;
        }
        let net = match ethertype {
            ETHERTYPE_IPV4 => parse_ipv4(frame, l3)?,
            ETHERTYPE_IPV6 => parse_ipv6(frame, l3)?,
            ETHERTYPE_ARP => Net::Arp,
            other => Net::Other(other),
        };
        Ok(Self { dst, src, vlan: tags, l3, net })
    }
}

/// The length in the header of a frame's IP packet, even if part of it is missing; 0 if there is none.
#[must_use]
pub fn ip_length(frame: &[u8]) -> usize {
    let mut l3 = ETH_LEN;
    loop {
        let Some((&ethertype, packet)) = frame.get(l3 - 2..).and_then(|rest| rest.split_first_chunk::<2>())
        else {
            return 0;
        };
        match u16::from_be_bytes(ethertype) {
            ETHERTYPE_VLAN | ETHERTYPE_QINQ => l3 += VLAN_LEN,
            ETHERTYPE_IPV4 => {
                return packet.first_chunk::<IPV4_LEN>().map_or(0, |ip| be16(ip, ipv4::TOTAL_LEN).into());
            }
            ETHERTYPE_IPV6 => {
                let behind = packet.first_chunk::<IPV6_LEN>().map(|ip| be16(ip, ipv6::PAYLOAD_LEN).into());
                return behind.map_or(0, |behind: usize| IPV6_LEN + behind);
            }
            _ => return 0,
        }
    }
}

#[inline]
fn parse_ipv4(frame: &[u8], l3: usize) -> Result<Net, Malformed> {
    let packet = frame.get(l3..).ok_or(Malformed::Truncated)?;
    let header = packet.first_chunk::<IPV4_LEN>().ok_or(Malformed::Truncated)?;
    let header_len = usize::from(header[ipv4::VERSION] & 0x0f) * 4;
    if header[ipv4::VERSION] >> 4 != 4 || header_len < IPV4_LEN {
        return Err(Malformed::IpHeader);
    }
    let total = usize::from(be16(header, ipv4::TOTAL_LEN));
    if total > packet.len() || total < header_len {
        return Err(Malformed::Length);
    }
    let dst = Address::from_v4(get(header, ipv4::DST));
    if header_len != IPV4_LEN {
        return Ok(Net::OpaqueIp(dst, Malformed::IpOptions));
    }
    if be16(header, ipv4::FRAGMENT) & 0x3fff != 0 {
        return Ok(Net::OpaqueIp(dst, Malformed::IpFragment));
    }
    if !checksum::holds(header) {
        return Err(Malformed::IpChecksum);
    }
    Ok(Net::Ip(Ip {
        src: Address::from_v4(get(header, ipv4::SRC)),
        dst,
        protocol: header[ipv4::PROTOCOL],
        ecn: header[ipv4::TOS] & 3,
        dscp: header[ipv4::TOS] >> 2,
        l4: l3 + IPV4_LEN,
        l4_len: total - IPV4_LEN,
    }))
}

fn parse_ipv6(frame: &[u8], l3: usize) -> Result<Net, Malformed> {
    let packet = frame.get(l3..).ok_or(Malformed::Truncated)?;
    let (header, rest) = packet.split_first_chunk::<IPV6_LEN>().ok_or(Malformed::Truncated)?;
    if header[ipv6::VERSION] >> 4 != 6 {
        return Err(Malformed::IpHeader);
    }
    let length = usize::from(be16(header, ipv6::PAYLOAD_LEN));
    if length > rest.len() {
        return Err(Malformed::Length);
    }
    let (src, dst) = (Address::from_v6(get(header, ipv6::SRC)), Address::from_v6(get(header, ipv6::DST)));
    // An IPv4-mapped address must not appear on the wire (RFC 4038, section 4.2): it would be taken for the
    // IPv4 host's, whose rank is identified by its address.
    if src.as_v4().is_some() || dst.as_v4().is_some() {
        return Ok(Net::OpaqueIp(dst, Malformed::IpHeader));
    }
    match header[ipv6::NEXT] {
        // Hop-by-hop, routing, destination options, mobility, shim6, authentication: legal, but not parsed
        // here.
        0 | 43 | 51 | 60 | 135 | 140 => Ok(Net::OpaqueIp(dst, Malformed::IpOptions)),
        44 => Ok(Net::OpaqueIp(dst, Malformed::IpFragment)),
        protocol => Ok(Net::Ip(Ip {
            src,
            dst,
            protocol,
            ecn: (header[ipv6::CLASS] >> 4) & 3,
            dscp: (header[ipv6::VERSION] & 0x0f) << 2 | header[ipv6::CLASS] >> 6,
            l4: l3 + IPV6_LEN,
            l4_len: length,
        })),
    }
}
