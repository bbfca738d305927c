//! What is not for the appliance: to the peer, through a bridge, or nowhere.

use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::frame::ETH_LEN;

use super::Lcore;
use crate::bridge::{Heard, Ports, is_reserved, receiver, sender};
use crate::io::Io;

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Forwards a packet that is not for the appliance.
    pub(super) fn bypass(&mut self, port: usize, now: u64, packet: I::Buf) {
        let beyond = self.setup.beyond(port);
        match beyond.only() {
            Some(peer) => self.pass_on(peer, packet),
            None if beyond.is_empty() => self.emitter.discard(packet, DropReason::NotForUs),
            None => self.through_bridge((port, beyond), now, packet),
        }
    }

    fn pass_on(&mut self, to: usize, packet: I::Buf) {
        self.emitter.tally.add(Counter::Forwarded, 1);
        self.emitter.pass(to, packet, self.setup.passing);
    }

    /// From a port to where the receiver has been heard, of the other ports of the bridge, or to all of them.
    fn through_bridge(&mut self, (port, others): (usize, Ports), now: u64, packet: I::Buf) {
        let Some(head) = packet.bytes().first_chunk::<ETH_LEN>() else {
            return self.emitter.discard(packet, DropReason::Truncated);
        };
        if is_reserved(head) {
            return self.emitter.discard(packet, DropReason::BridgeReserved);
        }
        let to = receiver(packet.bytes()).filter(|to| !to.mac.is_group());
        let known = to.and_then(|to| self.setup.bridge.find(to, others.with(port), now));
        match known {
            Some(known) if known == port => self.emitter.discard(packet, DropReason::BridgeLocal),
            Some(known) => self.pass_on(known, packet),
            None => {
                self.emitter.tally.add(Counter::Flooded, 1);
                self.emitter.flood(others, packet, self.setup.passing);
            }
        }
    }

    /// Notes behind which port of a bridge the senders of received frames are. Frames for the appliance say
    /// it as well: a worker may send nothing else.
    pub(super) fn learn(&mut self, port: usize, now: u64, packets: &[I::Buf]) {
        let others = self.setup.beyond(port);
        if others.is_empty() || others.only().is_some() {
            return;
        }
        let mut last = None;
        for packet in packets {
            let Some(from) = sender(packet.bytes()) else { continue };
            // What comes back has gone in a circle: a frame to this MAC means the appliance.
            if last == Some(from) || self.setup.ports.iter().any(|own| own.mac == from.mac) {
                continue;
            }
            let heard = self.setup.bridge.hear(from, port, others.with(port), now);
            // A worker's gradients come in a row. What has found no place is counted by the packet.
            last = (heard != Heard::Full).then_some(from);
            match heard {
                Heard::Known => {}
                Heard::Learned => self.emitter.tally.add(Counter::BridgeLearned, 1),
                Heard::Moved => self.emitter.tally.add(Counter::BridgeMoved, 1),
                Heard::Full => self.emitter.tally.add(Counter::BridgeFull, 1),
            }
        }
    }
}
