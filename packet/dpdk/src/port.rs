//! A network device as a typestate: [`Port<Stopped>`] is opened and configured, [`Port<Started>`] runs.

mod active;
mod attach;
mod caps;
mod device;
mod gate;
mod reopen;
mod setup;
mod stats;
mod steer;

use std::sync::Arc;

pub use active::{Active, Descriptors, RxChecksum};
pub use caps::{Caps, RssHash};
pub use device::{Device, OpenError};
pub use reopen::ReopenError;
pub use setup::{StartError, StartFailure};
pub use stats::{Link, LinkState, PortStats, Stats};
pub use steer::{Steer, Steering};

use device::{DeviceHandle, Lost};
pub(crate) use gate::Gate;
pub(crate) use gate::pass;

use crate::eal::Eal;
use crate::error::Errno;
use crate::mempool::Mempool;
use crate::queue::{RxQueue, TxQueue};

/// A port's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortConfig {
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// Descriptors per receive queue; the driver may settle for another number.
    pub rx_desc: u16,
    /// Descriptors per transmit queue; the driver may settle for another number.
    pub tx_desc: u16,
    /// Largest packet behind the Ethernet header; `None` leaves it to the driver.
    pub mtu: Option<u16>,
    /// Spread received packets over the queues by addresses and ports, if the device can.
    pub rss: bool,
    /// Bring packets to queues by their UDP destination port, if the device can.
    pub steer: Option<Steer>,
    /// Also receive frames addressed to others.
    pub promiscuous: bool,
}

impl Default for PortConfig {
    fn default() -> Self {
        Self {
            rx_queues: 1,
            tx_queues: 1,
            rx_desc: 512,
            tx_desc: 512,
            mtu: None,
            rss: true,
            steer: None,
            promiscuous: false,
        }
    }
}

/// An opened device that does not run.
#[derive(Debug)]
pub struct Stopped(());

/// A running device. Its queues are [`RxQueue`] and [`TxQueue`].
#[derive(Debug)]
pub struct Started {
    running: Arc<Running>,
    active: Active,
}

/// A network device. One handle exists per device; it closes when handle, queues and [`PortStats`] are gone.
#[derive(Debug)]
pub struct Port<State> {
    device: Arc<DeviceHandle>,
    caps: Caps,
    state: State,
}

/// A running device. The port and its queues each hold a count; the last one stops the device, when no thread
/// can be inside a queue any more.
#[derive(Debug)]
pub(crate) struct Running {
    device: Arc<DeviceHandle>,
}

impl Running {
    pub(crate) fn port_id(&self) -> u16 {
        self.device.port_id()
    }

    pub(crate) fn lost(&self) -> &Lost {
        &self.device.lost
    }

    /// A gate for one more queue, if the device can be reopened.
    pub(crate) fn gate(&self) -> Option<Arc<Gate>> {
        self.device.gate()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if let Err(errno) = self.device.stop() {
            tracing::warn!(device = self.device.name(), %errno, "device did not stop");
        }
    }
}

/// The parts of a started port. Each queue moves to the lcore that serves it.
#[derive(Debug)]
pub struct StartedPort {
    /// The handle.
    pub port: Port<Started>,
    /// Receive queues, by number.
    pub rx: Vec<RxQueue>,
    /// Transmit queues, by number.
    pub tx: Vec<TxQueue>,
}

impl Port<Stopped> {
    /// Opens a device: one that EAL found at its start, or a virtual one that is made now.
    ///
    /// # Errors If there is no such device or the driver refuses it; the error names the remedy.
    pub fn open(eal: &Eal, device: &Device) -> Result<Self, OpenError> {
        let device = Arc::new(DeviceHandle::open(eal, device)?);
        let caps = caps::read(&device)?;
        Ok(Self { device, caps, state: Stopped(()) })
    }

    /// Sets up queues, which take packets from `pools` in turn, and starts the device.
    ///
    /// Turns on only what the device offers; [`Port::active`] tells the outcome.
    ///
    /// # Errors If the device does not support `config`. The port is returned with the error.
    pub fn start(self, config: &PortConfig, pools: &[Mempool]) -> Result<StartedPort, StartFailure> {
        match setup::start(&self.device, &self.caps, config, pools) {
            Ok(active) => {
                let running = Arc::new(Running { device: self.device.clone() });
                let pools_held = pools.to_vec();
                *self.device.started() = Some(reopen::Started { config: config.clone(), pools: pools_held });
                if self.device.kernel().is_some() {
                    return self.start_kernel(config, pools, running, active);
                }
                let multi = active.tx_multi_segment;
                let rx = (0..config.rx_queues)
                    .zip(pools.iter().cycle())
                    .map(|(queue, pool)| RxQueue::new(running.clone(), queue, pool.clone()))
                    .collect();
                let tx =
                    (0..config.tx_queues).map(|queue| TxQueue::new(running.clone(), queue, multi)).collect();
                let state = Started { running, active };
                Ok(StartedPort { port: Port { device: self.device, caps: self.caps, state }, rx, tx })
            }
            Err(error) => Err(StartFailure { error, port: self }),
        }
    }
}

impl Port<Stopped> {
    /// Opens the queues of an interface of the kernel's.
    fn start_kernel(
        self,
        config: &PortConfig,
        pools: &[Mempool],
        running: Arc<Running>,
        active: Active,
    ) -> Result<StartedPort, StartFailure> {
        match self.kernel_queues(config, pools, &running) {
            Ok((rx, tx)) => {
                let state = Started { running, active };
                Ok(StartedPort { port: Port { device: self.device, caps: self.caps, state }, rx, tx })
            }
            Err(errno) => {
                let (device, step) = (self.name().to_owned(), setup::Step::Start);
                Err(StartFailure { error: StartError::Step { device, step, errno }, port: self })
            }
        }
    }

    /// A socket for each receive queue, which sends, too; further transmit queues have sockets that receive
    /// nothing, as the kernel would spread flows over those that do.
    fn kernel_queues(
        &self,
        config: &PortConfig,
        pools: &[Mempool],
        running: &Arc<Running>,
    ) -> Result<(Vec<RxQueue>, Vec<TxQueue>), Errno> {
        let (mut rx, mut tx) = (Vec::new(), Vec::new());
        let Some(interface) = self.device.kernel() else { return Ok((rx, tx)) };
        for (queue, pool) in (0..config.rx_queues).zip(pools.iter().cycle()) {
            let (reader, writer) = interface.queue(config.rx_queues, config.promiscuous, pool)?;
            rx.push(RxQueue::new(Arc::clone(running), queue, pool.clone()).over(reader));
            if queue < config.tx_queues {
                tx.push(TxQueue::new(Arc::clone(running), queue, true).over(writer));
            }
        }
        for queue in config.rx_queues..config.tx_queues {
            let writer = interface.sending_queue()?;
            tx.push(TxQueue::new(Arc::clone(running), queue, true).over(writer));
        }
        Ok((rx, tx))
    }
}

impl Port<Started> {
    /// The settings in force.
    #[must_use]
    pub fn active(&self) -> &Active {
        &self.state.active
    }

    /// Stops the device. If queues are left, the port is returned unchanged.
    ///
    /// # Errors
    /// If there are queues left.
    pub fn stop(self) -> Result<Port<Stopped>, Self> {
        let Self { device, caps, state: Started { running, active } } = self;
        match Arc::try_unwrap(running) {
            Ok(running) => {
                drop(running);
                Ok(Port { device, caps, state: Stopped(()) })
            }
            Err(running) => Err(Self { device, caps, state: Started { running, active } }),
        }
    }
}

impl<State> Port<State> {
    /// The device's name in DPDK.
    #[must_use]
    pub fn name(&self) -> &str {
        self.device.name()
    }

    /// DPDK's number for the port.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.device.port_id()
    }

    /// Capabilities of driver and device.
    #[must_use]
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// The Ethernet address.
    ///
    /// # Errors
    /// If the driver does not tell.
    pub fn mac(&self) -> Result<[u8; 6], Errno> {
        stats::mac(&self.device)
    }

    /// Whether there is a link at this moment.
    ///
    /// # Errors
    /// If the driver does not tell.
    pub fn link(&self) -> Result<Link, Errno> {
        stats::link(&self.device)
    }

    /// The counters, to be read from any thread while the queues work elsewhere.
    #[must_use]
    pub fn stats(&self) -> PortStats {
        PortStats::new(self.device.clone())
    }
}
