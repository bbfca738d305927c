//! Plain gradients: told from other packets, and brought into the pool.

use arrayvec::ArrayVec;
use pascaline_aggregator::{Brevity, Brief, Place};
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::Counter;
use pascaline_wire::fast_path::{self, Lengths};
use pascaline_wire::frame::Mac;

use super::Lcore;
use super::kept::Taken;
use crate::classify::{Classifier, Counted, PAYLOAD_OFFSET};
use crate::io::{BURST, Io};
use crate::outcome::Outcome;

/// A plain gradient on its way into the pool.
pub(super) struct Gradient<B> {
    pub(super) brief: Brief,
    pub(super) place: Place,
    /// Until the pool has taken it.
    pub(super) packet: Option<B>,
}

/// The plain gradients of a burst.
pub(super) type Gradients<I> = ArrayVec<Gradient<<I as Io>::Buf>, BURST>;

/// Packets by which the contents of a slot are asked for ahead of time.
const AHEAD: usize = 4;

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Tells plain gradients from other packets, and asks for the sets that they belong to: by the time the burst has been
    /// sorted, the first ones are in the cache.
    ///
    /// `ONLY` if this is the only lcore, asked once for the burst. A function of its own, as is the next one: inlined into the
    /// turn they would live in the stack instead of registers.
    #[inline(never)]
    pub(super) fn sort<const ONLY: bool>(
        &self,
        port: usize,
        mac: Mac,
        packets: &mut ArrayVec<I::Buf, BURST>,
        gradients: &mut Gradients<I>,
        others: &mut ArrayVec<I::Buf, BURST>,
    ) {
        let classifier = Classifier { setup: &self.setup, table: &self.table, port, mac, now: 0 };
        if self.table.is_wide() {
            for packet in packets.iter() {
                if let Some((job, rank)) = fast_path::job_and_rank(packet.bytes()) {
                    self.table.ask_for_flow(job, rank);
                }
            }
        }
        let mut lengths = Lengths::NONE;
        // Drained, not consumed: that would move the whole array first.
        gradients.extend(packets.drain(..).filter_map(|packet| {
            if let Some(gradient) = classifier.recognise(packet.bytes(), &mut lengths)
                && !packet.bad_checksum()
            {
                let place = self.session.place_as::<ONLY>(&gradient.flow.terms, gradient.said.psn);
                self.session.prefetch::<ONLY>(place);
                return Some(Gradient { brief: gradient.brief(), place, packet: Some(packet) });
            }
            others.push(packet);
            None
        }));
    }

    /// Asks for what is probably in no cache when it is needed, all of a burst's at once: where there are many slots, for results
    /// that have to make room; where there are many jobs or ranks, for where packets are counted and how results are sent.
    #[inline(never)]
    pub(super) fn look_far_ahead(&mut self, gradients: &Gradients<I>) {
        if self.session.is_deep() {
            for gradient in gradients {
                self.session.prefetch_start(gradient.place);
            }
        }
        if self.table.is_wide() {
            for Gradient { brief, place, .. } in gradients {
                let (job, rank) = (brief.key().job(), brief.rank());
                self.table.ask_for_count(job, rank, self.number);
                if self.session.is_last(*place, brief) {
                    self.table.ask_for_replies(job, rank, self.number);
                }
            }
        }
    }

    /// Brings plain gradients into the pool.
    #[inline(never)]
    pub(super) fn gradients(&mut self, port: usize, mac: Mac, now: u64, gradients: &mut Gradients<I>) {
        self.session.foresee_all(gradients.iter_mut().map(|gradient| &mut gradient.place));
        if self.session.is_deep() | self.table.is_wide() {
            self.look_far_ahead(gradients);
        }
        let classifier = Classifier { setup: &self.setup, table: &self.table, port, mac, now };
        for gradient in gradients.iter().take(AHEAD) {
            self.session.prefetch_contents(gradient.place);
        }
        let mut outcome = Outcome {
            number: self.number,
            kernels: &self.kernels,
            emitter: &mut self.emitter,
            table: &self.table,
            setup: &self.setup,
            spread: &mut self.spread,
            limits: &mut self.limits,
            server: self.server.as_ref(),
        };
        let mut events = 0;
        let mut at = 0;
        if Self::are_long(&self.session, gradients, outcome.table) {
            events = Self::add_long(&mut self.session, &classifier, gradients, &mut outcome);
            at = gradients.len();
        }
        while at < gradients.len() {
            if let Some(coming) = gradients.get(at + AHEAD) {
                self.session.prefetch_contents(coming.place);
            }
            let Some(Gradient { brief, place, packet }) = gradients.get_mut(at) else { break };
            let Some(bytes) = packet.as_ref().map(PacketBuf::bytes) else { break };
            match self.session.add_brief(*place, brief, PAYLOAD_OFFSET, now, bytes, &mut outcome) {
                Brevity::Added => {
                    at += 1;
                    // At once, so that the next result goes out with what is in the cache.
                    if let Some(packet) = packet.take() {
                        outcome.emitter.reuse(packet);
                    }
                }
                Brevity::Concluded => {
                    at += 1;
                    events += 1;
                }
                Brevity::Absent if Self::open(&mut self.session, now, &mut gradients[at], &mut outcome) => {
                    at += 1;
                    events += 1;
                }
                Brevity::Absent | Brevity::Unsuited => {
                    let rest = &mut gradients[at..];
                    let Taken { taken, led } = Self::take(&mut self.session, &classifier, rest, &mut outcome);
                    at += taken;
                    events += led;
                }
            }
        }
        // What has been added in brief, and has led to no event.
        let hits = (gradients.len() - events) as u64;
        outcome.emitter.tally.add(Counter::Absorbed, hits);
        outcome.emitter.tally.add(Counter::Hits, hits);
        let mut counted = Counted::at(now);
        for Gradient { brief, packet, .. } in gradients {
            classifier.count(brief, self.number, &mut counted);
            if let Some(packet) = packet.take() {
                outcome.emitter.reuse(packet);
            }
        }
    }
}
