//! The states of a session, each with its own data.

use core::time::Duration;

use super::commanding::Commanding;
use super::generation::{HEARTBEAT, Rejoin};
use super::leaving::Leaving;
use crate::allreduce::Operation;

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a session is one of them, and no call allocates")]
pub(super) enum State {
    /// A member, as far as is known, or to be one again.
    Member(Member),
    /// It stays for the others.
    Leaving(Leaving),
    /// It was outside the present generation when it began to leave: it has nothing that others could need.
    Outside { since: Duration },
    /// It has left or failed: the worker must join again, as another session.
    Over {
        /// How often it still reports that it gives up.
        farewells: usize,
    },
}

#[derive(Debug, Default)]
pub(super) struct Member {
    pub(super) task: Option<Task>,
    /// When the next heartbeat is due.
    pub(super) heartbeat: Duration,
    pub(super) rejoin: Option<Rejoin>,
    /// The generation that could not be resumed and the one that has ended, until the caller learns of it.
    pub(super) ended: Option<(u16, u16)>,
}

/// What the caller waits for.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one, and no call allocates")]
pub(super) enum Task {
    Operation(Operation),
    Command(Commanding),
}

impl State {
    pub(super) const fn operation(&self) -> Option<&Operation> {
        let Self::Member(Member { task: Some(Task::Operation(operation)), .. }) = self else { return None };
        Some(operation)
    }

    pub(super) const fn operation_mut(&mut self) -> Option<&mut Operation> {
        let Self::Member(Member { task: Some(Task::Operation(operation)), .. }) = self else { return None };
        Some(operation)
    }

    pub(super) const fn command(&self) -> Option<&Commanding> {
        let Self::Member(Member { task: Some(Task::Command(commanding)), .. }) = self else { return None };
        Some(commanding)
    }

    /// Ends what the caller waits for.
    pub(super) fn take_task(&mut self) -> Option<Task> {
        if let Self::Member(member) = self { member.task.take() } else { None }
    }

    /// The place of a request to continue in the job's next generation, where there can be one.
    pub(super) const fn rejoin_place(&mut self) -> Option<&mut Option<Rejoin>> {
        match self {
            Self::Member(Member { rejoin, .. }) | Self::Leaving(Leaving { rejoin, .. }) => Some(rejoin),
            Self::Outside { .. } | Self::Over { .. } => None,
        }
    }

    pub(super) const fn rejoin(&self) -> Option<&Rejoin> {
        match self {
            Self::Member(Member { rejoin, .. }) | Self::Leaving(Leaving { rejoin, .. }) => rejoin.as_ref(),
            Self::Outside { .. } | Self::Over { .. } => None,
        }
    }

    pub(super) fn rejoin_mut(&mut self) -> Option<&mut Rejoin> {
        self.rejoin_place()?.as_mut()
    }

    pub(super) fn take_rejoin(&mut self) -> Option<Rejoin> {
        self.rejoin_place()?.take()
    }

    /// Whether the caller waits for something.
    pub(super) const fn waits(&self) -> bool {
        matches!(self, Self::Member(Member { task: Some(_), .. }) | Self::Leaving(_))
    }

    /// When the next request to the appliance is due: to continue, to leave, or a heartbeat.
    pub(super) fn next_request(&self) -> Option<Duration> {
        match self {
            Self::Member(Member { rejoin: Some(rejoin), .. })
            | Self::Leaving(Leaving { rejoin: Some(rejoin), .. }) => Some(rejoin.asking.due()),
            Self::Member(member) => Some(member.heartbeat),
            Self::Leaving(leaving) => Some(leaving.asking.due()),
            Self::Outside { .. } | Self::Over { .. } => None,
        }
    }

    /// Whether one is due now: then it is to be sent.
    pub(super) fn requests(&mut self, now: Duration) -> bool {
        match self {
            Self::Member(Member { rejoin: Some(rejoin), .. })
            | Self::Leaving(Leaving { rejoin: Some(rejoin), .. }) => rejoin.asking.is_due(now),
            Self::Member(member) if member.heartbeat <= now => {
                member.heartbeat = now.saturating_add(HEARTBEAT);
                true
            }
            Self::Leaving(leaving) => leaving.asking.is_due(now),
            Self::Over { farewells: left @ 1.. } => {
                *left -= 1;
                true
            }
            Self::Member(_) | Self::Outside { .. } | Self::Over { .. } => false,
        }
    }
}
