//! What an operator wants done about a PSN.

use std::sync::Arc;

use pascaline_aggregator::Verb;
use pascaline_buffer::PacketBuf as _;
use pascaline_telemetry::Counter;
use pascaline_wire::datagram::Payload;
use pascaline_wire::frame::{Address, Mac, VlanTags};
use pascaline_wire::header::{Flags, Header, Kind, Own};
use pascaline_wire::{DType, Datagram, Element, Op, template};

use super::Lcore;
use crate::classify::Classifier;
use crate::io::Io;
use crate::membership::PsnOrder;

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Asks the pool on an operator's behalf, as though a rank had done so. The packet that this takes is
    /// counted like any other.
    #[cold]
    pub(super) fn carry_out(&mut self, order: PsnOrder) {
        let (table, setup) = (Arc::clone(&self.table), Arc::clone(&self.setup));
        let by = Classifier {
            setup: &setup,
            table: &table,
            port: 0,
            mac: Mac::default(),
            now: self.emitter.io.now(),
        };
        let job = table.get(order.job).filter(|job| job.epoch == order.epoch);
        // Where there is no packet, the operator orders again.
        let Some((job, mut packet)) = job.zip(self.emitter.io.frame_buffer()) else { return };
        self.emitter.tally.add(Counter::Received, 1);
        // Room for the headers in front of what there is, which is nothing.
        let _ = packet.set_len(template::MAX_LEN);
        let header = Header {
            kind: Kind::Reminder,
            flags: Flags::NONE,
            element: Element { dtype: DType::F32, op: Op::Sum },
            job: order.job,
            rank: order.rank,
            psn: order.psn,
            fan_in: job.fan_in,
            count: 1,
            own: Own::NONE,
            epoch: order.epoch,
        };
        let datagram = Datagram {
            src_mac: Mac::default(),
            vlan: VlanTags::NONE,
            sender: (Address::default(), 0),
            local: (Address::default(), 0),
            dscp: 0,
            marked: false,
            header,
            payload: Payload::new(template::MAX_LEN, 0),
        };
        let verb = if order.release { Verb::Release } else { Verb::Remind };
        let request = by.to_pool(verb, job, &datagram);
        self.offer(&table, &request, packet);
        self.emitter.flush();
        self.unpublished = true;
    }
}
