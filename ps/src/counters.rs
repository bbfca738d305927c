//! Every packet in, every entry and every packet out is counted, once.

use pascaline_wire::Malformed;

use crate::outcome::{Outcome, RejectReason};

/// The server's counts.
///
/// Two identities hold after every call: `received` = [`accounted`](Self::accounted), and `opened` =
/// `finished` + `given_up` + `forgotten` + the entries that are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets handled.
    pub received: u64,
    /// Contributions added.
    pub added: u64,
    /// Partials merged.
    pub merged: u64,
    /// Reminders for incomplete or unknown PSNs.
    pub reminded: u64,
    /// Results that completed an entry.
    pub completed: u64,
    /// Contributions and results that were there already.
    pub duplicate: u64,
    /// Packets for PSNs whose result is cached.
    pub late: u64,
    /// Entries opened.
    pub opened: u64,
    /// Entries that got their result, by addition or from elsewhere.
    pub finished: u64,
    /// Entries given up: at the age limit, or to make room for an earlier PSN, or for a later one after many
    /// requests without effect.
    pub given_up: u64,
    /// Incomplete entries that ended with their job or its generation.
    pub forgotten: u64,
    /// Results that all ranks have agreed upon beforehand, because there might have been others.
    pub voted: u64,
    /// Promises of ranks to wait for such a result.
    pub promises: u64,
    /// Rounds of asking: a fetch and a reminder for each missing rank, or a reminder for all of them.
    pub asked: u64,
    /// Fetches sent.
    pub fetches_sent: u64,
    /// Reminders sent.
    pub reminders_sent: u64,
    /// Results sent to the appliance for all ranks.
    pub results_sent: u64,
    /// Results sent to single ranks that came late.
    pub answers_sent: u64,
    /// Answers and rejections that were not sent, because the result was on its way already or too many
    /// asked.
    pub answers_limited: u64,
    /// Rejections sent to ranks for their contributions.
    pub rejections_sent: u64,
    /// Results that left the memory, or found the queue full, before the driver fetched them.
    pub results_lost: u64,
    rejected: [u64; RejectReason::ALL.len()],
    malformed: [u64; Malformed::ALL.len()],
}

impl Counters {
    /// Packets rejected for a reason.
    #[must_use]
    pub const fn rejected(&self, reason: RejectReason) -> u64 {
        self.rejected[reason as usize]
    }

    /// Packets that were malformed in a way.
    #[must_use]
    pub const fn malformed(&self, reason: Malformed) -> u64 {
        self.malformed[reason as usize]
    }

    /// The sum of all outcomes: always `received`.
    #[must_use]
    pub fn accounted(&self) -> u64 {
        self.added
            + self.merged
            + self.reminded
            + self.completed
            + self.duplicate
            + self.late
            + self.rejected.iter().chain(&self.malformed).sum::<u64>()
    }

    pub(crate) const fn note(&mut self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Added => &mut self.added,
            Outcome::Merged => &mut self.merged,
            Outcome::Reminded => &mut self.reminded,
            Outcome::Completed => &mut self.completed,
            Outcome::Duplicate => &mut self.duplicate,
            Outcome::Late => &mut self.late,
            Outcome::Malformed(reason) => &mut self.malformed[*reason as usize],
            Outcome::Rejected { reason, .. } => &mut self.rejected[*reason as usize],
        };
        *counter += 1;
    }
}
