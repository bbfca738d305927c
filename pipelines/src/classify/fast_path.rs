//! Fast-path gradients: recognised by one masked compare with what is known of their rank.

use pascaline_aggregator::{Gradient, Request, Verb};
use pascaline_wire::fast_path::{self, Lengths, Recognised, Words};
use pascaline_wire::header::Flags;

use super::Classifier;
use crate::jobs::{Flow, Job};

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
    pub fn gradient(&self) -> Gradient {
        let Words { element, payload_len, ordinary } = self.words;
        self.flow.terms.gradient_of(self.said.psn, element, payload_len, ordinary)
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

    /// The whole request of a fast-path gradient with these bytes. The pool rejects it if the job is gone.
    #[must_use]
    pub fn request(&self, gradient: &Gradient, bytes: &[u8]) -> Request {
        let (key, flags) = (gradient.key(), fast_path::flags(bytes));
        let job = self.table.get(key.job());
        let fan_in = job.map_or(0, |job| job.fan_in);
        Request {
            verb: Verb::Add,
            key,
            rank: gradient.rank(),
            fan_in,
            job_fan_in: fan_in,
            needed: job.map_or(0, |job| job.needed),
            count: 1,
            inside: 0,
            element: gradient.element(),
            overflow: flags & Flags::OVERFLOW.bits() != 0,
            again: flags & Flags::RETRANSMISSION.bits() != 0,
            // One that is marked is not on the fast path.
            marked: false,
            partial: false,
            priority: fast_path::priority(bytes),
            rules: job.map(Job::rules).unwrap_or_default(),
            offset: PAYLOAD_OFFSET,
            len: gradient.shape().payload_len(),
            now: self.now,
        }
    }
}
