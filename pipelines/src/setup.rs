//! What does not change while the appliance runs.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pascaline_wire::UdpPorts;
use pascaline_wire::fast_path::Mask;
use pascaline_wire::frame::{Address, Ip, Mac};

use crate::bridge::{Bridge, Ports};
use crate::emit::Marks;
use crate::meter::{Bucket, FORMER};

/// A port as the packet path sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortSetup {
    /// Its MAC.
    pub mac: Mac,
    /// Where frames that are not for the appliance can go (inline mode): nowhere, to the peer, or, if there
    /// are several, where the bridge between them and this port has learned.
    pub beyond: Ports,
    /// The longest IP packet that its links carry, in bytes.
    pub mtu: u16,
}

/// When a frame leaves that passes through (inline mode).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Passing {
    /// Before all that the appliance itself makes and that still waits for the port.
    #[default]
    First,
    /// In turn with that, in the order in which both are ready.
    InTurn,
}

/// What does not change while the appliance runs.
#[derive(Debug, Clone)]
pub struct Setup {
    /// The appliance's own addresses.
    pub addresses: Vec<Address>,
    /// Its ports, in the order of their indices.
    pub ports: Vec<PortSetup>,
    /// When what passes through leaves.
    pub passing: Passing,
    /// From when on it marks results itself.
    pub marks: Marks,
    /// What its bridges have learned: all lcores' own.
    pub bridge: Arc<Bridge>,
    /// The bucket of answers to workers of the version before this one: all lcores' own.
    told_former: Arc<AtomicU64>,
    udp_ports: UdpPorts,
    dscp: Option<u8>,
    mask: Mask,
}

impl Setup {
    /// An appliance with these addresses and ports, which listens on these UDP ports.
    #[must_use]
    pub fn new(addresses: Vec<Address>, udp_ports: UdpPorts, ports: Vec<PortSetup>) -> Self {
        Self {
            addresses,
            ports,
            passing: Passing::First,
            marks: Marks::default(),
            bridge: Arc::new(Bridge::none()),
            told_former: Arc::default(),
            udp_ports,
            dscp: None,
            mask: Mask::of(udp_ports),
        }
    }

    /// Where frames that are not for the appliance can go from a port.
    #[must_use]
    pub fn beyond(&self, port: usize) -> Ports {
        self.ports.get(port).map_or(Ports::NONE, |own| own.beyond)
    }

    /// True if frames that are not for the appliance can go from any port to another.
    #[must_use]
    pub fn is_in_line(&self) -> bool {
        self.ports.iter().any(|port| !port.beyond.is_empty())
    }

    /// The same, but of the UDP datagrams to its addresses, only those with this DSCP are for the appliance.
    /// All others are not, as if they were for another host. `None`: whatever DSCP they have.
    #[must_use]
    pub fn known_by(self, dscp: Option<u8>) -> Self {
        let mask = dscp.map_or(Mask::of(self.udp_ports), |_| Mask::by_dscp(self.udp_ports));
        Self { dscp, mask, ..self }
    }

    /// Whether a UDP datagram to one of its addresses is for it, by the DSCP.
    #[must_use]
    #[inline(always)]
    pub fn knows(&self, ip: &Ip) -> bool {
        self.dscp.is_none_or(|dscp| dscp == ip.dscp)
    }

    /// True once a second, whichever lcore asks: a worker of the version before may be told so now.
    pub(crate) fn may_tell_former(&self, now: u64) -> bool {
        Bucket::take_shared(&self.told_former, now, FORMER)
    }

    /// Its UDP ports.
    #[must_use]
    #[inline]
    pub const fn udp_ports(&self) -> UdpPorts {
        self.udp_ports
    }

    /// Which bytes of members' gradients have to be as expected.
    #[must_use]
    #[inline(always)]
    pub const fn mask(&self) -> &Mask {
        &self.mask
    }
}
