//! Who verifies the UDP checksums of packets for the appliance. Those of IP headers are verified wherever
//! packets are parsed.

use pascaline_dpdk::port::{Active, Caps};
use pascaline_dpdk::{Device, Mbuf};
use pascaline_wire::frame::is_for_another;
use pascaline_wire::{Mac, checksum};
use tracing::info;

use crate::config::{PortConfig, Verify};

/// What to do where a damaged packet would be summed.
pub(crate) const REMEDY: &str = "write verify = \"software\" in the port's table; programs on this machine, \
    at the far end of a veth pair, have to fill in their checksums then (`ethtool -K INTERFACE tx off`)";

/// Who it is at a started port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verifier {
    Card,
    Software,
    Neither,
}

impl Verifier {
    /// As the port's table says. Without a word about it, software stands in for cards, but not on virtual
    /// links: kernels leave the sums of what they send there unfinished.
    pub(super) fn of(port: &PortConfig, caps: &Caps, active: &Active) -> Self {
        let is_card = matches!(port.device.value, Device::Pci(_)) && !caps.is_virtual_link();
        Self::choose(port.verify, active.rx_checksum.udp, is_card)
    }

    fn choose(wish: Option<Verify>, card_does: bool, is_card: bool) -> Self {
        match (wish, card_does) {
            (Some(Verify::Software), _) => Self::Software,
            (_, true) => Self::Card,
            (None, false) if is_card => Self::Software,
            (None | Some(Verify::Card), false) => Self::Neither,
        }
    }

    /// Says so at the start.
    pub(super) fn tell(self, port: &str) {
        let ip_headers = "software";
        match self {
            Self::Card => info!(port, ip_headers, udp = "card", "checksums of received packets are verified"),
            Self::Software => {
                info!(port, ip_headers, udp = "software", "checksums of received packets are verified");
            }
            Self::Neither => info!(
                port,
                ip_headers,
                udp = "neither",
                remedy = REMEDY,
                "UDP checksums are not verified: a packet that was damaged on its way is summed"
            ),
        }
    }

    /// The port's address if software verifies, of all but transit traffic.
    pub(super) fn in_software(self, mac: Mac) -> Option<Mac> {
        (self == Self::Software).then_some(mac)
    }
}

/// Marks those with a wrong checksum among packets that a port with this address has received, except those
/// that are sent to another station.
#[inline(never)]
pub(super) fn verify(own: Mac, packets: &mut [Mbuf]) {
    for packet in packets {
        packet.verify(|bytes| !is_for_another(own, bytes) && checksum::udp_is_wrong(bytes));
    }
}

#[cfg(test)]
mod tests;
