//! Capabilities of driver and device.

use core::ffi::CStr;
use core::mem::MaybeUninit;

use pascaline_dpdk_sys as sys;

use super::device::{DeviceHandle, OpenError};
use super::setup::AF_PACKET;
use crate::error::Errno;
use crate::kernel::{self, Interface};

/// A set of RSS hash types (`RTE_ETH_RSS_*`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RssHash(u64);

impl RssHash {
    /// No spreading.
    pub const NONE: Self = Self(0);

    /// DPDK's bits.
    #[must_use]
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// True if nothing is hashed.
    #[must_use]
    pub const fn is_none(self) -> bool {
        self.0 == 0
    }

    /// UDP destination ports can be hashed and nothing else with them.
    #[must_use]
    pub const fn has_udp_destination_only(self) -> bool {
        self.0 & sys::PSC_RSS_L4_DST_ONLY != 0 && self.0 & sys::PSC_RSS_UDP != 0
    }

    /// UDP by its destination port alone.
    pub(super) const fn udp_destinations(self) -> Self {
        Self(self.0 & (sys::PSC_RSS_UDP | sys::PSC_RSS_L4_DST_ONLY))
    }

    /// Those types that spread by addresses and ports.
    pub(super) const fn flows(self) -> Self {
        Self(self.0 & (sys::PSC_RSS_L3 | sys::PSC_RSS_L4))
    }
}

/// Capabilities of driver and device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caps {
    /// The driver's name.
    pub driver: String,
    /// Most receive queues.
    pub max_rx_queues: u16,
    /// Most transmit queues.
    pub max_tx_queues: u16,
    /// Sends packets of several segments without a copy.
    pub tx_multi_segment: bool,
    /// Verifies IPv4 header checksums.
    pub rx_ipv4_checksum: bool,
    /// Verifies UDP checksums.
    pub rx_udp_checksum: bool,
    /// Can spread a received packet over several buffers.
    pub rx_scatter: bool,
    /// The fields that it can hash to choose a queue.
    pub rss: RssHash,
    /// Smallest MTU.
    pub min_mtu: u16,
    /// Largest MTU; 65535 where the driver sets no limit.
    pub max_mtu: u16,
}

impl Caps {
    /// It leads from a virtual machine to its host, or the other way: memory, in which no bit flips unseen.
    #[must_use]
    pub fn is_virtual_link(&self) -> bool {
        HANDS_OVER_UNFINISHED.contains(&self.driver.as_str())
    }
}

/// IPv4's (RFC 791).
const LEAST_MTU: u16 = 68;

/// Drivers that take packets of several segments without saying so. net_null frees packets whole: it measures
/// the application, without a copy that no network card needs.
const SENDS_SEGMENTS: [&str; 1] = ["net_null"];

/// An Ethernet header and its checksum, which DPDK takes off the longest frame.
const FRAME: u32 = 14 + 4;

/// The largest MTU. A driver that limits frames alone is held to that by DPDK, but the one over packet
/// sockets names an ordinary frame, and takes longer ones.
fn max_mtu(info: &sys::rte_eth_dev_info, driver: &str) -> u16 {
    let by_frame = info.max_rx_pktlen.checked_sub(FRAME).filter(|_| driver != AF_PACKET);
    let by_frame = by_frame.and_then(|mtu| u16::try_from(mtu).ok()).unwrap_or(u16::MAX);
    if info.max_mtu == u16::MAX { by_frame } else { info.max_mtu }
}

/// Drivers between virtual machines and their host. Asked to verify checksums, they also accept frames whose
/// sender left theirs to a network card, so that transit frames would leave with unfinished checksums. Not
/// asked, the other side finishes them.
const HANDS_OVER_UNFINISHED: [&str; 4] = ["net_virtio", "net_virtio_user", "net_vhost", "net_vmxnet3"];

/// Drivers that offer two queues of every card, although most cards that they serve have one: packets on the
/// second leave without an error, and reach no wire.
const OFFERS_TOO_MANY_QUEUES: [&str; 1] = ["net_e1000_em"];

pub(super) fn info(device: &DeviceHandle) -> Result<sys::rte_eth_dev_info, Errno> {
    let mut info = MaybeUninit::zeroed();
    // SAFETY: the port is open; the result goes to a live variable.
    Errno::check(unsafe { sys::rte_eth_dev_info_get(device.port_id(), info.as_mut_ptr()) })?;
    // SAFETY: numbers, pointers and arrays of them, for which zero is valid; and written by the call.
    Ok(unsafe { info.assume_init() })
}

/// Of an interface through packet sockets of our own.
fn of_kernel(interface: &Interface) -> Caps {
    Caps {
        driver: kernel::DRIVER.to_owned(),
        max_rx_queues: kernel::MOST_QUEUES,
        max_tx_queues: kernel::MOST_QUEUES,
        tx_multi_segment: true,
        rx_ipv4_checksum: false,
        rx_udp_checksum: false,
        rx_scatter: false,
        rss: RssHash::NONE,
        min_mtu: LEAST_MTU,
        max_mtu: interface.mtu(),
    }
}

pub(super) fn read(device: &DeviceHandle) -> Result<Caps, OpenError> {
    if let Some(interface) = device.kernel() {
        return Ok(of_kernel(interface));
    }
    let info = {
        let _control = device.control();
        info(device).map_err(|errno| OpenError::Info { device: device.name().to_owned(), errno })?
    };
    let driver = if info.driver_name.is_null() {
        String::new()
    } else {
        // SAFETY: drivers name themselves by terminated literals.
        unsafe { CStr::from_ptr(info.driver_name) }.to_string_lossy().into_owned()
    };
    let tx = |offload| info.tx_offload_capa & offload != 0;
    let rx = |offload| info.rx_offload_capa & offload != 0;
    let verifies = !HANDS_OVER_UNFINISHED.contains(&driver.as_str());
    let queues = if OFFERS_TOO_MANY_QUEUES.contains(&driver.as_str()) { 1 } else { u16::MAX };
    Ok(Caps {
        max_rx_queues: info.max_rx_queues.min(queues),
        max_tx_queues: info.max_tx_queues.min(queues),
        tx_multi_segment: tx(sys::PSC_TX_MULTI_SEGS) || SENDS_SEGMENTS.contains(&driver.as_str()),
        rx_ipv4_checksum: verifies && rx(sys::PSC_RX_IPV4_CKSUM),
        rx_udp_checksum: verifies && rx(sys::PSC_RX_UDP_CKSUM),
        rx_scatter: rx(sys::PSC_RX_SCATTER),
        rss: RssHash(info.flow_type_rss_offloads),
        min_mtu: info.min_mtu,
        max_mtu: max_mtu(&info, &driver),
        driver,
    })
}
