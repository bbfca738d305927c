//! What is not for the appliance: to the peer, through a bridge, or nowhere.

use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_wire::frame::{ETH_LEN, Mac};

use super::Lcore;
use crate::bridge::{Heard, Ports, is_reserved};
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
        let [d0, d1, d2, d3, d4, d5, s0, s1, s2, s3, s4, s5, ..] = *head;
        let (to, from) = (Mac([d0, d1, d2, d3, d4, d5]), Mac([s0, s1, s2, s3, s4, s5]));
        let all = others.with(port);
        self.hear(from, (port, all), now);
        let known = if to.is_group() { None } else { self.setup.bridge.find(to, all, now) };
        match known {
            Some(known) if known == port => self.emitter.discard(packet, DropReason::BridgeLocal),
            Some(known) => self.pass_on(known, packet),
            None => {
                self.emitter.tally.add(Counter::Flooded, 1);
                self.emitter.flood(others, packet, self.setup.passing);
            }
        }
    }

    fn hear(&mut self, from: Mac, (port, all): (usize, Ports), now: u64) {
        // What comes back has gone in a circle: whoever sends to this MAC means the appliance.
        if self.setup.ports.iter().any(|own| own.mac == from) {
            return;
        }
        match self.setup.bridge.hear(from, port, all, now) {
            Heard::Known => {}
            Heard::Learned => self.emitter.tally.add(Counter::BridgeLearned, 1),
            Heard::Moved => self.emitter.tally.add(Counter::BridgeMoved, 1),
            Heard::Full => self.emitter.tally.add(Counter::BridgeFull, 1),
        }
    }
}
