//! Plain gradients with long payloads: those of a burst that go to the same slot are added together.

use pascaline_aggregator::{Brevity, Incoming, Order, Session, Together};

use super::Lcore;
use super::fast_path::{Gradient, Gradients};
use crate::classify::{Classifier, PAYLOAD_OFFSET};
use crate::io::Io;
use crate::jobs::{Job, JobTable};
use crate::outcome::Outcome;

/// Bytes of a payload from which on it pays: shorter sums are in the first-level cache when the next contribution comes, and the
/// time goes into everything else.
const LONG: u16 = 2048;

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// True if it pays to add the gradients of this burst together, going by the first one: not if its job keeps contributions until
    /// all are there.
    #[inline(always)]
    pub(super) fn are_long(
        session: &Session<I::Buf, WORDS>,
        gradients: &Gradients<I>,
        table: &JobTable,
    ) -> bool {
        let Some(Gradient { brief, .. }) = gradients.first() else { return false };
        let in_arrival = |job: &Job| job.rules().order() == Order::Arrival;
        brief.shape().payload_len() >= LONG
            && session.adds_singly(brief.element())
            && table.get(brief.key().job()).is_some_and(in_arrival)
    }

    /// Brings all of these plain gradients into the pool. Returns how many led to an event.
    #[inline(never)]
    pub(super) fn add_long(
        session: &mut Session<I::Buf, WORDS>,
        classifier: &Classifier<'_>,
        gradients: &mut Gradients<I>,
        outcome: &mut Outcome<'_, I>,
    ) -> usize {
        let mut together = Together::of(gradients.iter().map(Incoming::place));
        let mut events = 0;
        for at in 0..gradients.len() {
            if together.is_inside(at) {
                continue;
            }
            let now = classifier.now;
            match session.add_together(&mut together, at, gradients, PAYLOAD_OFFSET, now, outcome) {
                Brevity::Added => {}
                Brevity::Concluded => events += 1,
                Brevity::Absent if Self::open(session, now, &mut gradients[at], outcome) => events += 1,
                // One at a time: of those behind it, some may be inside.
                Brevity::Absent | Brevity::Unsuited => {
                    events += Self::take(session, classifier, &mut gradients[at..=at], outcome).led;
                }
            }
        }
        events
    }
}
