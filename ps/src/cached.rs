//! Results of complete PSNs, kept for late ranks.
//!
//! DSA deletes an entry when its result has been sent (section III.B); a rank that lost the result then
//! starts the PSN anew. Here the last results of a job stay, and a late packet is answered with one at once.

use core::time::Duration;
use std::collections::{HashMap, VecDeque};

use crate::entry::Content;

/// A result.
#[derive(Debug)]
pub(crate) struct CachedResult {
    /// Sealed: `bytes` is the sum.
    pub(crate) content: Content,
    /// How it was agreed upon.
    pub(crate) round: u16,
    at: Duration,
    /// When it was last sent to all ranks.
    sent_to_all: Duration,
    /// Answers to single ranks since this time.
    limit_since: Duration,
    answers: u16,
}

/// The last results of one job, oldest first.
#[derive(Debug, Default)]
pub(crate) struct CachedResults {
    results: HashMap<u32, CachedResult>,
    order: VecDeque<u32>,
    bytes: usize,
    /// The latest PSN that may have had a result unknown to this server.
    unknown: Option<u32>,
}

impl CachedResults {
    /// The result of a PSN.
    pub(crate) fn get(&self, psn: u32) -> Option<&CachedResult> {
        self.results.get(&psn)
    }

    /// Keeps a result that is about to be sent to all ranks, and forgets the oldest ones beyond `most`. There
    /// must be none of this PSN yet.
    pub(crate) fn keep(&mut self, now: Duration, psn: u32, content: Content, round: u16, most: u32) {
        self.bytes += content.bytes.len();
        let finished =
            CachedResult { content, round, at: now, sent_to_all: now, limit_since: now, answers: 0 };
        self.results.insert(psn, finished);
        self.order.push_back(psn);
        while self.order.len() > most.max(1) as usize {
            self.forget_oldest();
        }
    }

    /// Forgets the oldest result; returns the bytes freed.
    pub(crate) fn forget_oldest(&mut self) -> usize {
        let Some(psn) = self.order.pop_front() else { return 0 };
        self.doubt(psn);
        let oldest = self.results.remove(&psn);
        let freed = oldest.map_or(0, |finished| finished.content.bytes.len());
        self.bytes -= freed;
        freed
    }

    /// Forgets what is older than `limit`.
    pub(crate) fn expire(&mut self, now: Duration, limit: Duration) {
        let old = |finished: &CachedResult| finished.at.saturating_add(limit) <= now;
        while self.order.front().and_then(|psn| self.results.get(psn)).is_some_and(old) {
            self.forget_oldest();
        }
    }

    /// Notes that up to this PSN ranks may have taken results unknown to this server.
    pub(crate) fn doubt(&mut self, psn: u32) {
        if self.knows(psn) {
            self.unknown = Some(psn);
        }
    }

    /// True if all results of the PSN that were ever sent are kept, as far as is known. PSNs are serial
    /// numbers.
    pub(crate) fn knows(&self, psn: u32) -> bool {
        self.unknown.is_none_or(|unknown| (1..1 << 31).contains(&psn.wrapping_sub(unknown)))
    }

    /// Sets the round in which ranks agree on a result.
    pub(crate) fn number(&mut self, psn: u32, round: u16) {
        if let Some(finished) = self.results.get_mut(&psn) {
            finished.round = round;
        }
    }

    /// Whether a late rank may be sent the result now: `most` times per `interval`. A `contribution` that
    /// comes just after the result was sent has crossed it on its way; a rank that asks for the result does
    /// not have it.
    pub(crate) fn admit_answer(
        &mut self,
        now: Duration,
        psn: u32,
        contribution: bool,
        most: u16,
        interval: Duration,
    ) -> bool {
        let Some(finished) = self.results.get_mut(&psn) else { return false };
        if contribution && now < finished.sent_to_all.saturating_add(interval) {
            return false;
        }
        if now >= finished.limit_since.saturating_add(interval) {
            finished.limit_since = now;
            finished.answers = 0;
        }
        let admitted = finished.answers < most;
        finished.answers += u16::from(admitted);
        admitted
    }

    /// Whether the result may be sent to all ranks once more: once per `interval`.
    pub(crate) fn admit_all(&mut self, now: Duration, psn: u32, interval: Duration) -> bool {
        let Some(finished) = self.results.get_mut(&psn) else { return false };
        let admitted = now >= finished.sent_to_all.saturating_add(interval);
        if admitted {
            finished.sent_to_all = now;
        }
        admitted
    }

    /// Cached results.
    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    /// Payload bytes kept.
    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }
}
