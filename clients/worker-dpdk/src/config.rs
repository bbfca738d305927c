//! Port and address, and their errors.

use core::net::IpAddr;
use core::time::Duration;

use pascaline_dpdk::{Device, Errno, OpenError, PoolError, StartError};
use pascaline_worker::{ConfigError, JoinFailure};

/// The port of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DpdkConfig {
    /// The device.
    pub device: Device,
    /// The worker's own address on it, which no other host may have.
    pub address: IpAddr,
    /// The longest IP packet of the port and of the way to the appliance, in bytes; none: the usual 1,500.
    pub mtu: Option<u16>,
    /// The next hop to the appliance; the appliance itself if it is in the same segment.
    pub next_hop: Option<IpAddr>,
    /// How long to sleep while no packets arrive; zero: poll always, for a core of its own.
    pub nap: Duration,
}

impl DpdkConfig {
    /// A device (a PCI address, or a driver's name, a number and its arguments) and the worker's address on
    /// it.
    #[must_use]
    pub fn new(device: &str, address: IpAddr) -> Self {
        let is_pci = device.split(':').count() == 3 && !device.contains('=');
        let device = if is_pci { Device::Pci(device.to_owned()) } else { Device::Vdev(device.to_owned()) };
        let nap = Duration::from_micros(20);
        Self { device, address, mtu: None, next_hop: None, nap }
    }
}

/// Why a worker could not join over a port.
#[derive(Debug, thiserror::Error)]
pub enum DpdkJoinError {
    /// The worker's configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The port's address, or the next hop's, is of another family than the appliance's.
    #[error(
        "{own} and the appliance's {appliance} are of different families: give the port an address of the \
         appliance's"
    )]
    Family {
        /// The port's, or the next hop's.
        own: IpAddr,
        /// The appliance's.
        appliance: IpAddr,
    },
    /// A local address was asked for, which is the port's.
    #[error(
        "bind is for the kernel's driver: over a DPDK port the worker has the port's address, \
         and any UDP port"
    )]
    Bind,
    /// Backup appliances were named, whose Ethernet addresses the port does not resolve.
    #[error("backup appliances are for the kernel's driver: over a DPDK port there is one appliance")]
    Backups,
    /// Several trees were named: each needs a port of its own.
    #[error("several trees are for the kernel's driver: over a DPDK port there is one appliance")]
    Trees,
    /// There is no memory for packets.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The device cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The device does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The device does not report its Ethernet address.
    #[error("the port does not tell its Ethernet address: {0}")]
    Mac(Errno),
    /// A packet of this job does not fit into the port's frames.
    #[error(
        "a packet of {needed} bytes behind the Ethernet header does not fit into the port's MTU of {mtu}: \
         lower payload, or raise the port's MTU where the way takes longer packets"
    )]
    Mtu {
        /// Bytes of a full packet.
        needed: usize,
        /// The port's.
        mtu: u16,
    },
    /// No host has answered for the next hop's address.
    #[error(
        "{next_hop} does not answer {} on {device}: is the appliance running, and in the same segment?",
        if .next_hop.is_ipv4() { "ARP" } else { "neighbour solicitations" }
    )]
    Unreachable {
        /// The address that did not answer.
        next_hop: IpAddr,
        /// The device.
        device: String,
    },
    /// Ended by [`Config::interrupt`](pascaline_worker::Config::interrupt).
    #[error("joining was given up, as the program asked for")]
    Interrupted,
    /// The appliance refused, or time ran out.
    #[error("joining at {appliance} failed: {failure}")]
    Failed {
        /// The appliance.
        appliance: core::net::SocketAddr,
        /// The failure.
        #[source]
        failure: JoinFailure,
    },
}
