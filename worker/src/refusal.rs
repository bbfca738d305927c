//! Why an appliance refuses a worker or its packets.

use pascaline_wire::Trailer;
use pascaline_wire::control::{Control, Status};

use crate::identity::Identity;
use pascaline_wire::RankSet;

/// A refusal, with what the appliance expected and what it got.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The appliance has no such job.
    #[error("the appliance has no job {job}")]
    UnknownJob {
        /// The job asked for.
        job: u16,
    },
    /// The job has fewer ranks than this one's number.
    #[error("rank {rank} is out of range: the appliance's job {job} has {expected} ranks, 0 to {}", expected.saturating_sub(1))]
    RankOutOfRange {
        /// The job.
        job: u16,
        /// This worker's rank.
        rank: u16,
        /// The job's rank count.
        expected: u32,
    },
    /// The job has another number of ranks.
    #[error("the appliance's job {job} has {expected} ranks, this worker was started with {got}")]
    RankCount {
        /// The job.
        job: u16,
        /// The appliance's rank count.
        expected: u32,
        /// This worker's.
        got: u32,
    },
    /// The job's configuration does not admit this source address.
    #[error("the appliance's job {job} does not admit rank {rank} from this source address")]
    Source {
        /// The job.
        job: u16,
        /// This worker's rank.
        rank: u16,
    },
    /// Another process has joined as the same rank since.
    #[error("another worker has joined job {job} as rank {rank} since this one did")]
    StaleSession {
        /// The job.
        job: u16,
        /// The contested rank.
        rank: u16,
    },
    /// Some rank has joined anew, which starts a new generation of the job for all of them.
    #[error(
        "job {job} is in generation {expected}, this worker in {got}: a rank has joined anew, so all of them must"
    )]
    Generation {
        /// The job.
        job: u16,
        /// The job's generation.
        expected: u32,
        /// This worker's.
        got: u32,
    },
    /// The appliance does not know this rank (any more): it was restarted, or all ranks have left.
    #[error("rank {rank} is not a member of the appliance's job {job}: it must join (again)")]
    NotMember {
        /// The job.
        job: u16,
        /// This worker's rank.
        rank: u16,
    },
    /// The other ranks send payloads of another length.
    #[error("the appliance expects {expected} payload bytes from job {job}, this worker sends {got}")]
    Payload {
        /// The job.
        job: u16,
        /// The other ranks' payload length.
        expected: u32,
        /// This worker's.
        got: u32,
    },
    /// The other ranks send elements of another type, or ask for another operation.
    #[error(
        "the appliance expects elements of code {expected:#04x} from job {job}, this worker sends {got:#04x}: \
         the ranks disagree about the element type"
    )]
    Element {
        /// The job.
        job: u16,
        /// The other ranks' element code.
        expected: u32,
        /// This worker's.
        got: u32,
    },
    /// The packets come from another address than this rank's.
    #[error("packets of rank {rank} in job {job} do not come from the address with which that rank joined")]
    Spoofed {
        /// The job.
        job: u16,
        /// This worker's rank.
        rank: u16,
    },
    /// Ranks of the job have died: they have been silent for longer than the job's configuration allows.
    #[error("{}", lost(*job, *count, ranks))]
    RanksLost {
        /// The job.
        job: u16,
        /// How many.
        count: u32,
        /// Which ones; the lowest alone, if the appliance has not named the others.
        ranks: Box<RankSet>,
    },
    /// The appliance has declared this very worker dead, because it was silent for too long.
    #[error(
        "the appliance has taken rank {rank} of job {job} for dead, since it was silent for too long: it must join again"
    )]
    TakenForDead {
        /// The job.
        job: u16,
        /// This worker's rank.
        rank: u16,
    },
    /// The appliance's quotas leave no room for the job.
    #[error("the appliance's quotas leave no room for job {job}: {got} wanted, {expected} left")]
    Quota {
        /// The job.
        job: u16,
        /// What is left.
        expected: u32,
        /// What was asked for.
        got: u32,
    },
    /// The job is suspended.
    #[error("job {job} is suspended: it goes on after a Reset")]
    Halted {
        /// The job.
        job: u16,
    },
    /// The appliance knows nothing of a PSN that was named.
    #[error("the appliance knows nothing of the PSN that was named in job {job}")]
    UnknownPsn {
        /// The job.
        job: u16,
    },
    /// Too many requests in too short a time.
    #[error("rank {rank} of job {job} asks too often")]
    TooMany {
        /// The job.
        job: u16,
        /// This worker's rank.
        rank: u16,
    },
    /// The appliance does not support what was asked of it.
    #[error("the appliance does not support what job {job} asks of it")]
    Unsupported {
        /// The job.
        job: u16,
    },
}

impl Refusal {
    /// The refusal that an Ack expresses, with what its trailer says; `None` if it is none.
    #[must_use]
    pub fn of(ack: &Control, trailer: Option<&Trailer>, identity: &Identity) -> Option<Self> {
        let Identity { job, rank, .. } = *identity;
        let Control { expected, got, .. } = *ack;
        Some(match ack.status {
            Status::Ok | Status::Pending => return None,
            Status::UnknownJob => Self::UnknownJob { job },
            Status::RankOutOfRange => Self::RankOutOfRange { job, rank, expected },
            Status::FanInMismatch => Self::RankCount { job, expected, got },
            Status::SourceRefused => Self::Source { job, rank },
            Status::StaleSession => Self::StaleSession { job, rank },
            Status::WrongEpoch => Self::Generation { job, expected, got },
            Status::NotMember => Self::NotMember { job, rank },
            Status::PayloadMismatch => Self::Payload { job, expected, got },
            Status::ElementMismatch => Self::Element { job, expected, got },
            Status::RankSpoofed => Self::Spoofed { job, rank },
            Status::Unsupported => Self::Unsupported { job },
            Status::RankLost => match lost_ranks(ack, trailer, identity) {
                ranks if *ranks == core::iter::once(rank).collect() => Self::TakenForDead { job, rank },
                ranks => Self::RanksLost { job, count: expected, ranks },
            },
            Status::Quota => Self::Quota { job, expected, got },
            Status::Halted => Self::Halted { job },
            Status::UnknownPsn => Self::UnknownPsn { job },
            Status::TooMany => Self::TooMany { job, rank },
        })
    }
}

/// The ranks that an Ack's trailer names, if they agree with its body; else the one that its body names.
fn lost_ranks(ack: &Control, trailer: Option<&Trailer>, identity: &Identity) -> Box<RankSet> {
    let named = trailer.and_then(|trailer| RankSet::from_bitmap(trailer.bitmap.as_ref()?, identity.ranks));
    let agrees = |ranks: &RankSet| {
        u32::from(ranks.len()) == ack.expected && ranks.iter().next().map(u32::from) == Some(ack.got)
    };
    let first = || u16::try_from(ack.got).into_iter().collect();
    Box::new(named.filter(agrees).unwrap_or_else(first))
}

fn lost(job: u16, count: u32, ranks: &RankSet) -> String {
    match count {
        1 => format!("rank {ranks} of job {job} has died"),
        count if u32::from(ranks.len()) == count => format!("ranks {ranks} of job {job} have died"),
        _ => format!("{count} ranks of job {job} have died, the first of them rank {ranks}"),
    }
}
