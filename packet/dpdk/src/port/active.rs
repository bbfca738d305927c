//! The settings in force on a started port.

use super::caps::RssHash;
use super::steer::Steering;

/// Checksums that the device verifies on receipt; its verdict is `PacketBuf::bad_checksum`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RxChecksum {
    /// Of the IPv4 header.
    pub ipv4: bool,
    /// Of UDP datagrams.
    pub udp: bool,
}

/// Descriptors per queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptors {
    /// Of each receive queue.
    pub rx: u16,
    /// Of each transmit queue.
    pub tx: u16,
}

/// The settings in force on a started port: those wanted and offered.
///
/// A driver's early release for packets with one holder (`MBUF_FAST_FREE`) is never on: packets are shared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Active {
    /// As chosen by the driver.
    pub descriptors: Descriptors,
    /// Largest packet behind the Ethernet header.
    pub mtu: u16,
    /// Checksums that the device verifies.
    pub rx_checksum: RxChecksum,
    /// Received packets may come in several buffers (and are then copied together).
    pub rx_scatter: bool,
    /// Packets with a tail are sent as they are; otherwise their segments are copied together first.
    pub tx_multi_segment: bool,
    /// The fields hashed to choose the receive queue.
    pub rss: RssHash,
    /// How UDP ports lead to queues, where [`PortConfig::steer`](super::PortConfig::steer) asks for it.
    pub steering: Steering,
    /// Packets addressed to others are received.
    pub promiscuous: bool,
}
