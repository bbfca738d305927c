//! Ports.

use pascaline_pipelines::{Passing, PortQueue};
use toml::Spanned;

use super::devices::Taken;
use super::values::word;
use super::{Accept, Checked};
use crate::config::lane::InLine;
use crate::config::{PassingQueue, PortConfig, raw};

const DEFAULT_MTU: u16 = 1500;
const DEFAULT_DESCRIPTORS: u16 = 512;
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
        Ok(InLine { passing, queue: queue?, pass_link_state: dataplane.pass_link_state })
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
                queue: port
                    .queue
                    .as_ref()
                    .map_or(Ok(PortQueue::default()), |queue| self.queue(queue.get_ref()))?,
            });
        }
        for (at, port) in written.get_ref().iter().map(Spanned::get_ref).enumerate() {
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
                ports[from].peer = Some(to);
            }
        }
        Ok(ports)
    }
}
