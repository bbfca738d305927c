//! Why bytes were refused.

use core::fmt;

use crate::codes::codes;

codes! {
    /// Why a parser rejects a frame. The drop counters have the same names.
    pub enum Malformed {
        /// The frame ends inside a header.
        Truncated = 0 "truncated",
        /// More than two VLAN tags.
        VlanDepth = 1 "vlan_depth",
        /// IP version field and EtherType disagree, the header length is impossible, an IPv6 packet names an
        /// IPv4-mapped address, or an ARP packet is not about IPv4 over Ethernet.
        IpHeader = 2 "ip_header",
        /// IPv4 options or IPv6 extension headers on a packet for the appliance.
        IpOptions = 3 "ip_options",
        /// A fragment: only whole datagrams can be aggregated.
        IpFragment = 4 "ip_fragment",
        /// The IPv4 header checksum, or an ICMP checksum, does not match.
        IpChecksum = 5 "ip_checksum",
        /// IP and UDP lengths disagree with each other or with the frame.
        Length = 6 "length",
        /// Not protocol version 3.
        Version = 7 "version",
        /// A kind that version 3 does not define.
        Kind = 8 "kind",
        /// Reserved flag bits are set.
        Flags = 9 "flags",
        /// An element type or operation that version 3 does not define.
        DType = 10 "dtype",
        /// The payload is empty or not a whole number of elements, or there is one in a packet of another
        /// kind.
        PayloadLength = 11 "payload_length",
        /// The trailer's lengths do not add up, or it holds an unknown, repeated or misplaced element.
        Trailer = 12 "trailer",
        /// A control body that version 3 does not define.
        Control = 13 "control",
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for Malformed {}

/// The caller's buffer is too short for the output.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the buffer is too short for what was to be written")]
pub struct NoRoom;
