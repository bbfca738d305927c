//! The outcomes of datagrams, and their counts.

use pascaline_wire::control::Status;

/// The outcome of a datagram.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum AsyncOutcome {
    /// An update that has changed the weights.
    Applied,
    /// An update whose reward was not high enough; acknowledged nevertheless.
    LowReward,
    /// The first weights of a cluster: training begins with them.
    Initialised,
    /// Later ones, dropped; answered with the present weights.
    NotFirst,
    /// No packet of the protocol, or one that contradicts itself.
    Malformed,
    /// A kind that is not for a server of asynchronous training.
    Unexpected,
    /// The job is not served.
    UnknownJob,
    /// It belongs to another generation of the job.
    WrongEpoch,
    /// A rank or a number of ranks that the job does not have, or a count of 0.
    WrongMember,
    /// An update without reward and time of generation, or with a reward that is not finite.
    NoUpdate,
    /// Other elements than 32-bit floats, or not as many as the model has.
    WrongModel,
    /// A value that is NaN or infinite, and would stay in the weights.
    NotFinite,
    /// Its values are numbers, and would have made weights NaN or infinite.
    Diverges,
    /// There is no model yet, or none any more: workers are asked for theirs.
    NoModel,
}

impl AsyncOutcome {
    /// All of them, in the order of their discriminants.
    pub const ALL: [Self; 14] = [
        Self::Applied,
        Self::LowReward,
        Self::Initialised,
        Self::NotFirst,
        Self::Malformed,
        Self::Unexpected,
        Self::UnknownJob,
        Self::WrongEpoch,
        Self::WrongMember,
        Self::NoUpdate,
        Self::WrongModel,
        Self::NotFinite,
        Self::Diverges,
        Self::NoModel,
    ];

    /// The outcome as it appears in metrics and reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Applied => "applied",
            Self::LowReward => "low_reward",
            Self::Initialised => "initialised",
            Self::NotFirst => "not_first",
            Self::Malformed => "malformed",
            Self::Unexpected => "unexpected",
            Self::UnknownJob => "unknown_job",
            Self::WrongEpoch => "wrong_epoch",
            Self::WrongMember => "wrong_member",
            Self::NoUpdate => "no_update",
            Self::WrongModel => "wrong_model",
            Self::NotFinite => "not_finite",
            Self::Diverges => "diverges",
            Self::NoModel => "no_model",
        }
    }
}

impl AsyncOutcome {
    /// The status for the sender of a refused update; `None` if it was accepted, or if the sender is unknown.
    #[must_use]
    pub const fn status(self) -> Option<Status> {
        Some(match self {
            Self::LowReward => Status::LowReward,
            Self::NoUpdate => Status::NoUpdate,
            Self::WrongModel => Status::PayloadMismatch,
            Self::NotFinite => Status::NotFinite,
            Self::Diverges => Status::Diverges,
            Self::NoModel => Status::NoModel,
            Self::Applied
            | Self::Initialised
            | Self::NotFirst
            | Self::Malformed
            | Self::Unexpected
            | Self::UnknownJob
            | Self::WrongEpoch
            | Self::WrongMember => return None,
        })
    }
}

/// An asynchronous server's counts. Every datagram has one outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsyncCounters {
    outcomes: [u64; AsyncOutcome::ALL.len()],
    /// Contributions in the updates that were applied or had too low a reward: a combined update has several.
    pub contributions: u64,
    /// Replies given to the driver.
    pub replies: u64,
    /// Replies given up because too many waited for the driver.
    pub replies_lost: u64,
}

impl AsyncCounters {
    /// How often a outcome was reached.
    #[must_use]
    pub const fn outcome(&self, outcome: AsyncOutcome) -> u64 {
        self.outcomes[outcome as usize]
    }

    /// Datagrams handled: the sum over all outcomes.
    #[must_use]
    pub fn received(&self) -> u64 {
        self.outcomes.iter().sum()
    }

    pub(super) const fn note(&mut self, outcome: AsyncOutcome) {
        self.outcomes[outcome as usize] += 1;
    }
}
