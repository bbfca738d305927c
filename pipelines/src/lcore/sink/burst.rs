//! What the pool asks while it works through a burst.

use pascaline_aggregator::{Burst, BurstSink, Gradient, Request, Rules};
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::{Counter, LcoreRanks, Moment};
use pascaline_wire::fast_path;
use pascaline_wire::frame::Mac;

use super::LcoreSink;
use crate::classify::{Classifier, PAYLOAD_OFFSET};
use crate::io::Io;
use crate::jobs::Job;

impl<I: Io, const WORDS: usize> BurstSink<I::Buf, WORDS> for LcoreSink<'_, I> {
    const PAYLOAD_OFFSET: u16 = PAYLOAD_OFFSET;

    #[inline(always)]
    fn rules(&self, job: u16) -> Rules {
        self.table.get(job).map(Job::rules).unwrap_or_default()
    }

    #[inline(always)]
    fn admits(&self, gradient: &Gradient) -> bool {
        let key = gradient.key();
        self.table.get(key.job()).is_some_and(|job| job.window.has(key.psn()))
    }

    #[inline(always)]
    fn priority(&self, packet: &I::Buf) -> u16 {
        fast_path::priority(packet.bytes())
    }

    fn whole_request(&mut self, gradient: &Gradient, packet: &I::Buf, now: u64) -> Request {
        let (setup, table) = (self.setup, self.table);
        let classifier = Classifier { setup, table, port: 0, mac: Mac::default(), now };
        let request = classifier.request(gradient, packet.bytes());
        if request.again
            && let Some(job) = table.get(request.key.job())
        {
            job.cells.again(self.number, request.rank);
        }
        request
    }

    #[inline(always)]
    fn is_wide(&self) -> bool {
        self.table.is_wide()
    }

    #[inline(always)]
    fn prefetch_count(&self, gradient: &Gradient) {
        self.table.prefetch_count(gradient.key().job(), gradient.rank(), self.number);
    }

    #[inline(always)]
    fn prefetch_replies(&self, gradient: &Gradient) {
        self.table.prefetch_replies(gradient.key().job(), gradient.rank(), self.number);
    }

    #[inline(always)]
    fn worked_off(&mut self, burst: &Burst<I::Buf>, added: usize, now: u64) {
        self.emitter.tally.add(Counter::Absorbed, added as u64);
        self.emitter.tally.add(Counter::Hits, added as u64);
        let moment = Moment::at(now);
        let mut gradients = burst.gradients();
        let mut next = gradients.next();
        // Run by run of one job: its cells are looked for once.
        while let Some(mut gradient) = next {
            let job = gradient.key().job();
            let ranks = self.table.get(job).map_or(LcoreRanks::NONE, |job| job.counts().of(self.number));
            next = loop {
                ranks.heard(gradient.rank(), gradient.key().psn(), moment);
                match gradients.next() {
                    Some(following) if following.key().job() == job => gradient = following,
                    other => break other,
                }
            };
        }
    }
}
