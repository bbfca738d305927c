//! Why bytes were refused.

use core::fmt;

/// A frame was cut short or says something that cannot be so. The packet path counts each by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Malformed {
    /// The frame ends inside a header.
    Truncated,
    /// More than two VLAN tags.
    VlanDepth,
    /// IP version field and EtherType disagree, the header length is impossible, an IPv6 packet names an IPv4-mapped
    /// address, or an ARP packet is not about IPv4 over Ethernet.
    IpHeader,
    /// IPv4 options or IPv6 extension headers on a packet for the appliance.
    IpOptions,
    /// A fragment: only whole datagrams can be aggregated.
    IpFragment,
    /// The IPv4 header checksum, or an ICMP checksum, does not match.
    IpChecksum,
    /// IP and UDP lengths disagree with each other or with the frame.
    Length,
    /// Not protocol version 1.
    Version,
    /// A kind that version 1 does not define.
    Kind,
    /// Reserved flag bits are set.
    Flags,
    /// An element type or operation that version 1 does not define.
    DType,
    /// The payload is empty or not a whole number of elements, or there is one where none belongs.
    PayloadLength,
    /// The trailer's lengths do not add up, or it holds an unknown, repeated or misplaced element.
    Trailer,
    /// A control body that version 1 does not define.
    Control,
}

impl Malformed {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Self; 14] = [
        Self::Truncated,
        Self::VlanDepth,
        Self::IpHeader,
        Self::IpOptions,
        Self::IpFragment,
        Self::IpChecksum,
        Self::Length,
        Self::Version,
        Self::Kind,
        Self::Flags,
        Self::DType,
        Self::PayloadLength,
        Self::Trailer,
        Self::Control,
    ];

    /// The reason as it appears in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Truncated => "truncated",
            Self::VlanDepth => "vlan_depth",
            Self::IpHeader => "ip_header",
            Self::IpOptions => "ip_options",
            Self::IpFragment => "ip_fragment",
            Self::IpChecksum => "ip_checksum",
            Self::Length => "length",
            Self::Version => "version",
            Self::Kind => "kind",
            Self::Flags => "flags",
            Self::DType => "dtype",
            Self::PayloadLength => "payload_length",
            Self::Trailer => "trailer",
            Self::Control => "control",
        }
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl core::error::Error for Malformed {}

/// The caller's buffer is too short for what was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the buffer is too short for what was to be written")]
pub struct NoRoom;
