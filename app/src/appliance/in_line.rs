//! Ports in line: what their drivers do to frames that are not for the appliance.

use pascaline_dpdk::Device;
use tracing::warn;

use crate::config::PortConfig;

/// Where checksums stay undone, TCP hangs for good.
const CHECKSUMS: &str = "checksums that the sender's kernel leaves to a card (the far end of a veth pair \
    does, by default) stay unfilled";
const PACKET_SOCKET: &str = "net_af_packet has the kernel put IPv4 fragments together, which are lost then, \
    and gives 802.1ad tags (0x88a8) back as 802.1Q (0x8100); checksums that the sender's kernel leaves to a \
    card (the far end of a veth pair does, by default) stay unfilled";
const REMEDY: &str = "use device = \"net_kernel0,iface=…\", which leaves all as it is; or, for checksums \
    only, `ethtool -K INTERFACE tx off gso off tso off` at the far end of a veth pair";

/// What a driver does to frames that pass through, if it does, and what to do about it.
#[must_use]
pub(crate) fn harm(device: &Device) -> Option<(&'static str, &'static str)> {
    match device {
        Device::Vdev(device) if device.starts_with("net_af_packet") => Some((PACKET_SOCKET, REMEDY)),
        Device::Vdev(device) if device.starts_with("net_af_xdp") => Some((CHECKSUMS, REMEDY)),
        Device::Vdev(_) | Device::Pci(_) => None,
    }
}

/// Says so at the start.
pub(super) fn tell(port: &PortConfig) {
    if let Some((harm, remedy)) = harm(&port.device.value).filter(|_| port.peer.is_some()) {
        warn!(port = port.name, remedy, "what passes through does not arrive as it came: {harm}");
    }
}
