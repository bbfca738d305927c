//! Ports in line: what their drivers do to frames that are not for the appliance.

use pascaline_dpdk::port::StartedPort;
use pascaline_dpdk::{Device, Mempool, Port, PortConfig as DpdkPortConfig};
use tracing::{info, warn};

use crate::config::lane::{self, Lane};
use crate::config::{Config, ConfigError, PassingQueue, PortConfig};

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
    if let Some((harm, remedy)) = harm(&port.device.value).filter(|_| port.in_line()) {
        warn!(port = port.name, remedy, "what passes through does not arrive as it came: {harm}");
    }
}

/// Starts a port, with queues of its own for what passes through it, if it is to have them and can. `wanted`
/// is what it needs in any case.
pub(super) fn start(
    config: &Config,
    port: &PortConfig,
    opened: Port<pascaline_dpdk::port::Stopped>,
    wanted: &DpdkPortConfig,
    frames: &Mempool,
) -> Result<StartedPort, ConfigError> {
    let caps = opened.caps();
    let lane = lane::lane(config, port, &caps.driver, (caps.max_rx_queues, caps.max_tx_queues));
    let offered = caps.max_tx_queues;
    let refused = |error: String| config.error(&port.device, error, "correct this port's keys");
    let with = |lane: Lane| {
        let (rx_queues, tx_queues) = lane.queues(wanted.rx_queues);
        DpdkPortConfig { rx_queues, tx_queues, rss: rx_queues > 1, ..wanted.clone() }
    };
    let pools = std::slice::from_ref(frames);
    let required = config.in_line.queue == PassingQueue::Require && port.in_line();
    let started = match (lane, opened.start(&with(lane), pools)) {
        (_, Ok(started)) => (lane, started),
        (Lane::Transmit | Lane::Pair, Err(failure)) if !required => {
            warn!(port = port.name, error = %failure.error, "the device refuses a further transmit queue");
            let started = failure.port.start(&with(Lane::Shared), pools);
            (Lane::Shared, started.map_err(|failure| refused(failure.error.to_string()))?)
        }
        (_, Err(failure)) => return Err(refused(failure.error.to_string())),
    };
    let (lane, started) = started;
    if lane == Lane::Shared && required {
        let message = format!(
            "port {:?} has no transmit queue to spare for what passes through (passing_queue = \"require\"): \
                it offers {offered}",
            port.name
        );
        return Err(config.error(&port.device, message, &lane::remedy(config, port)));
    }
    tell_lane(config, port, lane, offered);
    Ok(started)
}

fn tell_lane(config: &Config, port: &PortConfig, lane: Lane, offered: u16) {
    match lane {
        _ if !port.in_line() => {}
        Lane::Transmit | Lane::Pair => {
            info!(port = port.name, "what passes through has a transmit queue of its own");
        }
        Lane::Shared if config.in_line.queue == PassingQueue::No => {
            info!(
                port = port.name,
                "what passes through shares the transmit queue of aggregation, as wanted"
            );
        }
        Lane::Shared => warn!(
            port = port.name,
            transmit_queues = offered,
            remedy = lane::remedy(config, port),
            "what passes through shares the transmit queue of aggregation, and waits for what is in it"
        ),
    }
}
