//! What lcores count for each job on the way in.

use pascaline_telemetry::{DropReason, JobCounter};

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
