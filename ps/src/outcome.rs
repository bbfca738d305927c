//! The outcome of a packet.

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::{Element, Flags, Header, Kind, Malformed, Own};

/// The outcome of a packet: exactly one of these, and each is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// A contribution has been added to its entry, which may have completed it.
    Added,
    /// A partial has been merged into its entry, which may have completed it.
    Merged,
    /// A reminder has made its entry due, or found that it was asked for a moment ago.
    Reminded,
    /// A result has completed an entry in place of its content.
    Completed,
    /// A contribution that the entry has already, or a further result: nothing changed.
    Duplicate,
    /// A contribution, partial or reminder for a PSN whose result is cached: answered with the result, within
    /// limits.
    Late,
    /// The bytes are no packet of this protocol.
    Malformed(Malformed),
    /// Rejected; nothing has changed.
    Rejected {
        /// The reason.
        reason: RejectReason,
        /// The Ack to its sender, if one is due: the server sends it, through the appliance, at a limited
        /// rate.
        answer: Option<Answer>,
    },
}

/// Why a well-formed packet was rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum RejectReason {
    /// A kind that is not for the parameter server, or its own reminder returned.
    Unexpected,
    /// No such job.
    UnknownJob,
    /// Another generation of the job.
    WrongEpoch,
    /// `fan_in` is not the job's.
    FanInMismatch,
    /// The rank is not below the job's fan-in.
    RankOutOfRange,
    /// The payload is longer than the job's longest, or its length differs from the other contributions'.
    PayloadMismatch,
    /// The element type or operation differs from the other contributions'.
    ElementMismatch,
    /// The last PSN of the sender's operation and not of the other contributions', or the other way round.
    OperationMismatch,
    /// `count` does not fit the kind of packet: it is 1 in a gradient.
    WrongCount,
    /// The bitmap is missing where it is needed, names impossible ranks, or another number of ranks than
    /// `count`.
    WrongBitmap,
    /// A partial that contains a rank that the entry contains too.
    Overlap,
    /// A partial of a job that adds in the order of ranks.
    OrderedPartial,
    /// A result that does not contain enough contributions.
    Incomplete,
    /// A result for a PSN that was not requested.
    Unasked,
    /// The job's entries or bytes are used up by earlier PSNs.
    Full,
}

impl RejectReason {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Self; 15] = [
        Self::Unexpected,
        Self::UnknownJob,
        Self::WrongEpoch,
        Self::FanInMismatch,
        Self::RankOutOfRange,
        Self::PayloadMismatch,
        Self::ElementMismatch,
        Self::OperationMismatch,
        Self::WrongCount,
        Self::WrongBitmap,
        Self::Overlap,
        Self::OrderedPartial,
        Self::Incomplete,
        Self::Unasked,
        Self::Full,
    ];

    /// The reason as it appears in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Unexpected => "unexpected",
            Self::UnknownJob => "unknown_job",
            Self::WrongEpoch => "wrong_epoch",
            Self::FanInMismatch => "fan_in_mismatch",
            Self::RankOutOfRange => "rank_out_of_range",
            Self::PayloadMismatch => "payload_mismatch",
            Self::ElementMismatch => "element_mismatch",
            Self::OperationMismatch => "operation_mismatch",
            Self::WrongCount => "wrong_count",
            Self::WrongBitmap => "wrong_bitmap",
            Self::Overlap => "overlap",
            Self::OrderedPartial => "ordered_partial",
            Self::Incomplete => "incomplete",
            Self::Unasked => "unasked",
            Self::Full => "full",
        }
    }

    /// The status for an Ack; `None` if the sender need not, or must not, get one.
    #[must_use]
    pub const fn status(self) -> Option<Status> {
        match self {
            Self::UnknownJob => Some(Status::UnknownJob),
            Self::WrongEpoch => Some(Status::WrongEpoch),
            Self::FanInMismatch => Some(Status::FanInMismatch),
            Self::RankOutOfRange => Some(Status::RankOutOfRange),
            Self::PayloadMismatch => Some(Status::PayloadMismatch),
            Self::OperationMismatch => Some(Status::OperationMismatch),
            Self::ElementMismatch => Some(Status::ElementMismatch),
            Self::Unexpected
            | Self::WrongCount
            | Self::WrongBitmap
            | Self::Overlap
            | Self::OrderedPartial
            | Self::Incomplete
            | Self::Unasked
            | Self::Full => None,
        }
    }

    /// True if an Ack is due: contributions that disagree may meet at the server only, and their ranks would
    /// otherwise wait for each other until their deadlines. The appliance finds and answers all other faults
    /// itself; if it disagrees with the server, one of them has not seen a change yet.
    pub(crate) const fn has_answer(self) -> bool {
        matches!(self, Self::PayloadMismatch | Self::ElementMismatch | Self::OperationMismatch)
    }
}

/// A rejection on its way back to the sender of the rejected packet: an Ack that answers no control packet
/// (protocol, section 9), with BYPASS, since the appliance passes it on to the rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// The header; `rank` and `psn` are the rejected packet's, `fan_in` and `epoch` the job's.
    pub header: Header,
    /// The body, with the status and both values.
    pub control: Control,
}

/// A reason with the value that would have been right and the one received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rejection {
    pub(crate) reason: RejectReason,
    expected: u32,
    got: u32,
}

impl Rejection {
    pub(crate) fn new(reason: RejectReason, expected: impl Into<u32>, got: impl Into<u32>) -> Self {
        Self { reason, expected: expected.into(), got: got.into() }
    }

    /// A payload length, or two.
    pub(crate) fn payload(expected: usize, got: usize) -> Self {
        let number = |len| u32::try_from(len).unwrap_or(u32::MAX);
        Self::new(RejectReason::PayloadMismatch, number(expected), number(got))
    }

    /// The answer to a rejected packet. Only gradients and reminders are answered: they come from the rank
    /// that they name, whereas the `rank` of partials and of results is not their sender's, and an Ack would
    /// make an innocent rank's operation fail.
    pub(crate) fn answer(&self, packet: &Header, fan_in: u16, epoch: u16) -> Option<Answer> {
        if !matches!(packet.kind, Kind::Gradient | Kind::Reminder) {
            return None;
        }
        let status = self.reason.status()?;
        let header = Header {
            kind: Kind::Control,
            flags: Flags::BYPASS,
            element: Element::F32_SUM,
            job: packet.job,
            rank: packet.rank,
            psn: packet.psn,
            fan_in,
            count: 0,
            own: Own::NONE,
            epoch,
        };
        let (expected, got) = (self.expected, self.got);
        Some(Answer {
            header,
            control: Control { status, expected, got, ..Control::request(Action::Ack, 0) },
        })
    }
}

impl From<RejectReason> for Rejection {
    fn from(reason: RejectReason) -> Self {
        Self { reason, expected: 0, got: 0 }
    }
}
