//! Ports.

use std::time::Duration;

use pascaline_pipelines::{Passing, PortQueue, Ports};
use toml::Spanned;

use super::devices::Taken;
use super::values::word;
use super::{Accept, Checked};
use crate::config::lane::InLine;
use crate::config::{PassingQueue, PortConfig, raw};

const DEFAULT_MTU: u16 = 1500;
const DEFAULT_DESCRIPTORS: u16 = 512;
/// `Bridge::LEAST`.
const DEFAULT_ADDRESSES: u32 = 32_768;
/// Of IEEE 802.1D, Table 7-5.
const DEFAULT_AGE: Duration = Duration::from_secs(300);
const LEAST_AGE: Duration = Duration::from_secs(10);
const MOST_AGE: Duration = Duration::from_secs(1000);
/// `RTE_MAX_ETHPORTS` of the distributions.
const MOST_PORTS: usize = 32;

impl Accept<'_> {
    /// What becomes of what passes. A queue of its own is of no use in turn with the appliance's own frames.
    pub(super) fn in_line(&self, dataplane: &raw::Dataplane) -> Checked<InLine> {
        let passing = word(dataplane.passing.as_ref()).unwrap_or_default();
        let in_turn = passing == Passing::InTurn;
        let queue = match &dataplane.passing_queue {
            Some(word) if in_turn && word.get_ref().0 == PassingQueue::Require => {
                let message = "what leaves in turn with the appliance's own frames shares their queue";
                Err(self.error(word, message, "write passing = \"first\", or leave passing_queue out"))
            }
            _ if in_turn => Ok(PassingQueue::No),
            queue => Ok(word(queue.as_ref()).unwrap_or_default()),
        };
        let pass_link_state = dataplane.pass_link_state;
        let written = dataplane.bridge_addresses.as_ref();
        let addresses = self.within(written, DEFAULT_ADDRESSES, 8, 1 << 20, "bridge_addresses")?;
        let age = self.duration(dataplane.bridge_age.as_ref(), DEFAULT_AGE)?;
        match &dataplane.bridge_age {
            Some(written) if !(LEAST_AGE..=MOST_AGE).contains(&age) => {
                let message = format!("bridge_age = {:?} is out of range", written.get_ref());
                Err(self.error(written, message, "choose a time from 10s to 1000s"))
            }
            _ => Ok(InLine { passing, queue: queue?, pass_link_state, addresses, age }),
        }
    }

    pub(super) fn ports(&self, written: &Spanned<Vec<Spanned<raw::Port>>>) -> Checked<Vec<PortConfig>> {
        if written.get_ref().is_empty() {
            return Err(self.error(written, "no port", "add a [[ports]] table with name and device"));
        }
        if let Some(further) = written.get_ref().get(MOST_PORTS) {
            let message = format!("more than {MOST_PORTS} ports: DPDK has no more");
            return Err(self.error(&further.get_ref().name, message, "leave some out"));
        }
        let (mut ports, mut taken): (Vec<PortConfig>, Taken) = Default::default();
        for port in written.get_ref().iter().map(Spanned::get_ref) {
            if ports.iter().any(|other| other.name == *port.name.get_ref()) {
                let message = format!("two ports are called {:?}", port.name.get_ref());
                return Err(self.error(&port.name, message, "give each port a name of its own"));
            }
            let name = self.plain_name(&port.name, "a port")?;
            let device = self.device(&port.device, &mut taken)?;
            ports.push(PortConfig {
                name,
                device: self.locate(&port.device, device),
                mtu: self.within(port.mtu.as_ref(), DEFAULT_MTU, 128, 9702, "mtu")?,
                rx_descriptors: self.within(
                    port.rx_descriptors.as_ref(),
                    DEFAULT_DESCRIPTORS,
                    32,
                    16384,
                    "rx_descriptors",
                )?,
                tx_descriptors: self.within(
                    port.tx_descriptors.as_ref(),
                    DEFAULT_DESCRIPTORS,
                    32,
                    16384,
                    "tx_descriptors",
                )?,
                peer: None,
                bridge: None,
                beyond: Ports::NONE,
                verify: word(port.verify.as_ref()),
                queue: port
                    .queue
                    .as_ref()
                    .map_or(Ok(PortQueue::default()), |queue| self.queue(queue.get_ref()))?,
            });
        }
        let combine = self.combine(written.get_ref())?;
        ports.iter_mut().for_each(|port| port.queue.queue.combine = combine);
        self.pair(written.get_ref(), &mut ports)?;
        self.bridge(written.get_ref(), &mut ports)?;
        Ok(ports)
    }

    /// Ports that name each other.
    fn pair(&self, written: &[Spanned<raw::Port>], ports: &mut [PortConfig]) -> Checked<()> {
        for (at, port) in written.iter().map(Spanned::get_ref).enumerate() {
            let Some(peer) = &port.peer else { continue };
            let found = ports.iter().position(|other| other.name == *peer.get_ref());
            let Some(found) = found.filter(|&found| found != at) else {
                let message = format!("there is no other port called {:?}", peer.get_ref());
                return Err(self.error(peer, message, "name the port at the other side"));
            };
            for (from, to) in [(at, found), (found, at)] {
                if ports[from].peer.is_some_and(|present| present != to) {
                    let message = format!("port {:?} has another peer already", ports[from].name);
                    return Err(self.error(peer, message, "peers come in pairs"));
                }
                (ports[from].peer, ports[from].beyond) = (Some(to), Ports::of([to]));
            }
        }
        Ok(())
    }

    /// Ports that name a bridge. Two of one name are a pair: between them, there is nothing to be learned.
    fn bridge(&self, written: &[Spanned<raw::Port>], ports: &mut [PortConfig]) -> Checked<()> {
        let name = |port: &Spanned<raw::Port>| port.get_ref().bridge.as_ref().map(Spanned::get_ref).cloned();
        for (at, port) in written.iter().map(Spanned::get_ref).enumerate() {
            let Some(bridge) = &port.bridge else { continue };
            if ports[at].peer.is_some() {
                let message = format!("port {:?} has a peer already", ports[at].name);
                return Err(self.error(
                    bridge,
                    message,
                    "leave `peer` out: a bridge has all ports of its name",
                ));
            }
            self.plain_name(bridge, "a bridge")?;
        }
        for at in 0..written.len() {
            let (Some(bridge), Some(place)) = (name(&written[at]), &written[at].get_ref().bridge) else {
                continue;
            };
            let others = (0..written.len()).filter(|&other| name(&written[other]).as_ref() == Some(&bridge));
            let others = Ports::of(others).without(at);
            if others.is_empty() {
                let message = format!("the bridge {bridge:?} has one port only");
                return Err(self.error(place, message, "name it at its other ports, too"));
            }
            let port = &mut ports[at];
            (port.peer, port.beyond, port.bridge) = (others.only(), others, Some(bridge));
        }
        Ok(())
    }
}
