//! Every update and every datagram of an asynchronous worker is counted, once.

use pascaline_wire::Malformed;

/// Why a well-formed datagram had no effect on asynchronous training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AsyncIgnored {
    /// It belongs to another job.
    ForeignJob,
    /// It belongs to another generation of the job.
    WrongEpoch,
    /// An acknowledgement without the update's data, or for no rank of the job.
    NoUpdate,
    /// Weights of another element type or length than the model's.
    WrongModel,
    /// A kind that is not for asynchronous workers.
    Unexpected,
}

impl AsyncIgnored {
    /// All reasons, in the order of their discriminants.
    pub const ALL: [Self; 5] =
        [Self::ForeignJob, Self::WrongEpoch, Self::NoUpdate, Self::WrongModel, Self::Unexpected];

    /// The reason as it appears in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ForeignJob => "foreign_job",
            Self::WrongEpoch => "wrong_epoch",
            Self::NoUpdate => "no_update",
            Self::WrongModel => "wrong_model",
            Self::Unexpected => "unexpected",
        }
    }
}

/// What an asynchronous worker has done.
///
/// After every call `pushed` = `sent` + `skipped` + `busy`, `sent` = `acknowledged` + `given_up` + what is under way, and
/// `received` = `acks_own` + `acks_cluster` + `controls` + all that was ignored or malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsyncCounters {
    /// Updates that the trainer had.
    pub pushed: u64,
    /// Updates sent.
    pub sent: u64,
    /// Updates that transmission control held back.
    pub skipped: u64,
    /// Updates not sent because enough are under way, or because the worker's membership is in doubt.
    pub busy: u64,
    /// Updates whose arrival is certain, or made up for by a newer one of the cluster.
    pub acknowledged: u64,
    /// Updates of which nothing was heard in time.
    pub given_up: u64,
    /// Times that initial weights were sent.
    pub initial_sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// Acknowledgements of this worker's updates.
    pub acks_own: u64,
    /// Acknowledgements of others' updates, which are for the whole cluster.
    pub acks_cluster: u64,
    /// Acknowledgements that brought weights.
    pub weights: u64,
    /// Control packets, which are about membership.
    pub controls: u64,
    /// Packets that the operating system would not take.
    pub not_sent: u64,
    /// Times the operating system reported that the appliance's host or port is unreachable.
    pub unreachable: u64,
    ignored: [u64; AsyncIgnored::ALL.len()],
    malformed: [u64; Malformed::ALL.len()],
}

impl AsyncCounters {
    /// Datagrams ignored for a reason.
    #[must_use]
    pub const fn ignored(&self, reason: AsyncIgnored) -> u64 {
        self.ignored[reason as usize]
    }

    /// Datagrams malformed in a way.
    #[must_use]
    pub const fn malformed(&self, reason: Malformed) -> u64 {
        self.malformed[reason as usize]
    }

    /// The sum of what datagrams have come to: always `received`.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        let useless = self.ignored.iter().chain(&self.malformed).sum::<u64>();
        self.acks_own + self.acks_cluster + self.controls + useless
    }

    pub(super) const fn ignore(&mut self, reason: AsyncIgnored) {
        self.ignored[reason as usize] += 1;
    }

    pub(super) const fn refuse(&mut self, reason: Malformed) {
        self.malformed[reason as usize] += 1;
    }
}
