//! Fast-path gradients: recognised by one masked compare with what is known of their rank.

use pascaline_aggregator::{Brief, Request, Verb};
use pascaline_telemetry::{LcoreRanks, Moment};
use pascaline_wire::fast_path::{self, Lengths, Recognised, Words};
use pascaline_wire::header::Flags;

use super::Classifier;
use crate::jobs::Flow;

/// Where the payload of a fast-path gradient begins.
pub const PAYLOAD_OFFSET: u16 = {
    assert!(fast_path::HEADERS == 64);
    64
};

/// A fast-path gradient from a member.
#[derive(Debug, Clone, Copy)]
pub struct FastGradient<'a> {
    /// What is known of the gradients of its rank.
    pub flow: &'a Flow,
    /// What it says beyond that.
    pub said: Recognised,
    /// Some of it once more, as words.
    words: Words,
}

impl FastGradient<'_> {
    /// What the pool needs to know of it, in nearly every case.
    #[must_use]
    #[inline(always)]
    pub fn brief(&self) -> Brief {
        let Words { element, payload_len, ordinary } = self.words;
        self.flow.terms.brief_of(self.said.psn, element, payload_len, ordinary)
    }
}

/// Where a burst's contributions are counted: mostly for the job of the packet before.
#[derive(Debug)]
pub(crate) struct Counted<'a> {
    job: u16,
    ranks: LcoreRanks<'a>,
    moment: Moment,
}

impl Counted<'_> {
    /// For no job yet, at a time in nanoseconds of the lcores' clock.
    pub(crate) fn at(now: u64) -> Self {
        // The first packet finds the cells of job 0 like those of any other.
        Self { job: 0, ranks: LcoreRanks::NONE, moment: Moment::at(now) }
    }
}

impl Classifier<'_> {
    /// A fast-path gradient from a member. `None` for anything else, and for gradients with which something
    /// is wrong: [`classify`](Self::classify) finds out what.
    ///
    /// `before` is what the gradient before it said; what both have in common is not checked again.
    #[inline(always)]
    #[must_use]
    pub fn recognise(&self, bytes: &[u8], before: &mut Lengths) -> Option<FastGradient<'_>> {
        #[expect(clippy::cast_possible_truncation, reason = "an appliance has few ports")]
        let port = self.port as u32;
        let (id, rank) = fast_path::job_and_rank(bytes)?;
        let flow = self.table.flow(id, rank)?;
        let said = flow.expected.recognise(bytes, self.setup.mask(), port, flow.most, before)?;
        Some(FastGradient { flow, said, words: *before.words() })
    }

    /// What a fast-path gradient with these bytes wants of the pool.
    #[must_use]
    pub fn request(&self, brief: &Brief, bytes: &[u8]) -> Option<Request> {
        let (key, flags) = (brief.key(), fast_path::flags(bytes));
        let job = self.table.get(key.job())?;
        Some(Request {
            verb: Verb::Add,
            key,
            rank: brief.rank(),
            fan_in: job.fan_in,
            job_fan_in: job.fan_in,
            needed: job.needed,
            count: 1,
            inside: 0,
            element: brief.element(),
            overflow: flags & Flags::OVERFLOW.bits() != 0,
            again: flags & Flags::RETRANSMISSION.bits() != 0,
            partial: false,
            priority: fast_path::priority(bytes),
            rules: job.rules(),
            offset: PAYLOAD_OFFSET,
            len: brief.shape().payload_len(),
            now: self.now,
        })
    }

    /// Counts a fast-path gradient that this lcore has received.
    #[inline(always)]
    pub(crate) fn count<'a>(&'a self, brief: &Brief, lcore: usize, counted: &mut Counted<'a>) {
        let (job, rank, psn) = (brief.key().job(), brief.rank(), brief.key().psn());
        if counted.job != job || !counted.ranks.heard(rank, psn, counted.moment) {
            counted.job = job;
            counted.ranks = self.table.get(job).map_or(LcoreRanks::NONE, |job| job.counts().of(lcore));
            counted.ranks.heard(rank, psn, counted.moment);
        }
    }

    /// Counts a retransmission.
    pub(crate) fn count_again(&self, brief: &Brief, lcore: usize) {
        if let Some(job) = self.table.get(brief.key().job()) {
            job.cells.again(lcore, brief.rank());
        }
    }
}
