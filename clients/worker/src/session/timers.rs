//! The timers: when each is due, and what it does.

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
    (
        |session| session.too_long().map(|_| Duration::ZERO),
        |session, now| {
            let mtu = session.too_long()?;
            session.fail(|progress| Failure::TooLong { mtu, progress }, now)
        },
    ),
    (
        |session| session.state.operation().and(session.way.closes()),
        |session, now| session.fail(Failure::Unreachable, now),
    ),
    (
        |session| Some(session.state.operation()?.deadline),
        |session, now| session.fail(Failure::Deadline, now),
    ),
    // Packets count as lost.
    (Session::next_loss, Session::lose),
    // Requests, which `poll_transmit` sends: no hurry while no caller waits, unless the session is tended all
    // the time; and no command while the generation is in doubt.
    (|session| session.state.next_request().filter(|_| session.waits() || !session.sums), |_, _| None),
    (|session| Some(session.state.command()?.asking.due()).filter(|_| !session.is_in_doubt()), |_, _| None),
    (|session| Some(session.state.operation()?.inquiry.poll_timeout()), |_, _| None),
];

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

    /// While the generation is in doubt, no contribution is sent: there is nothing to wake for.
    fn next_loss(&self) -> Option<Duration> {
        let runs = self.state.operation().is_some() && !self.is_in_doubt();
        if runs { self.psns.recovery.poll_timeout(&self.psns.window) } else { None }
    }

    fn lose(&mut self, now: Duration) -> Option<Event> {
        self.psns.recovery.on_timeout(now, &mut self.psns.window);
        None
    }

    /// A packet was too long for the path; with the path's MTU if it is known.
    fn too_long(&self) -> Option<Option<usize>> {
        let operation = self.state.operation()?;
        operation.too_long.or(operation.inquiry.passage().map(|_| None))
    }
}
