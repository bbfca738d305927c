//! The outcome of an offered update.

use core::fmt;

/// The outcome of an update: always exactly one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EnqueueOutcome {
    /// It waits at the tail.
    Appended,
    /// It was combined with its cluster's waiting update.
    Aggregated,
    /// It replaced an older update of the same worker.
    Replaced,
    /// It replaced its cluster's waiting update, which is of another generation: the caller offers only
    /// updates of the present one.
    Renewed,
    /// Dropped: a newer update of the same worker waits already.
    Outdated,
    /// It replaced its cluster's waiting update, whose reward is lower by more than the threshold.
    Preferred,
    /// Dropped: its reward is lower than that of its cluster's waiting update by more than the threshold.
    LowReward,
    /// Dropped: no segment is free, and no update waits that it could be combined with.
    Full,
    /// Dropped: it is invalid.
    Rejected(UpdateRejection),
}

/// Why an update is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum UpdateRejection {
    /// There is no such cluster.
    ClusterOutOfRange,
    /// Its count is 0.
    CountZero,
    /// Together with the waiting one it would stand for more than 65,535 updates.
    CountOverflow,
    /// The reward is infinite or not a number.
    RewardNotFinite,
    /// It was generated later than now, by more than [`Config::max_lead`](crate::Config::max_lead).
    FromTheFuture,
    /// The payload is longer than a segment.
    TooLong,
    /// The payload is empty, ends within an element, or is longer than the packet's first segment.
    BadLength,
    /// The operation is not a sum, or the queue forms means and the elements are integers.
    ElementUnsupported,
    /// The cluster's waiting update has a payload of another length.
    LengthChanged,
    /// The cluster's waiting update is made of other elements.
    ElementChanged,
    /// A packet buffer has no room for a sum of 16-bit floats, which takes twice the payload.
    NoRoom,
}

impl UpdateRejection {
    /// All of them, in the order of their discriminants.
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

    /// The name in metrics and messages.
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

impl fmt::Display for UpdateRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The answer to an offered update.
#[derive(Debug)]
#[must_use = "a packet may have come back"]
pub struct Enqueued<B> {
    /// The outcome of the update.
    pub outcome: EnqueueOutcome,
    /// The packet that is free again: the update's own, or that of the one it replaced. `None` only if the
    /// update was appended.
    pub recycled: Option<B>,
}
