//! Where the fields of each header lie, counted from its first byte.

use core::ops::Range;

/// Ethernet.
pub(crate) mod eth {
    use super::Range;
    pub(crate) const DST: Range<usize> = 0..6;
    pub(crate) const SRC: Range<usize> = 6..12;
    pub(crate) const TYPE: Range<usize> = 12..14;
}

/// A VLAN tag behind its TPID.
pub(crate) mod vlan {
    use super::Range;
    pub(crate) const TCI: Range<usize> = 0..2;
    pub(crate) const TYPE: Range<usize> = 2..4;
}

/// IPv4 without options.
pub(crate) mod ipv4 {
    use super::Range;
    /// Version in the upper half, words of the header in the lower.
    pub(crate) const VERSION: usize = 0;
    pub(crate) const TOS: usize = 1;
    pub(crate) const TOTAL_LEN: Range<usize> = 2..4;
    pub(crate) const ID: Range<usize> = 4..6;
    pub(crate) const FRAGMENT: Range<usize> = 6..8;
    pub(crate) const TTL: usize = 8;
    pub(crate) const PROTOCOL: usize = 9;
    pub(crate) const CHECKSUM: Range<usize> = 10..12;
    pub(crate) const SRC: Range<usize> = 12..16;
    pub(crate) const DST: Range<usize> = 16..20;
}

/// IPv6.
pub(crate) mod ipv6 {
    use super::Range;
    /// Version in the upper half, the upper half of the traffic class in the lower.
    pub(crate) const VERSION: usize = 0;
    /// The lower half of the traffic class in the upper half.
    pub(crate) const CLASS: usize = 1;
    pub(crate) const PAYLOAD_LEN: Range<usize> = 4..6;
    pub(crate) const NEXT: usize = 6;
    pub(crate) const HOP_LIMIT: usize = 7;
    pub(crate) const SRC: Range<usize> = 8..24;
    pub(crate) const DST: Range<usize> = 24..40;
}

/// UDP.
pub(crate) mod udp {
    use super::Range;
    pub(crate) const SRC_PORT: Range<usize> = 0..2;
    pub(crate) const DST_PORT: Range<usize> = 2..4;
    pub(crate) const LEN: Range<usize> = 4..6;
    pub(crate) const CHECKSUM: Range<usize> = 6..8;
}

/// ARP for IPv4 over Ethernet.
pub(crate) mod arp {
    use super::Range;
    /// Hardware and protocol, and the lengths of their addresses.
    pub(crate) const FORMAT: Range<usize> = 0..6;
    pub(crate) const OPERATION: Range<usize> = 6..8;
    pub(crate) const SENDER_MAC: Range<usize> = 8..14;
    pub(crate) const SENDER_IP: Range<usize> = 14..18;
    pub(crate) const TARGET_MAC: Range<usize> = 18..24;
    pub(crate) const TARGET_IP: Range<usize> = 24..28;
}

/// ICMP, and ICMPv6 with neighbour discovery.
pub(crate) mod icmp {
    use super::Range;
    pub(crate) const TYPE: usize = 0;
    /// Type, code and checksum.
    pub(crate) const HEAD: Range<usize> = 0..4;
    pub(crate) const CHECKSUM: Range<usize> = 2..4;
    /// Of an advertisement.
    pub(crate) const FLAGS: usize = 4;
    /// Of a solicitation or an advertisement.
    pub(crate) const TARGET: Range<usize> = 8..24;
    /// The link-layer address option: type and length, then the MAC.
    pub(crate) const OPTION: Range<usize> = 24..26;
    pub(crate) const OPTION_MAC: Range<usize> = 26..32;
}

/// The aggregation header.
pub(crate) mod head {
    use super::Range;
    pub(crate) const FLAGS: usize = 2;
    pub(crate) const ELEMENT: usize = 3;
    pub(crate) const JOB: Range<usize> = 4..6;
    pub(crate) const PSN: Range<usize> = 8..12;
    pub(crate) const PRIORITY: Range<usize> = 16..18;
    pub(crate) const OWN: Range<usize> = 16..20;
}

/// All headers of an untagged IPv4 packet, counted from the start of the frame.
pub(crate) mod plain {
    use super::{Range, at, head, ipv4, udp};
    use crate::frame::{ETH_LEN, IPV4_LEN, UDP_LEN as UDP_HEADER_LEN};
    pub(crate) const IP: usize = ETH_LEN;
    pub(crate) const UDP: usize = IP + IPV4_LEN;
    pub(crate) const HEAD: usize = UDP + UDP_HEADER_LEN;
    pub(crate) const TOS: usize = IP + ipv4::TOS;
    pub(crate) const TOTAL_LEN: Range<usize> = at(IP, ipv4::TOTAL_LEN);
    pub(crate) const ID: Range<usize> = at(IP, ipv4::ID);
    pub(crate) const FRAGMENT: Range<usize> = at(IP, ipv4::FRAGMENT);
    pub(crate) const TTL: usize = IP + ipv4::TTL;
    pub(crate) const PROTOCOL: usize = IP + ipv4::PROTOCOL;
    pub(crate) const IP_CHECKSUM: Range<usize> = at(IP, ipv4::CHECKSUM);
    pub(crate) const SRC: Range<usize> = at(IP, ipv4::SRC);
    pub(crate) const DST: Range<usize> = at(IP, ipv4::DST);
    pub(crate) const DST_PORT: Range<usize> = at(UDP, udp::DST_PORT);
    pub(crate) const UDP_LEN: Range<usize> = at(UDP, udp::LEN);
    pub(crate) const UDP_CHECKSUM: Range<usize> = at(UDP, udp::CHECKSUM);
    pub(crate) const FLAGS: usize = HEAD + head::FLAGS;
    pub(crate) const ELEMENT: usize = HEAD + head::ELEMENT;
    pub(crate) const JOB: Range<usize> = at(HEAD, head::JOB);
    pub(crate) const PSN: Range<usize> = at(HEAD, head::PSN);
    pub(crate) const PRIORITY: Range<usize> = at(HEAD, head::PRIORITY);
    pub(crate) const OWN: Range<usize> = at(HEAD, head::OWN);
}

/// A field of a header that begins at `start`.
pub(crate) const fn at(start: usize, field: Range<usize>) -> Range<usize> {
    start + field.start..start + field.end
}

/// The bytes of a field; zeros if the header is shorter.
#[inline(always)]
pub(crate) fn get<const N: usize>(header: &[u8], field: Range<usize>) -> [u8; N] {
    header.get(field).and_then(<[u8]>::first_chunk).copied().unwrap_or([0; N])
}

/// A field of two bytes.
#[inline(always)]
pub(crate) fn be16(header: &[u8], field: Range<usize>) -> u16 {
    u16::from_be_bytes(get(header, field))
}
