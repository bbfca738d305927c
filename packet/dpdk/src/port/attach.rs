//! Attaching a device to DPDK, and detaching it.

use core::ffi::CStr;
use std::ffi::CString;
use std::path::Path;

use pascaline_dpdk_sys as sys;

use super::device::{Device, OpenError};
use crate::error::Errno;

/// The value of one of the arguments `key=value` with commas between.
pub(super) fn value_of<'a>(arguments: &'a str, wanted: &str) -> Option<&'a str> {
    let mut pairs = arguments.split(',').filter_map(|argument| argument.split_once('='));
    pairs.find(|(key, _)| *key == wanted).map(|(_, value)| value)
}

const VDEV: &CStr = c"vdev";

/// A device's name and the arguments for its driver.
pub(super) struct Parts {
    pub(super) name: CString,
    pub(super) arguments: CString,
}

impl Parts {
    pub(super) fn of(device: &Device) -> Result<Self, OpenError> {
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

pub(super) fn find(name: &CString) -> Option<u16> {
    let mut port_id = 0;
    // SAFETY: EAL runs, the name is terminated, the result goes to a live variable.
    let status = unsafe { sys::rte_eth_dev_get_port_by_name(name.as_ptr(), &raw mut port_id) };
    (status == 0).then_some(port_id)
}

pub(super) fn attach(device: &Device, name: &CString, arguments: &CString) -> Result<u16, OpenError> {
    if let Device::Pci(address) = device {
        return Err(OpenError::NoSuchPci { address: address.clone() });
    }
    // SAFETY: EAL runs and the strings are terminated; they are copied.
    let status = unsafe { sys::rte_eal_hotplug_add(VDEV.as_ptr(), name.as_ptr(), arguments.as_ptr()) };
    match Errno::check(status) {
        Ok(()) => find(name).ok_or_else(|| {
            // SAFETY: as above; removes a device that is of no use.
            unsafe { sys::rte_eal_hotplug_remove(VDEV.as_ptr(), name.as_ptr()) };
            explain(device).unwrap_or_else(|| OpenError::NoPort { device: device.clone() })
        }),
        Err(errno) => Err(explain(device).unwrap_or_else(|| match errno {
            Errno::NODEV | Errno::FAULT => OpenError::UnknownDriver { device: device.clone() },
            errno => OpenError::Probe { device: device.clone(), errno },
        })),
    }
}

/// Closes a port that is open and stopped; a virtual device, whose name this is, goes with it.
pub(super) fn detach(port_id: u16, virtual_device: Option<&CStr>) -> Result<(), Errno> {
    // SAFETY: the port is there and stopped, and not in use any more.
    Errno::check(unsafe { sys::rte_eth_dev_close(port_id) })?;
    virtual_device.map_or(Ok(()), |name| {
        // SAFETY: the strings are terminated; the device's port is closed.
        Errno::check(unsafe { sys::rte_eal_hotplug_remove(VDEV.as_ptr(), name.as_ptr()) })
    })
}

/// Looks for the usual causes of a refusal in the device's arguments; only afterwards, since drivers decide
/// what they accept.
pub(super) fn explain(device: &Device) -> Option<OpenError> {
    let Device::Vdev(text) = device else { return None };
    let (device, arguments) = (device.clone(), text.split(',').skip(1));
    let pairs: Vec<(&str, &str)> = arguments.filter_map(|argument| argument.split_once('=')).collect();
    let value = |wanted: &str| pairs.iter().find(|(key, _)| *key == wanted).map(|(_, value)| *value);

    if let Some(interface) = device.missing_interface() {
        let interface = interface.to_owned();
        return Some(OpenError::NoSuchInterface { device, interface });
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
