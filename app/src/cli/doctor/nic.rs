//! The machine's network cards.

use std::collections::BTreeSet;
use std::path::Path;

use crate::host::Host;

const DEVICES: &str = "sys/bus/pci/devices";
/// Network controllers in PCI's list of classes.
const NETWORK_CLASS: &str = "0x02";
/// Drivers through which DPDK has a device to itself.
const DPDK_DRIVERS: [&str; 3] = ["vfio-pci", "uio_pci_generic", "igb_uio"];
/// Drivers that keep the device in the kernel while DPDK uses it, too.
const SHARED_DRIVERS: [&str; 2] = ["mlx4_core", "mlx5_core"];

/// A network card.
#[derive(Debug, Clone)]
pub(crate) struct Nic {
    /// PCI address, e.g. `0000:01:00.0`.
    pub(crate) address: String,
    /// Vendor and device number, e.g. `8086:1572`.
    pub(crate) identity: String,
    /// The kernel driver it is bound to.
    pub(crate) driver: Option<String>,
    /// NUMA node; none if the machine has only one or does not say.
    pub(crate) node: Option<usize>,
    /// The kernel's interfaces on it.
    pub(crate) interfaces: Vec<String>,
    /// The card has an IOMMU group: an IOMMU is on.
    pub(crate) isolated: bool,
}

impl Nic {
    /// All of them, by address.
    pub(crate) fn all(host: &Host) -> Vec<Self> {
        let is_network = |address: &String| {
            host.text(Path::new(DEVICES).join(address).join("class"))
                .is_some_and(|class| class.starts_with(NETWORK_CLASS))
        };
        host.names(DEVICES).into_iter().filter(is_network).map(|address| Self::read(host, address)).collect()
    }

    fn read(host: &Host, address: String) -> Self {
        let path = Path::new(DEVICES).join(&address);
        let id = |name| host.text(path.join(name)).unwrap_or_default().trim_start_matches("0x").to_owned();
        let name = |link: std::path::PathBuf| Some(link.file_name()?.to_str()?.to_owned());
        Self {
            identity: format!("{}:{}", id("vendor"), id("device")),
            driver: host.link(path.join("driver")).and_then(name),
            // -1 stands for "no node".
            node: host.number(path.join("numa_node")),
            interfaces: interfaces_of(host, &address),
            isolated: host.link(path.join("iommu_group")).is_some(),
            address,
        }
    }

    /// Ready for DPDK as it is bound now.
    pub(crate) fn is_ready(&self) -> bool {
        let known = DPDK_DRIVERS.iter().chain(&SHARED_DRIVERS);
        self.driver.as_ref().is_some_and(|driver| known.clone().any(|name| name == driver))
    }

    /// A virtual machine's, through which its host sends: virtio's, or VMXNET3.
    pub(crate) fn is_of_a_virtual_machine(&self) -> bool {
        self.identity.starts_with("1af4:") || self.identity == "15ad:07b0"
    }

    /// DPDK has it by a driver that needs no IOMMU.
    pub(crate) fn is_by_uio(&self) -> bool {
        self.driver.as_deref().is_some_and(|driver| DPDK_DRIVERS[1..].contains(&driver))
    }

    /// DPDK uses it beside the kernel: nothing is to be bound.
    pub(crate) fn is_shared(&self) -> bool {
        self.driver.as_ref().is_some_and(|driver| SHARED_DRIVERS.contains(&driver.as_str()))
    }

    /// One of these interfaces of the kernel's is on it.
    pub(crate) fn carries(&self, interfaces: &BTreeSet<String>) -> bool {
        self.interfaces.iter().any(|name| interfaces.contains(name))
    }
}

/// Interfaces whose device is this one, or hangs on it (virtio).
fn interfaces_of(host: &Host, address: &str) -> Vec<String> {
    let on_it = |name: &String| {
        host.link(Path::new("sys/class/net").join(name))
            .is_some_and(|link| nearest_pci(&link).is_some_and(|found| found == address))
    };
    host.names("sys/class/net").into_iter().filter(on_it).collect()
}

/// The PCI device that is nearest to the interface on the way from the root of the bus.
fn nearest_pci(link: &Path) -> Option<&str> {
    let is_address = |part: &&str| {
        let (bus, function) = part.rsplit_once('.').unwrap_or_default();
        bus.split(':').count() == 3 && !function.is_empty()
    };
    link.iter().filter_map(|part| part.to_str()).rfind(is_address)
}

#[cfg(test)]
mod tests;
