//! Every packet sent and every datagram received is counted, once.

use core::ops::{Add, Sub};

use pascaline_wire::Malformed;

/// A closed list of reasons: each with its documentation and its name in reports.
macro_rules! reasons {
    ($(#[$doc:meta])* $list:ident { $($(#[$each:meta])* $reason:ident => $name:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum $list { $($(#[$each])* $reason),+ }

        impl $list {
            /// All reasons, in the order of their discriminants.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$reason),+];

            /// The reason as it appears in reports.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$reason => $name),+ }
            }
        }

        impl From<$list> for $crate::counters::Unusable<$list> {
            fn from(reason: $list) -> Self {
                Self::Ignored(reason)
            }
        }
    };
}
pub(crate) use reasons;

reasons! {
    /// Why a well-formed datagram had no effect.
    Ignored {
        /// It belongs to another job.
        ForeignJob => "foreign_job",
        /// A control packet for another rank of the job.
        ForeignRank => "foreign_rank",
        /// It belongs to another generation of the job.
        WrongEpoch => "wrong_epoch",
        /// A result of another element type or operation.
        WrongElement => "wrong_element",
        /// A result whose payload is longer or shorter than the contribution.
        WrongLength => "wrong_length",
        /// A result that lacks ranks, and this worker does not accept partial ones.
        Incomplete => "incomplete",
        /// A result of a PSN that was put to the vote, but not the one that the vote chose.
        OutVoted => "out_voted",
        /// A partial result whose bitmap is missing, or names other ranks than its count or the job allow.
        WrongBitmap => "wrong_bitmap",
        /// A result which shows that another rank calls another operation.
        OtherOperation => "other_operation",
        /// A result for a PSN that has not been sent.
        Unsent => "unsent",
        /// A result for a PSN that is neither in the running operation nor cached from an earlier one.
        UnknownPsn => "unknown_psn",
        /// A kind or control action that is not for workers.
        Unexpected => "unexpected",
        /// A late answer to a control packet.
        LateAnswer => "late_answer",
        /// A rejection of a packet of an earlier generation or between operations.
        LateRejection => "late_refusal",
        /// A rejection of something that this worker has not sent.
        Unsolicited => "unsolicited",
        /// A rejection that need not end an operation: the worker asks again in any case.
        NotFatal => "not_fatal",
        /// A reminder for a PSN that has not been sent, or that no rank can still need.
        ReminderUnanswerable => "reminder_unanswerable",
        /// A reminder that came too soon after another.
        ReminderLimited => "reminder_limited",
        /// It has no seal, and the job's packets are sealed.
        Unsealed => "unsealed",
        /// Its seal is not the appliance's.
        Forged => "forged",
        /// Its seal is older than any that can still be on its way.
        Replayed => "replayed",
    }
}

/// Why a datagram has no effect.
pub(crate) enum Unusable<R> {
    Malformed(Malformed),
    Ignored(R),
}

impl<R> From<Malformed> for Unusable<R> {
    fn from(reason: Malformed) -> Self {
        Self::Malformed(reason)
    }
}

macro_rules! counters {
    ($(#[$doc:meta])* Counters { $($(#[$each:meta])* $counter:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Counters {
            $($(#[$each])* pub $counter: u64,)+
            ignored: [u64; Ignored::ALL.len()],
            malformed: [u64; Malformed::ALL.len()],
        }

        impl Add for Counters {
            type Output = Self;

            /// The sum of both counts.
            fn add(self, other: Self) -> Self {
                Self {
                    $($counter: self.$counter + other.$counter,)+
                    ignored: core::array::from_fn(|i| self.ignored[i] + other.ignored[i]),
                    malformed: core::array::from_fn(|i| self.malformed[i] + other.malformed[i]),
                }
            }
        }

        impl Sub for Counters {
            type Output = Self;

            /// The counts since `earlier` was read.
            fn sub(self, earlier: Self) -> Self {
                Self {
                    $($counter: self.$counter - earlier.$counter,)+
                    ignored: core::array::from_fn(|i| self.ignored[i] - earlier.ignored[i]),
                    malformed: core::array::from_fn(|i| self.malformed[i] - earlier.malformed[i]),
                }
            }
        }
    };
}

counters! {
    /// Counters of a worker. `received` = `results` + `duplicate_results` + `reminders_received` + `acks` +
    /// `rejections` + all that was ignored or malformed.
    Counters {
        /// Packets of all kinds sent.
        packets_sent,
        /// Contributions sent for the second time or later.
        retransmissions,
        /// Reminders sent.
        reminders_sent,
        /// Results sent in answer to reminders.
        reminders_answered,
        /// Contributions that bypassed the pool, because the parameter server asked for them.
        originals_sent,
        /// Joins sent to show that this worker is alive, and to hear whether its generation is.
        heartbeats_sent,
        /// Times this worker resumed its PSNs in a new generation of the job.
        resumed,
        /// Times this worker turned from one appliance to another.
        turned,
        /// Datagrams received.
        received,
        /// Results taken.
        results,
        /// Results received for PSNs that had theirs already.
        duplicate_results,
        /// Reminders received that had an effect.
        reminders_received,
        /// Acks to this worker's requests, those that reported the end of its generation, and all that came
        /// by the job's multicast group.
        acks,
        /// Rejections that made an operation fail.
        rejections,
        /// Results, of those taken, that lack ranks.
        partial_results,
        /// Results in which an i32 element saturated.
        overflows,
        /// Results, of those taken, that say that packets have met congestion.
        marked,
        /// Times the operating system reported that the appliance's host or port is unreachable.
        unreachable,
        /// Packets that the operating system did not accept.
        not_sent,
    }
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

    /// Counts a datagram that no session has seen.
    pub const fn ignore(&mut self, reason: Ignored) {
        self.received += 1;
        self.ignored[reason as usize] += 1;
    }

    pub(crate) const fn reject(&mut self, why: &Unusable<Ignored>) {
        match *why {
            Unusable::Malformed(reason) => self.malformed[reason as usize] += 1,
            Unusable::Ignored(reason) => self.ignored[reason as usize] += 1,
        }
    }
}
