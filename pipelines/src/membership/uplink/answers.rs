//! What a parent's answers change.

use core::time::Duration;

use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::header::Header;
use pascaline_wire::trailer::Operations;

use super::{Granted, News, State, Uplink, Wish, refusal};
use crate::membership::offer::Offer;

impl Uplink {
    /// An answer of the parent.
    pub(in crate::membership) fn answered(
        &mut self,
        now: Duration,
        (header, ack): (&Header, &Control),
        operations: Option<Operations>,
    ) -> News {
        let Some(answers) = ack.answers else { return self.rejected(now, ack.status) };
        let asked = self.number.wrapping_sub(self.outdated);
        let new = ack.number.wrapping_sub(self.outdated).wrapping_sub(1) < asked;
        if ack.session != self.session || !new || header.rank != self.parent().rank {
            return News::Nothing;
        }
        (self.silent, self.asking, self.joined) = (None, None, ack.joined);
        // What tells of the job tells a window, too.
        let visible = answers == Action::Join && ack.window > 0;
        self.known = if visible { Some(header.epoch) } else { self.known };
        match (self.state, answers) {
            (State::Idle, Action::Join) if self.known.is_some() => News::Numbered,
            (State::Idle, Action::Join) => {
                if core::mem::replace(&mut self.cookie, ack.cookie) != ack.cookie {
                    self.at_once(now);
                }
                self.refused = refusal(ack);
                News::Nothing
            }
            (State::Joining(wish), Action::Join) => self.joined(now, &wish, header, ack),
            (State::Member(granted), Action::Join) => self.repeated(&granted, (header, ack), operations),
            (State::Member(granted), Action::Query) => {
                self.alive_answered(header.epoch == granted.epoch, ack.status)
            }
            (State::Member(_) | State::Leaving { .. }, Action::Halt) => self.halt_answered(now, ack.status),
            (State::Resetting { next, .. }, Action::Reset) => self.reset_answered(now, ack.status, next),
            (State::Leaving { .. }, Action::Leave) => match ack.status {
                Status::Pending => {
                    self.waiting = u16::try_from(ack.expected).unwrap_or(u16::MAX);
                    News::Nothing
                }
                Status::TooMany => News::Nothing,
                // It was started anew, or goes on in another generation: others may need those here.
                Status::WrongEpoch | Status::NotMember => self.over(),
                _ => {
                    self.forget();
                    News::Nothing
                }
            },
            _ => News::Nothing,
        }
    }

    /// The answer to a member's Join.
    fn repeated(
        &mut self,
        granted: &Granted,
        (header, ack): (&Header, &Control),
        operations: Option<Operations>,
    ) -> News {
        // Another generation may have the number of this one, but not its first PSN as well.
        let same = (header.epoch, ack.psn) == (granted.epoch, granted.base);
        match ack.status {
            Status::Ok | Status::Pending | Status::WrongEpoch if same => {
                self.objection = None;
                self.suspended(false)
            }
            Status::TooMany => News::Nothing,
            Status::OperationMismatch | Status::RankLeft | Status::Overtaken => {
                self.objection = Some((ack.status, operations));
                self.suspended(false)
            }
            Status::Halted => self.suspended(true),
            _ => self.over(),
        }
    }

    pub(super) const fn over(&mut self) -> News {
        self.forget();
        News::Over
    }

    fn joined(&mut self, now: Duration, wish: &Wish, header: &Header, ack: &Control) -> News {
        match ack.status {
            Status::Pending | Status::WrongEpoch => {
                self.refused = None;
                let told = if ack.window > 0 { Some(header.epoch) } else { self.told };
                let news = (told, ack.cookie);
                if (self.told, self.cookie) != news {
                    (self.told, self.cookie) = news;
                    self.outdated = self.number;
                    self.at_once(now);
                }
                self.suspended(false)
            }
            Status::Ok => {
                let claimed = wish.resume;
                let resumed = control::named_generation(ack.expected);
                let resumed = resumed.filter(|epoch| claimed.is_some_and(|claim| claim.contains(*epoch)));
                if claimed.is_some() && resumed.is_none() {
                    self.forget();
                    return News::Anew;
                }
                let &Control { payload, window, psn: base, .. } = ack;
                if window == 0 || !Offer::of(wish.payload).is_some_and(|offer| offer.takes(payload)) {
                    return News::Nothing;
                }
                let workers = if ack.workers > 0 { ack.workers } else { u32::from(header.fan_in) };
                let granted = Granted { epoch: header.epoch, base, payload, window, resumed, workers };
                (self.state, self.due, self.outdated) = (State::Member(granted), None, self.number);
                if self.to_halt {
                    self.at_once(now);
                }
                (self.refused, self.halted) = (None, false);
                (self.was_halted, self.to_reset) = (false, false);
                self.ways.hold(true);
                News::Formed(granted)
            }
            Status::TooMany => News::Nothing,
            // An old Join, of an earlier life of this appliance, has taken its place since.
            Status::StaleSession => self.displaced(),
            // This session was taken for dead. What claims to go on has nothing to go on with.
            Status::RankLost if wish.resume.is_none() => self.displaced(),
            Status::Halted if self.to_reset => {
                self.reset_first(now, *wish);
                News::Nothing
            }
            status => {
                // An operator may put it right: it goes on asking.
                self.refused = refusal(ack);
                self.suspended(status == Status::Halted)
            }
        }
    }

    const fn displaced(&mut self) -> News {
        self.forget();
        News::Displaced
    }

    /// The parent has rejected a packet, perhaps since the generation is over: it is asked.
    pub(super) fn rejected(&mut self, now: Duration, status: Status) -> News {
        if self.granted().is_some() && !matches!(status, Status::UnknownPsn | Status::TooMany) {
            self.ask_soon(now);
        }
        News::Nothing
    }
}
