//! A model of the appliance: one slot per PSN, scripted conflicts.

use std::collections::BTreeMap;

use pascaline_ps::Order;
use pascaline_wire::{Flags, Header, Kind};

use crate::packets::{Packet, sum};

/// What happens to a gradient, by script.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotOutcome {
    /// It is aggregated in its slot.
    Aggregate,
    /// Another task holds the slot and wins.
    FallBack,
    /// Another task has won the slot since and has left it again: what was there went to the PS.
    EvictFirst,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum To {
    Server,
    Worker(u16),
}

pub(crate) type Script = Box<dyn FnMut(&Header) -> SlotOutcome>;

pub(crate) struct Appliance {
    pub(crate) fan_in: u16,
    pub(crate) order: Order,
    /// DSA's switch deallocates with the result; ours keeps it.
    pub(crate) keeps_results: bool,
    pub(crate) script: Script,
    pub(crate) slots: BTreeMap<u32, BTreeMap<u16, Vec<u8>>>,
    pub(crate) results: BTreeMap<u32, Packet>,
    pub(crate) completed_here: u32,
}

impl Appliance {
    pub(crate) fn new(fan_in: u16, order: Order) -> Self {
        Self {
            fan_in,
            order,
            keeps_results: false,
            script: Box::new(|_| SlotOutcome::Aggregate),
            slots: BTreeMap::new(),
            results: BTreeMap::new(),
            completed_here: 0,
        }
    }

    pub(crate) fn on_worker(&mut self, packet: Packet) -> Vec<(To, Packet)> {
        let psn = packet.header.psn;
        match packet.header.kind {
            Kind::Gradient if packet.header.flags.has(Flags::BYPASS) => vec![(To::Server, packet)],
            Kind::Gradient => {
                if let Some(result) = self.results.get(&psn) {
                    return vec![(To::Worker(packet.header.rank), result.clone())];
                }
                self.gradient(packet)
            }
            Kind::Reminder | Kind::Result => vec![(To::Server, packet)],
            kind => panic!("workers do not send {kind:?}"),
        }
    }

    fn gradient(&mut self, packet: Packet) -> Vec<(To, Packet)> {
        let psn = packet.header.psn;
        let mut out = match (self.script)(&packet.header) {
            SlotOutcome::FallBack => return vec![(To::Server, packet)],
            SlotOutcome::EvictFirst => self.evict(psn),
            SlotOutcome::Aggregate => Vec::new(),
        };
        let slot = self.slots.entry(psn).or_default();
        slot.insert(packet.header.rank, packet.payload);
        if slot.len() == usize::from(self.fan_in) {
            let total = sum(self.slots.remove(&psn).unwrap().into_values());
            self.completed_here += 1;
            out.extend(self.publish(Packet::result(psn, self.fan_in, &total)));
        }
        out
    }

    /// The slot's content leaves for the PS: as one partial, or as originals if bits matter.
    pub(crate) fn evict(&mut self, psn: u32) -> Vec<(To, Packet)> {
        let Some(slot) = self.slots.remove(&psn) else { return Vec::new() };
        match self.order {
            Order::Arrival => {
                let ranks: Vec<u16> = slot.keys().copied().collect();
                let partial = Packet::partial(&ranks, psn, self.fan_in, &sum(slot.into_values()));
                vec![(To::Server, partial)]
            }
            Order::Rank => slot
                .into_iter()
                .map(|(rank, payload)| (To::Server, Packet::gradient(rank, psn, self.fan_in, &payload)))
                .collect(),
        }
    }

    fn publish(&mut self, result: Packet) -> Vec<(To, Packet)> {
        if self.keeps_results {
            self.results.insert(result.header.psn, result.clone());
        }
        (0..self.fan_in).map(|rank| (To::Worker(rank), result.clone())).collect()
    }

    pub(crate) fn on_server(&mut self, packet: Packet) -> Vec<(To, Packet)> {
        let Header { kind, psn, rank, flags, .. } = packet.header;
        match kind {
            Kind::Fetch => match self.results.get(&psn) {
                Some(result) => vec![(To::Server, result.clone())],
                None => self.evict(psn),
            },
            Kind::Result | Kind::Reminder if flags.has(Flags::BYPASS) => vec![(To::Worker(rank), packet)],
            Kind::Result => {
                self.slots.remove(&psn);
                self.publish(packet)
            }
            kind => panic!("the server does not send {kind:?}"),
        }
    }
}
