//! What lcores count for each job on the way in.

use pascaline_telemetry::{DropReason, JobCounter, LcoreCounters};

use crate::jobs::JobTable;

/// Plain gradients of one job that follow each other, so that a burst of one job is counted at once.
#[derive(Debug, Default)]
pub(crate) struct Run {
    job: u16,
    packets: u64,
    bytes: u64,
}

impl Run {
    /// One more, of the job at this place of the table; `count` gets what there was of another.
    #[inline(always)]
    pub(crate) fn add(&mut self, job: u16, bytes: u16, count: impl FnOnce(&Self)) {
        if job != self.job {
            count(self);
            *self = Self { job, ..Self::default() };
        }
        self.packets += 1;
        self.bytes += u64::from(bytes);
    }

    /// Adds what there was to the job's counters.
    #[inline]
    pub(crate) fn count(&self, table: &JobTable, counters: &LcoreCounters) {
        if let (Some(job), true) = (table.at(self.job), self.packets > 0) {
            counters.jobs().add(job.slot, JobCounter::Contributions, self.packets);
            counters.jobs().add(job.slot, JobCounter::ContributionBytes, self.bytes);
        }
    }
}

/// What a job counts drops for a reason as; those that say nothing about a job are not counted there.
pub(crate) const fn of_job(reason: DropReason) -> Option<JobCounter> {
    match reason {
        DropReason::WrongEpoch => Some(JobCounter::WrongEpoch),
        DropReason::NotMember => Some(JobCounter::NotMember),
        DropReason::RankSpoofed | DropReason::RankOutOfRange => Some(JobCounter::Spoofed),
        DropReason::Halted => Some(JobCounter::Halted),
        DropReason::PayloadLength => Some(JobCounter::Mismatched),
        _ => None,
    }
}
