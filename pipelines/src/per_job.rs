//! What lcores count for each job on the way in.

use pascaline_telemetry::DropReason;

/// Whether a packet that is dropped for a reason says something about the job that it names.
pub(crate) const fn says_of_job(reason: DropReason) -> bool {
    matches!(
        reason,
        DropReason::WrongEpoch
            | DropReason::OutsideWindow
            | DropReason::TooOften
            | DropReason::NotMember
            | DropReason::RankSpoofed
            | DropReason::RankOutOfRange
            | DropReason::Halted
            | DropReason::PayloadLength
    )
}
