//! Every update and every datagram of an asynchronous worker is counted, once.

use pascaline_wire::Malformed;
use pascaline_wire::control::Status;

use crate::counters::{Ignored, Unusable, reasons};

reasons! {
    /// Why a well-formed datagram had no effect on asynchronous training.
    AsyncIgnored {
        /// It belongs to another job.
        ForeignJob => "foreign_job",
        /// It belongs to another generation of the job.
        WrongEpoch => "wrong_epoch",
        /// An acknowledgement without the update's data, or for no rank of the job.
        NoUpdate => "no_update",
        /// An answer to nothing that this worker has sent, and to nothing that its cluster can have sent.
        Unsolicited => "unsolicited",
        /// Weights of another element type or length than the model's.
        WrongModel => "wrong_model",
        /// A kind that is not for asynchronous workers.
        Unexpected => "unexpected",
        /// It has no seal, and the job's packets are sealed.
        Unsealed => "unsealed",
        /// Its seal is not the appliance's, or is for another session.
        Forged => "forged",
        /// Its seal is older than any that can still be on its way.
        Replayed => "replayed",
    }
}

/// Where a status is among all of them: their codes have gaps.
fn place(status: Status) -> Option<usize> {
    Status::ALL.iter().position(|one| *one == status)
}

/// A count for each of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ByStatus([u64; Status::ALL.len()]);

impl Default for ByStatus {
    fn default() -> Self {
        Self([0; Status::ALL.len()])
    }
}

/// Counters of an asynchronous worker.
///
/// After every call `pushed` = `sent` + `skipped` + `busy`, `sent` = `acknowledged` + `given_up` + those in
/// flight, and `received` = `acks_own` + `acks_cluster` + `controls` + all that was ignored or malformed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AsyncCounters {
    /// Updates that the trainer had.
    pub pushed: u64,
    /// Updates sent.
    pub sent: u64,
    /// Updates that transmission control held back.
    pub skipped: u64,
    /// Updates not sent because enough are in flight, or because the worker's membership is in doubt.
    pub busy: u64,
    /// Updates that were answered, or replaced by a newer one of the cluster that was.
    pub acknowledged: u64,
    /// Answers that an update of the cluster has changed the model.
    pub applied: u64,
    /// Updates without an answer in time.
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
    /// Packets that the operating system did not accept.
    pub not_sent: u64,
    /// Times the operating system reported that the appliance's host or port is unreachable.
    pub unreachable: u64,
    not_taken: ByStatus,
    ignored: [u64; AsyncIgnored::ALL.len()],
    malformed: [u64; Malformed::ALL.len()],
}

impl AsyncCounters {
    /// Answers that an update of this worker was refused for this reason.
    #[must_use]
    pub fn not_taken(&self, why: Status) -> u64 {
        place(why).map_or(0, |at| self.not_taken.0[at])
    }

    /// The reasons for which updates of this worker were refused, and how often each was reported.
    pub fn refusals(&self) -> impl Iterator<Item = (Status, u64)> {
        Status::ALL.into_iter().zip(self.not_taken.0).filter(|(_, count)| *count > 0)
    }

    pub(super) fn refuse(&mut self, why: Status) {
        if let Some(at) = place(why) {
            self.not_taken.0[at] += 1;
        }
    }

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

    /// The sum over all outcomes of datagrams: always `received`.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        let useless = self.ignored.iter().chain(&self.malformed).sum::<u64>();
        self.acks_own + self.acks_cluster + self.controls + useless
    }

    /// A datagram that does not open.
    pub(crate) const fn unopened(&mut self, why: Ignored) {
        let why = match why {
            Ignored::Unsealed => AsyncIgnored::Unsealed,
            Ignored::Replayed => AsyncIgnored::Replayed,
            _ => AsyncIgnored::Forged,
        };
        self.received += 1;
        self.ignored[why as usize] += 1;
    }

    pub(super) const fn reject(&mut self, why: &Unusable<AsyncIgnored>) {
        match *why {
            Unusable::Malformed(reason) => self.malformed[reason as usize] += 1,
            Unusable::Ignored(reason) => self.ignored[reason as usize] += 1,
        }
    }
}
