//! Commands that hold for the whole tree (iSwitch, section 3.4): they go up as this appliance's own, and come
//! down by what its parent answers.

use core::time::Duration;

use pascaline_wire::control::Status;

use super::{Member, News, State, Uplink};

/// What the parent has said of a Halt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Halted {
    No,
    /// The job is suspended there.
    Now,
    /// It was before, and may still be.
    Before,
    /// The same, and a Reset has been given here since that the parent has not heard of.
    Lifted,
}

impl Halted {
    pub(super) fn past(self) -> Self {
        if self == Self::Now { Self::Before } else { self }
    }

    fn lifted(self) -> Self {
        if self == Self::No { self } else { Self::Lifted }
    }
}

impl Uplink {
    /// True if the parent says that the job is suspended.
    pub(in crate::membership) fn is_halted(&self) -> bool {
        self.halted == Halted::Now
    }

    /// The job has been suspended here: the parent is told as soon as this appliance is a member.
    pub(in crate::membership) fn halt(&mut self) {
        self.to_halt = true;
        if self.granted().is_some() {
            self.asking.begin_again();
        }
    }

    /// The generation has been ended here: it is to end for all, also if the parent's is only forming.
    pub(in crate::membership) fn reset(&mut self) {
        self.to_halt = false;
        let epoch = match self.state {
            State::Member(Member { granted, .. }) => Some(granted.epoch),
            State::Joining { told, .. } => told,
            State::Leaving { epoch, .. } => Some(epoch),
            State::Idle | State::Resetting { .. } => None,
        };
        if let Some(epoch) = epoch {
            self.refused = None;
            self.enter(State::Resetting { epoch, next: None });
        } else {
            self.halted = self.halted.lifted();
        }
    }

    /// Takes note of whether the job is suspended above.
    pub(super) fn note_halted(&mut self, halted: bool) -> News {
        let before = self.is_halted();
        self.halted = if halted { Halted::Now } else { self.halted.past() };
        if before == halted { News::Nothing } else { News::Changed }
    }

    pub(super) fn halt_answered(&mut self, status: Status) -> News {
        match status {
            Status::Ok => {
                (self.to_halt, self.halted) = (false, Halted::Now);
                self.asking.begin_again();
                News::HandedUp
            }
            Status::TooMany => News::Nothing,
            // Another generation has begun there: it is the next that is to be suspended.
            Status::WrongEpoch | Status::NotMember | Status::StaleSession => self.end(News::Over),
            // It holds here only.
            _ => {
                self.to_halt = false;
                News::Nothing
            }
        }
    }

    pub(super) fn reset_answered(&mut self, now: Duration, status: Status) -> News {
        if status == Status::TooMany {
            return News::Nothing;
        }
        // Where all have left, it will be heard when somebody has joined.
        self.halted = if status == Status::Ok { Halted::No } else { self.halted.lifted() };
        self.go_on(now);
        News::Nothing
    }

    /// The Reset is over.
    pub(super) fn go_on(&mut self, now: Duration) -> News {
        let State::Resetting { next, .. } = core::mem::replace(&mut self.state, State::Idle) else {
            return News::Nothing;
        };
        match next {
            Some((wish, session)) => self.ask_for(now, wish, session),
            None => self.forget(),
        }
        News::Changed
    }
}
