//! Which queues of a port carry what only passes through it.

use std::time::Duration;

use pascaline_dpdk::Device;
use pascaline_pipelines::Passing;

use super::{Config, PassingQueue, PortConfig};

/// How the appliance passes on what is not for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct InLine {
    /// When it leaves for the peer port.
    pub(crate) passing: Passing,
    /// Whether it has a transmit queue of its own; never if it leaves in turn.
    pub(crate) queue: PassingQueue,
    /// A port loses its link with its peer.
    pub(crate) pass_link_state: bool,
    /// MACs that bridges have room for.
    pub(crate) addresses: u32,
    /// How long they remember one of which they hear nothing.
    pub(crate) age: Duration,
}

/// The way of what passes through a port, beside the queue pair that each lcore has of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lane {
    /// It shares the transmit queue of aggregation.
    Shared,
    /// A further transmit queue for each lcore.
    Transmit,
    /// A further queue pair for each lcore, whose receive queue is read as well: the device has them in pairs
    /// only, or brings packets to all that it has.
    Pair,
}

impl Lane {
    /// Receive and transmit queues of a port for so many lcores.
    pub(crate) const fn queues(self, lcores: u16) -> (u16, u16) {
        match self {
            Self::Shared => (lcores, lcores),
            Self::Transmit => (lcores, lcores.saturating_mul(2)),
            Self::Pair => (lcores.saturating_mul(2), lcores.saturating_mul(2)),
        }
    }
}

/// What a driver's further queues are good for. The other end of net_memif and net_ring reads queue by queue,
/// net_tap has one file for each, and net_pcap one more for each that was named.
fn of_driver(driver: &str) -> Lane {
    match driver {
        _ if ["net_memif", "net_ring", "net_tap", "net_pcap", "net_vhost"].contains(&driver) => Lane::Shared,
        _ if ["net_af_packet", "net_af_xdp"].contains(&driver) || driver.starts_with("net_virtio") => {
            Lane::Pair
        }
        _ => Lane::Transmit,
    }
}

/// True if what passes through a port shall have queues of its own.
fn wanted(config: &Config, port: &PortConfig) -> bool {
    port.in_line() && config.in_line.queue != PassingQueue::No
}

/// The lane of a port whose device is open: its driver, and the most receive and transmit queues.
pub(crate) fn lane(config: &Config, port: &PortConfig, driver: &str, (rx, tx): (u16, u16)) -> Lane {
    let lane = of_driver(driver);
    let lcores = u16::try_from(config.cores.value.len()).unwrap_or(u16::MAX);
    let (needs_rx, needs_tx) = lane.queues(lcores);
    if wanted(config, port) && needs_rx <= rx && needs_tx <= tx { lane } else { Lane::Shared }
}

/// The same before the device is open. Of a card it is not known what it has: as if it had enough.
pub(crate) fn expected(config: &Config, port: &PortConfig) -> Lane {
    match &port.device.value {
        Device::Pci(_) => lane(config, port, "net_virtio", (u16::MAX, u16::MAX)),
        Device::Vdev(device) => {
            let name = device.split(',').next().unwrap_or_default();
            let has = pairs(device).unwrap_or(u16::MAX);
            lane(config, port, name.trim_end_matches(|end: char| end.is_ascii_digit()), (has, has))
        }
    }
}

/// The key of a device's arguments that says how many queue pairs it has, where that is known.
pub(crate) fn pairs_key(device: &str) -> Option<&'static str> {
    match () {
        () if device.starts_with("net_af_packet") => Some("qpairs"),
        () if device.starts_with("net_af_xdp") => Some("queue_count"),
        () => None,
    }
}

/// Queue pairs that a virtual device is told to have.
fn pairs(device: &str) -> Option<u16> {
    let key = pairs_key(device)?;
    let said = |argument: &str| argument.split_once('=').filter(|said| said.0 == key)?.1.parse().ok();
    Some(device.split(',').find_map(said).unwrap_or(1))
}

/// What to do about a port whose queues do not suffice.
pub(crate) fn remedy(config: &Config, port: &PortConfig) -> String {
    let pairs = 2 * config.cores.value.len();
    let key = match &port.device.value {
        Device::Vdev(device) => pairs_key(device),
        Device::Pci(_) => None,
    };
    key.map_or_else(
        || format!("a device with {pairs} transmit queues, two for each lcore"),
        |key| format!("add {key}={pairs} to the device: two queues for each lcore"),
    )
}

#[cfg(test)]
mod tests;
