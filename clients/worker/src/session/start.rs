//! The beginning of an operation.

use core::time::Duration;

use pascaline_wire::call::Collective as Called;
use pascaline_wire::{DType, Element};

use super::Session;
use super::generation::HEARTBEAT;
use super::state::{State, Task};
use crate::Op;
use crate::allreduce::{Operation, Report, Request};
use crate::collective::{Collective, Plan, TAG};
use crate::inquiry::Inquiry;
use crate::priority::Hints;

/// Why an operation could not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// An earlier operation of this session failed, or it is leaving.
    #[error("an earlier operation failed, or the worker has left: it must join again")]
    Broken,
    /// A rank has restarted since the last operation, so the job has a new generation that resumes nothing.
    /// Reported once: the next operation is the first one of the new generation.
    #[error(
        "the job has gone from generation {got} to {expected} and a rank has restarted: \
         the next operation is the first one of all ranks"
    )]
    Ended {
        /// The job's generation.
        expected: u16,
        /// The one that has ended.
        got: u16,
    },
    /// Another operation is running.
    #[error("another operation is running")]
    Busy,
    /// The tensor would take up 2³¹ PSNs or more.
    #[error("{bytes} bytes are too many for one operation")]
    TooLong {
        /// Length of the tensor.
        bytes: usize,
    },
    /// The tensor is no whole number of elements.
    #[error("{bytes} bytes are not a whole number of {size}-byte elements")]
    Ragged {
        /// Length of the tensor.
        bytes: usize,
        /// Bytes per element.
        size: usize,
    },
    /// The job spans appliances, whose ranks are counted apart, so a root or a part is not defined.
    #[error(
        "{collective} in a job of {workers} workers below several appliances: only allreduce and barrier"
    )]
    Subtree {
        /// The operation.
        collective: &'static str,
        /// The job's workers.
        workers: u32,
    },
    /// A barrier moves nothing.
    #[error("a barrier takes no tensor, and this one has {bytes} bytes")]
    NotEmpty {
        /// Length of the tensor.
        bytes: usize,
    },
    /// The job has no such root.
    #[error("root {root} of {ranks} ranks: ranks are counted from 0 to {}", ranks.saturating_sub(1))]
    Root {
        /// The root.
        root: u16,
        /// The job's rank count.
        ranks: u16,
    },
    /// The parts do not make up the tensor.
    #[error("{parts} parts of {sum} elements in all, for {ranks} ranks and a tensor of {elements}")]
    Parts {
        /// Number of parts.
        parts: usize,
        /// The number that there must be.
        ranks: u16,
        /// The elements in them.
        sum: usize,
        /// The elements of the tensor.
        elements: usize,
    },
    /// Elements that share a scale cannot be compared, and their blocks cannot be parted.
    #[error("{dtype} comes in blocks of 32 elements, which can only be added, not {what}")]
    Blocks {
        /// The impossible operation.
        what: &'static str,
        /// The type.
        dtype: DType,
    },
    /// A sum that has wrapped has no mean.
    #[error("sums of {dtype} wrap, so there is no mean of them")]
    NoMean {
        /// The type.
        dtype: DType,
    },
    /// Rounding errors are kept for sums only.
    #[error("error feedback works with sums and means only")]
    Feedback,
    /// The rounding errors are those of another tensor.
    #[error("the feedback belongs to a tensor of {kept} elements, and this one has {elements}")]
    FeedbackLength {
        /// Elements of which there is feedback.
        kept: usize,
        /// The elements of the tensor.
        elements: usize,
    },
    /// A packet has no room for a block.
    #[error("a payload of {payload} bytes holds no block of {dtype}, which takes {}", dtype.size())]
    NoBlock {
        /// Payload bytes of a full packet.
        payload: usize,
        /// The type.
        dtype: DType,
    },
    /// A packet has no room for the numbers that the ranks compare.
    #[error("a payload of {payload} bytes: collectives but allreduce need {TAG} at least")]
    ShortPayload {
        /// Payload bytes of a full packet.
        payload: usize,
    },
}

impl Session {
    /// Begins an allreduce of a tensor of `bytes` bytes, to be finished within `deadline`:
    /// [`start_with`](Self::start_with) without hints.
    ///
    /// # Errors
    /// As `start_with`.
    pub fn start(
        &mut self,
        now: Duration,
        bytes: usize,
        element: Element,
        deadline: Duration,
    ) -> Result<bool, StartError> {
        let Element { dtype, op } = element;
        self.start_with(now, &Request { bytes, dtype, op, deadline, hints: Hints::default() })
    }

    /// Begins an allreduce.
    ///
    /// `Ok(false)` if it is done already, without a packet, because the tensor is empty.
    ///
    /// # Errors
    /// See [`StartError`]; nothing has begun then.
    pub fn start_with(&mut self, now: Duration, request: &Request) -> Result<bool, StartError> {
        self.begin(now, request, &Collective::Allreduce(request.op), None)
    }

    /// Begins a collective operation on `tensor`, as the request says except for its `bytes` and `op`. Where
    /// the rank contributes zeros, they are written to the tensor now.
    ///
    /// `Ok(false)` as [`start_with`](Self::start_with); others than allreduce send a packet in any case.
    ///
    /// # Errors
    /// See [`StartError`]; nothing has begun then, and the tensor is unchanged.
    pub fn start_collective(
        &mut self,
        now: Duration,
        request: &Request,
        collective: &Collective<'_>,
        tensor: &mut [u8],
    ) -> Result<bool, StartError> {
        self.begin(now, &Request { bytes: tensor.len(), ..*request }, collective, Some(tensor))
    }

    pub(super) fn may_begin(&mut self) -> Result<(), StartError> {
        let State::Member(member) = &mut self.state else { return Err(StartError::Broken) };
        if let Some((expected, got)) = member.ended.take() {
            return Err(StartError::Ended { expected, got });
        }
        if member.task.is_some() { Err(StartError::Busy) } else { Ok(()) }
    }

    /// Begins what the caller waits for. If that needs another generation first, it is asked for at once.
    pub(super) fn begin_task(&mut self, now: Duration, task: Task) {
        self.places.begin(now);
        if let State::Member(member) = &mut self.state {
            member.task = Some(task);
            member.rejoin.iter_mut().for_each(|rejoin| rejoin.asking.begin_again());
        }
    }

    /// Bytes of a full packet of the planned operation.
    fn full(&self, plan: &Plan, dtype: DType) -> Result<usize, StartError> {
        let (workers, collective) = (self.membership.workers, plan.call.collective);
        if workers > 0 && collective.compares() && collective != Called::Barrier {
            return Err(StartError::Subtree { collective: collective.name(), workers });
        }
        let payload = usize::from(self.membership.identity.payload);
        if !plan.element.exists() {
            let blocks = StartError::Blocks { what: "compared", dtype };
            return Err(if dtype.is_block() { blocks } else { StartError::NoMean { dtype } });
        }
        if collective.compares() && payload < TAG {
            return Err(StartError::ShortPayload { payload });
        }
        match plan.call.full(dtype, self.membership.identity.payload) {
            0 => Err(StartError::NoBlock { payload, dtype }),
            full => Ok(full),
        }
    }

    fn begin(
        &mut self,
        now: Duration,
        request: &Request,
        collective: &Collective<'_>,
        tensor: Option<&mut [u8]>,
    ) -> Result<bool, StartError> {
        let Request { bytes, dtype, deadline, hints, .. } = *request;
        self.may_begin()?;
        let (size, bytewise) = (dtype.size(), matches!(collective, Collective::Broadcast { .. }));
        if !bytewise && !bytes.is_multiple_of(size) {
            return Err(StartError::Ragged { bytes, size });
        }
        let identity = &self.membership.identity;
        let mut plan = Plan::new(collective, (identity.rank, identity.ranks), (bytes, dtype))?;
        let full = self.full(&plan, dtype)?;
        let packets = plan.call.packets(bytes as u64, dtype, identity.payload);
        if bytes as u64 >= 1 << 47 || packets >= 1 << 31 {
            return Err(StartError::TooLong { bytes });
        }
        if packets == 0 {
            self.report = Report::default();
            return Ok(false);
        }
        plan.prepare(tensor.unwrap_or_default());
        let start = self.psns.window.begin(packets);
        self.psns.recovery.begin();
        // A report about multicast does not wait.
        let wait = if self.hearing.is_urgent() { Duration::ZERO } else { HEARTBEAT };
        self.set_heartbeat(now.saturating_add(wait));
        self.patience = deadline;
        // Earlier reports do not concern the new operation.
        self.way.answered();
        let operation = Operation {
            mean: plan.element.op == Op::Mean,
            plan,
            priority: self.meter.begin(now, hints),
            start,
            packets,
            tensor_len: bytes,
            full,
            started: now,
            deadline: now.saturating_add(deadline),
            before: self.counters,
            partial: None,
            inquiry: Inquiry::new(now, deadline),
            reminder: None,
            disputed: None,
            too_long: None,
        };
        self.begin_task(now, Task::Operation(operation));
        Ok(true)
    }
}
