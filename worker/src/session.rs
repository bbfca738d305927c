//! A member's protocol: one allreduce after the other, and answers to the others' reminders at any time.

use core::time::Duration;

use pascaline_wire::{Element, Flags, Header, Kind, header};

use crate::allreduce::{Failure, Operation, Progress, Report};
use crate::answers::Answers;
use crate::counters::Counters;
use crate::identity::Membership;
use crate::kept::Kept;
use crate::recovery::Recovery;
use crate::window::{Standing, Window};

mod receive;

/// Resends of one PSN after which each further one is accompanied by a reminder.
pub const REMIND_AFTER: u32 = 2;

/// The end of an allreduce.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The tensor holds the result, and [`Session::report`] tells what it took.
    Completed,
    /// It failed.
    Failed(Failure),
}

/// Why an allreduce could not begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// An earlier allreduce of this session failed.
    #[error("an earlier allreduce failed: the worker must join again")]
    Broken,
    /// Another allreduce is running.
    #[error("another allreduce is running")]
    Busy,
    /// The tensor would take up 2³¹ PSNs or more.
    #[error("{bytes} bytes are too many for one allreduce")]
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
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Nothing,
    Tensor { begin: usize, end: usize },
    Kept { psn: u32 },
}

/// A packet to send: these header bytes, then [`Session::payload`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The header.
    pub header: [u8; header::LEN],
    source: Source,
}

impl Transmit {
    pub(crate) const PLACEHOLDER: Self = Self { header: [0; header::LEN], source: Source::Nothing };
}

/// A member's state.
///
/// Calling contract. Times are monotonic, from any origin. After [`start`](Self::start),
/// [`handle_datagram`](Self::handle_datagram) and [`handle_timeout`](Self::handle_timeout), call
/// [`poll_transmit`](Self::poll_transmit) until it returns `None` and send what it returns; then wait for a datagram
/// or until [`poll_timeout`](Self::poll_timeout), which changes with every other call. From `start` to the
/// [`Event`], pass the same tensor to every call; outside of operations pass an empty one. A packet must be sent, or its
/// payload copied, before the next `handle_datagram`, which may write to the tensor: a contribution sent later could
/// carry a result's bytes.
///
/// No call allocates (the memory is taken in [`new`](Self::new)), and each does a bounded amount of work.
#[derive(Debug)]
pub struct Session {
    membership: Membership,
    window: Window,
    recovery: Recovery,
    kept: Kept,
    answers: Answers,
    reminder: Option<u32>,
    operation: Option<Operation>,
    broken: bool,
    report: Report,
    counters: Counters,
}

impl Session {
    /// The session of a member that keeps up to `in_flight` packets in flight. Its PSNs begin at `first_psn`, which
    /// all ranks must agree on: 0, unless they know better.
    #[must_use]
    pub fn new(membership: Membership, in_flight: u16, first_psn: u32) -> Self {
        Self {
            membership,
            window: Window::new(first_psn, in_flight, membership.spread),
            recovery: Recovery::default(),
            kept: Kept::new(membership.spread, membership.identity.payload),
            answers: Answers::new(),
            reminder: None,
            operation: None,
            broken: false,
            report: Report::default(),
            counters: Counters::default(),
        }
    }

    /// Begins an allreduce of a tensor of `bytes` bytes, to be finished within `deadline`.
    ///
    /// `Ok(false)` if it is done already, without a packet, because the tensor is empty.
    ///
    /// # Errors
    /// See [`StartError`]; the session's state is then unchanged.
    pub fn start(
        &mut self,
        now: Duration,
        bytes: usize,
        element: Element,
        deadline: Duration,
    ) -> Result<bool, StartError> {
        if self.broken {
            return Err(StartError::Broken);
        }
        if self.operation.is_some() {
            return Err(StartError::Busy);
        }
        let size = element.dtype.size();
        if !bytes.is_multiple_of(size) {
            return Err(StartError::Ragged { bytes, size });
        }
        let payload = usize::from(self.membership.identity.payload);
        let packets = u32::try_from(bytes.div_ceil(payload))
            .ok()
            .filter(|&packets| packets < 1 << 31)
            .ok_or(StartError::TooLong { bytes })?;
        if packets == 0 {
            self.report = Report::default();
            return Ok(false);
        }
        let start = self.window.begin(packets);
        self.recovery.begin();
        self.operation = Some(Operation {
            element,
            start,
            tensor_len: bytes,
            payload,
            started: now,
            deadline: now.saturating_add(deadline),
            before: self.counters,
        });
        Ok(true)
    }

    /// The next packet to send, if there is one.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<Transmit> {
        let transmit = self.answer().or_else(|| self.remind()).or_else(|| self.contribute(now));
        self.counters.packets_sent += u64::from(transmit.is_some());
        transmit
    }

    fn answer(&mut self) -> Option<Transmit> {
        let psn = self.answers.pop()?;
        let finished = || {
            let entry = self.kept.entry(psn)?;
            Some((entry.element, entry.overflowed, Source::Kept { psn }))
        };
        let (element, overflowed, source) = self
            .operation
            .as_ref()
            .filter(|_| self.window.standing(psn) == Standing::Done)
            .map(|operation| {
                let range = operation.range(psn);
                let source = Source::Tensor { begin: range.start, end: range.end };
                (operation.element, self.window.overflowed(psn), source)
            })
            .or_else(finished)?;
        self.counters.reminders_answered += 1;
        let identity = &self.membership.identity;
        let header = Header {
            count: identity.ranks,
            flags: if overflowed { Flags::OVERFLOW } else { Flags::NONE },
            ..identity.header(Kind::Result, element, psn, self.membership.epoch)
        };
        Some(Transmit { header: header.to_bytes(), source })
    }

    fn remind(&mut self) -> Option<Transmit> {
        let psn = self.reminder.take()?;
        let element = self.operation.as_ref()?.element;
        self.counters.reminders_sent += 1;
        let header = self.membership.identity.header(Kind::Reminder, element, psn, self.membership.epoch);
        Some(Transmit { header: header.to_bytes(), source: Source::Nothing })
    }

    fn contribute(&mut self, now: Duration) -> Option<Transmit> {
        let operation = self.operation.as_ref()?;
        let sending = self.window.send(now)?;
        self.recovery.on_sent(now);
        let psn = sending.psn;
        let again = sending.retransmissions > 0;
        self.counters.retransmissions += u64::from(again);
        if sending.retransmissions > REMIND_AFTER {
            self.reminder = Some(psn);
        }
        let header = Header {
            count: 1,
            flags: if again { Flags::RETRANSMISSION } else { Flags::NONE },
            ..self.membership.identity.header(Kind::Gradient, operation.element, psn, self.membership.epoch)
        };
        let range = operation.range(psn);
        let source = Source::Tensor { begin: range.start, end: range.end };
        Some(Transmit { header: header.to_bytes(), source })
    }

    /// The payload of a packet; empty if it has none, or if `tensor` is not the operation's.
    #[must_use]
    pub fn payload<'a>(&'a self, transmit: &Transmit, tensor: &'a [u8]) -> &'a [u8] {
        match transmit.source {
            Source::Nothing => &[],
            Source::Tensor { begin, end } => tensor.get(begin..end).unwrap_or_default(),
            Source::Kept { psn } => self.kept.bytes(psn),
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout); never, while nothing is running.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        let operation = self.operation.as_ref()?;
        let recovery = self.recovery.poll_timeout(&self.window);
        Some(recovery.map_or(operation.deadline, |at| at.min(operation.deadline)))
    }

    /// Handles the passing of time; harmless when nothing is due. To be called whenever
    /// [`poll_timeout`](Self::poll_timeout) has passed, even while datagrams keep coming.
    pub fn handle_timeout(&mut self, now: Duration) -> Option<Event> {
        if now >= self.operation.as_ref()?.deadline {
            return self.fail(Failure::Deadline, now);
        }
        self.recovery.on_timeout(now, &mut self.window);
        None
    }

    fn fail(&mut self, failure: impl FnOnce(Progress) -> Failure, now: Duration) -> Option<Event> {
        let operation = self.operation.take()?;
        self.broken = true;
        self.reminder = None;
        let counters = self.counters - operation.before;
        Some(Event::Failed(failure(Progress {
            completed: self.window.completed(),
            packets: self.window.end().wrapping_sub(operation.start),
            oldest_missing: self.window.una(),
            elapsed: now.saturating_sub(operation.started),
            retransmissions: counters.retransmissions,
            reminders_sent: counters.reminders_sent,
            received: counters.received,
            unreachable: counters.unreachable,
        })))
    }

    /// How far the running operation has come: PSNs with a result, and all of them.
    #[must_use]
    pub fn progress(&self) -> Option<(u32, u32)> {
        let operation = self.operation.as_ref()?;
        Some((self.window.completed(), self.window.end().wrapping_sub(operation.start)))
    }

    /// What the last completed allreduce was like.
    #[must_use]
    pub const fn report(&self) -> &Report {
        &self.report
    }

    /// What the session has done so far.
    #[must_use]
    pub const fn counters(&self) -> &Counters {
        &self.counters
    }

    /// For drivers: where to count what only they can know.
    pub const fn counters_mut(&mut self) -> &mut Counters {
        &mut self.counters
    }

    /// Packets in flight.
    #[must_use]
    pub const fn in_flight(&self) -> u32 {
        self.window.in_flight()
    }

    /// What the appliance agreed to.
    #[must_use]
    pub const fn membership(&self) -> &Membership {
        &self.membership
    }
}
