//! The body of control packets: membership and its errors.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+---------------+
//! |    action     |    status     |   answers     |  op   | dtype |
//! +---------------+---------------+---------------+---------------+
//! |                            session                            |
//! |                                                               |
//! +-------------------------------+-------------------------------+
//! |            payload            |            window             |
//! +-------------------------------+-------------------------------+
//! |                           expected                            |
//! +---------------------------------------------------------------+
//! |                              got                              |
//! +---------------------------------------------------------------+
//! |                            cookie                             |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                              psn                              |
//! +---------------------------------------------------------------+
//! |                             first                             |
//! +---------------------------------------------------------------+
//! |             call              |                               |
//! +-------------------------------+                               |
//! |                             bytes                             |
//! +---------------------------------------------------------------+
//! ```
//!
//! The actions are those of iSwitch's Table 2. In the header before it, `fan_in` is the sender's rank count
//! of the job, `rank` its own rank; in an Ack, `epoch` is the job's generation and `count` the ranks that
//! have joined.

use core::fmt;

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::call::Call;
use crate::codes::codes;
use crate::element::Element;
use crate::header::Header;
use crate::malformed::{Malformed, NoRoom};
use crate::trailer::Trailer;

/// Length of the body.
pub const LEN: usize = 48;

/// Zeros that may follow a Join, at most: with them it is as long as a packet of 8,960 payload bytes.
pub const MAX_PADDING: usize = 8960 - LEN;

/// The rank in the header of a parameter server's packets, which has none.
pub const SERVER_RANK: u16 = u16::MAX;

/// Stands for an appliance where a rank could stand: as the parent of others, and in an Ack to an update that
/// came by another appliance than the Ack's receiver is a member of.
pub const APPLIANCE_RANK: u16 = SERVER_RANK - 1;

/// `got` of a Join that does not count: it asks for the generation that its sender would join.
pub const ASK: u32 = 0x2_0000;

/// Added to `payload` of a Join, a multiple of 8: its sender also accepts less, and the ranks agree on one.
pub const AT_MOST: u16 = 1;

/// Marks a generation in `expected` and `got`, where 0 means none: an epoch may be 0.
const GENERATION: u32 = 0x1_0000;

/// Marks two of them in `expected` of a Join: one in the lowest byte, another in the next.
const EITHER: u32 = 0x3_0000;

/// A generation as Joins and their Acks name it in `expected` and `got`.
#[must_use]
pub const fn generation(epoch: u8) -> u32 {
    GENERATION | epoch as u32
}

/// The generation that `expected` or `got` names; `None` if it names none.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the low eight bits are what is wanted")]
pub const fn named_generation(value: u32) -> Option<u8> {
    if value & !0xff == GENERATION { Some(value as u8) } else { None }
}

/// Two generations that a Join can resume, as `expected` names them: the later one and the one before.
#[must_use]
pub const fn either(epoch: u8, before: u8) -> u32 {
    EITHER | (before as u32) << 8 | epoch as u32
}

/// The generations that `expected` of a Join names: none, one, or the later one and the one before.
#[must_use]
pub const fn named_generations(value: u32) -> [Option<u8>; 2] {
    let [.., before, epoch] = value.to_be_bytes();
    if value & !0xffff == EITHER { [Some(epoch), Some(before)] } else { [named_generation(value), None] }
}

codes! {
    /// The request.
    pub enum Action {
        /// Become a member of the job.
        Join = 1 "join",
        /// Stop being one.
        Leave = 2 "leave",
        /// Forget everything about the job.
        Reset = 3 "reset",
        /// Set the number of contributions that complete a PSN.
        SetH = 4 "set_h",
        /// Broadcast a partial now.
        FBcast = 5 "fbcast",
        /// Ask for a lost result.
        Help = 6 "help",
        /// Suspend the job.
        Halt = 7 "halt",
        /// The answer to one of the others.
        Ack = 8 "ack",
        /// A parameter server announces itself for a job.
        Serve = 9 "serve",
        /// Ask who is missing at a PSN.
        Query = 10 "query",
    }
}

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

/// The body of a control packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Control {
    /// The request.
    pub action: Action,
    /// Its outcome; `Ok` in requests.
    pub status: Status,
    /// The action that an Ack answers, or `None`: in requests, and in Acks that answer no control packet.
    pub answers: Option<Action>,
    /// Element type and operation of the operation in flight; `None` without one.
    pub element: Option<Element>,
    /// The sender's session: a random number for each life of a rank.
    pub session: u64,
    /// Payload bytes of a full packet; in a Join perhaps with [`AT_MOST`]; in the Ack to one that only asks,
    /// the most that the ports take.
    pub payload: u16,
    /// How far a PSN may run ahead of the oldest one without a result.
    pub window: u16,
    /// In refusals: the value that would have been right. In a Join: the [`generation`] that the worker wants
    /// to resume, or 0; in the Ack that says `Ok` to it: the one that all ranks resume. In a SetH: the
    /// threshold H.
    pub expected: u32,
    /// In refusals: the value that was received. In a Join: the [`generation`] in the latest Ack to the
    /// worker, or [`ASK`] without one; 0 for a Join that counts in any.
    pub got: u32,
    /// In Join and Serve: the cookie of the latest Ack, or 0. In the Ack to them: the sender's cookie.
    pub cookie: u64,
    /// In Join and Leave: the sender's oldest PSN without a result. In the Ack to a Join: the first PSN of a
    /// generation that is not resumed.
    pub psn: u32,
    /// In Join and Leave: the first PSN of the operation in flight; `psn` if there is none.
    pub first: u32,
    /// In a Join: the call; an allreduce if no operation is in flight.
    pub call: Call,
    /// Join: payload bytes of the operation in flight; Ack: code of the group; 0 for none. Below 2⁴⁸.
    pub bytes: u64,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    action: u8,
    status: u8,
    answers: u8,
    element: u8,
    session: U64,
    payload: U16,
    window: U16,
    expected: U32,
    got: U32,
    cookie: U64,
    psn: U32,
    first: U32,
    bytes: U64,
}

const _: () = assert!(size_of::<Raw>() == LEN);

impl Control {
    /// A request with no values filled in.
    #[must_use]
    pub const fn request(action: Action, session: u64) -> Self {
        Self {
            action,
            status: Status::Ok,
            answers: None,
            element: None,
            session,
            payload: 0,
            window: 0,
            expected: 0,
            got: 0,
            cookie: 0,
            psn: 0,
            first: 0,
            call: Call::ALLREDUCE,
            bytes: 0,
        }
    }

    /// Reads the body of a control packet. A Join's body, and that of the Ack to one, may be followed by
    /// zeros, which make the packet as long as a full one.
    ///
    /// # Errors
    /// `Truncated` if it is shorter than [`LEN`], `Control` if something else follows, it holds an undefined
    /// value, or has a status or an answered action without being an Ack. An Ack answers no Ack.
    pub fn parse(body: &[u8]) -> Result<Self, Malformed> {
        let (raw, rest) = Raw::ref_from_prefix(body).map_err(|_| Malformed::Truncated)?;
        let join = Action::Join as u8;
        let is_padded = raw.action == join || (raw.action, raw.answers) == (Action::Ack as u8, join);
        if !(rest.is_empty() || is_padded && rest.iter().all(|&byte| byte == 0)) {
            return Err(Malformed::Control);
        }
        let status = Status::from_code(raw.status).ok_or(Malformed::Control)?;
        let given = |code: u8| (code != 0).then_some(code);
        let action_of = |code| Action::from_code(code).ok_or(Malformed::Control);
        let element_of = |code| Element::from_code(code).ok_or(Malformed::Control);
        let (action, answers) = (action_of(raw.action)?, given(raw.answers).map(action_of).transpose()?);
        let element = given(raw.element).map(element_of).transpose()?;
        let (call, bytes) = Call::split(raw.bytes.get()).ok_or(Malformed::Control)?;
        if answers == Some(Action::Ack)
            || action != Action::Ack && (status != Status::Ok || answers.is_some())
        {
            return Err(Malformed::Control);
        }
        Ok(Self {
            action,
            status,
            answers,
            element,
            session: raw.session.get(),
            payload: raw.payload.get(),
            window: raw.window.get(),
            expected: raw.expected.get(),
            got: raw.got.get(),
            cookie: raw.cookie.get(),
            psn: raw.psn.get(),
            first: raw.first.get(),
            call,
            bytes,
        })
    }

    /// Reads the rest of a control packet after its header: the body, and the trailer if the header announces
    /// one.
    ///
    /// # Errors As [`parse`](Self::parse), and `Trailer` if an announced one is missing.
    pub fn parse_with_trailer(header: &Header, rest: &[u8]) -> Result<(Self, Option<Trailer>), Malformed> {
        let (body, trailer) = header.payload(rest)?;
        Ok((Self::parse(body)?, trailer))
    }

    /// The body as bytes.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; LEN] {
        let raw = Raw {
            action: self.action as u8,
            status: self.status as u8,
            answers: self.answers.map_or(0, |action| action as u8),
            element: self.element.map_or(0, Element::code),
            session: self.session.into(),
            payload: self.payload.into(),
            window: self.window.into(),
            expected: self.expected.into(),
            got: self.got.into(),
            cookie: self.cookie.into(),
            psn: self.psn.into(),
            first: self.first.into(),
            bytes: self.call.join(self.bytes).into(),
        };
        zerocopy::transmute!(raw)
    }

    /// Writes the body to the start of `out`.
    ///
    /// # Errors
    /// [`NoRoom`] if `out` is shorter than [`LEN`].
    pub fn emit(&self, out: &mut [u8]) -> Result<(), NoRoom> {
        out.first_chunk_mut::<LEN>().ok_or(NoRoom).map(|place| *place = self.to_bytes())
    }
}
