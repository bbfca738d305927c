//! Every packet sent and every datagram received is counted, once.

use core::ops::Sub;

use pascaline_wire::Malformed;

/// Why a well-formed datagram had no effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Ignored {
    /// It belongs to another job.
    ForeignJob,
    /// A control packet for another rank of the job.
    ForeignRank,
    /// It belongs to another generation of the job.
    WrongEpoch,
    /// A result of another element type or operation.
    WrongElement,
    /// A result whose payload is longer or shorter than the contribution.
    WrongLength,
    /// A result that does not contain every rank, and this worker does not accept partial ones.
    Incomplete,
    /// A result of a PSN that is being put to the vote, or has been, and not the one that was agreed upon.
    OutVoted,
    /// A partial result whose bitmap is missing, or names other ranks than its count or the job allow.
    WrongBitmap,
    /// A result for a PSN that has not been sent.
    Unsent,
    /// A result for a PSN that is neither in the running operation nor kept from an earlier one.
    UnknownPsn,
    /// A kind or control action that is not for workers.
    Unexpected,
    /// An answer to a control packet that is no longer waited for.
    LateAnswer,
    /// A refusal of a packet of an earlier generation or between operations.
    LateRefusal,
    /// A refusal that need not end an operation: what was asked is asked again anyway.
    NotFatal,
    /// A reminder for a PSN that has not been sent, or that nobody can need any more.
    ReminderUnanswerable,
    /// A reminder that came too soon after another.
    ReminderLimited,
}

impl Ignored {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Self; 16] = [
        Self::ForeignJob,
        Self::ForeignRank,
        Self::WrongEpoch,
        Self::WrongElement,
        Self::WrongLength,
        Self::Incomplete,
        Self::OutVoted,
        Self::WrongBitmap,
        Self::Unsent,
        Self::UnknownPsn,
        Self::Unexpected,
        Self::LateAnswer,
        Self::LateRefusal,
        Self::NotFatal,
        Self::ReminderUnanswerable,
        Self::ReminderLimited,
    ];

    /// The reason as it appears in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ForeignJob => "foreign_job",
            Self::ForeignRank => "foreign_rank",
            Self::WrongEpoch => "wrong_epoch",
            Self::WrongElement => "wrong_element",
            Self::WrongLength => "wrong_length",
            Self::Incomplete => "incomplete",
            Self::OutVoted => "out_voted",
            Self::WrongBitmap => "wrong_bitmap",
            Self::Unsent => "unsent",
            Self::UnknownPsn => "unknown_psn",
            Self::Unexpected => "unexpected",
            Self::LateAnswer => "late_answer",
            Self::LateRefusal => "late_refusal",
            Self::NotFatal => "not_fatal",
            Self::ReminderUnanswerable => "reminder_unanswerable",
            Self::ReminderLimited => "reminder_limited",
        }
    }
}

/// What a worker has done. `received` = `results` + `duplicate_results` + `reminders_received` + `acks` + `refusals` +
/// all that was ignored or malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets of all kinds sent.
    pub packets_sent: u64,
    /// Contributions sent for the second time or later.
    pub retransmissions: u64,
    /// Reminders sent.
    pub reminders_sent: u64,
    /// Results sent in answer to reminders.
    pub reminders_answered: u64,
    /// Contributions sent past the aggregation, because the parameter server asked for them.
    pub originals_sent: u64,
    /// Joins sent to show that this worker is alive, and to hear whether its generation is.
    pub heartbeats_sent: u64,
    /// Times this worker went on with its PSNs in a new generation of the job.
    pub resumed: u64,
    /// Datagrams received.
    pub received: u64,
    /// Results taken.
    pub results: u64,
    /// Results received for PSNs that had theirs already.
    pub duplicate_results: u64,
    /// Reminders received that had an effect.
    pub reminders_received: u64,
    /// Acks to this worker's requests, and those that told it that its generation is over.
    pub acks: u64,
    /// Refusals that made an operation fail.
    pub refusals: u64,
    /// Results, of those taken, that do not contain every rank.
    pub partial_results: u64,
    /// Results in which an i32 element saturated.
    pub overflows: u64,
    /// Times the operating system reported that the appliance's host or port is unreachable.
    pub unreachable: u64,
    /// Packets given up because the operating system would not take them.
    pub not_sent: u64,
    ignored: [u64; Ignored::ALL.len()],
    malformed: [u64; Malformed::ALL.len()],
}

impl Counters {
    /// Datagrams ignored for a reason.
    #[must_use]
    pub const fn ignored(&self, reason: Ignored) -> u64 {
        self.ignored[reason as usize]
    }

    /// Datagrams that were malformed in a way.
    #[must_use]
    pub const fn malformed(&self, reason: Malformed) -> u64 {
        self.malformed[reason as usize]
    }

    /// Datagrams without effect: ignored or malformed.
    #[must_use]
    pub fn without_effect(&self) -> u64 {
        self.ignored.iter().chain(&self.malformed).sum()
    }

    pub(crate) const fn ignore(&mut self, reason: Ignored) {
        self.ignored[reason as usize] += 1;
    }

    pub(crate) const fn refuse(&mut self, reason: Malformed) {
        self.malformed[reason as usize] += 1;
    }
}

impl Sub for Counters {
    type Output = Self;

    /// What has been counted since `earlier` was read.
    fn sub(self, earlier: Self) -> Self {
        Self {
            packets_sent: self.packets_sent - earlier.packets_sent,
            retransmissions: self.retransmissions - earlier.retransmissions,
            reminders_sent: self.reminders_sent - earlier.reminders_sent,
            reminders_answered: self.reminders_answered - earlier.reminders_answered,
            originals_sent: self.originals_sent - earlier.originals_sent,
            heartbeats_sent: self.heartbeats_sent - earlier.heartbeats_sent,
            resumed: self.resumed - earlier.resumed,
            received: self.received - earlier.received,
            results: self.results - earlier.results,
            duplicate_results: self.duplicate_results - earlier.duplicate_results,
            reminders_received: self.reminders_received - earlier.reminders_received,
            acks: self.acks - earlier.acks,
            refusals: self.refusals - earlier.refusals,
            partial_results: self.partial_results - earlier.partial_results,
            overflows: self.overflows - earlier.overflows,
            unreachable: self.unreachable - earlier.unreachable,
            not_sent: self.not_sent - earlier.not_sent,
            ignored: core::array::from_fn(|i| self.ignored[i] - earlier.ignored[i]),
            malformed: core::array::from_fn(|i| self.malformed[i] - earlier.malformed[i]),
        }
    }
}
