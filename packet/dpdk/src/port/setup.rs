//! From a configuration to a running device.

use core::mem::MaybeUninit;

use pascaline_dpdk_sys as sys;

use super::active::{Active, Descriptors, RxChecksum};
use super::caps::{self, Caps, RssHash};
use super::device::DeviceHandle;
use super::steer::{self, Key, Steer, Steering};
use super::{Port, PortConfig, Stopped};
use crate::error::Errno;
use crate::kernel::{DRIVER as KERNEL, Interface};
use crate::mempool::Mempool;

/// Why a port did not start.
#[expect(missing_docs, reason = "the message says what each field is")]
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// More queues than the device has.
    #[error(
        "{device}: {rx} receive and {tx} transmit queues were asked for; the device has {max_rx} and {max_tx}"
    )]
    TooManyQueues { device: String, rx: u16, tx: u16, max_rx: u16, max_tx: u16 },
    /// An MTU out of range.
    #[error("{device}: an MTU of {mtu} is out of the device's range {min}..={max}{}", limit(device))]
    Mtu { device: String, mtu: u16, min: u16, max: u16 },
    /// The slots of a packet socket's ring are too small.
    #[error(
        "{device}: frames of an MTU of {mtu} do not fit into the ring's slots of {slot} bytes; \
         add framesz={fits},blocksz={fits} to the device"
    )]
    Slot { device: String, mtu: u16, slot: u32, fits: u32 },
    /// Receive queues need a pool.
    #[error("{device}: there are receive queues and no pool to fill them from")]
    NoPool { device: String },
    /// A step failed.
    #[error("{device}: {step}: {errno}{}", remedy(*.step, *.errno))]
    Step { device: String, step: Step, errno: Errno },
}

/// A step of starting a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Reading the device's capabilities.
    Info,
    /// Configuring queues and offloads.
    Configure,
    /// Settling the number of descriptors.
    Descriptors,
    /// Setting the MTU.
    Mtu,
    /// Setting up a receive queue.
    RxQueue,
    /// Setting up a transmit queue.
    TxQueue,
    /// Starting.
    Start,
    /// Receiving frames addressed to others.
    Promiscuous,
}

impl core::fmt::Display for Step {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::Info => "cannot read what the device can do",
            Self::Configure => "the configuration was refused",
            Self::Descriptors => "the numbers of descriptors were refused",
            Self::Mtu => "the MTU was refused",
            Self::RxQueue => "a receive queue was refused",
            Self::TxQueue => "a transmit queue was refused",
            Self::Start => "the device did not start",
            Self::Promiscuous => "promiscuous mode was refused",
        })
    }
}

fn remedy(step: Step, errno: Errno) -> &'static str {
    match (step, errno) {
        (Step::RxQueue | Step::Start, Errno::NOMEM) => {
            "; the pool may have fewer packets than the rings take"
        }
        (Step::RxQueue, Errno::INVAL) => "; the pool's packets may be too small for the MTU",
        _ => "",
    }
}

/// The reason for the driver's limit, if it is no property of a card.
fn limit(device: &str) -> &'static str {
    match device {
        _ if device.starts_with("net_af_xdp") => "; AF_XDP keeps each frame within one page: use net_kernel",
        _ if device.starts_with(KERNEL) => "; the upper end is the interface's own MTU, see `ip link`",
        _ => "",
    }
}

/// The error, and the port as it was.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct StartFailure {
    /// The error.
    #[source]
    pub error: StartError,
    /// For another attempt.
    pub port: Port<Stopped>,
}

/// Ethernet header, VLAN tag and checksum, as drivers count them.
const OVERHEAD: u32 = 14 + 4 + 4;
/// The driver over a packet socket. It names an ordinary frame as its longest, so DPDK takes no larger MTU
/// for it; but its limits are the interface's MTU, which the kernel keeps, and the slots of its ring.
pub(super) const AF_PACKET: &str = "net_af_packet";
/// The driver of cards whose host drops frames with a VLAN tag that no entry of its filter lets through,
/// unless the card is promiscuous. It offers no way to leave the filter alone.
const FILTERS_TAGS: &str = "net_virtio";
/// A slot's size unless `framesz` is given, and the kernel's header before the frame.
const SLOT: u32 = 2048;
const SLOT_HEADER: u32 = 128;

pub(super) fn start(
    device: &DeviceHandle,
    caps: &Caps,
    config: &PortConfig,
    pools: &[Mempool],
) -> Result<Active, StartError> {
    check(device, caps, config, pools)?;
    if let Some(interface) = device.kernel() {
        return Ok(on_kernel(interface, config));
    }
    let mut held = device.control();
    let at = |step| move |errno| StartError::Step { device: device.name().to_owned(), step, errno };
    let port = device.port_id();

    let info = caps::info(device).map_err(at(Step::Info))?;
    let wanted_mtu = config.mtu.map_or(sys::PSC_ETHER_MTU, u32::from);
    let smallest_room = pools.iter().map(Mempool::room).min().map_or(0, u32::from);
    let choice = Choice::of(caps, config, wanted_mtu + OVERHEAD > smallest_room);
    let kernels_mtu = caps.driver == AF_PACKET && wanted_mtu > sys::PSC_ETHER_MTU;
    let config = &PortConfig { mtu: config.mtu.filter(|_| !kernels_mtu), ..config.clone() };

    let steer = config.steer.filter(|_| config.rx_queues > 1);
    let mut key = Key::new(steer.map_or(1, |steer| steer.count), info.hash_key_size);
    let mut conf = choice.to_dpdk(config, &mut key);
    // Features that a driver has without advertising them cannot be asked for.
    conf.txmode.offloads &= info.tx_offload_capa;
    // SAFETY: the port is open and stopped, and we have its control functions to ourselves; `conf` is copied,
    // and so is the key.
    let status =
        unsafe { sys::rte_eth_dev_configure(port, config.rx_queues, config.tx_queues, &raw const conf) };
    Errno::check(status).map_err(at(Step::Configure))?;

    let descriptors =
        queues(port, config, &info, pools, &mut held).map_err(|(step, errno)| at(step)(errno))?;

    // SAFETY: as above; all queues are set up.
    Errno::check(unsafe { sys::rte_eth_dev_start(port) }).map_err(at(Step::Start))?;
    let for_tags = !config.promiscuous && caps.driver == FILTERS_TAGS;
    let promiscuous = match promiscuous(port, config.promiscuous || for_tags) {
        Ok(promiscuous) => promiscuous,
        Err(errno) => {
            // SAFETY: as above; no thread has a queue yet.
            unsafe { sys::rte_eth_dev_stop(port) };
            return Err(at(Step::Promiscuous)(errno));
        }
    };

    if for_tags && !promiscuous {
        tracing::warn!(
            device = device.name(),
            "the device has no promiscuous mode: its host may drop frames with a VLAN tag"
        );
    }
    multicast(device);
    let steering = steer.map_or(Steering::None, |steer| {
        steering(device, &steer, config.rx_queues, choice.by_port.then_some(info.reta_size))
    });
    let mut mtu = 0;
    // SAFETY: as above; the result goes to a live variable.
    let status = unsafe { sys::rte_eth_dev_get_mtu(port, &raw mut mtu) };
    if status != 0 || kernels_mtu {
        mtu = u16::try_from(wanted_mtu).unwrap_or(u16::MAX);
    }
    Ok(Active { steering, ..choice.active(descriptors, mtu, promiscuous) })
}

/// The settings in force on an interface of the kernel's, whose queues need no setup.
fn on_kernel(interface: &Interface, config: &PortConfig) -> Active {
    let descriptors = Descriptors { rx: config.rx_desc, tx: config.tx_desc };
    let choice = Choice {
        rx_checksum: RxChecksum::default(),
        rx_scatter: false,
        tx_multi_segment: true,
        rss: RssHash::NONE,
        by_port: false,
    };
    choice.active(descriptors, config.mtu.unwrap_or_else(|| interface.mtu()), config.promiscuous)
}

/// Sets up the queues of a configured port, and its MTU. Returns the descriptors that the device accepts.
fn queues(
    port: u16,
    config: &PortConfig,
    info: &sys::rte_eth_dev_info,
    pools: &[Mempool],
    held: &mut Vec<Mempool>,
) -> Result<Descriptors, (Step, Errno)> {
    let mut descriptors = Descriptors { rx: config.rx_desc, tx: config.tx_desc };
    // SAFETY: the port is configured and its control functions are ours; the numbers are live variables.
    let status = unsafe {
        sys::rte_eth_dev_adjust_nb_rx_tx_desc(port, &raw mut descriptors.rx, &raw mut descriptors.tx)
    };
    Errno::check(status).map_err(|errno| (Step::Descriptors, errno))?;

    if let Some(mtu) = config.mtu {
        // SAFETY: as above.
        match Errno::check(unsafe { sys::rte_eth_dev_set_mtu(port, mtu) }) {
            // Drivers without the function take the MTU from the configuration or have no limit.
            Ok(()) | Err(Errno::NOTSUP) => {}
            Err(errno) => return Err((Step::Mtu, errno)),
        }
    }

    // SAFETY: as above.
    let socket = unsafe { sys::rte_eth_dev_socket_id(port) }.cast_unsigned();
    // From now on the rings hold packets of these pools, until the device closes.
    held.extend_from_slice(pools);
    let mut rx_conf = info.default_rxconf;
    rx_conf.offloads = 0; // beyond those of the port
    for (queue, pool) in (0..config.rx_queues).zip(pools.iter().cycle()) {
        // SAFETY: as above; the pool lives as long as the device, which holds it.
        let status = unsafe {
            let raw = pool.as_raw();
            sys::rte_eth_rx_queue_setup(port, queue, descriptors.rx, socket, &raw const rx_conf, raw)
        };
        Errno::check(status).map_err(|errno| (Step::RxQueue, errno))?;
    }
    let mut tx_conf = info.default_txconf;
    tx_conf.offloads = 0; // beyond those of the port; above all not MBUF_FAST_FREE, as packets are shared
    for queue in 0..config.tx_queues {
        // SAFETY: as above.
        let status =
            unsafe { sys::rte_eth_tx_queue_setup(port, queue, descriptors.tx, socket, &raw const tx_conf) };
        Errno::check(status).map_err(|errno| (Step::TxQueue, errno))?;
    }
    Ok(descriptors)
}

fn check(
    device: &DeviceHandle,
    caps: &Caps,
    config: &PortConfig,
    pools: &[Mempool],
) -> Result<(), StartError> {
    let slot = device.argument("framesz").and_then(|size| size.parse().ok()).unwrap_or(SLOT);
    let device = device.name().to_owned();
    let (rx, tx, max_rx, max_tx) =
        (config.rx_queues, config.tx_queues, caps.max_rx_queues, caps.max_tx_queues);
    if rx > max_rx || tx > max_tx {
        return Err(StartError::TooManyQueues { device, rx, tx, max_rx, max_tx });
    }
    if rx > 0 && pools.is_empty() {
        return Err(StartError::NoPool { device });
    }
    match config.mtu {
        Some(mtu) if mtu < caps.min_mtu || mtu > caps.max_mtu => {
            Err(StartError::Mtu { device, mtu, min: caps.min_mtu, max: caps.max_mtu })
        }
        Some(mtu) if caps.driver == AF_PACKET && u32::from(mtu) + SLOT_HEADER > slot => {
            let fits = (u32::from(mtu) + SLOT_HEADER).next_power_of_two();
            Err(StartError::Slot { device, mtu, slot, fits })
        }
        _ => Ok(()),
    }
}

/// Makes a started device steer UDP ports to queues, in any way that it can. `table` is the size of its
/// redirection table, if its hash is over the destination port alone.
fn steering(device: &DeviceHandle, steer: &Steer, queues: u16, table: Option<u16>) -> Steering {
    let port = device.port_id();
    let refused = match steer::rules(port, steer, queues) {
        Ok(()) => return Steering::Rules,
        Err(errno) => errno,
    };
    tracing::debug!(device = device.name(), errno = %refused, "no flow rules for UDP ports");
    match table.map(|size| steer::redirect(port, steer, queues, size)) {
        Some(Ok(())) => Steering::Rss,
        Some(Err(errno)) => {
            tracing::debug!(device = device.name(), %errno, "the redirection table was refused");
            Steering::None
        }
        None => Steering::None,
    }
}

fn promiscuous(port: u16, wanted: bool) -> Result<bool, Errno> {
    if !wanted {
        return Ok(false);
    }
    // SAFETY: the port is started and its control functions are ours.
    match Errno::check(unsafe { sys::rte_eth_promiscuous_enable(port) }) {
        Ok(()) => Ok(true),
        // Drivers without addresses receive everything in any case.
        Err(Errno::NOTSUP) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Neighbour solicitations for an IPv6 address go to a group of its own, which cards filter by default.
fn multicast(device: &DeviceHandle) {
    // SAFETY: the port is started and its control functions are ours.
    match Errno::check(unsafe { sys::rte_eth_allmulticast_enable(device.port_id()) }) {
        Ok(()) | Err(Errno::NOTSUP) => {}
        Err(errno) => tracing::warn!(
            device = device.name(), %errno,
            "the device does not turn on multicast: over IPv6, neighbours may not find the port"
        ),
    }
}

/// Features that are both wanted and offered.
struct Choice {
    rx_checksum: RxChecksum,
    rx_scatter: bool,
    tx_multi_segment: bool,
    rss: RssHash,
    /// The hash is over UDP destination ports alone.
    by_port: bool,
}

impl Choice {
    fn of(caps: &Caps, config: &PortConfig, larger_than_a_buffer: bool) -> Self {
        let spread = config.rss && config.rx_queues > 1;
        let by_port = spread && config.steer.is_some() && caps.rss.has_udp_destination_only();
        let rss = if by_port { caps.rss.udp_destinations() } else { caps.rss.flows() };
        Self {
            rx_checksum: RxChecksum { ipv4: caps.rx_ipv4_checksum, udp: caps.rx_udp_checksum },
            rx_scatter: caps.rx_scatter && larger_than_a_buffer,
            tx_multi_segment: caps.tx_multi_segment,
            rss: if spread { rss } else { RssHash::NONE },
            by_port,
        }
    }

    fn to_dpdk(&self, config: &PortConfig, key: &mut Key) -> sys::rte_eth_conf {
        // SAFETY: numbers, null pointers and bit fields; zero is DPDK's own default for each.
        let mut conf: sys::rte_eth_conf = unsafe { MaybeUninit::zeroed().assume_init() };
        let bit = |on: bool, offload: u64| if on { offload } else { 0 };
        conf.rxmode.mtu = config.mtu.map_or(0, u32::from);
        conf.rxmode.offloads = bit(self.rx_checksum.ipv4, sys::PSC_RX_IPV4_CKSUM)
            | bit(self.rx_checksum.udp, sys::PSC_RX_UDP_CKSUM)
            | bit(self.rx_scatter, sys::PSC_RX_SCATTER);
        conf.txmode.offloads = bit(self.tx_multi_segment, sys::PSC_TX_MULTI_SEGS);
        if !self.rss.is_none() {
            conf.rxmode.mq_mode = sys::PSC_MQ_RSS;
            conf.rx_adv_conf.rss_conf.rss_hf = self.rss.bits();
            if self.by_port {
                let key = key.bytes();
                conf.rx_adv_conf.rss_conf.rss_key_len = u8::try_from(key.len()).unwrap_or(0);
                conf.rx_adv_conf.rss_conf.rss_key = key.as_mut_ptr();
            }
        }
        conf
    }

    fn active(&self, descriptors: Descriptors, mtu: u16, promiscuous: bool) -> Active {
        Active {
            descriptors,
            mtu,
            rx_checksum: self.rx_checksum,
            rx_scatter: self.rx_scatter,
            tx_multi_segment: self.tx_multi_segment,
            rss: self.rss,
            steering: Steering::None,
            promiscuous,
        }
    }
}
