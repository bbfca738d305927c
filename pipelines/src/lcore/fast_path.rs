//! The fast path: gradients that one masked compare recognises.

use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_aggregator::{Burst, Key};
use pascaline_buffer::PacketBuf;
use pascaline_wire::fast_path::{self, Lengths};
use pascaline_wire::frame::Mac;

use super::Lcore;
use crate::classify::Classifier;
use crate::io::{BURST, Io};
use crate::jobs::{Job, JobTable};

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

    /// Takes out what exceeds a share or names a PSN outside of its job's window.
    ///
    /// Apart from the sorting: in that loop it would cost each packet three times as much, of the stack.
    #[inline(always)]
    pub(super) fn hold_back(
        &mut self,
        now: u64,
        burst: &mut Burst<I::Buf>,
        others: &mut ArrayVec<I::Buf, BURST>,
    ) {
        // A single tenant has no other share to exceed, however long bursts are full.
        if self.table.is_shared() && (self.overload.is_on() || self.table.pauses_any(now)) {
            self.cut(now, burst);
        }
        if !are_admitted(&self.table, burst) {
            keep_out(&self.table, burst, others);
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

    /// Adds the gradients of a burst.
    #[inline(never)]
    pub(super) fn add(&mut self, now: u64, burst: &mut Burst<I::Buf>) {
        self.with_pool(|session, sink| session.add_burst(burst, now, sink));
    }
}

/// True if the PSNs of all gradients are known to be ones that may be under way.
#[inline(never)]
fn are_admitted<B>(table: &JobTable, burst: &Burst<B>) -> bool {
    let of = |key: Key| table.get(key.job()).map(Job::admitted).unwrap_or_default();
    let Some(first) = burst.gradients().next() else { return true };
    let mut admitted = of(first.key());
    // Mostly all are of one job: finding the last of all, without a branch, costs less than stopping at the
    // first one outside.
    let alike = admitted.named(first.element());
    let last = burst.gradients().map(|gradient| alike.behind_first(gradient.name())).fold(0, u64::max);
    if alike.reaches(last) {
        return true;
    }
    burst.gradients().all(|gradient| {
        let key = gradient.key();
        if !admitted.has(key) {
            admitted = of(key);
        }
        admitted.has(key)
    })
}

/// Takes the gradients out of a burst whose PSNs cannot be under way. The slow path drops them.
#[cold]
#[inline(never)]
fn keep_out<B>(table: &JobTable, burst: &mut Burst<B>, others: &mut ArrayVec<B, BURST>) {
    let outside = |key: Key| table.get(key.job()).is_none_or(|job| !job.window.has(key.psn()));
    burst.take_out(|gradient| outside(gradient.key()), |_, packet| others.push(packet));
}
