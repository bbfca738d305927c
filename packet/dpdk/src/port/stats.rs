//! What can be asked of a port at any time.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use pascaline_dpdk_sys as sys;

use super::device::DeviceHandle;
use crate::error::Errno;

/// State of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link {
    /// Whether there is one.
    pub up: bool,
    /// Its rate; `None` if unknown.
    pub mbps: Option<u32>,
}

/// A port's counters since it was opened, as kept by device and driver, and what its queues lost. Not every
/// driver keeps all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stats {
    /// Packets received.
    pub rx_packets: u64,
    /// Bytes received.
    pub rx_bytes: u64,
    /// Packets the device dropped because the receive ring was full: the lcore is too slow.
    pub rx_missed: u64,
    /// Packets that arrived broken.
    pub rx_errors: u64,
    /// Times there was no packet in the pool to receive into, or none with room: the pool is too small.
    pub rx_no_buffer: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Packets that could not be sent.
    pub tx_errors: u64,
}

/// A handle on a port's counters for the control side. It keeps the device open.
#[derive(Debug, Clone)]
pub struct PortStats {
    device: Arc<DeviceHandle>,
}

impl PortStats {
    pub(super) fn new(device: Arc<DeviceHandle>) -> Self {
        Self { device }
    }

    /// The device's name in DPDK.
    #[must_use]
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// The counters at this moment.
    ///
    /// # Errors
    /// If the driver does not tell.
    pub fn read(&self) -> Result<Stats, Errno> {
        if let Some(interface) = self.device.kernel() {
            return Ok(interface.stats());
        }
        let _control = self.device.control();
        let mut raw = MaybeUninit::<sys::rte_eth_stats>::zeroed();
        // SAFETY: the port is open. Drivers only read counters here that the queues' lcores write.
        Errno::check(unsafe { sys::rte_eth_stats_get(self.device.port_id(), raw.as_mut_ptr()) })?;
        // SAFETY: plain numbers.
        let raw = unsafe { raw.assume_init() };
        Ok(Stats {
            rx_packets: raw.ipackets,
            rx_bytes: raw.ibytes,
            rx_missed: raw.imissed,
            rx_errors: raw.ierrors,
            rx_no_buffer: raw.rx_nombuf + self.device.lost.received.load(Relaxed),
            tx_packets: raw.opackets,
            tx_bytes: raw.obytes,
            tx_errors: raw.oerrors + self.device.lost.sent.load(Relaxed),
        })
    }

    /// State of the link at this moment.
    ///
    /// # Errors
    /// If the driver does not tell.
    pub fn link(&self) -> Result<Link, Errno> {
        link(&self.device)
    }

    /// Takes the link away from whoever is at the other end, or gives it back.
    ///
    /// # Errors
    /// If the driver cannot, or this process may not.
    pub fn set_link(&self, up: bool) -> Result<(), Errno> {
        if let Some(interface) = self.device.kernel() {
            return interface.set_up(up);
        }
        let _control = self.device.control();
        let port = self.device.port_id();
        // SAFETY: the port is open, and we have its control functions to ourselves.
        Errno::check(unsafe {
            if up { sys::rte_eth_dev_set_link_up(port) } else { sys::rte_eth_dev_set_link_down(port) }
        })
    }
}

pub(super) fn link(device: &DeviceHandle) -> Result<Link, Errno> {
    /// `RTE_ETH_SPEED_NUM_NONE` and `RTE_ETH_SPEED_NUM_UNKNOWN`.
    const UNKNOWN: [u32; 2] = [0, u32::MAX];
    if let Some(interface) = device.kernel() {
        return interface.link();
    }
    let _control = device.control();
    let mut mbps = 0;
    // SAFETY: the port is open; the result goes to a live variable.
    let status = unsafe { sys::psc_link(device.port_id(), &raw mut mbps) };
    Errno::check(status)?;
    Ok(Link { up: status > 0, mbps: (!UNKNOWN.contains(&mbps)).then_some(mbps) })
}

pub(super) fn mac(device: &DeviceHandle) -> Result<[u8; 6], Errno> {
    if let Some(interface) = device.kernel() {
        return Ok(interface.mac());
    }
    let _control = device.control();
    let mut address = sys::rte_ether_addr { addr_bytes: [0; 6] };
    // SAFETY: the port is open; the result goes to a live variable.
    Errno::check(unsafe { sys::rte_eth_macaddr_get(device.port_id(), &raw mut address) })?;
    Ok(address.addr_bytes)
}
