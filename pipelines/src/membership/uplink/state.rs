//! The states of an uplink, and what each needs.

use core::time::Duration;

use pascaline_wire::control::{self, Control, Status};
use pascaline_wire::trailer::Operations;

use crate::membership::claim::Claim;
use crate::membership::progress::Called;

/// Ranks that have waited for the same PSN for so long do not get on, and who says nothing for so long does
/// not wait.
const STUCK: Duration = Duration::from_secs(1);

/// What a subtree wants to be taken in with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::membership) struct Wish {
    /// What it wants to go on with.
    pub(in crate::membership) resume: Option<Claim>,
    pub(in crate::membership) payload: u16,
    pub(in crate::membership) window: u16,
    /// The oldest PSN that a rank lacks.
    pub(in crate::membership) una: u32,
    pub(in crate::membership) workers: u32,
}

impl Wish {
    /// A Join that says so.
    pub(super) fn describe(&self, join: Control) -> Control {
        let join = self.resume.map_or(join, |claim| claim.describe(join));
        Control { workers: self.workers, psn: self.una, first: self.una, ..join }
    }
}

/// What the parent has granted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::membership) struct Granted {
    pub(in crate::membership) epoch: u16,
    pub(in crate::membership) base: u32,
    pub(in crate::membership) payload: u16,
    pub(in crate::membership) window: u16,
    pub(in crate::membership) resumed: Option<u16>,
    pub(in crate::membership) workers: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum State {
    /// Ranks are missing here. It asks for the parent's number, until that is known.
    Idle,
    /// It asks to be taken in, into the generation `told` once the parent has named it.
    Joining {
        wish: Wish,
        told: Option<u16>,
    },
    Member(Member),
    /// It asks whether all have left there, too. By the latest answer, `waiting` ranks wait there.
    Leaving {
        epoch: u16,
        until: Duration,
        called: Called,
        waiting: u16,
    },
    /// The generation that it was in is to end for all. Then it joins with the wish in `next`, if there is
    /// one, in the session of that number.
    Resetting {
        epoch: u16,
        next: Option<(Wish, u64)>,
    },
}

impl State {
    pub(super) const fn member(&self) -> Option<&Member> {
        if let Self::Member(member) = self { Some(member) } else { None }
    }

    /// What it joins with, or has joined with.
    pub(super) fn wish(&self) -> Option<&Wish> {
        if let Self::Joining { wish, .. } = self { Some(wish) } else { Some(&self.member()?.wish) }
    }
}

/// A rank of the parent's generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Member {
    pub(super) wish: Wish,
    pub(super) granted: Granted,
    /// When it last said anything.
    pub(super) said: Duration,
    /// The operation that its ranks are in.
    called: Option<Called>,
    /// Since when they have waited for its oldest PSN without a result, and when one of them last said so.
    waited: Option<(Duration, Duration)>,
    /// Why an operation cannot end well, as the parent says.
    pub(super) objection: Option<(Status, Option<Operations>)>,
}

impl Member {
    pub(super) const fn new(wish: Wish, granted: Granted, said: Duration) -> Self {
        Self { wish, granted, said, called: None, waited: None, objection: None }
    }

    /// A rank has sent a heartbeat; `called` is what those inside an operation say.
    pub(super) fn waits(&mut self, now: Duration, called: Option<Called>) {
        if let Some(Called { una, .. }) = called {
            self.forget_waits(now);
            let before = self.waited.filter(|_| self.called.is_some_and(|before| before.una == una));
            self.waited = Some((before.map_or(now, |(since, _)| since), now));
        }
        self.called = called.or_else(|| self.called.map(Called::ended));
    }

    /// They are stalled.
    pub(super) fn is_stuck(&self) -> bool {
        self.waited.is_some_and(|(since, latest)| latest.saturating_sub(since) >= STUCK)
    }

    /// Drops what was said too long ago: who says nothing more does not wait.
    pub(super) fn forget_waits(&mut self, now: Duration) {
        self.waited = self.waited.filter(|(_, latest)| now.saturating_sub(*latest) < STUCK);
    }

    /// A Join that says what they are in.
    pub(super) fn describe(&self, join: Control) -> Control {
        let join = Control { got: control::generation(self.granted.epoch), ..join };
        self.called.map_or(join, |called| called.describe(join))
    }
}
