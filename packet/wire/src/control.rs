//! The body of control packets: membership and its errors.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +---------------+---------------+---------------+---------------+
//! |    action     |    status     |   answers     |  op   | dtype |
//! +---------------+---------------+---------------+---------------+
//! |                            number                             |
//! +---------------------------------------------------------------+
//! |                            session                            |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                            cookie                             |
//! |                                                               |
//! +-------------------------------+-------------------------------+
//! |            payload            |            window             |
//! +-------------------------------+---------------+---------------+
//! |            joined             |    hearing    |  congestion   |
//! +-------------------------------+---------------+---------------+
//! |                           expected                            |
//! +---------------------------------------------------------------+
//! |                              got                              |
//! +---------------------------------------------------------------+
//! |                            before                             |
//! +---------------------------------------------------------------+
//! |                              psn                              |
//! +---------------------------------------------------------------+
//! |                             first                             |
//! +---------------------------------------------------------------+
//! |                            workers                            |
//! +-------------------------------+-------------------------------+
//! |             call              |                               |
//! +-------------------------------+                               |
//! |                             bytes                             |
//! +---------------------------------------------------------------+
//! |                             group                             |
//! |                                                               |
//! +---------------------------------------------------------------+
//! ```
//!
//! The actions are those of iSwitch's Table 2. In the header before it, `fan_in` is the sender's rank count
//! of the job, `rank` its own rank; in an Ack, `epoch` is the job's generation.

use zerocopy::byteorder::network_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::call::Call;
use crate::codes::codes;
use crate::congestion::CongestionControl;
use crate::element::Element;
use crate::header::Header;
use crate::malformed::{Malformed, NoRoom};
use crate::multicast::{Hearing, MulticastGroup};
use crate::trailer::Trailer;

mod status;

pub use status::Status;

/// Length of the body.
pub const LEN: usize = 72;

/// Where the session begins in the body; it has 8 bytes.
pub const SESSION: usize = 8;

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

/// A generation as Joins and their Acks name it in `expected`, `got` and `before`.
#[must_use]
pub const fn generation(epoch: u16) -> u32 {
    GENERATION | epoch as u32
}

/// `got` of a Join that names the generation in which it counts, and in no other: an outdated one must not
/// complete a generation for a worker that has ended. Without one it only asks.
#[must_use]
pub const fn naming(told: Option<u16>) -> u32 {
    if let Some(epoch) = told { generation(epoch) } else { ASK }
}

/// The generation that `expected`, `got` or `before` names; `None` if it names none.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the low half is what is wanted")]
pub const fn named_generation(value: u32) -> Option<u16> {
    if value & !0xffff == GENERATION { Some(value as u16) } else { None }
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
    /// The number of the request: each sending has its own. In the Ack to it the same, else 0.
    pub number: u32,
    /// The sender's session: a random number for each life of a rank.
    pub session: u64,
    /// In Join and Serve: the cookie of the latest Ack, or 0. In the Ack to them: the sender's cookie.
    pub cookie: u64,
    /// Payload bytes of a full packet; in a Join perhaps with [`AT_MOST`]; in the Ack to one that only asks,
    /// the most that the ports take.
    pub payload: u16,
    /// How far a PSN may run ahead of the oldest one without a result.
    pub window: u16,
    /// In an Ack: the ranks that have joined.
    pub joined: u16,
    /// In a Join: what its sender receives of the job's multicast group.
    pub hearing: Hearing,
    /// In an Ack: the congestion control that the job's workers should follow; `None` where they choose.
    pub congestion: Option<CongestionControl>,
    /// In refusals: the value that would have been right. In a Join: the [`generation`] that the worker wants
    /// to resume, or 0; in the Ack that says `Ok` to it: the one that all ranks resume. In a SetH: the
    /// threshold H.
    pub expected: u32,
    /// In refusals: the value that was received. In a Join: the [`generation`] in the latest Ack to the
    /// worker, or [`ASK`] without one; 0 for a Join that counts in any.
    pub got: u32,
    /// In a Join that resumes: a [`generation`] before that of `expected` that will do as well, or 0. In the
    /// Ack to a Join: half of the [salt](Control::salt).
    pub before: u32,
    /// In Join and Leave: the sender's oldest PSN without a result. In the Ack to a Join: the first PSN of a
    /// generation that is not resumed.
    pub psn: u32,
    /// In Join and Leave: the first PSN of the operation in flight; `psn` if there is none. In the Ack to a
    /// Join: half of the [salt](Control::salt).
    pub first: u32,
    /// In a Join of an appliance: the workers below it. In the Ack that says `Ok` to a Join: those whose
    /// contributions are in a result, if they are not the job's ranks. Else 0.
    pub workers: u32,
    /// In a Join: the call; an allreduce if no operation is in flight.
    pub call: Call,
    /// In a Join: payload bytes of the operation in flight, below 2⁴⁸; 0 for none.
    pub bytes: u64,
    /// In the Ack to a member's Join: the job's multicast group.
    pub group: Option<MulticastGroup>,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Raw {
    action: u8,
    status: u8,
    answers: u8,
    element: u8,
    number: U32,
    session: U64,
    cookie: U64,
    payload: U16,
    window: U16,
    joined: U16,
    hearing: u8,
    congestion: u8,
    expected: U32,
    got: U32,
    before: U32,
    psn: U32,
    first: U32,
    workers: U32,
    bytes: U64,
    group: U64,
}

const _: () = assert!(size_of::<Raw>() == LEN && core::mem::offset_of!(Raw, session) == SESSION);

impl Control {
    /// A request with no values filled in.
    #[must_use]
    pub const fn request(action: Action, session: u64) -> Self {
        Self {
            action,
            status: Status::Ok,
            answers: None,
            element: None,
            number: 0,
            session,
            cookie: 0,
            payload: 0,
            window: 0,
            joined: 0,
            hearing: Hearing::Deaf,
            congestion: None,
            expected: 0,
            got: 0,
            before: 0,
            psn: 0,
            first: 0,
            workers: 0,
            call: Call::ALLREDUCE,
            bytes: 0,
            group: None,
        }
    }

    /// The same Ack to a Join or Serve of a sealed job, with the salt of the key for results.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "in two halves")]
    pub const fn with_salt(self, salt: u64) -> Self {
        Self { before: (salt >> 32) as u32, first: salt as u32, ..self }
    }

    /// The salt of the key for results in an Ack to a Join or a Serve; 0 where packets are not sealed.
    #[must_use]
    pub fn salt(&self) -> u64 {
        if matches!(self.answers, Some(Action::Join | Action::Serve)) {
            u64::from(self.before) << 32 | u64::from(self.first)
        } else {
            0
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
        let hearing = Hearing::from_code(raw.hearing).ok_or(Malformed::Control)?;
        let control_of = |code| CongestionControl::from_code(code).ok_or(Malformed::Control);
        let congestion = given(raw.congestion).map(control_of).transpose()?;
        let group = Some(raw.group.get()).filter(|code| *code != 0);
        let group =
            group.map(|code| MulticastGroup::from_code(code).ok_or(Malformed::Control)).transpose()?;
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
            number: raw.number.get(),
            session: raw.session.get(),
            cookie: raw.cookie.get(),
            payload: raw.payload.get(),
            window: raw.window.get(),
            joined: raw.joined.get(),
            hearing,
            congestion,
            expected: raw.expected.get(),
            got: raw.got.get(),
            before: raw.before.get(),
            psn: raw.psn.get(),
            first: raw.first.get(),
            workers: raw.workers.get(),
            call,
            bytes,
            group,
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
            number: self.number.into(),
            session: self.session.into(),
            cookie: self.cookie.into(),
            payload: self.payload.into(),
            window: self.window.into(),
            joined: self.joined.into(),
            hearing: self.hearing as u8,
            congestion: self.congestion.map_or(0, |control| control as u8),
            expected: self.expected.into(),
            got: self.got.into(),
            before: self.before.into(),
            psn: self.psn.into(),
            first: self.first.into(),
            workers: self.workers.into(),
            bytes: self.call.join(self.bytes).into(),
            group: self.group.map_or(0, MulticastGroup::code).into(),
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
