//! What goes to the appliance above.
//!
//! Results of the whole job have round [`TAKEN`](pascaline_wire::round::TAKEN) here, whoever made them, and
//! sums of this appliance's own ranks [`NONE`](pascaline_wire::round::NONE): so a slot says what it holds.

use pascaline_aggregator::{Aggregate, Request, Verb};
use pascaline_telemetry::{Counter, JobEvent};
use pascaline_wire::header::{Flags, Header, Kind, Own};
use pascaline_wire::{Element, round};

use super::{LcoreSink, Shared};
use crate::emit::{echo, flags};
use crate::io::Io;
use crate::jobs::{ABOVE, Above, Job};

/// As what something goes up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ascent {
    /// The contribution of all ranks here.
    Sum { again: bool },
    /// The result of the whole job, for those who lack it.
    Result,
}

impl<I: Io> LcoreSink<'_, I> {
    /// Sends something to the parent as one of its ranks would.
    pub(super) fn send_up(&mut self, job: &Job, above: &Above, sum: &Aggregate<'_, Shared<I>>, what: Ascent) {
        let Some(element) = Element::from_byte(sum.element) else { return };
        let (kind, count, own) = match what {
            Ascent::Sum { .. } => (Kind::Gradient, 1, Own::FREE),
            Ascent::Result => (Kind::Result, above.ranks, Own::vote(round::TAKEN, u16::MAX)),
        };
        let again = if what == (Ascent::Sum { again: true }) { Flags::RETRANSMISSION } else { Flags::NONE };
        let about = Header::about(kind, element, job.id, job.epoch);
        let flags = flags(sum.element, sum.overflow, false).with(again).with(echo(sum.marked));
        let header = above.header(Header { flags, psn: sum.key.psn(), count, own, ..about });
        if self.emitter.send_above(above, &header, sum.payload.clone()) {
            self.count(Counter::SentUp);
            let event = if again == Flags::NONE { JobEvent::SentUp } else { JobEvent::SentUpAgain };
            job.cells.count(self.number, event, 1);
        }
    }

    /// Somebody waits for a PSN of which this is here. True if that is the parent's business: a sum that
    /// waits for the parent's result goes up again, and whoever asks from above gets what there is.
    #[inline]
    pub(super) fn ascends(&mut self, request: &Request, result: &Aggregate<'_, Shared<I>>) -> bool {
        let table = self.table;
        let Some(job) = Self::job_of(table, result.key).filter(|job| job.detours()) else { return false };
        let Some(above) = &job.parent else { return false };
        let whole = result.round == round::TAKEN;
        if whole && request.rank != ABOVE {
            return false;
        }
        if self.limits.climbs.take(result.key, request.now) {
            self.send_up(
                job,
                above,
                result,
                if whole { Ascent::Result } else { Ascent::Sum { again: true } },
            );
        }
        if request.verb == Verb::Remind
            && request.rank != ABOVE
            && self.limits.asks.take(result.key, request.now)
        {
            self.remind_parent(job, above, request);
        }
        true
    }

    fn remind_parent(&mut self, job: &Job, above: &Above, request: &Request) {
        let Some(element) = Element::from_byte(request.element) else { return };
        let about = Header::about(Kind::Reminder, element, job.id, job.epoch);
        let header = above.header(Header { psn: request.key.psn(), ..about });
        if self.emitter.stage_header_above(above, &header) {
            self.count(Counter::SentUp);
        }
    }

    /// A result that a rank has kept may be what ranks below other appliances lack.
    pub(super) fn tell_parent(&mut self, job: &Job, request: &Request, result: &Aggregate<'_, Shared<I>>) {
        if let Some(above) = &job.parent
            && !request.again
        {
            self.send_up(job, above, result, Ascent::Result);
        }
    }
}
