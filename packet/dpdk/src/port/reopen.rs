//! A port whose interface was deleted and made anew: opened anew, with its queues where they are.

use pascaline_dpdk_sys as sys;

use super::device::{DeviceHandle, OpenError};
use super::gate;
use super::setup::{self, StartError};
use super::{PortConfig, caps};
use crate::error::Errno;
use crate::mempool::Mempool;

/// Why a port is not reopened, or not yet.
#[expect(missing_docs, reason = "the message says what each field is")]
#[derive(Debug, thiserror::Error)]
pub enum ReopenError {
    /// The new interface takes shorter packets only.
    #[error("its MTU is {has}, the port's is {mtu}: `ip link set {interface} mtu {mtu}`")]
    Mtu { interface: String, has: u16, mtu: u16 },
    /// Not with this driver.
    #[error("the driver of {device} cannot do that while the program runs: restart it")]
    Driver { device: String },
    /// An lcore did not leave the driver.
    #[error("an lcore is inside the driver for longer than a second")]
    Busy,
    /// As at the start.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// As at the start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// A question or a system call failed.
    #[error(transparent)]
    System(#[from] Errno),
}

/// The configuration that a port was started with, to start it again.
#[derive(Debug, Clone)]
pub(super) struct Started {
    pub(super) config: PortConfig,
    pub(super) pools: Vec<Mempool>,
}

pub(super) fn reopen(device: &DeviceHandle) -> Result<(), ReopenError> {
    let cannot = || ReopenError::Driver { device: device.name().to_owned() };
    let Started { config, pools } = device.started().clone().ok_or_else(cannot)?;
    let mtu = config.mtu.unwrap_or_default();
    if let Some(interface) = device.kernel() {
        return interface.reopen(mtu);
    }
    let presence = device.presence().filter(|_| device.reopens()).ok_or_else(cannot)?;
    // The driver gives the interface an MTU up to this one by itself.
    let kernels = u32::from(mtu) > sys::PSC_ETHER_MTU;
    let index = presence.takes(if kernels { mtu } else { 0 })?;
    let gates = device.gates().clone();
    if !gate::close(&gates) {
        if device.is_attached() {
            gate::open(&gates);
        }
        return Err(ReopenError::Busy);
    }
    // First, so that the next check finds out if the interface disappears again before the driver has it.
    presence.renew(index)?;
    // From here on the gates stay shut until all has succeeded.
    device.reattach()?;
    let caps = caps::read(device)?;
    setup::start(device, &caps, &config, &pools)?;
    device.set_open(true);
    gate::open(&gates);
    Ok(())
}
