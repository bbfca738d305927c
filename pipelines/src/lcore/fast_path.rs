//! The fast path: gradients that one masked compare recognises.

use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_aggregator::Burst;
use pascaline_buffer::PacketBuf;
use pascaline_wire::fast_path::{self, Lengths};
use pascaline_wire::frame::Mac;

use super::Lcore;
use crate::classify::Classifier;
use crate::io::{BURST, Io};

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Sorts a burst into gradients for the pool and other packets.
    ///
    /// Not inlined, as the next one: inside the turn they would use the stack instead of registers.
    #[inline(never)]
    pub(super) fn sort(
        &self,
        (port, mac): (usize, Mac),
        packets: &mut ArrayVec<I::Buf, BURST>,
        burst: &mut Burst<I::Buf>,
        others: &mut ArrayVec<I::Buf, BURST>,
    ) {
        let classifier = Classifier { setup: &self.setup, table: &self.table, port, mac, now: 0 };
        if self.table.is_wide() {
            for packet in packets.iter() {
                if let Some((job, rank)) = fast_path::job_and_rank(packet.bytes()) {
                    self.table.prefetch_flow(job, rank);
                }
            }
        }
        let mut lengths = Lengths::NONE;
        let recognise = |packet: &I::Buf| {
            let recognised = classifier.recognise(packet.bytes(), &mut lengths)?;
            (!packet.bad_checksum()).then(|| (&recognised.flow.terms, recognised.gradient()))
        };
        // Drained, not consumed: that would move the whole array first.
        self.session.gather(burst, packets.drain(..), recognise, |packet| others.push(packet));
    }

    /// Takes out what exceeds a share.
    ///
    /// Apart from the sorting: in that loop it would cost each packet three times as much, of the stack.
    #[inline(always)]
    pub(super) fn hold_back(&mut self, now: u64, burst: &mut Burst<I::Buf>) {
        // A single tenant has no other share to exceed, however long bursts are full.
        if self.table.is_shared() && (self.overload.is_on() || self.table.pauses_any(now)) {
            self.cut(now, burst);
        }
    }

    /// Drops the gradients of jobs that exceed their share of unproductive packets.
    #[cold]
    #[inline(never)]
    fn cut(&mut self, now: u64, burst: &mut Burst<I::Buf>) {
        let table = Arc::clone(&self.table);
        let mut dropped = ArrayVec::<(u16, I::Buf), BURST>::new();
        burst.take_out(
            |gradient| self.is_over_share(&table, gradient.key().job(), now),
            |gradient, packet| dropped.push((gradient.key().job(), packet)),
        );
        for (job, packet) in dropped {
            self.drop_over_share(&table, job, packet);
        }
    }

    /// Adds the gradients of a burst. Those whose PSNs cannot be under way are left to the slow path, which
    /// drops them: only what would open a slot is asked for that.
    #[inline(never)]
    pub(super) fn add(&mut self, now: u64, burst: &mut Burst<I::Buf>) {
        self.with_pool(|session, sink| session.add_burst(burst, now, sink));
    }
}
