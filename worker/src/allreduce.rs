//! One allreduce: which bytes of the tensor belong to which PSN, and what came of it.

use core::fmt;
use core::ops::Range;
use core::time::Duration;

use pascaline_wire::Element;

use crate::counters::Counters;
use crate::refusal::Refusal;

/// The running operation.
#[derive(Debug)]
pub(crate) struct Operation {
    pub(crate) element: Element,
    pub(crate) start: u32,
    pub(crate) tensor_len: usize,
    pub(crate) payload: usize,
    pub(crate) started: Duration,
    pub(crate) deadline: Duration,
    pub(crate) before: Counters,
}

impl Operation {
    /// The tensor's bytes that a PSN of this operation carries.
    pub(crate) fn range(&self, psn: u32) -> Range<usize> {
        let begin = (psn.wrapping_sub(self.start) as usize).saturating_mul(self.payload).min(self.tensor_len);
        begin..begin.saturating_add(self.payload).min(self.tensor_len)
    }
}

/// What a finished allreduce was like.
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
}

/// How far an allreduce came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// Times the operating system reported that the appliance's host or port is unreachable.
    pub unreachable: u64,
}

impl fmt::Display for Progress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} packets complete after {:.1?}, oldest missing PSN {}, {} retransmissions, {} reminders, \
             {} datagrams received",
            self.completed,
            self.packets,
            self.elapsed,
            self.oldest_missing,
            self.retransmissions,
            self.reminders_sent,
            self.received
        )?;
        if self.unreachable > 0 {
            write!(f, ", appliance reported unreachable {} times", self.unreachable)?;
        }
        Ok(())
    }
}

/// Why an allreduce failed. What the tensor then holds is unspecified, and the session is of no further use: its PSNs
/// no longer agree with those of the other ranks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The deadline passed.
    #[error("deadline passed: {0}")]
    Deadline(Progress),
    /// The appliance refused a packet.
    #[error("refused: {refusal} ({progress})")]
    Refused {
        /// Why.
        refusal: Refusal,
        /// How far the operation had come.
        progress: Progress,
    },
}
