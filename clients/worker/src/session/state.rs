//! What a session is at the moment, and what it has only then.

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
        match self {
            Self::Member(Member { task: Some(Task::Operation(operation)), .. }) => Some(operation),
            _ => None,
        }
    }

    pub(super) const fn operation_mut(&mut self) -> Option<&mut Operation> {
        match self {
            Self::Member(Member { task: Some(Task::Operation(operation)), .. }) => Some(operation),
            _ => None,
        }
    }

    pub(super) const fn command(&self) -> Option<&Commanding> {
        match self {
            Self::Member(Member { task: Some(Task::Command(commanding)), .. }) => Some(commanding),
            _ => None,
        }
    }

    /// Ends what the caller waits for.
    pub(super) fn take_task(&mut self) -> Option<Task> {
        if let Self::Member(member) = self { member.task.take() } else { None }
    }

    /// The place of a request to continue in the job's next generation, where there can be one.
    const fn place(&mut self) -> Option<&mut Option<Rejoin>> {
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
        self.place()?.as_mut()
    }

    pub(super) fn take_rejoin(&mut self) -> Option<Rejoin> {
        self.place()?.take()
    }

    /// Asks to continue in the job's next generation, from now on. False if it does already, or has left.
    pub(super) fn rejoin_with(&mut self, rejoin: Rejoin) -> bool {
        let place = self.place().filter(|place| place.is_none());
        place.map(|place| *place = Some(rejoin)).is_some()
    }

    /// Whether the caller waits for something.
    pub(super) const fn waits(&self) -> bool {
        match self {
            Self::Member(member) => member.task.is_some(),
            Self::Leaving(_) => true,
            Self::Outside { .. } | Self::Over { .. } => false,
        }
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
            Self::Member(member) => {
                let due = member.heartbeat <= now;
                if due {
                    member.heartbeat = now.saturating_add(HEARTBEAT);
                }
                due
            }
            Self::Leaving(leaving) => leaving.asking.is_due(now),
            Self::Over { farewells } => {
                let due = *farewells > 0;
                *farewells = farewells.saturating_sub(1);
                due
            }
            Self::Outside { .. } => false,
        }
    }
}
