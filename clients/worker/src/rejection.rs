//! The reasons for which an appliance rejects a worker or its packets.

use core::fmt;

use pascaline_wire::control::{Control, Status};
use pascaline_wire::trailer::{Operations, RankReports, Sentence};
use pascaline_wire::{Element, RankSet, Trailer};

use crate::identity::Identity;

/// A rejection, with what the appliance expected and what it got.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}", Text(self))]
pub struct Rejection {
    /// This worker's job.
    pub job: u16,
    /// This worker's rank.
    pub rank: u16,
    /// The value that the appliance expected; its meaning depends on the reason.
    pub expected: u32,
    /// The value that it got instead.
    pub got: u32,
    /// Why it rejects.
    pub reason: Reason,
}

/// Why an appliance rejects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// The appliance has no such job.
    UnknownJob,
    /// The job has fewer ranks than this one's number.
    RankOutOfRange,
    /// The job has another number of ranks.
    RankCount,
    /// Results there are of another number of workers than before.
    Workers,
    /// The job's configuration does not admit this source address.
    Source,
    /// Another process has joined as the same rank since.
    StaleSession,
    /// A rank has joined anew, which starts a new generation of the job for all of them.
    Generation,
    /// The appliance does not know this rank, or no longer: it was restarted, or all ranks have left.
    NotMember,
    /// The other ranks send payloads of another length.
    Payload,
    /// The other ranks send elements of another type, or ask for another operation.
    Element,
    /// The packets come from another address than this rank's.
    Spoofed,
    /// `expected` ranks have died: they were silent for longer than the job's configuration allows. The set
    /// has only the lowest one where the appliance does not name the others.
    RanksLost(Box<RankSet>),
    /// The appliance has declared this worker itself dead, because it was silent for too long.
    TakenForDead,
    /// The appliance's quotas leave no room for the job.
    Quota,
    /// The job is suspended.
    Halted,
    /// The appliance does not know the PSN that was named.
    UnknownPsn,
    /// Too many requests in too short a time.
    TooMany,
    /// The appliance does not support what was asked of it.
    Unsupported,
    /// The ranks call different operations: what most call, and what another does, if the appliance says.
    Operations(Option<Box<Operations>>),
    /// A PSN cannot be complete, because ranks have left before it: what is known of them.
    RanksLeft(Box<RankReports>),
    /// Another worker, which is alive, holds the rank.
    Taken,
    /// The job's configuration does not let this rank command it.
    NotPermitted,
    /// The others have continued without this rank, further than results are kept.
    Overtaken,
    /// This host has formed as many jobs as one may.
    JobsOfHost,
    /// This host has as many ranks of the job as one may have.
    RanksOfHost,
    /// The job would not meet the operator's objective, and why, if the appliance says so.
    Objective(Option<Box<Sentence>>),
    /// The appliance does not take this rank's packets as proven: 0 for unsealed ones, 1 for `mac`, 2 for
    /// `encrypt`. Its answer is not proven, either.
    Unproven,
    /// An update was not taken.
    Update(Status),
}

impl Rejection {
    /// The rejection in an Ack, with its trailer's details; `None` if it is none.
    #[must_use]
    pub fn of(ack: &Control, trailer: Option<&Trailer>, identity: &Identity) -> Option<Self> {
        let reason = match ack.status {
            Status::Ok | Status::Pending => return None,
            Status::UnknownJob => Reason::UnknownJob,
            Status::RankOutOfRange => Reason::RankOutOfRange,
            Status::FanInMismatch => Reason::RankCount,
            Status::SourceRefused => Reason::Source,
            Status::StaleSession => Reason::StaleSession,
            Status::WrongEpoch => Reason::Generation,
            Status::NotMember => Reason::NotMember,
            Status::PayloadMismatch => Reason::Payload,
            Status::ElementMismatch => Reason::Element,
            Status::RankSpoofed => Reason::Spoofed,
            Status::Unsupported => Reason::Unsupported,
            Status::RankLost => match lost_ranks(ack, trailer, identity) {
                ranks if *ranks == core::iter::once(identity.rank).collect() => Reason::TakenForDead,
                ranks => Reason::RanksLost(ranks),
            },
            Status::Quota => Reason::Quota,
            Status::Halted => Reason::Halted,
            Status::UnknownPsn => Reason::UnknownPsn,
            Status::TooMany => Reason::TooMany,
            Status::OperationMismatch => {
                Reason::Operations(trailer.and_then(|trailer| trailer.operations).map(Box::new))
            }
            Status::RankLeft => {
                let left = trailer.and_then(|trailer| trailer.ranks);
                Reason::RanksLeft(Box::new(left.unwrap_or(RankReports::EMPTY)))
            }
            Status::RankTaken => Reason::Taken,
            Status::NotPermitted => Reason::NotPermitted,
            Status::Overtaken => Reason::Overtaken,
            Status::JobsOfHost => Reason::JobsOfHost,
            Status::RanksOfHost => Reason::RanksOfHost,
            Status::Objective => {
                Reason::Objective(trailer.and_then(|trailer| trailer.sentence).map(Box::new))
            }
            Status::Unproven => return Some(identity.rejection(Reason::Unproven, ack.expected, 0)),
            Status::NoServer
            | Status::NotFinite
            | Status::FromTheFuture
            | Status::BadCount
            | Status::LowReward
            | Status::Diverges
            | Status::NoUpdate
            | Status::NoModel => Reason::Update(ack.status),
        };
        Some(identity.rejection(reason, ack.expected, ack.got))
    }
}

/// The ranks in an Ack's trailer, if they agree with its body; otherwise the one in its body.
fn lost_ranks(ack: &Control, trailer: Option<&Trailer>, identity: &Identity) -> Box<RankSet> {
    let named = trailer.and_then(|trailer| RankSet::from_bitmap(trailer.bitmap.as_ref()?, identity.ranks));
    let agrees = |ranks: &RankSet| {
        u32::from(ranks.len()) == ack.expected && ranks.iter().next().map(u32::from) == Some(ack.got)
    };
    let first = || u16::try_from(ack.got).into_iter().collect();
    Box::new(named.filter(agrees).unwrap_or_else(first))
}

struct Text<'a>(&'a Rejection);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Rejection { job, rank, expected, got, ref reason } = self.0;
        let its_job = format_args!("the appliance's job {job}");
        match reason {
            Reason::UnknownJob => write!(f, "the appliance has no job {job}"),
            Reason::RankOutOfRange => {
                let last = expected.saturating_sub(1);
                write!(f, "rank {rank} is out of range: {its_job} has {expected} ranks, 0 to {last}")
            }
            Reason::RankCount => {
                write!(f, "{its_job} has {expected} ranks, this worker was started with {got}")
            }
            Reason::Workers => write!(f, "{its_job} now sums {expected} workers, before {got}: {PARENT}"),
            Reason::Source => write!(f, "{its_job} does not admit rank {rank} from this source address"),
            Reason::StaleSession | Reason::Generation | Reason::Taken | Reason::TakenForDead => {
                self.replaced(f)
            }
            Reason::NotMember => write!(f, "rank {rank} is not a member of {its_job}: it must join (again)"),
            Reason::Payload => {
                let wanted = format_args!("job {job} takes {expected} payload bytes a packet");
                let whose = "as its other ranks send, or as the appliance's ports allow";
                write!(f, "{wanted}, {whose}; rank {rank} was started with {got}: give every rank {expected}")
            }
            Reason::Element => {
                let (others, mine) = (Named(expected), Named(got));
                write!(f, "the other ranks of job {job} call {others}, rank {rank} calls {mine}")
            }
            Reason::Spoofed => {
                write!(f, "packets of rank {rank} in job {job} do not come from {JOINED_FROM}")
            }
            Reason::RanksLost(ranks) => died(f, job, expected, ranks),
            Reason::Quota => {
                write!(f, "the appliance's quotas leave no room for job {job}: {got} wanted, {expected} left")
            }
            Reason::Halted => {
                write!(f, "job {job} is suspended, {HALTED} `pascaline job reset {job}` at the appliance")
            }
            Reason::UnknownPsn => {
                write!(f, "the appliance does not hold the requested PSN of job {job}")
            }
            Reason::TooMany => write!(f, "rank {rank} of job {job} asks too often"),
            Reason::Operations(called) => {
                write!(f, "the ranks of job {job} call different operations")?;
                called.as_ref().map_or(Ok(()), |called| write!(f, ": {called}"))
            }
            Reason::RanksLeft(left) if left.as_slice().is_empty() => {
                write!(f, "job {job} cannot complete this operation: a rank has left before it was complete")
            }
            Reason::RanksLeft(left) => write!(f, "job {job} cannot complete this operation: {left}"),
            Reason::NotPermitted => {
                write!(f, "rank {rank} may not command job {job}: the job's `control` does not allow it")
            }
            Reason::Objective(why) => unmet(f, job, why.as_deref()),
            Reason::Unproven => unproven(f, (job, rank), (expected, got)),
            Reason::Overtaken | Reason::JobsOfHost | Reason::RanksOfHost => self.beyond(f),
            Reason::Update(status) => {
                write!(f, "an update of rank {rank} in job {job} was not taken: {status}")
            }
            Reason::Unsupported => write!(f, "the appliance does not support this request of job {job}"),
        }
    }
}

impl Text<'_> {
    /// The host has as many jobs, or ranks of this job, as one may; or the rank is too far behind.
    fn beyond(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Rejection { job, rank, expected, got, ref reason } = self.0;
        match reason {
            Reason::Overtaken => {
                let far = format_args!("further than job {job} keeps results");
                write!(f, "the others have continued without rank {rank}, {far}: {KEPT}")
            }
            Reason::JobsOfHost => write!(f, "this host has formed {got} jobs, {expected} {PER_HOST}"),
            _ => {
                let others = format_args!("which has {got} others of the job, {expected} at most");
                write!(f, "rank {rank} of job {job} may not be on this host, {others}: {RANKS_PER_HOST}")
            }
        }
    }

    /// Another life of the rank, or of the job, has replaced this one.
    fn replaced(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let &Rejection { job, rank, expected, got, ref reason } = self.0;
        match reason {
            Reason::StaleSession => {
                let gone = "or this one has left";
                write!(f, "another worker has taken the place of rank {rank} in job {job}, {gone}")
            }
            Reason::Taken => {
                let end = "end it, or give this one another rank";
                write!(f, "another worker, which is alive, is rank {rank} of job {job}: {end}")
            }
            Reason::TakenForDead => {
                write!(f, "the appliance has declared rank {rank} of job {job} dead, {SILENT}")
            }
            _ => write!(f, "generation {got} of job {job} is over, and {expected} has begun: {ANEW}"),
        }
    }
}

fn unmet(f: &mut fmt::Formatter<'_>, job: u16, why: Option<&Sentence>) -> fmt::Result {
    write!(f, "the appliance does not admit job {job}: {UNMET}")?;
    why.map_or(Ok(()), |why| write!(f, ": {}", why.as_str()))
}

fn died(f: &mut fmt::Formatter<'_>, job: u16, count: u32, ranks: &RankSet) -> fmt::Result {
    if count == 1 {
        write!(f, "rank {ranks} of job {job} has died: {LOST}")
    } else if u32::from(ranks.len()) == count {
        write!(f, "ranks {ranks} of job {job} have died: {LOST}")
    } else {
        write!(f, "{count} ranks of job {job} have died, the first of them rank {ranks}: {LOST}")
    }
}

fn unproven(f: &mut fmt::Formatter<'_>, (job, rank): (u16, u16), (demanded, own): (u32, u32)) -> fmt::Result {
    let whose = format_args!("the appliance does not take the packets of rank {rank} in job {job} as proven");
    if demanded == own {
        write!(f, "{whose}: it has another key for this rank")?;
    } else {
        let (demanded, own) = (security(demanded), security(own));
        write!(f, "{whose}: its job {job} has security = {demanded}, and this rank {own}")?;
    }
    write!(f, "\n  remedy: {SAME_SECURITY}")
}

/// What proves packets, as configurations have it.
const fn security(code: u32) -> &'static str {
    match code {
        0 => "\"none\"",
        1 => "\"mac\"",
        2 => "\"encrypt\"",
        _ => "one that this version does not know",
    }
}

/// An element by its code.
struct Named(u32);

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match u8::try_from(self.0).ok().and_then(Element::from_code) {
            Some(Element { dtype, op }) => write!(f, "{} of {dtype}", op.name()),
            None => f.write_str("something else"),
        }
    }
}

const SAME_SECURITY: &str = "the same `security` and key as in the job's table of the appliance (`pascaline \
                             check` shows the mode)";
const PARENT: &str = "its parent was removed or changed";
const HALTED: &str = "by a Halt of one of its members or of an operator: it resumes after";
const PER_HOST: &str = "at a time are allowed: end one of them, or raise \
                        `max_jobs_per_host` in [admission] of the appliance's configuration";
const RANKS_PER_HOST: &str = "start it elsewhere, or raise the job's `max_ranks_per_host` in the appliance's \
                              configuration";
const KEPT: &str = "a larger `window` keeps more of them, a higher `threshold` or a longer `partial_after` \
                    keeps ranks together";
const UNMET: &str = "the objective of [admission] verify in its configuration would not be met";
const ANEW: &str = "the job was reset, or a rank has left or restarted; all ranks must join again";
const LOST: &str = "silent for longer than the job's `dead_after`, or removed by an operator";
const JOINED_FROM: &str = "the address with which that rank joined";
const SILENT: &str = "because it was silent for longer than the job's `dead_after`: it must join again";
