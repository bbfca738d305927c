//! Reminders to ranks whose contributions are missing.

use pascaline_aggregator::{RankSet, Request};
use pascaline_telemetry::Counter;
use pascaline_wire::Element;
use pascaline_wire::header::{Header, Kind};

use super::LcoreSink;
use crate::io::Io;

impl<I: Io> LcoreSink<'_, I> {
    /// Reminds the ranks that are not inside (and not the one that asks).
    pub(super) fn remind<const WORDS: usize>(&mut self, request: &Request, inside: &RankSet<WORDS>) {
        let table = self.table;
        let Some(job) = table.get(request.key.job()).filter(|job| request.key.is_of(job.epoch)) else {
            return;
        };
        let Some(element) = Element::from_byte(request.element) else { return };
        for rank in inside.missing(job.fan_in).iter().filter(|&rank| rank != request.rank) {
            let header = Header {
                rank,
                psn: request.key.psn(),
                fan_in: job.fan_in,
                ..Header::about(Kind::Reminder, element, job.id, job.epoch)
            };
            if let Some(member) = job.member(rank)
                && self.emitter.stage_header_of(job, member, &header)
            {
                self.count(Counter::RemindersSent);
            }
        }
    }
}
