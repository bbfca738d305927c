//! What a request led to.

use core::fmt;

use crate::codes::codes;

codes! {
    /// The outcome of a request.
    pub enum Status {
        /// Done; the job is complete (Join), or the member is gone (Leave).
        Ok = 0 "ok",
        /// Done for this rank, but other ranks are still missing (Join) or still there (Leave): ask again.
        Pending = 1 "pending",
        /// No such job.
        UnknownJob = 2 "unknown_job",
        /// The rank is not below the job's rank count.
        RankOutOfRange = 3 "rank_out_of_range",
        /// The sender's rank count is not the job's.
        FanInMismatch = 4 "fan_in_mismatch",
        /// The job's configuration does not admit this source address.
        SourceRefused = 5 "source_refused",
        /// The session is over: it has left, or another of this rank has taken its place.
        StaleSession = 6 "stale_session",
        /// The packet belongs to another generation of the job.
        WrongEpoch = 7 "wrong_epoch",
        /// The rank has not joined.
        NotMember = 8 "not_member",
        /// The payload length differs from that of the other ranks.
        PayloadMismatch = 9 "payload_mismatch",
        /// The element type or operation differs from that of the other ranks.
        ElementMismatch = 10 "element_mismatch",
        /// The action is not supported here.
        Unsupported = 11 "unsupported",
        /// A packet of this rank came from an address that is not the rank's.
        RankSpoofed = 12 "rank_spoofed",
        /// Ranks of the job have died; an Ack that says so names them in a bitmap trailer.
        RankLost = 13 "rank_lost",
        /// The appliance's quotas leave no room for the job.
        Quota = 14 "quota",
        /// The job is suspended.
        Halted = 15 "halted",
        /// Nothing is known of the PSN.
        UnknownPsn = 16 "unknown_psn",
        /// Too many requests in too short a time.
        TooMany = 17 "too_many",
        /// The ranks call different operations; an Ack that says so describes two of them in its trailer.
        OperationMismatch = 18 "operation_mismatch",
        /// A PSN cannot be complete: a rank has left before it. The Ack's trailer names it.
        RankLeft = 19 "rank_left",
        /// A live worker holds the rank.
        RankTaken = 20 "rank_taken",
        /// The job's configuration does not let the sender command it.
        NotPermitted = 21 "not_permitted",
        /// The sender's host has formed as many jobs as one host may.
        JobsOfHost = 22 "jobs_of_host",
        /// The job does not meet the operator's objective; an Ack that says so gives the reason in its
        /// trailer.
        Objective = 23 "objective",
        /// An update was dropped: the job's parameter server is not here.
        NoServer = 24 "no_server",
        /// An update was dropped: one of its values, or its reward, is infinite or NaN.
        NotFinite = 25 "not_finite",
        /// An update was dropped: by the appliance's clock it was generated in the future.
        FromTheFuture = 26 "from_the_future",
        /// An update was dropped: a worker's own has `count` 1.
        BadCount = 27 "bad_count",
        /// An update was dropped: others had a higher reward.
        LowReward = 28 "low_reward",
        /// An update was dropped: it would have made the model infinite or NaN.
        Diverges = 29 "diverges",
        /// An update was dropped: it has no update trailer.
        NoUpdate = 30 "no_update",
        /// An update was dropped: the parameter server has no model. The worker then offers its weights.
        NoModel = 31 "no_model",
        /// The sender's host has as many ranks of the job as one host may.
        RanksOfHost = 32 "ranks_of_host",
        /// The sender waits for results that are kept no longer: the others have continued without it.
        Overtaken = 33 "overtaken",
        /// The packet does not prove its sender as the job demands: its seal is missing, or of another key.
        /// Such an Ack proves nothing either.
        Unproven = 34 "unproven",
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "ok",
            Self::Pending => "waiting for other ranks",
            Self::UnknownJob => "no such job",
            Self::RankOutOfRange => "rank out of range",
            Self::FanInMismatch => "rank count differs",
            Self::SourceRefused => "source address not admitted",
            Self::StaleSession => "the session is over",
            Self::WrongEpoch => "another generation of the job",
            Self::NotMember => "not a member",
            Self::PayloadMismatch => "payload length differs",
            Self::ElementMismatch => "element type differs",
            Self::Unsupported => "not supported",
            Self::RankSpoofed => "not the address of this rank",
            Self::RankLost => "ranks of the job have died",
            Self::Quota => "the appliance's quotas are used up",
            Self::Halted => "the job is suspended",
            Self::UnknownPsn => "nothing is known of the PSN",
            Self::TooMany => "too many requests",
            Self::OperationMismatch => "the ranks call different operations",
            Self::RankLeft => "a rank has left too early",
            Self::RankTaken => "a live worker holds the rank",
            Self::NotPermitted => "not for this rank to command",
            Self::JobsOfHost => "as many jobs as one host may form",
            Self::RanksOfHost => "as many ranks as one host may have",
            Self::Overtaken => "the others are too far ahead",
            Self::Unproven => "sealed otherwise than the job demands",
            Self::Objective => "the operator's objective would not be met",
            Self::NoServer => "the job's parameter server is not here",
            Self::NotFinite => "a value is infinite or not a number",
            Self::FromTheFuture => "generated in the future, by the appliance's clock",
            Self::BadCount => "an update counts as one",
            Self::LowReward => "others had a higher reward",
            Self::Diverges => "it would have made the model infinite",
            Self::NoUpdate => "no update trailer",
            Self::NoModel => "the parameter server has no model",
        })
    }
}
