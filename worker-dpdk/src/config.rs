//! Which port, which address, and what can go wrong with them.

use core::net::Ipv4Addr;
use core::time::Duration;

use pascaline_dpdk::{Device, EalError, Errno, OpenError, PoolError, StartError};
use pascaline_worker::{ConfigError, JoinFailure};

/// The port of a worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DpdkConfig {
    /// The device.
    pub device: Device,
    /// The worker's own address on it, which nobody else may have.
    pub address: Ipv4Addr,
    /// Who has the appliance's packets first; the appliance itself if it is in the same segment.
    pub next_hop: Option<Ipv4Addr>,
    /// The core that the calling thread is bound to.
    pub core: usize,
    /// Memory for packets in megabytes: 64 is enough for frames of 1,500 bytes.
    pub memory_mb: u32,
    /// How long to sleep once nothing has come for a while; zero: poll on, for a core of its own.
    pub nap: Duration,
}

impl DpdkConfig {
    /// A device (a PCI address, or a driver's name, a number and its arguments) and the worker's address on
    /// it, on core 0.
    #[must_use]
    pub fn new(device: &str, address: Ipv4Addr) -> Self {
        let is_pci = device.split(':').count() == 3 && !device.contains('=');
        let device = if is_pci { Device::Pci(device.to_owned()) } else { Device::Vdev(device.to_owned()) };
        let nap = Duration::from_micros(20);
        Self { device, address, next_hop: None, core: 0, memory_mb: 64, nap }
    }
}

/// Why a worker could not join over a port.
#[derive(Debug, thiserror::Error)]
pub enum DpdkJoinError {
    /// The worker's configuration cannot work.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The appliance's address is no IPv4 address.
    #[error("the DPDK driver speaks IPv4 only: {0} is another family; use the kernel's driver")]
    Family(core::net::IpAddr),
    /// A local address was asked for, which is the port's.
    #[error(
        "bind is for the kernel's driver: over a DPDK port the worker has the port's address, \
         and any UDP port"
    )]
    Bind,
    /// DPDK did not start.
    #[error(transparent)]
    Eal(#[from] EalError),
    /// There is no memory for packets.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The device cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The device does not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// The device does not tell its Ethernet address.
    #[error("the port does not tell its Ethernet address: {0}")]
    Mac(Errno),
    /// A packet of this job does not fit into the port's frames.
    #[error(
        "a packet of {needed} bytes behind the Ethernet header does not fit into the port's MTU of {mtu}: \
         lower payload"
    )]
    Mtu {
        /// Bytes of a full packet.
        needed: usize,
        /// The port's.
        mtu: u16,
    },
    /// Nobody has answered for the next hop's address.
    #[error("{next_hop} does not answer ARP on {device}: is the appliance running, and in the same segment?")]
    Unreachable {
        /// Whom it was looked for.
        next_hop: Ipv4Addr,
        /// Where.
        device: String,
    },
    /// The appliance refused, or time ran out.
    #[error("joining at {appliance} failed: {failure}")]
    Failed {
        /// The appliance.
        appliance: core::net::SocketAddr,
        /// Why.
        #[source]
        failure: JoinFailure,
    },
}
