//! Devices, as DPDK is asked for them.

use std::collections::BTreeMap;

use pascaline_dpdk::Device;
use toml::Spanned;

use super::{Accept, Checked};

/// Arguments that name an interface of the kernel.
const INTERFACES: [&str; 5] = ["iface", "rx_iface", "tx_iface", "rx_iface_in", "remote"];
/// Bytes of an interface's name (IFNAMSIZ, less the final NUL).
const LONGEST_INTERFACE: usize = 15;
const REMEDY: &str = "write a PCI address, e.g. \"0000:01:00.0\", or a driver with its number and \
                      arguments, e.g. \"net_af_packet0,iface=veth0\"";

/// What ports have taken: devices and interfaces, each with how it was written.
pub(super) type Taken = BTreeMap<String, String>;

impl Accept<'_> {
    /// A device that no port has yet.
    pub(super) fn device(&self, written: &Spanned<String>, taken: &mut Taken) -> Checked<Device> {
        let text = written.get_ref().as_str();
        let refuse = |what: &str, remedy: &str| Err(self.error(written, what, remedy));
        if text.is_empty() {
            return refuse("device is empty", REMEDY);
        }
        if let Some(wrong) = text.chars().find(|c| !c.is_ascii_graphic() || "\"'\\".contains(*c)) {
            let message = format!("device contains {wrong:?}: no options of DPDK's command line belong here");
            return refuse(&message, REMEDY);
        }
        let (name, arguments) = text.split_once(',').unwrap_or((text, ""));
        let pci = pci(name);
        let is_driver = name.starts_with("net_") || name.starts_with("eth_");
        let plain =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if pci.is_none() && !(is_driver && plain) {
            let message = format!("{name:?} is neither a PCI address nor a driver of ports, as in net_null0");
            return refuse(&message, REMEDY);
        }
        let mut own = vec![(pci.clone().unwrap_or_else(|| name.to_owned()), "this device".to_owned())];
        for (key, value) in arguments.split(',').filter_map(|argument| argument.split_once('=')) {
            if !INTERFACES.contains(&key) {
                continue;
            }
            if value.is_empty() || value.len() > LONGEST_INTERFACE || value.contains('/') {
                let message = format!("{key}={value}: no interface has such a name");
                return refuse(&message, "`ip link` lists the interfaces");
            }
            own.push((format!("interface {value}"), format!("the interface {value}")));
        }
        for (key, what) in &own {
            if let Some(other) = taken.get(key) {
                let message = format!("{what} is a port already: {other:?}");
                return refuse(&message, "use each device and each interface for one port");
            }
        }
        taken.extend(own.into_iter().map(|(key, _)| (key, text.to_owned())));
        // In the long form, which alone is found among DPDK's devices.
        Ok(pci.map_or_else(|| Device::Vdev(text.to_owned()), |pci| Device::Pci(text.replacen(name, &pci, 1))))
    }
}

/// A PCI address in its long form: `0000:01:00.0` for `01:00.0`.
fn pci(text: &str) -> Option<String> {
    let (rest, function) = text.rsplit_once('.')?;
    let (rest, device) = rest.rsplit_once(':')?;
    let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0", rest));
    let number = |text: &str, digits: usize| {
        let short = (1..=digits).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        short.then(|| u32::from_str_radix(text, 16).ok()).flatten()
    };
    let (domain, bus) = (number(domain, 8)?, number(bus, 2)?);
    let (device, function) = (number(device, 2)?, number(function, 1)?);
    Some(format!("{domain:04x}:{bus:02x}:{device:02x}.{function}"))
}
