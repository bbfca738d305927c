//! What became of an update that was offered: exactly one of these, always.

use core::fmt;

/// What became of an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It waits at the tail.
    Appended,
    /// It has been combined with its cluster's waiting update.
    Aggregated,
    /// It has taken the place of an older update of the same worker.
    Replaced,
    /// It has taken the place of its cluster's waiting update, which is of another generation: the caller
    /// only offers updates of the present one.
    Renewed,
    /// A newer update of the same worker waits already, with nothing of others inside; this one came late.
    Outdated,
    /// It has taken the place of its cluster's waiting update, whose reward is lower by more than the
    /// threshold.
    Preferred,
    /// Dropped: its reward is lower than that of its cluster's waiting update by more than the threshold.
    LowReward,
    /// Dropped: no segment is free, and no update waits that it could be combined with.
    Full,
    /// There is something wrong with it.
    Refused(Refusal),
}

/// What is wrong with an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// There is no such cluster.
    ClusterOutOfRange,
    /// It says that it stands for no update at all.
    CountZero,
    /// Together with the waiting one it would stand for more updates than `count` can say, 65,535.
    CountOverflow,
    /// The reward is infinite or not a number.
    RewardNotFinite,
    /// It was generated later than now, by more than clocks may differ.
    FromTheFuture,
    /// The payload is longer than a segment.
    TooLong,
    /// The payload is empty, ends within an element, or is longer than the packet's first segment.
    BadLength,
    /// These elements cannot be combined: the operation is not a sum, or the queue makes means and they are
    /// integers.
    ElementUnsupported,
    /// The cluster's waiting update has a payload of another length.
    LengthChanged,
    /// The cluster's waiting update is made of other elements.
    ElementChanged,
    /// Sums of 16-bit floats are made in 32 bits, and a packet buffer has no room for twice the payload.
    NoRoom,
}

impl Refusal {
    /// Every refusal.
    pub const ALL: [Self; 11] = [
        Self::ClusterOutOfRange,
        Self::CountZero,
        Self::CountOverflow,
        Self::RewardNotFinite,
        Self::FromTheFuture,
        Self::TooLong,
        Self::BadLength,
        Self::ElementUnsupported,
        Self::LengthChanged,
        Self::ElementChanged,
        Self::NoRoom,
    ];

    /// The name as it appears in metrics and messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClusterOutOfRange => "cluster_out_of_range",
            Self::CountZero => "count_zero",
            Self::CountOverflow => "count_overflow",
            Self::RewardNotFinite => "reward_not_finite",
            Self::FromTheFuture => "from_the_future",
            Self::TooLong => "too_long",
            Self::BadLength => "bad_length",
            Self::ElementUnsupported => "element_unsupported",
            Self::LengthChanged => "length_changed",
            Self::ElementChanged => "element_changed",
            Self::NoRoom => "no_room",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The answer to an update.
#[derive(Debug)]
#[must_use = "a packet may have come back"]
pub struct Enqueued<B> {
    /// What became of the update.
    pub verdict: Verdict,
    /// The packet that is not needed any more: the update's own, or that of the one it has replaced. None
    /// only if the update was appended.
    pub spent: Option<B>,
}
