//! What is due when, and what happens then.

use core::time::Duration;

use super::{Event, Session};
use crate::allreduce::Failure;

/// When something is due, if it is, and what it does.
type Timer = (fn(&Session) -> Option<Duration>, fn(&mut Session, Duration) -> Option<Event>);

/// All timers, in the order in which they are handled. What one does can change when the later ones are due.
const TIMERS: [Timer; 10] = [
    // The appliance is silent, or others may wait elsewhere.
    (Session::next_turn, Session::turn),
    // The others no longer need this worker.
    (Session::end_of_leaving, Session::give_up_leaving),
    // Patience with a command or an operation ends, or nothing gets through to the appliance.
    (Session::end_of_command, Session::give_up_command),
    (|session| session.too_long().map(|_| Duration::ZERO), Session::fail_too_long),
    (Session::end_of_way, |session, now| session.fail(Failure::Unreachable, now)),
    (Session::deadline, |session, now| session.fail(Failure::Deadline, now)),
    // Packets count as lost.
    (Session::next_loss, Session::lose),
    // Requests.
    (Session::next_request, sent),
    (Session::next_command, sent),
    (Session::next_inquiry, sent),
];

/// `poll_transmit` sends the requests that are due.
const fn sent(_: &mut Session, _: Duration) -> Option<Event> {
    None
}

impl Session {
    /// When to call [`handle_timeout`](Self::handle_timeout), and `poll_transmit` after it; `None` if nothing
    /// is due.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Duration> {
        TIMERS.iter().filter_map(|(due, _)| due(self)).min()
    }

    /// Handles the passing of time; harmless when nothing is due. Call it whenever
    /// [`poll_timeout`](Self::poll_timeout) has passed, even while datagrams keep coming.
    pub fn handle_timeout(&mut self, now: Duration) -> Option<Event> {
        TIMERS.iter().find_map(|(due, act)| if due(self)? <= now { act(self, now) } else { None })
    }

    /// Nothing is urgent without a caller that waits, but a member without operations is tended all the time.
    fn next_request(&self) -> Option<Duration> {
        self.state.next_request().filter(|_| self.state.waits() || !self.sums)
    }

    /// While the generation is in doubt, no contribution is sent: there is nothing to wake for.
    fn next_loss(&self) -> Option<Duration> {
        let runs = self.state.operation().is_some() && !self.is_in_doubt();
        if runs { self.psns.recovery.poll_timeout(&self.psns.window) } else { None }
    }

    fn lose(&mut self, now: Duration) -> Option<Event> {
        self.psns.recovery.on_timeout(now, &mut self.psns.window);
        None
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.state.operation()?.deadline)
    }

    /// Packets have been refused for too long.
    fn end_of_way(&self) -> Option<Duration> {
        self.state.operation().and(self.way.closes())
    }

    fn next_inquiry(&self) -> Option<Duration> {
        Some(self.state.operation()?.inquiry.poll_timeout())
    }

    /// A packet was too long for the path; with the path's MTU if it is known.
    fn too_long(&self) -> Option<Option<usize>> {
        let operation = self.state.operation()?;
        operation.too_long.or(operation.inquiry.passage().map(|_| None))
    }

    fn fail_too_long(&mut self, now: Duration) -> Option<Event> {
        let mtu = self.too_long()?;
        self.fail(|progress| Failure::TooLong { mtu, progress }, now)
    }

    /// Sent only to a generation that is not in doubt.
    fn next_command(&self) -> Option<Duration> {
        self.state.command().filter(|_| !self.is_in_doubt()).map(|commanding| commanding.asking.due())
    }
}
