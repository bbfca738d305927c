//! Commands that hold for the whole tree (iSwitch, section 3.4): they go up as this appliance's own, and come
//! down by what its parent answers.

use core::time::Duration;

use pascaline_wire::control::Status;

use super::{News, State, Uplink, Wish};

impl Uplink {
    /// True if the parent says that the job is suspended.
    pub(in crate::membership) const fn is_halted(&self) -> bool {
        self.halted
    }

    /// The job has been suspended here: the parent is told as soon as this appliance is a member.
    pub(in crate::membership) fn halt(&mut self, now: Duration) {
        self.to_halt = true;
        if self.granted().is_some() {
            self.at_once(now);
        }
    }

    /// The generation has been ended here: it is to end for all, also if the parent's is only forming.
    pub(in crate::membership) fn reset(&mut self, now: Duration) {
        self.to_halt = false;
        let epoch = match self.state {
            State::Member(granted) => Some(granted.epoch),
            State::Joining(_) => self.told,
            State::Leaving { epoch, .. } => Some(epoch),
            State::Idle | State::Resetting { .. } => None,
        };
        if let Some(epoch) = epoch {
            (self.state, self.outdated) = (State::Resetting { epoch, next: None }, self.number);
            (self.refused, self.objection) = (None, None);
            self.at_once(now);
        } else {
            self.to_reset = self.was_halted;
        }
    }

    /// The parent is still suspended after a Reset that it has not heard of.
    pub(super) fn reset_first(&mut self, now: Duration, wish: Wish) {
        if let Some(epoch) = self.told {
            (self.to_reset, self.outdated) = (false, self.number);
            self.state = State::Resetting { epoch, next: Some((wish, self.session)) };
            self.at_once(now);
        }
    }

    /// Takes note of whether the job is suspended above.
    pub(super) const fn suspended(&mut self, halted: bool) -> News {
        self.was_halted |= halted;
        if core::mem::replace(&mut self.halted, halted) == halted { News::Nothing } else { News::Suspended }
    }

    pub(super) fn halt_answered(&mut self, now: Duration, status: Status) -> News {
        match status {
            Status::Ok => {
                (self.to_halt, self.halted, self.was_halted) = (false, true, true);
                self.at_once(now);
                News::HandedUp
            }
            Status::TooMany => News::Nothing,
            // Another generation has begun there: it is the next that is to be suspended.
            Status::WrongEpoch | Status::NotMember | Status::StaleSession => self.over(),
            // It holds here only.
            _ => {
                self.to_halt = false;
                News::Nothing
            }
        }
    }

    pub(super) fn reset_answered(
        &mut self,
        now: Duration,
        status: Status,
        next: Option<(Wish, u64)>,
    ) -> News {
        if status != Status::TooMany {
            // All have left: it will be heard when somebody has joined.
            self.to_reset = self.was_halted && status != Status::Ok;
            self.was_halted &= self.to_reset;
            self.go_on(now, next);
        }
        News::Nothing
    }

    /// The Reset is over.
    pub(super) fn go_on(&mut self, now: Duration, next: Option<(Wish, u64)>) {
        self.state = State::Idle;
        match next {
            Some((wish, session)) => self.ask_for(now, wish, session),
            None => self.forget(),
        }
    }
}
