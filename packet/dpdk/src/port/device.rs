//! Finding a device, holding it, and letting it go.

use core::fmt;
use core::sync::atomic::AtomicU64;
use std::ffi::CString;
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pascaline_dpdk_sys as sys;

use crate::eal::{Eal, EalInner};
use crate::error::Errno;
use crate::kernel::{self, Interface};
use crate::mempool::Mempool;

/// Which device.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Device {
    /// A PCI address (`0000:01:00.0`); it must be among `pci_allow` of [`EalConfig`](crate::EalConfig).
    Pci(String),
    /// A driver's name, a number, and its arguments: `net_af_packet0,iface=eth1`.
    Vdev(String),
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
    /// Not something DPDK can be asked for.
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

/// Packets that the device has brought or would have taken, and that its queues lost.
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
        let pools = Mutex::new(Vec::new());
        let (kernel, lost, eal) = (None, Lost::default(), eal.inner().clone());
        Ok(Self { port_id, name, is_virtual, kernel, arguments, lost, pools, eal })
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
        let (kernel, pools) = (Some(kernel), Mutex::new(Vec::new()));
        let (lost, eal) = (Lost::default(), eal.inner().clone());
        Ok(Self { port_id: u16::MAX, name, is_virtual: true, kernel, arguments, lost, pools, eal })
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

    /// Exclusive use of the control functions.
    pub(super) fn control(&self) -> MutexGuard<'_, Vec<Mempool>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn stop(&self) -> Result<(), Errno> {
        if self.kernel.is_some() {
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
        // SAFETY: the port is open and stopped; the last handle is going. Its rings' packets go back to the
        // pools, which are dropped only after this.
        let mut result = Errno::check(unsafe { sys::rte_eth_dev_close(self.port_id) });
        if self.is_virtual
            && result.is_ok()
            && let Ok(name) = CString::new(self.name.as_str())
        {
            // SAFETY: the strings are terminated; the device's port is closed.
            result = Errno::check(unsafe { sys::rte_eal_hotplug_remove(VDEV.as_ptr(), name.as_ptr()) });
        }
        open_ports.remove(&self.port_id);
        if let Err(errno) = result {
            tracing::warn!(device = self.name, %errno, "device did not close cleanly");
        }
    }
}

/// The value of one of the arguments `key=value` with commas between.
fn value_of<'a>(arguments: &'a str, wanted: &str) -> Option<&'a str> {
    let mut pairs = arguments.split(',').filter_map(|argument| argument.split_once('='));
    pairs.find(|(key, _)| *key == wanted).map(|(_, value)| value)
}

const VDEV: &core::ffi::CStr = c"vdev";

/// A device's name and the arguments for its driver.
struct Parts {
    name: CString,
    arguments: CString,
}

impl Parts {
    fn of(device: &Device) -> Result<Self, OpenError> {
        let (name, arguments) = match device {
            Device::Pci(address) => (address.as_str(), ""),
            Device::Vdev(text) => text.split_once(',').unwrap_or((text, "")),
        };
        match (CString::new(name), CString::new(arguments)) {
            (Ok(name), Ok(arguments)) if !name.is_empty() => Ok(Self { name, arguments }),
            _ => Err(OpenError::BadName { device: device.clone() }),
        }
    }
}

fn find(name: &CString) -> Option<u16> {
    let mut port_id = 0;
    // SAFETY: EAL runs, the name is terminated, the result goes to a live variable.
    let status = unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut port_id) };
    (status == 0).then_some(port_id)
}

fn attach(device: &Device, name: &CString, arguments: &CString) -> Result<u16, OpenError> {
    if let Device::Pci(address) = device {
        return Err(OpenError::NoSuchPci { address: address.clone() });
    }
    // SAFETY: EAL runs and the strings are terminated; they are copied.
    let status = unsafe { sys::rte_eal_hotplug_add(VDEV.as_ptr(), name.as_ptr(), arguments.as_ptr()) };
    match Errno::check(status) {
        Ok(()) => find(name).ok_or_else(|| {
            // SAFETY: as above; takes back a device that is of no use.
            unsafe { sys::rte_eal_hotplug_remove(VDEV.as_ptr(), name.as_ptr()) };
            explain(device).unwrap_or_else(|| OpenError::NoPort { device: device.clone() })
        }),
        Err(errno) => Err(explain(device).unwrap_or_else(|| match errno {
            Errno::NODEV | Errno::FAULT => OpenError::UnknownDriver { device: device.clone() },
            errno => OpenError::Probe { device: device.clone(), errno },
        })),
    }
}

/// Looks for the usual causes of a refusal in the device's arguments; only afterwards, since drivers decide
/// what they accept.
fn explain(device: &Device) -> Option<OpenError> {
    let Device::Vdev(text) = device else { return None };
    let (device, arguments) = (device.clone(), text.split(',').skip(1));
    let pairs: Vec<(&str, &str)> = arguments.filter_map(|argument| argument.split_once('=')).collect();
    let value = |wanted: &str| pairs.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);

    if let Some(interface) = ["iface", "rx_iface", "tx_iface"].into_iter().find_map(value)
        && !text.starts_with("net_tap")
        && !interface_exists(interface)
    {
        return Some(OpenError::NoSuchInterface { device, interface: interface.to_owned() });
    }
    if let (Some("server"), Some(path)) = (value("role"), value("socket"))
        && Path::new(path).exists()
    {
        return Some(OpenError::StaleSocket { device, path: path.to_owned() });
    }
    if let Some(path) = value("rx_pcap")
        && !Path::new(path).exists()
    {
        return Some(OpenError::NoSuchFile { device, path: path.to_owned() });
    }
    None
}

/// In the network namespace of the calling thread, which is where drivers look.
fn interface_exists(interface: &str) -> bool {
    let table = fs::read_to_string("/proc/thread-self/net/dev").unwrap_or_default();
    table.lines().filter_map(|line| line.split_once(':')).any(|(name, _)| name.trim() == interface)
}
