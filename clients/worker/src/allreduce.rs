//! One allreduce: which bytes of the tensor belong to which PSN, and the outcome.

use core::fmt;
use core::net::SocketAddr;
use core::ops::Range;
use core::time::Duration;

use pascaline_wire::{Call, Collective, DType, Element, Flags, header};

use crate::Op;
use crate::collective::{Plan, TAG, TAGS};
use crate::counters::{Counters, Ignored};
use crate::element::divide;
use crate::inquiry::{Inquiry, Missing};
use crate::priority::Hints;
use crate::probe::Passage;
use crate::rejection::Rejection;
use crate::way::{Check, HERE, Unreachable, largest_payload};
use pascaline_wire::RankSet;

/// The operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request {
    /// Length of the tensor in bytes.
    pub bytes: usize,
    /// Type of its elements.
    pub dtype: DType,
    /// The operation that combines elements.
    pub op: Op,
    /// How long it may take.
    pub deadline: Duration,
    /// The known importance of the tensor.
    pub hints: Hints,
}

/// The running operation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) plan: Plan,
    /// Whether results are divided by the number of ranks inside.
    pub(crate) mean: bool,
    pub(crate) priority: u16,
    pub(crate) start: u32,
    pub(crate) packets: u32,
    pub(crate) tensor_len: usize,
    pub(crate) full: usize,
    pub(crate) started: Duration,
    pub(crate) deadline: Duration,
    pub(crate) before: Counters,
    pub(crate) partial: Option<Partial>,
    pub(crate) inquiry: Inquiry,
    /// The PSN that a reminder is to be sent for.
    pub(crate) reminder: Option<u32>,
    /// When the appliance first reported that others have called another operation.
    pub(crate) disputed: Option<Duration>,
    /// A packet was too long for the path; with the path's MTU if it is known.
    pub(crate) too_long: Option<Option<usize>>,
}

impl Operation {
    /// The tensor's bytes that a PSN of this operation carries; none of the one that compares.
    pub(crate) fn range(&self, psn: u32) -> Range<usize> {
        let end = self.plan.tail(self.tensor_len).start;
        let compares = u32::from(self.plan.call.collective.compares());
        let number = psn.wrapping_sub(self.start).wrapping_sub(compares);
        let begin = (number as usize).saturating_mul(self.full).min(end);
        begin..begin.saturating_add(self.full).min(end)
    }

    /// Cuts it anew into packets of another payload. Returns their number; `None` if they have too little
    /// room.
    pub(crate) fn cut(&mut self, payload: u16) -> Option<u32> {
        let Plan { call, element: Element { dtype, .. }, .. } = &self.plan;
        let (full, packets) =
            (call.full(*dtype, payload), call.packets(self.tensor_len as u64, *dtype, payload));
        let roomy = full > 0 && !(call.collective.compares() && usize::from(payload) < TAG);
        (self.full, self.packets) = (full, packets);
        (roomy && packets < 1 << 31).then_some(packets)
    }

    /// Whether a PSN is the one that compares what the ranks call.
    pub(crate) const fn compares(&self, psn: u32) -> bool {
        self.plan.call.collective.compares() && psn == self.start
    }

    /// The payload of the PSN that compares.
    pub(crate) fn tag(&self) -> [u8; TAG] {
        self.plan.tag(self.tensor_len)
    }

    /// How long the payload of a PSN is.
    pub(crate) fn len(&self, psn: u32) -> usize {
        if self.compares(psn) { TAG } else { self.range(psn).len() }
    }

    /// The elements of a PSN's payload.
    pub(crate) const fn element(&self, psn: u32) -> Element {
        if self.compares(psn) { TAGS } else { self.plan.on_the_wire() }
    }

    /// Whether the tensor holds the whole result of a PSN that is done.
    pub(crate) fn holds(&self, psn: u32) -> bool {
        let (range, take) = (self.range(psn), &self.plan.take);
        !self.mean && !self.compares(psn) && take.start <= range.start && range.end <= take.end
    }

    /// Writes a result, or the part of it that this rank takes, to its place; of a mean, divided by the
    /// number of contributors.
    pub(crate) fn take(
        &self,
        psn: u32,
        payload: &[u8],
        divisor: u32,
        tensor: &mut [u8],
    ) -> Result<(), Ignored> {
        if payload.len() != self.len(psn) || tensor.len() != self.tensor_len {
            return Err(Ignored::WrongLength);
        }
        if self.compares(psn) {
            let tail = payload.first_chunk().and_then(|tags| self.plan.compare(self.tensor_len, tags));
            let tail = tail.ok_or(Ignored::OtherOperation)?;
            let place = tensor.get_mut(self.plan.tail(self.tensor_len)).unwrap_or_default();
            place.iter_mut().zip(tail).for_each(|(place, byte)| *place = byte);
            return Ok(());
        }
        let (range, take) = (self.range(psn), &self.plan.take);
        let (begin, end) = (range.start.max(take.start), range.end.min(take.end));
        if let Some(place) = tensor.get_mut(begin..end)
            && let Some(bytes) = payload.get(begin - range.start..end - range.start)
        {
            place.copy_from_slice(bytes);
            if self.mean {
                divide(self.plan.element.dtype, place, divisor);
            }
        }
        Ok(())
    }

    /// Whether a result that lacks ranks lacks the one whose bytes it should carry.
    pub(crate) fn lacks_source(&self, inside: Option<&RankSet>) -> bool {
        let Call { collective, argument: root } = self.plan.call;
        collective == Collective::Broadcast && inside.is_some_and(|inside| !inside.contains(root))
    }

    /// The flag of the operation's last PSN; none of any other.
    pub(crate) const fn end_flag(&self, psn: u32) -> Flags {
        if psn.wrapping_sub(self.start) == self.packets - 1 { Flags::FIN } else { Flags::NONE }
    }

    /// The flags of the result of a PSN, in which an element has saturated or not.
    pub(crate) fn result_flags(&self, psn: u32, overflowed: bool) -> Flags {
        let flags = self.end_flag(psn);
        if overflowed { flags.with(Flags::OVERFLOW) } else { flags }
    }

    /// Notes a result that contains these of the job's ranks only.
    pub(crate) fn note_partial(&mut self, inside: &RankSet, ranks: u16) {
        let count = inside.len();
        let missing = inside.missing(ranks);
        let partial = self.partial.get_or_insert(Partial { results: 0, least_count: count, missing });
        partial.results += 1;
        partial.least_count = partial.least_count.min(count);
        partial.missing = partial.missing | missing;
    }
}

/// What results of an allreduce lack if they do not contain every rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Partial {
    /// How many such results there are.
    pub results: u32,
    /// Ranks inside the one that contains the fewest.
    pub least_count: u16,
    /// The ranks that at least one of them lacks.
    pub missing: RankSet,
}

/// The measurements of a finished allreduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Report {
    /// PSNs that the tensor took up.
    pub packets: u32,
    /// Length of the tensor in bytes.
    pub bytes: usize,
    /// From the start to the last result.
    pub elapsed: Duration,
    /// What happened meanwhile.
    pub counters: Counters,
    /// The smoothed time from a contribution to its result, at the end.
    pub round_trip: Option<Duration>,
    /// The priority of its packets.
    pub priority: u16,
    /// The missing contributions; `None` if every result contains every rank. Never set unless the worker
    /// accepts partial results.
    pub partial: Option<Partial>,
}

impl Report {
    /// Both together, of two parts of one tensor at the same time.
    #[must_use]
    pub(crate) fn beside(self, other: Self) -> Self {
        let partial = match (self.partial, other.partial) {
            (Some(one), Some(other)) => Some(Partial {
                results: one.results + other.results,
                least_count: one.least_count.min(other.least_count),
                missing: one.missing | other.missing,
            }),
            (one, other) => one.or(other),
        };
        Self {
            packets: self.packets + other.packets,
            bytes: self.bytes + other.bytes,
            elapsed: self.elapsed.max(other.elapsed),
            counters: self.counters + other.counters,
            round_trip: self.round_trip.max(other.round_trip),
            priority: self.priority,
            partial,
        }
    }
}

/// How far an allreduce has come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    /// PSNs with a result.
    pub completed: u32,
    /// PSNs of the operation.
    pub packets: u32,
    /// The oldest PSN without a result.
    pub oldest_missing: u32,
    /// Time since the start.
    pub elapsed: Duration,
    /// Contributions sent for the second time or later.
    pub retransmissions: u64,
    /// Reminders sent.
    pub reminders_sent: u64,
    /// Datagrams received.
    pub received: u64,
    /// Results that were not taken because they do not contain every rank.
    pub incomplete: u64,
    /// Ranks that had joined again, if a new generation of the job was being formed; 0 if there was no answer
    /// yet.
    pub rejoined: Option<u16>,
    /// Payload bytes of a full packet.
    pub payload: u16,
    /// Bytes of it beside header and payload.
    pub longer: u16,
    /// The appliance, where the driver has named it.
    pub appliance: Option<SocketAddr>,
    /// For how long nothing has come from the appliance.
    pub silent: Duration,
    /// Reports of hosts on the path since then.
    pub unreachable: Option<Unreachable>,
    /// The appliance's answer about missing ranks, since the last progress.
    pub missing: Option<Box<Missing>>,
    /// Which of this worker's packets get through to the appliance, if full ones do not.
    pub passage: Option<Passage>,
    /// This worker's rank.
    pub rank: u16,
}

/// For how long an appliance may be silent before that is reported: heartbeats are answered every 100 ms.
const SILENT: Duration = Duration::from_secs(1);

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let silent = self.silent >= SILENT;
        if silent || self.unreachable == Some(HERE) {
            f.write_str("the appliance")?;
            if let Some(appliance) = &self.appliance {
                write!(f, " at {appliance}")?;
            }
            let check = Check::new(self.appliance, self.unreachable);
            match silent {
                true => write!(f, " has not answered for {:.1?}: {check} ", self.silent)?,
                false => write!(f, " answers, but does not receive this worker's packets: {check}. ")?,
            }
        }
        match (&self.passage, &self.missing) {
            (Some(passage), _) => write!(f, "{passage}. ")?,
            (None, Some(missing)) => self.describe(missing, f)?,
            (None, None) => {}
        }
        if self.incomplete > 0 {
            let ranks = "this worker takes whole ones only (accept_partial = false, --refuse-partial), or \
                         those with the root of its broadcast";
            write!(f, "{} results that lack ranks were refused: {ranks}. ", self.incomplete)?;
        }
        if let Some(rejoined) = self.rejoined {
            write!(f, "The job's generation had ended, and {rejoined} ranks had joined the next one. ")?;
        }
        write!(
            f,
            "({} of {} packets complete after {:.1?}, oldest missing PSN {}, {} retransmissions, \
             {} reminders, {} datagrams received)",
            self.completed,
            self.packets,
            self.elapsed,
            self.oldest_missing,
            self.retransmissions,
            self.reminders_sent,
            self.received
        )
    }
}

impl Progress {
    /// Writes the appliance's knowledge about missing ranks.
    fn describe(&self, missing: &Missing, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let long = format_args!("packets of {} bytes", header::LEN + usize::from(self.payload + self.longer));
        let names = !missing.ranks.as_slice().is_empty();
        // A rank that has gone may have taken the only result with it, and is the reason in any case.
        if missing.ahead > 0 && !missing.names_gone() {
            let ranks = if missing.ahead == 1 { "rank has" } else { "ranks have" };
            write!(
                f,
                "PSN {} is complete and its result was sent ({} {ranks} it), but {long} do not come through \
                 from the appliance, and short ones do: a firewall, or a path MTU below that. ",
                missing.psn, missing.ahead
            )
        } else if names {
            write!(f, "{missing}. ")?;
            if missing.names(self.rank) { write!(f, "Rank {} is this one. ", self.rank) } else { Ok(()) }
        } else {
            write!(
                f,
                "all ranks are here and send, and PSN {} is not complete yet: `pascaline explain` at the \
                 appliance says why. ",
                missing.psn
            )
        }
    }
}

/// Why an allreduce failed. What the tensor then holds is unspecified. Unless the reason is
/// [`Reason::Generation`](crate::Reason::Generation), the session is of no further use: its PSNs no longer
/// agree with those of the other ranks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The deadline passed.
    #[error("deadline passed: {0}")]
    Deadline(Progress),
    /// Hosts on the way refuse the packets, and the appliance is not heard.
    #[error("packets are refused: {0}")]
    Unreachable(Progress),
    /// The packets do not fit into the path's MTU.
    #[error("{}", TooLong(*.mtu, .progress))]
    TooLong {
        /// The path's MTU, if it is known.
        mtu: Option<usize>,
        /// How far the operation had come.
        progress: Progress,
    },
    /// The appliance rejected a packet.
    #[error("rejected: {rejection} {progress}")]
    Rejected {
        /// Why.
        rejection: Rejection,
        /// How far the operation had come.
        progress: Progress,
    },
}

impl Failure {
    /// How far the operation had come, and what is known of the cause of its stall.
    #[must_use]
    pub const fn progress(&self) -> &Progress {
        match self {
            Self::Deadline(progress)
            | Self::Unreachable(progress)
            | Self::TooLong { progress, .. }
            | Self::Rejected { progress, .. } => progress,
        }
    }
}

struct TooLong<'a>(Option<usize>, &'a Progress);

impl fmt::Display for TooLong<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(mtu, progress) = *self;
        let Progress { payload, longer, appliance, .. } = *progress;
        if progress.passage.is_some() {
            return write!(f, "{progress}");
        }
        write!(f, "packets with a payload of {payload} bytes are too long for the path to the appliance")?;
        if let Some(mtu) = mtu {
            let room = mtu.saturating_sub(longer.into());
            let largest = largest_payload(room, appliance.is_some_and(|appliance| appliance.is_ipv6()));
            write!(
                f,
                ", whose MTU is {mtu}: raise it, or start every rank with a payload of {largest} at most"
            )?;
        }
        write!(f, " {progress}")
    }
}
