//! Ports that carry nothing: what is wrong with them, and what can be done.

use core::fmt;

use pascaline_dpdk::Device;
use pascaline_dpdk::port::{Link, LinkState};

use super::{Evidence, Reason, sentence};

/// Drivers whose link is down before a peer connects: that is no fault.
const PEERS: [&str; 3] = ["net_memif", "net_vhost", "net_virtio_user"];

/// A port as it was seen last.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PortHealth {
    pub(crate) name: String,
    /// The interface of the kernel's that it is on.
    interface: Option<String>,
    /// What it is like; none where the driver does not tell.
    pub(crate) link: Option<Link>,
    /// Why it has not been opened anew.
    pub(crate) hindrance: Option<String>,
    /// The appliance itself keeps the link down, because that of its peer is.
    pub(crate) held: bool,
    /// It has no link before its peer connects, and may wait for that.
    expects: bool,
    /// It is on a card of its own.
    is_card: bool,
}

impl PortHealth {
    pub(crate) fn new(name: &str, device: Option<&Device>) -> Self {
        let expects = |device: &Device| PEERS.iter().any(|driver| device.to_string().starts_with(driver));
        Self {
            name: name.to_owned(),
            interface: device.and_then(Device::interface).map(str::to_owned),
            expects: device.is_some_and(expects),
            is_card: device.is_some_and(|device| matches!(device, Device::Pci(_))),
            ..Self::default()
        }
    }

    /// Whether the appliance itself keeps the link down.
    pub(crate) fn is_held(&self) -> bool {
        let down = |link: &Link| matches!(link.state, LinkState::Down | LinkState::Off);
        self.held && self.link.as_ref().is_some_and(down)
    }

    /// Whether there is a link, where the driver tells.
    pub(crate) fn is_up(&self) -> Option<bool> {
        self.link.as_ref().map(Link::is_up)
    }

    /// Whether it is on a card that was taken out.
    pub(crate) fn is_card_gone(&self) -> bool {
        let gone = |link: &Link| link.state == LinkState::Missing;
        self.is_card && self.link.as_ref().is_some_and(gone)
    }

    /// In a word or two.
    pub(crate) fn state(&self) -> &'static str {
        match self.link.as_ref().map(|link| link.state) {
            None => "unknown",
            Some(_) if self.is_held() => "held down",
            Some(LinkState::Up) => "up",
            Some(LinkState::Down) => "no link",
            Some(LinkState::Off) => "off",
            Some(LinkState::Missing) => "missing",
            Some(LinkState::Replaced) => "replaced",
        }
    }

    /// True if frames cannot pass it although they should.
    pub(crate) fn is_in_trouble(&self) -> bool {
        self.is_up() == Some(false) && !self.expects
    }

    /// What can be done about it.
    pub(crate) fn remedy(&self) -> String {
        let interface = self.interface.as_deref().unwrap_or("INTERFACE");
        match (self.link.as_ref().map(|link| link.state), &self.interface) {
            _ if self.is_held() => "bring back the link of its peer (pass_link_state)".to_owned(),
            (Some(LinkState::Off), _) => format!("`ip link set {interface} up`"),
            (Some(LinkState::Missing), Some(_)) => {
                format!("make {interface} again, under this name: the port is then opened anew by itself")
            }
            (Some(LinkState::Missing), None) => {
                "plug the card in, and start the appliance again unless its unit does".to_owned()
            }
            (Some(LinkState::Replaced), _) => {
                "do what the text says; the port is then opened anew by itself".to_owned()
            }
            _ => "look at its cable, the switch port, or the interface at the other end".to_owned(),
        }
    }
}

impl fmt::Display for PortHealth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "port {}", self.name)?;
        let on = |f: &mut fmt::Formatter<'_>| match &self.interface {
            Some(interface) => write!(f, ": interface {interface}"),
            None => Ok(()),
        };
        match self.link.as_ref().map(|link| link.state) {
            _ if self.is_held() => f.write_str(" is held down, since its peer has no link"),
            None | Some(LinkState::Up) => {
                on(f)?;
                f.write_str(" is up")
            }
            Some(LinkState::Down) => {
                on(f)?;
                f.write_str(" has no link")
            }
            Some(LinkState::Off) => {
                on(f)?;
                f.write_str(" is switched off")
            }
            Some(LinkState::Missing) => match &self.interface {
                Some(interface) => write!(f, ": interface {interface} does not exist any more"),
                None if self.is_card => f.write_str(": its card was removed"),
                None => f.write_str(": its device does not answer any more"),
            },
            Some(LinkState::Replaced) => {
                on(f)?;
                f.write_str(" was made anew, and the port is not open on it yet")?;
                self.hindrance.as_ref().map_or(Ok(()), |why| write!(f, ": {why}"))
            }
        }
    }
}

/// Whether a port carries nothing: the ranks behind it cannot be heard.
pub(super) fn reasons(known: &Evidence<'_>, all: &mut Vec<Reason>) {
    all.extend(known.ports.iter().filter(|port| port.is_in_trouble()).map(|port| Reason {
        text: sentence(&port.to_string()),
        ..Reason::plain("port-down", &port.remedy())
    }));
}

#[cfg(test)]
mod tests;
