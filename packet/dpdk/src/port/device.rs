//! Finding a device, holding it, and releasing it.

use core::fmt;
use core::sync::atomic::Ordering::Relaxed;
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU64};
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pascaline_dpdk_sys as sys;

use super::attach::{Parts, attach, detach, explain, find, value_of};
use super::gate::Gate;
use super::reopen::Started;
use super::stats::Kept;
use crate::eal::{Eal, EalInner};
use crate::error::Errno;
use crate::kernel::{self, Interface, Presence};
use crate::mempool::Mempool;

/// The device to open.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Device {
    /// A PCI address (`0000:01:00.0`); it must be among `pci_allow` of [`EalConfig`](crate::EalConfig).
    Pci(String),
    /// A driver's name, a number, and its arguments: `net_af_packet0,iface=eth1`.
    Vdev(String),
}

/// Drivers whose interface of the kernel is there only while they run.
const MAKE_THEIRS: [&str; 3] = ["net_tap", "net_tun", "net_virtio_user"];
/// The driver over packet sockets. It can be closed and opened anew while lcores run: it keeps no packets.
const REOPENS: &str = "net_af_packet";

impl Device {
    /// The interface of the kernel's that it is on, unless the driver makes that itself.
    #[must_use]
    pub fn interface(&self) -> Option<&str> {
        let Self::Vdev(text) = self else { return None };
        if MAKE_THEIRS.iter().any(|driver| text.starts_with(driver)) {
            return None;
        }
        let (_, arguments) = text.split_once(',')?;
        ["iface", "rx_iface", "tx_iface"].into_iter().find_map(|key| value_of(arguments, key))
    }

    /// That interface, if it is not there, in this thread's network namespace.
    #[must_use]
    pub fn missing_interface(&self) -> Option<&str> {
        self.interface().filter(|interface| kernel::counts_of(interface).is_none())
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Self::Pci(text) | Self::Vdev(text)) = self;
        f.write_str(text)
    }
}

/// Why a device could not be opened.
#[expect(missing_docs, reason = "the message says what each field is")]
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Not a name of a device for DPDK.
    #[error("\"{device}\" is not a device: the name is empty or contains a NUL byte")]
    BadName { device: Device },
    /// EAL did not find it.
    #[error(
        "no port at PCI address {address}. It must be bound to a driver that DPDK can use: \
         `dpdk-devbind.py --status`, then `dpdk-devbind.py --bind=vfio-pci {address}` \
         (mlx4/mlx5 keep their kernel driver)"
    )]
    NoSuchPci { address: String },
    /// No driver answers to the name.
    #[error(
        "{device}: DPDK has no such driver. Names are a driver's and a number, e.g. net_af_packet0, \
         net_memif0; drivers are plugins in the directory `pmds-*` of libdpdk"
    )]
    UnknownDriver { device: Device },
    /// The driver's network interface is missing.
    #[error(
        "{device}: there is no network interface {interface:?} (in this network namespace; see `ip link`)"
    )]
    NoSuchInterface { device: Device, interface: String },
    /// An earlier process has left its socket.
    #[error("{device}: {path} exists already. Remove it if no other process serves it")]
    StaleSocket { device: Device, path: String },
    /// A file to read from is missing.
    #[error("{device}: there is no file {path}")]
    NoSuchFile { device: Device, path: String },
    /// The driver refused for a reason of its own.
    #[error(
        "{device}: the driver refused the device: {errno}. The lines before this one, from the driver, \
         name the cause"
    )]
    Probe { device: Device, errno: Errno },
    /// The driver accepted the device and made no port for it.
    #[error("{device}: the driver made no port for this device")]
    NoPort { device: Device },
    /// There is a handle already.
    #[error("{device} is open already")]
    AlreadyOpen { device: Device },
    /// The driver does not describe the device.
    #[error("{device}: cannot read what the device can do: {errno}")]
    Info { device: String, errno: Errno },
}

/// Packets that the queues lost, received from the device or to be sent.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    /// No single buffer could take them: the pool was empty, its packets too small, or no room was left for
    /// the VLAN tag.
    pub(crate) received: AtomicU64,
    /// The first segment had no room for the others, where the device does not send several.
    pub(crate) sent: AtomicU64,
}

/// The one handle of a device. Closes it when dropped.
#[derive(Debug)]
pub(super) struct DeviceHandle {
    port_id: u16,
    name: String,
    /// A virtual device goes with its port, so that it can be made again. A PCI device stays with EAL.
    is_virtual: bool,
    /// None of DPDK's: it has no port there.
    kernel: Option<Interface>,
    /// The interface of the kernel's that a driver of DPDK's is on.
    presence: Option<Presence>,
    /// Not 0 once the kernel wants a card back that is being taken out. DPDK keeps its address.
    removed: &'static AtomicU8,
    /// DPDK has the device.
    attached: AtomicBool,
    /// Its queues can be used.
    open: AtomicBool,
    started: Mutex<Option<Started>>,
    /// Keep lcores out while it is reopened.
    gates: Mutex<Vec<Arc<Gate>>>,
    kept: Mutex<Kept>,
    /// Its arguments, `key=value` with commas between.
    arguments: String,
    pub(super) lost: Lost,
    /// The pools that fill its rings. The mutex also serialises control of the device, as DPDK demands.
    pools: Mutex<Vec<Mempool>>,
    /// After the device and the pools.
    eal: Arc<EalInner>,
}

impl DeviceHandle {
    pub(super) fn open(eal: &Eal, device: &Device) -> Result<Self, OpenError> {
        let Parts { name, arguments } = Parts::of(device)?;
        if name.to_bytes().starts_with(kernel::DRIVER.as_bytes()) {
            return Self::open_kernel(eal, device, &name, &arguments);
        }
        // First, so that the next check finds out if the interface disappears before the driver has it.
        let interface = device.interface().and_then(|interface| CString::new(interface).ok());
        let presence = interface.and_then(|interface| Presence::of(&interface).ok());
        let mut open_ports = eal.inner().open_ports.lock().unwrap_or_else(PoisonError::into_inner);
        let port_id = match find(&name) {
            Some(port_id) => port_id,
            None => attach(device, &name, &arguments)?,
        };
        if !open_ports.insert(port_id) {
            return Err(OpenError::AlreadyOpen { device: device.clone() });
        }
        let name = name.to_string_lossy().into_owned();
        let is_virtual = matches!(device, Device::Vdev(_));
        let arguments = arguments.to_string_lossy().into_owned();
        let mut handle = Self::new(eal, port_id, (name, arguments), None);
        (handle.is_virtual, handle.presence) = (is_virtual, presence);
        handle.watch_removal();
        Ok(handle)
    }

    fn new(eal: &Eal, port_id: u16, (name, arguments): (String, String), kernel: Option<Interface>) -> Self {
        Self {
            port_id,
            name,
            is_virtual: true,
            kernel,
            presence: None,
            removed: Box::leak(Box::default()),
            attached: AtomicBool::new(true),
            open: AtomicBool::new(true),
            started: Mutex::default(),
            gates: Mutex::default(),
            kept: Mutex::default(),
            arguments,
            lost: Lost::default(),
            pools: Mutex::default(),
            eal: eal.inner().clone(),
        }
    }

    fn open_kernel(
        eal: &Eal,
        device: &Device,
        name: &CString,
        arguments: &CString,
    ) -> Result<Self, OpenError> {
        let name = name.to_string_lossy().into_owned();
        let arguments = arguments.to_string_lossy().into_owned();
        let interface = value_of(&arguments, "iface").unwrap_or_default();
        let kernel = Interface::open(interface).map_err(|errno| {
            explain(device).unwrap_or_else(|| OpenError::Probe { device: device.clone(), errno })
        })?;
        Ok(Self::new(eal, u16::MAX, (name, arguments), Some(kernel)))
    }

    /// Has a card tell when it is about to be taken out.
    fn watch_removal(&self) {
        let Ok(name) = CString::new(self.name.as_str()) else { return };
        // SAFETY: EAL runs, the name is terminated and copied, and the flag is never freed.
        let status = unsafe { sys::psc_on_removal(name.as_ptr(), self.removed.as_ptr()) };
        if let Err(errno) = Errno::check(status) {
            tracing::debug!(device = self.name, %errno, "its removal will not be noticed");
        }
    }

    /// Whether it is a card that is being taken out: the kernel waits until it is closed.
    pub(super) fn is_removed(&self) -> bool {
        self.removed.load(Relaxed) != 0
    }

    pub(super) fn port_id(&self) -> u16 {
        self.port_id
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The value of one of its arguments.
    pub(super) fn argument(&self, wanted: &str) -> Option<&str> {
        value_of(&self.arguments, wanted)
    }

    /// The interface, if the device is none of DPDK's.
    pub(super) const fn kernel(&self) -> Option<&Interface> {
        self.kernel.as_ref()
    }

    /// The interface of the kernel's that a driver of DPDK's is on.
    pub(super) const fn presence(&self) -> Option<&Presence> {
        self.presence.as_ref()
    }

    /// Whether it can be opened anew while lcores have its queues.
    pub(super) fn reopens(&self) -> bool {
        self.presence.is_some() && self.name.starts_with(REOPENS)
    }

    /// A gate for one more queue, if it is one that can be opened anew.
    pub(super) fn gate(&self) -> Option<Arc<Gate>> {
        self.reopens().then(|| {
            let gate = Arc::<Gate>::default();
            self.gates().push(Arc::clone(&gate));
            gate
        })
    }

    pub(super) fn gates(&self) -> MutexGuard<'_, Vec<Arc<Gate>>> {
        self.gates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The settings that it was started with, while it runs.
    pub(super) fn started(&self) -> MutexGuard<'_, Option<Started>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether DPDK has the device.
    pub(super) fn is_attached(&self) -> bool {
        self.attached.load(Relaxed)
    }

    /// Whether its queues can be used.
    pub(super) fn is_open(&self) -> bool {
        self.open.load(Relaxed)
    }

    pub(super) fn set_open(&self, open: bool) {
        self.open.store(open, Relaxed);
    }

    /// Detaches a virtual device and attaches it again, stopped. No queue may be in use, nor be used before
    /// it is started.
    pub(super) fn reattach(&self) -> Result<(), OpenError> {
        let device = Device::Vdev(format!("{},{}", self.name, self.arguments));
        let Parts { name, arguments } = Parts::of(&device)?;
        let refused = |errno| OpenError::Probe { device: device.clone(), errno };
        let mut held = self.control();
        self.set_open(false);
        if self.is_attached() {
            self.kept().close(self.port_id);
            // SAFETY: the port is open, its control functions are ours, and no queue is in use, by contract.
            // Packets in its rings return to the pools, which `held` keeps until then.
            unsafe { sys::rte_eth_dev_stop(self.port_id) };
            detach(self.port_id, Some(&name)).map_err(refused)?;
            self.attached.store(false, Relaxed);
            held.clear();
        }
        let port_id = attach(&device, &name, &arguments)?;
        if port_id != self.port_id {
            // Another device is detached, too, and DPDK assigns the smallest free number: that one goes
            // first.
            let _ = detach(port_id, Some(&name));
            return Err(refused(Errno::AGAIN));
        }
        self.attached.store(true, Relaxed);
        Ok(())
    }

    /// Exclusive use of the control functions.
    pub(super) fn control(&self) -> MutexGuard<'_, Vec<Mempool>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stop(&self) -> Result<(), Errno> {
        *self.started() = None;
        if self.kernel.is_some() || !self.is_attached() {
            return Ok(());
        }
        let _control = self.control();
        // SAFETY: the port is open, and no queue is in use: `Running` calls this when the last one is gone.
        Errno::check(unsafe { sys::rte_eth_dev_stop(self.port_id) })
    }
}

impl Drop for DeviceHandle {
    fn drop(&mut self) {
        if self.kernel.is_some() {
            return;
        }
        let mut open_ports = self.eal.open_ports.lock().unwrap_or_else(PoisonError::into_inner);
        open_ports.remove(&self.port_id);
        let name = CString::new(self.name.as_str()).ok().filter(|_| self.is_virtual);
        // The last handle is dropped. Its rings' packets return to the pools, which are dropped after this.
        if self.is_attached()
            && let Err(errno) = detach(self.port_id, name.as_deref())
        {
            tracing::warn!(device = self.name, %errno, "device did not close cleanly");
        }
    }
}
