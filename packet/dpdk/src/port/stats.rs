//! Queries of a port that are possible at any time.

use core::mem::MaybeUninit;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use pascaline_dpdk_sys as sys;

use super::device::DeviceHandle;
use super::reopen::{self, ReopenError};
use crate::error::Errno;
use crate::kernel::Interface;

/// Whether frames can pass a port, and if not, why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkState {
    /// Frames can pass.
    Up,
    /// Nothing is at the other end: a cable, a switch port, the far end of a virtual cable.
    Down,
    /// The interface is switched off.
    Off,
    /// There is no such interface any more.
    Missing,
    /// The interface that the port was opened on has gone, and another one has its name.
    Replaced,
}

/// A port's link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Whether there is one.
    pub state: LinkState,
    /// Its rate; `None` if unknown.
    pub mbps: Option<u32>,
    /// The present name of the port's interface, if it was renamed.
    pub renamed: Option<String>,
}

impl Link {
    /// Whether frames can pass.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.state == LinkState::Up
    }
}

impl From<LinkState> for Link {
    fn from(state: LinkState) -> Self {
        Self { state, mbps: None, renamed: None }
    }
}

/// A port's counters since it was opened, as kept by device and driver, and its queues' losses. Not every
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

    /// The counters at this moment. They continue when the port is reopened, and do not change while the
    /// device is detached.
    ///
    /// # Errors
    /// If the driver does not count.
    pub fn read(&self) -> Result<Stats, Errno> {
        if let Some(interface) = self.device.kernel() {
            return Ok(interface.stats());
        }
        let _control = self.device.control();
        self.device.kept().read(self.device.port_id()).map(|stats| Stats {
            rx_no_buffer: stats.rx_no_buffer + self.device.lost.received.load(Relaxed),
            tx_errors: stats.tx_errors + self.device.lost.sent.load(Relaxed),
            ..stats
        })
    }

    /// Packets that have arrived at the interface of the kernel's that the port is on, by the kernel's count,
    /// in the calling thread's network namespace. A port without counters of losses has lost the difference.
    /// `None` where there is no such interface, or it is gone.
    #[must_use]
    pub fn interface_received(&self) -> Option<u64> {
        self.device.kernel().map(Interface::presence).or(self.device.presence())?.received()
    }

    /// Reopens the port on the interface that has its interface's name now, while the queues stay with their
    /// lcores. Frames that arrive meanwhile are lost.
    ///
    /// # Errors If that is not possible, or not yet; a later attempt may succeed.
    pub fn reopen(&self) -> Result<(), ReopenError> {
        reopen::reopen(&self.device)
    }

    /// State of the link at this moment.
    ///
    /// # Errors
    /// If the driver does not tell.
    pub fn link(&self) -> Result<Link, Errno> {
        link(&self.device)
    }

    /// Tries whether [`set_link`](Self::set_link) can work, with a link that is up.
    ///
    /// # Errors
    /// If the driver cannot, or this process may not.
    pub fn try_set_link(&self) -> Result<(), Errno> {
        match self.device.kernel() {
            Some(interface) => interface.try_set_up(),
            None => self.set_link(true),
        }
    }

    /// Takes the link away from the device at the other end, or gives it back.
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
    // Drivers on interfaces of the kernel report the link at the start, or any.
    if let Some(presence) = device.presence() {
        let link = presence.link()?;
        let waits = !device.is_open() && link.state != LinkState::Missing;
        return Ok(if waits { LinkState::Replaced.into() } else { link });
    }
    if device.is_removed() {
        return Ok(LinkState::Missing.into());
    }
    let _control = device.control();
    let mut mbps = 0;
    // SAFETY: the port is open; the result goes to a live variable.
    let status = unsafe { sys::psc_link(device.port_id(), &raw mut mbps) };
    Errno::check(status)?;
    let state = if status > 0 { LinkState::Up } else { LinkState::Down };
    Ok(Link { mbps: (!UNKNOWN.contains(&mbps)).then_some(mbps), ..state.into() })
}

/// Counters of a device that starts to count anew whenever it is opened.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Of earlier openings.
    past: Stats,
    /// As last read.
    last: Option<Stats>,
}

impl Kept {
    /// Reads the device's counters.
    fn read(&mut self, port: u16) -> Result<Stats, Errno> {
        let mut raw = MaybeUninit::<sys::rte_eth_stats>::zeroed();
        // SAFETY: the result goes to a live variable; DPDK refuses numbers of ports that are not there.
        // Drivers only read counters here that the queues' lcores write.
        match (Errno::check(unsafe { sys::rte_eth_stats_get(port, raw.as_mut_ptr()) }), self.last) {
            (Ok(()), _) => {}
            (Err(_), Some(last)) => return Ok(last),
            (Err(errno), None) => return Err(errno),
        }
        // SAFETY: plain numbers.
        let raw = unsafe { raw.assume_init() };
        let Stats { rx_packets, rx_bytes, rx_missed, .. } = self.past;
        let Stats { rx_errors, rx_no_buffer, tx_packets, tx_bytes, tx_errors, .. } = self.past;
        Ok(*self.last.insert(Stats {
            rx_packets: rx_packets + raw.ipackets,
            rx_bytes: rx_bytes + raw.ibytes,
            rx_missed: rx_missed + raw.imissed,
            rx_errors: rx_errors + raw.ierrors,
            rx_no_buffer: rx_no_buffer + raw.rx_nombuf,
            tx_packets: tx_packets + raw.opackets,
            tx_bytes: tx_bytes + raw.obytes,
            tx_errors: tx_errors + raw.oerrors,
        }))
    }

    /// The device is about to be closed, and its counters begin at 0 when it is reopened.
    pub(super) fn close(&mut self, port: u16) {
        if let Ok(stats) = self.read(port) {
            self.past = stats;
        }
    }
}

pub(super) fn mac(device: &DeviceHandle) -> Result<[u8; 6], Errno> {
    if let Some(interface) = device.kernel() {
        return Ok(interface.mac());
    }
    if let Some(presence) = device.presence() {
        return Ok(presence.mac());
    }
    let _control = device.control();
    let mut address = sys::rte_ether_addr { addr_bytes: [0; 6] };
    // SAFETY: the port is open; the result goes to a live variable.
    Errno::check(unsafe { sys::rte_eth_macaddr_get(device.port_id(), &raw mut address) })?;
    Ok(address.addr_bytes)
}
