//! Stalled operations: reports about the path, reports to the user, and the end.

use core::time::Duration;

use super::generation::Rejoin;
use super::state::{State, Task};
use super::{Event, Session};
use crate::allreduce::{Failure, Operation, Progress};
use crate::counters::Ignored;
use crate::inquiry::STALLED;
use crate::membership::FAREWELLS;
use crate::way::Unreachable;

impl Session {
    /// For drivers: a host on the way or this one's kernel reports that packets do not reach the appliance.
    /// If packets are refused for long while the appliance is silent, the worker turns to the next one;
    /// without one the operation fails.
    pub fn note_unreachable(&mut self, now: Duration, report: Unreachable) {
        self.counters.unreachable += 1;
        self.way.reported(now, report);
    }

    /// For drivers: packets have left this host; or a filter or a route of its own has `kept` all of them. If
    /// that continues, it counts as refused, whatever arrives.
    pub fn note_left(&mut self, now: Duration, kept: bool) {
        self.way.left_here(now, kept);
    }

    /// For drivers: a packet was too long for the path, whose MTU this is if it is known. The operation
    /// fails with the next [`handle_timeout`](Self::handle_timeout).
    pub const fn note_too_long(&mut self, mtu: Option<usize>) {
        if let Some(operation) = self.state.operation_mut() {
            operation.too_long = Some(mtu);
        }
    }

    /// For drivers: the worker gives up, even with an operation in flight. The next packets sent report it to
    /// the appliance. A session that has left or failed has done so.
    pub fn abandon(&mut self, now: Duration) {
        if !self.is_over() {
            self.end_operation(now);
            self.state = State::Over { farewells: FAREWELLS };
        }
    }

    /// Ends the operation, and with it the session.
    pub(super) fn fail(&mut self, failure: impl FnOnce(Progress) -> Failure, now: Duration) -> Option<Event> {
        let progress = self.end_operation(now)?;
        self.state = State::Over { farewells: FAREWELLS };
        Some(Event::Failed(failure(progress)))
    }

    /// Ends the operation without a result.
    pub(super) fn end_operation(&mut self, now: Duration) -> Option<Progress> {
        self.state.operation()?;
        let Some(Task::Operation(operation)) = self.state.take_task() else { return None };
        self.meter.abandon();
        // The ranks that are still there learn of it.
        self.places.return_home(now);
        Some(self.progress_of(&operation, now))
    }

    fn progress_of(&self, operation: &Operation, now: Duration) -> Progress {
        let counters = self.counters - operation.before;
        Progress {
            completed: self.psns.window.completed(),
            packets: self.psns.window.end().wrapping_sub(operation.start),
            oldest_missing: self.psns.window.una(),
            elapsed: now.saturating_sub(operation.started),
            retransmissions: counters.retransmissions,
            reminders_sent: counters.reminders_sent,
            received: counters.received,
            incomplete: counters.ignored(Ignored::Incomplete),
            rejoined: self.state.rejoin().map(Rejoin::joined),
            payload: self.membership.identity.payload,
            longer: self.longer,
            appliance: self.appliance,
            silent: self.way.silence(now, operation.started),
            unreachable: self.way.report(),
            missing: operation.inquiry.latest(),
            passage: operation.inquiry.passage(),
            rank: self.membership.identity.rank,
        }
    }

    /// The report about a stalled allreduce, once for each stall. May be called at any time.
    pub fn stalled(&mut self, now: Duration) -> Option<Progress> {
        let operation = self.state.operation_mut()?;
        let silent = self.way.silence(now, operation.started) >= STALLED;
        if !operation.inquiry.take_stall_notice(silent) {
            return None;
        }
        Some(self.progress_of(self.state.operation()?, now))
    }
}
