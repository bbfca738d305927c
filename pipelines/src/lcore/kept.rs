//! Plain gradients that are not just added: those that open a slot, are kept until all are there, or want a closer look.

use pascaline_aggregator::{Brief, Incoming, Kept, Opening, Place, Session};
use pascaline_buffer::PacketBuf;
use pascaline_telemetry::DropReason;
use pascaline_wire::fast_path;

use super::Lcore;
use super::fast_path::Gradient;
use crate::classify::{Classifier, PAYLOAD_OFFSET};
use crate::io::Io;
use crate::jobs::Job;
use crate::outcome::Outcome;

/// Gradients that have been brought in.
pub(super) struct Taken {
    pub(super) taken: usize,
    /// Those of them that led to an event.
    pub(super) led: usize,
}

impl<B> Incoming<B> for Gradient<B> {
    #[inline(always)]
    fn place(&self) -> Place {
        self.place
    }

    #[inline(always)]
    fn brief(&self) -> &Brief {
        &self.brief
    }

    #[inline(always)]
    fn packet(&self) -> Option<&B> {
        self.packet.as_ref()
    }

    #[inline(always)]
    fn parts(&mut self) -> (&Brief, &mut Option<B>) {
        (&self.brief, &mut self.packet)
    }
}

impl<I: Io, const WORDS: usize> Lcore<I, WORDS> {
    /// Opens a slot with a plain gradient, in the plain case; if not, nothing is done. Apart from [`take`](Self::take), and from the second
    /// attempt: with those the processor's registers would not do.
    #[inline(never)]
    pub(super) fn open(
        session: &mut Session<I::Buf, WORDS>,
        now: u64,
        gradient: &mut Gradient<I::Buf>,
        outcome: &mut Outcome<'_, I>,
    ) -> bool {
        Self::open_foreseen(session, now, gradient, outcome)
            || Self::open_anew(session, now, gradient, outcome)
    }

    /// The same, if another slot is foreseen now: perhaps a gradient before it in the burst got the one that was foreseen for both.
    #[inline(never)]
    fn open_anew(
        session: &mut Session<I::Buf, WORDS>,
        now: u64,
        gradient: &mut Gradient<I::Buf>,
        outcome: &mut Outcome<'_, I>,
    ) -> bool {
        session.foresee_anew(&mut gradient.place, gradient.brief.key())
            && Self::open_foreseen(session, now, gradient, outcome)
    }

    /// The same in the slot that is foreseen.
    #[inline(always)]
    fn open_foreseen(
        session: &mut Session<I::Buf, WORDS>,
        now: u64,
        Gradient { brief, place, packet }: &mut Gradient<I::Buf>,
        outcome: &mut Outcome<'_, I>,
    ) -> bool {
        let Some(bytes) = packet.as_ref().map(PacketBuf::bytes) else { return false };
        let Some(rules) = outcome.table.get(brief.key().job()).map(Job::rules) else { return false };
        let opening =
            Opening { brief, rules, priority: fast_path::priority(bytes), offset: PAYLOAD_OFFSET, now };
        session.open_brief(*place, &opening, packet, outcome)
    }

    /// Brings in those of some plain gradients that are kept until all are there, from the first on; if that is none of them, brings it
    /// in on its own.
    #[inline(never)]
    pub(super) fn take(
        session: &mut Session<I::Buf, WORDS>,
        classifier: &Classifier<'_>,
        gradients: &mut [Gradient<I::Buf>],
        outcome: &mut Outcome<'_, I>,
    ) -> Taken {
        let now = classifier.now;
        let Kept { taken, concluded } = session.keep_brief(gradients, PAYLOAD_OFFSET, now, outcome);
        if taken > 0 {
            return Taken { taken, led: concluded };
        }
        if let Some(Gradient { brief, place, packet }) = gradients.first_mut()
            && let Some(packet) = packet.take()
        {
            let rules = outcome.table.get(brief.key().job()).map(Job::rules).unwrap_or_default();
            let priority = fast_path::priority(packet.bytes());
            let opening = Opening { brief, rules, priority, offset: PAYLOAD_OFFSET, now };
            if let Err(packet) = session.hand_over_brief(*place, &opening, packet, outcome) {
                Self::explain(session, classifier, brief, *place, packet, outcome);
            }
        }
        Taken { taken: 1, led: 1 }
    }

    /// Offers the pool a plain gradient with all that there is to be said about it.
    fn explain(
        session: &mut Session<I::Buf, WORDS>,
        classifier: &Classifier<'_>,
        brief: &Brief,
        place: Place,
        packet: I::Buf,
        outcome: &mut Outcome<'_, I>,
    ) {
        match classifier.request(brief, packet.bytes()) {
            Some(request) => {
                if request.again {
                    classifier.count_again(brief, outcome.number);
                }
                session.offer_at(place, &request, packet, outcome);
            }
            // Cannot happen: the table is the one in which the job was found.
            None => outcome.emitter.discard(packet, DropReason::UnknownJob),
        }
    }
}
