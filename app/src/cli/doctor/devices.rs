//! What DPDK needs of the devices: an IOMMU, a driver, an MTU, a link.

use pascaline_dpdk::Device;

use super::finding::Finding;
use super::nic::Nic;
use crate::appliance::in_line::harm;
use crate::appliance::verify::REMEDY;
use crate::config::lane::{self, Lane};
use crate::config::{Config, PassingQueue, PortConfig, Verify};
use crate::host::Host;

pub(super) fn examine(host: &Host, nics: &[Nic], config: Option<&Config>) -> Vec<Finding> {
    let need = Need::of(host, nics, config);
    let mut findings = vec![iommu(host, nics, need), vfio(host, need)];
    match config {
        None => findings.extend(cards(host, nics)),
        Some(config) => {
            for port in &config.ports {
                match &port.device.value {
                    Device::Pci(address) => findings.extend(card(host, nics, port, address)),
                    Device::Vdev(device) => findings.extend(virtual_device(host, port, device)),
                }
                findings.push(checksums(host, nics, port));
                findings.extend(in_line(config, port));
            }
        }
    }
    findings
}

/// A card by its address, which may be written without the domain.
pub(super) fn find<'a>(nics: &'a [Nic], device: &str) -> Option<&'a Nic> {
    let address = device.split(',').next().unwrap_or_default();
    nics.iter().find(|nic| nic.address == address || nic.address.strip_prefix("0000:") == Some(address))
}

/// Whether a card has to be taken from the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// A port of the configuration wants it.
    Yes,
    /// There is a card that an appliance could have.
    Perhaps,
    No,
}

impl Need {
    fn of(host: &Host, nics: &[Nic], config: Option<&Config>) -> Self {
        let Some(config) = config else {
            let login = host.login();
            let spare = |nic: &Nic| !nic.is_shared() && !nic.carries(&login);
            return if nics.iter().any(spare) { Self::Perhaps } else { Self::No };
        };
        let wanted = config.ports.iter().any(|port| match &port.device.value {
            Device::Pci(address) => {
                find(nics, address).is_none_or(|nic| !nic.is_shared() && !nic.is_by_uio())
            }
            Device::Vdev(_) => false,
        });
        if wanted { Self::Yes } else { Self::No }
    }

    /// What is missing, as bad as it is needed.
    fn missing(self, check: &'static str, detail: &str, remedy: &str) -> Finding {
        match self {
            Self::Yes => Finding::fail(check, detail, remedy),
            Self::Perhaps => Finding::warn(check, detail, remedy),
            Self::No => Finding::ok(check, format!("{detail}; no port needs it")),
        }
    }
}

fn iommu(host: &Host, nics: &[Nic], need: Need) -> Finding {
    let check = "iommu";
    let on = !host.names("sys/kernel/iommu_groups").is_empty() || nics.iter().any(|nic| nic.isolated);
    if on && (host.booted_with("iommu") || !host.booted_with("intel_iommu")) {
        return Finding::ok(check, "on");
    }
    if on {
        let remedy = "add iommu=pt to the kernel's command line";
        return Finding::warn(check, "on, but for the kernel's devices too", remedy);
    }
    let remedy = "switch it on in the firmware and boot with `intel_iommu=on iommu=pt` (AMD: `iommu=pt`); \
                  in a virtual machine without one: \
                  `echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode`, or, where there is no \
                  such file (Debian has none): `modprobe uio_pci_generic`, `dpdk-devbind.py \
                  --bind=uio_pci_generic ADDRESS`, and run as root with hugepages";
    if nics.iter().any(Nic::is_by_uio) {
        let detail = "off; uio_pci_generic works without it, as root with hugepages, and devices may write \
                      anywhere in memory";
        return Finding::warn(check, detail, remedy);
    }
    let unsafe_mode = host.text("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
    if unsafe_mode.is_some_and(|mode| mode == "Y" || mode == "1") {
        return Finding::warn(
            check,
            "off; vfio works without it, and devices may write anywhere in memory",
            remedy,
        );
    }
    need.missing(check, "off: vfio-pci cannot be used", remedy)
}

fn vfio(host: &Host, need: Need) -> Finding {
    let check = "vfio";
    if host.has("sys/module/vfio_pci") || host.has("sys/bus/pci/drivers/vfio-pci") {
        return Finding::ok(check, "the driver vfio-pci is there");
    }
    let remedy =
        "`modprobe vfio-pci`, and for every boot: `echo vfio-pci > /etc/modules-load.d/vfio-pci.conf`";
    need.missing(check, "the driver vfio-pci is not loaded", remedy)
}

/// Without a configuration: which cards there are, and in whose hands.
fn cards(host: &Host, nics: &[Nic]) -> Vec<Finding> {
    let check = "driver";
    if nics.is_empty() {
        return vec![Finding::warn(
            check,
            "this machine has no network card on a PCI bus",
            "use an interface of the kernel (`pascaline init --interface NAME`)",
        )];
    }
    let login = host.login();
    let describe = |nic: &Nic| {
        let detail = described(nic);
        if nic.is_ready() {
            Finding::ok(check, detail)
        } else if nic.carries(&login) {
            Finding::ok(
                check,
                format!("{detail}: carries this machine's default route, leave it to the kernel"),
            )
        } else {
            Finding::warn(check, format!("{detail}: not DPDK's"), bind(nic))
        }
    };
    nics.iter().map(describe).collect()
}

fn described(nic: &Nic) -> String {
    let Nic { address, identity, driver, interfaces, .. } = nic;
    let driver = driver.as_deref().unwrap_or("none");
    let names = if interfaces.is_empty() { String::new() } else { format!(" ({})", interfaces.join(", ")) };
    format!("{address} [{identity}]{names}: driver {driver}")
}

fn bind(nic: &Nic) -> String {
    format!(
        "to give it to DPDK: `dpdk-devbind.py --bind=vfio-pci {0}`, and for every boot `driverctl \
         set-override {0} vfio-pci`; the kernel loses the interface",
        nic.address
    )
}

/// Who verifies UDP checksums; those of IP headers are verified in software everywhere.
fn checksums(host: &Host, nics: &[Nic], port: &PortConfig) -> Finding {
    let (check, name) = ("checksums", &port.name);
    let device = &port.device.value;
    let interface = device.interface().unwrap_or_default();
    let may_be_damaged = match device {
        Device::Pci(address) => find(nics, address).is_some_and(Nic::is_of_a_virtual_machine),
        Device::Vdev(_) => host.has(format!("sys/class/net/{interface}/device")),
    };
    match (port.verify, device) {
        (Some(Verify::Software), _) => {
            Finding::ok(check, format!("port {name}: those of UDP are verified in software"))
        }
        _ if may_be_damaged => {
            Finding::warn(check, format!("port {name}: those of UDP are not verified over {device}"), REMEDY)
        }
        (None, Device::Pci(_)) => Finding::ok(
            check,
            format!("port {name}: the card verifies those of UDP, or software does if the card cannot"),
        ),
        (Some(Verify::Card), Device::Pci(_)) => {
            Finding::ok(check, format!("port {name}: the card verifies those of UDP, if it can"))
        }
        (_, Device::Vdev(_)) => {
            Finding::ok(check, format!("port {name}: those of UDP are not verified over a virtual link"))
        }
    }
}

/// What becomes of frames that only pass through.
fn in_line(config: &Config, port: &PortConfig) -> Vec<Finding> {
    let check = "in-line";
    if !port.in_line() {
        return Vec::new();
    }
    let others: Vec<&str> =
        port.beyond.iter().filter_map(|at| Some(config.ports.get(at)?.name.as_str())).collect();
    let name = &port.name;
    let closed = Finding::warn(
        check,
        format!(
            "port {name}: while the program does not run, nothing passes to {} (fail closed)",
            others.join(", ")
        ),
        "a card with a bypass, or a second path that spanning tree or routing takes meanwhile",
    );
    let harm = harm(&port.device.value);
    let harm = harm.map(|(harm, remedy)| Finding::warn(check, format!("port {name}: {harm}"), remedy));
    let shared = (lane::expected(config, port) == Lane::Shared).then(|| match config.in_line.queue {
        PassingQueue::No => Finding::ok(
            check,
            format!("port {name}: what passes through shares the transmit queue of aggregation, as wanted"),
        ),
        PassingQueue::Auto | PassingQueue::Require => Finding::warn(
            check,
            format!("port {name}: what passes through has to share the transmit queue of aggregation"),
            lane::remedy(config, port),
        ),
    });
    core::iter::once(closed).chain(harm).chain(shared).collect()
}

/// A port that names a card.
fn card(host: &Host, nics: &[Nic], port: &PortConfig, address: &str) -> Vec<Finding> {
    let name = &port.name;
    let Some(nic) = find(nics, address) else {
        let known: Vec<_> = nics.iter().map(|nic| nic.address.as_str()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return vec![Finding::fail(
            "driver",
            format!("port {name}: there is no network card {address}"),
            format!("correct `device`; this machine has: {known} (`dpdk-devbind.py --status`)"),
        )];
    };
    let detail = format!("port {name}: {}", described(nic));
    let mut findings = vec![if nic.is_ready() {
        Finding::ok("driver", detail)
    } else if nic.carries(&host.login()) {
        Finding::fail(
            "driver",
            format!("{detail}: carries this machine's default route"),
            "name another card, or you lose this machine; or share it: device = \"net_af_packet0,iface=…\"",
        )
    } else {
        Finding::fail("driver", format!("{detail}: DPDK cannot take it from there"), bind(nic))
    }];
    // Where the kernel keeps the card, its settings are the card's.
    match nic.interfaces.first() {
        Some(interface) => findings.extend(interface_state(host, port, interface)),
        None => findings.push(Finding::unknown(
            "mtu",
            format!(
                "port {name}: mtu = {}; what the card can do is known when the appliance starts",
                port.mtu
            ),
            "a start with an MTU that is too large ends with an error that says so",
        )),
    }
    findings
}

/// A port that names a virtual device; those on an interface of the kernel have `iface=`.
fn virtual_device(host: &Host, port: &PortConfig, device: &str) -> Vec<Finding> {
    let name = &port.name;
    let Some(interface) = device.split(',').find_map(|argument| argument.strip_prefix("iface=")) else {
        return vec![Finding::ok("driver", format!("port {name}: {device} needs no interface"))];
    };
    if port.device.value.interface().is_none() {
        return vec![Finding::ok("driver", format!("port {name}: {device} makes {interface} at the start"))];
    }
    if !host.has(format!("sys/class/net/{interface}")) {
        let known: Vec<_> = host.names("sys/class/net").into_iter().filter(|name| name != "lo").collect();
        return vec![Finding::fail(
            "interface",
            format!("port {name}: there is no interface {interface}"),
            format!("correct `iface=` in `device`; this machine has: {}", known.join(", ")),
        )];
    }
    interface_state(host, port, interface)
}

fn interface_state(host: &Host, port: &PortConfig, interface: &str) -> Vec<Finding> {
    let PortConfig { name, mtu, .. } = port;
    let path = format!("sys/class/net/{interface}");
    let mtu = match host.number::<u32>(format!("{path}/mtu")) {
        None => Finding::unknown("mtu", format!("port {name}: {interface} does not say"), "`ip link show`"),
        Some(has) if has >= u32::from(*mtu) => {
            Finding::ok("mtu", format!("port {name}: mtu = {mtu}, {interface} has {has}"))
        }
        Some(has) => Finding::fail(
            "mtu",
            format!("port {name}: mtu = {mtu}, but {interface} has {has}: longer packets are lost"),
            format!("`ip link set {interface} mtu {mtu}`, at switches and workers too; or lower mtu"),
        ),
    };
    let state = host.text(format!("{path}/operstate")).unwrap_or_default();
    let link = match state.as_str() {
        "up" => Finding::ok("interface", format!("port {name}: {interface} is up")),
        // Virtual interfaces do not know.
        "unknown" | "" => Finding::ok("interface", format!("port {name}: {interface} is there")),
        other => Finding::warn(
            "interface",
            format!("port {name}: {interface} is {other}"),
            format!("`ip link set {interface} up`; a cable, a switch port"),
        ),
    };
    vec![link, mtu]
}
