//! What a parent's answers change.

use core::time::Duration;

use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::header::Header;
use pascaline_wire::trailer::Operations;

use super::{Granted, Halted, Member, News, State, Uplink};
use crate::membership::offer::Offer;

impl Uplink {
    /// An answer of the parent.
    pub(in crate::membership) fn answered(
        &mut self,
        now: Duration,
        (header, ack): (&Header, &Control),
        operations: Option<Operations>,
    ) -> News {
        let Some(answers) = ack.answers else { return self.rejected(ack.status) };
        let awaited = self.requests.awaits(ack.number);
        if ack.session != self.session || !awaited || header.rank != self.parent().rank {
            return News::Nothing;
        }
        self.silence.begin(None);
        self.joined = ack.joined;
        // What tells of the job tells a window, too.
        if answers == Action::Join && ack.window > 0 {
            self.numbers.known = Some(header.epoch);
        }
        match (self.state, answers) {
            (State::Idle, Action::Join) if !self.lacks_number() => {
                self.asking.stop();
                News::Numbered
            }
            (State::Idle, Action::Join) => {
                if core::mem::replace(&mut self.cookie, ack.cookie) != ack.cookie {
                    self.asking.begin_again();
                }
                let refuses = !matches!(
                    ack.status,
                    Status::Ok | Status::Pending | Status::WrongEpoch | Status::TooMany
                );
                self.refused = refuses.then_some((ack.status, ack.expected));
                News::Nothing
            }
            (State::Joining { .. }, Action::Join) => self.joined(header, ack),
            (State::Member(_), Action::Join) => self.repeated((header, ack), operations),
            (State::Member(member), Action::Query) => match ack.status {
                Status::Ok | Status::RankLeft if header.epoch == member.granted.epoch => News::Nothing,
                Status::TooMany => News::Nothing,
                _ => self.end(News::Over),
            },
            (State::Member(_) | State::Leaving { .. }, Action::Halt) => self.halt_answered(ack.status),
            (State::Resetting { .. }, Action::Reset) => self.reset_answered(now, ack.status),
            (State::Leaving { epoch, until, called, .. }, Action::Leave) => match ack.status {
                Status::Pending => {
                    let waiting = u16::try_from(ack.expected).unwrap_or(u16::MAX);
                    self.state = State::Leaving { epoch, until, called, waiting };
                    News::Nothing
                }
                Status::TooMany => News::Nothing,
                // It was started anew, or goes on in another generation: others may need those here.
                Status::WrongEpoch | Status::NotMember => self.end(News::Over),
                _ => self.end(News::Nothing),
            },
            _ => News::Nothing,
        }
    }

    /// The answer to a member's Join.
    fn repeated(&mut self, (header, ack): (&Header, &Control), operations: Option<Operations>) -> News {
        let State::Member(Member { granted, objection, .. }) = &mut self.state else { return News::Nothing };
        // Another generation may have the number of this one, but not its first PSN as well.
        let same = (header.epoch, ack.psn) == (granted.epoch, granted.base);
        match ack.status {
            Status::Ok | Status::Pending | Status::WrongEpoch if same => {
                *objection = None;
                self.note_halted(false)
            }
            Status::TooMany => News::Nothing,
            Status::OperationMismatch | Status::RankLeft | Status::Overtaken => {
                *objection = Some((ack.status, operations));
                self.note_halted(false)
            }
            Status::Halted => self.note_halted(true),
            _ => self.end(News::Over),
        }
    }

    /// The membership is over, or the attempt to become a member.
    pub(super) fn end(&mut self, news: News) -> News {
        self.forget();
        news
    }

    /// The answer to the Join of one that is not a member yet.
    fn joined(&mut self, header: &Header, ack: &Control) -> News {
        let State::Joining { wish, told } = self.state else { return News::Nothing };
        match ack.status {
            Status::Pending | Status::WrongEpoch => {
                self.refused = None;
                let news = if ack.window > 0 { Some(header.epoch) } else { told };
                if (told, self.cookie) != (news, ack.cookie) {
                    self.cookie = ack.cookie;
                    self.enter(State::Joining { wish, told: news });
                }
                self.note_halted(false)
            }
            Status::Ok => {
                let claimed = wish.resume;
                let resumed = control::named_generation(ack.expected);
                let resumed = resumed.filter(|epoch| claimed.is_some_and(|claim| claim.contains(*epoch)));
                if claimed.is_some() && resumed.is_none() {
                    return self.end(News::Anew);
                }
                let &Control { payload, window, psn: base, .. } = ack;
                if window == 0 || !Offer::of(wish.payload).is_some_and(|offer| offer.takes(payload)) {
                    return News::Nothing;
                }
                let workers = if ack.workers > 0 { ack.workers } else { u32::from(header.fan_in) };
                let granted = Granted { epoch: header.epoch, base, payload, window, resumed, workers };
                self.state = State::Member(Member::new(wish, granted, self.silence.sent));
                self.requests.outdate();
                self.asking.stop();
                if self.to_halt {
                    self.asking.begin_again();
                }
                (self.refused, self.halted) = (None, Halted::No);
                self.ways.held = Duration::MAX;
                News::Formed(granted)
            }
            Status::TooMany => News::Nothing,
            // An old Join, of an earlier life of this appliance, has taken its place since.
            Status::StaleSession => self.end(News::Displaced),
            // This session was taken for dead. What claims to go on has nothing to go on with.
            Status::RankLost if wish.resume.is_none() => self.end(News::Displaced),
            Status::Halted if self.halted == Halted::Lifted => {
                // It has not heard of the Reset, which goes first.
                if let Some(epoch) = told {
                    self.halted = Halted::Before;
                    self.enter(State::Resetting { epoch, next: Some((wish, self.session)) });
                }
                News::Nothing
            }
            status => {
                // An operator may put it right: it goes on asking.
                self.refused = Some((status, ack.expected));
                self.note_halted(status == Status::Halted)
            }
        }
    }

    /// The parent has rejected a packet, perhaps since the generation is over: it is asked.
    pub(super) fn rejected(&mut self, status: Status) -> News {
        if self.granted().is_some() && !matches!(status, Status::UnknownPsn | Status::TooMany) {
            self.ask_soon();
        }
        News::Nothing
    }
}
