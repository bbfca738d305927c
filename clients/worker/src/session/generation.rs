//! The generation of the job that the session belongs to: showing that it is alive, resuming after its end,
//! leaving.
//!
//! A generation can end without the worker's doing: the appliance was restarted, or continues without a rank
//! that has died. The worker then joins again with the same session and names the generation that it comes
//! from. If all ranks come from it, PSNs continue (protocol, sections 9 and 10).

use core::time::Duration;

use pascaline_wire::Header;
use pascaline_wire::asking::Asking;
use pascaline_wire::control::{self, Action, Control, Status};

use super::receive::Handled;
use super::state::State;
use super::{Event, Session, Transmit};
use crate::allreduce::Failure;
use crate::counters::Ignored;
use crate::identity::{Identity, Membership};
use crate::membership::{Left, agrees, offering};
use crate::rejection::{Reason, Rejection};

/// How often a worker that waits shows that it is alive. Within this time it also learns the state of its
/// generation, even if nothing else arrives.
///
/// Others rely on it: the appliance takes a rank that is silent for ten of them for one that does not wait
/// (`WAITS` in `membership/leave.rs`), and no `dead_after` is shorter than three (`LEAST_DEAD_AFTER` in the
/// configuration); a worker turns to a backup after five ([`SILENCE`](crate::places::SILENCE)). The protocol
/// has it in section 9.
pub const HEARTBEAT: Duration = Duration::from_millis(100);

/// For how long after a change of generations packets may still be refused that were sent before it, or for
/// reasons that held before it: the worker was not a member of this generation from its start. Such an Ack
/// answers no request and so has no number; it looks like those of an appliance that was restarted meanwhile,
/// which repeats its refusals.
const LATE: Duration = Duration::from_secs(1);

/// A request to continue in the job's next generation.
#[derive(Debug)]
pub(super) struct Rejoin {
    pub(super) asking: Asking,
    told: Option<u16>,
    joined: Option<u16>,
    /// The worker's generation cannot be resumed, and it has discarded it: it asks to start from nothing.
    pub(super) anew: bool,
}

impl Rejoin {
    /// Ranks that had joined by the latest Ack.
    pub(super) fn joined(&self) -> u16 {
        self.joined.unwrap_or(0)
    }

    /// Notes the generation. True if it was unknown: then it asks at once, naming it.
    fn adopt(&mut self, told: Option<u16>) -> bool {
        let news = self.told != told;
        if news {
            self.told = told;
            self.asking.begin_again();
        }
        news
    }

    /// Asks to start from nothing, in a while.
    pub(super) const fn anew(now: Duration, epoch: u16) -> Self {
        let asking = Asking::new(now.saturating_add(HEARTBEAT));
        Self { asking, told: Some(epoch), joined: None, anew: true }
    }

    /// Asks as if no answer had come.
    pub(super) fn ask_anew(&mut self, now: Duration) {
        (self.told, self.joined, self.asking) = (None, None, Asking::new(now));
    }

    /// Asks to continue.
    fn resuming(now: Duration, told: Option<u16>) -> Self {
        Self { asking: Asking::new(now), told, joined: None, anew: false }
    }
}

impl Session {
    /// Whether the job's generation is unknown: until it is known, every packet would be refused.
    pub(crate) const fn is_in_doubt(&self) -> bool {
        self.state.rejoin().is_some()
    }

    /// The request that is due, if one is: a Leave, or a Join that asks to continue or is a heartbeat.
    pub(super) fn request(&mut self, now: Duration) -> Option<Transmit> {
        if !self.state.requests(now) {
            return None;
        }
        self.places.asked(now);
        let Membership { identity, session, epoch, spread, flexible, cookie, .. } = self.membership;
        let number = self.requests.next();
        let rejoin = self.state.rejoin();
        if rejoin.is_none() && self.is_over() {
            let (head, leave) = identity.leave(epoch, number, session);
            return Some(Transmit::control(&head, &self.describe(leave)));
        }
        let own = (Some(epoch), false);
        let (told, anew) = rejoin.map_or(own, |rejoin| (rejoin.told, rejoin.anew));
        let (head, join) = identity.join(number, session, spread, told);
        let mut join = self.describe(offering(Control { cookie, ..join }, flexible && anew));
        if rejoin.is_none() {
            self.counters.heartbeats_sent += 1;
        } else if told.is_some() {
            self.places.note_join();
        }
        if rejoin.is_some() && !anew {
            join.expected = control::generation(epoch);
            join.before = self.psns.base.map_or(0, control::generation);
        }
        join.hearing = self.hearing.say();
        Some(Transmit::control(&head, &join))
    }

    /// A request with a description of the sender's operation.
    fn describe(&self, request: Control) -> Control {
        let una = self.psns.window.una();
        let request = Control { psn: una, first: una, ..request };
        self.state.operation().map_or(request, |operation| Control {
            element: Some(operation.plan.element),
            first: operation.start,
            call: operation.plan.call,
            bytes: operation.tensor_len as u64,
            ..request
        })
    }

    /// Handles a control packet.
    pub(super) fn on_control(&mut self, now: Duration, header: &Header, body: &[u8]) -> Handled {
        let (ack, trailer) = Control::parse_with_trailer(header, body)?;
        if ack.action != Action::Ack {
            return Err(Ignored::Unexpected.into());
        }
        let rejection = Rejection::of(&ack, trailer.as_ref(), &self.membership.identity);
        let mine = ack.session == self.membership.session && self.requests.awaits(ack.number);
        let late = self.previous.is_some_and(|(previous, until)| {
            let known = header.epoch == self.membership.epoch && ack.status == Status::NotMember;
            now < until && (header.epoch == previous || known)
        });
        match (ack.answers, rejection) {
            (None, None) => Err(Ignored::Unexpected.into()),
            (None, Some(_)) if self.is_probe(header.psn) => Ok(None),
            (None, Some(rejection)) if self.commands_about(header.psn) => {
                self.on_commanded(now, (header, &ack), Some(rejection))
            }
            (None, Some(_)) if late => Err(Ignored::LateRejection.into()),
            (None, Some(_)) if !self.is_of_own(header, &ack) => Err(Ignored::Unsolicited.into()),
            (None, Some(rejection)) => self.on_rejection(now, &ack, rejection),
            (Some(Action::Join), rejection) if mine => self.on_joined(now, header, &ack, rejection),
            (Some(Action::Query), _) if mine => {
                if let Some(operation) = self.state.operation_mut() {
                    operation.inquiry.answered(&ack, trailer.as_ref());
                }
                Ok(None)
            }
            (Some(Action::Leave), _) if mine => self.on_left(now, header, &ack),
            (Some(_), rejection) if mine => self.on_commanded(now, (header, &ack), rejection),
            (Some(_), _) => Err(Ignored::LateAnswer.into()),
        }
    }

    /// Whether a refusal of this PSN is the answer to a probe.
    fn is_probe(&mut self, psn: u32) -> bool {
        self.state.operation_mut().is_some_and(|operation| operation.inquiry.probed(psn))
    }

    /// An Ack to a heartbeat, or to a Join that asks to resume.
    fn on_joined(
        &mut self,
        now: Duration,
        header: &Header,
        ack: &Control,
        rejection: Option<Rejection>,
    ) -> Handled {
        if self.is_over() && !self.is_in_doubt() {
            return Err(Ignored::LateAnswer.into());
        }
        if ack.status == Status::Ok {
            self.note_group(ack);
        }
        let told = Some(header.epoch);
        let news = core::mem::replace(&mut self.membership.cookie, ack.cookie) != ack.cookie;
        if news && let Some(rejoin) = self.state.rejoin_mut() {
            rejoin.asking.begin_again();
        }
        let anew = self.state.rejoin().is_some_and(|rejoin| rejoin.anew);
        let lives = self.is_member_of(header, ack) && !anew && self.places.is_home();
        let leaving = self.is_over();
        match (ack.status, self.state.rejoin_mut()) {
            // Any doubt came from an old rejection.
            (Status::Ok | Status::Pending | Status::WrongEpoch, _) if lives => {
                self.state.take_rejoin();
            }
            (Status::Ok, Some(_)) => return self.admitted(now, header, ack),
            (Status::Pending, Some(rejoin)) => {
                rejoin.joined = Some(ack.joined);
                let counted = rejoin.told == told && !news;
                if !self.has_looked(now, header.epoch, counted) {
                    self.adopt(told);
                }
            }
            (Status::WrongEpoch, Some(_)) => self.adopt(told),
            (Status::Ok | Status::Pending | Status::WrongEpoch, None) => self.lose_generation(now, told),
            (Status::NotMember, _) | (Status::UnknownJob, None) => self.lose_generation(now, None),
            // It has been a member: a restarted appliance may not have the job yet.
            (Status::UnknownJob, Some(_)) if !leaving => return Err(Ignored::NotFatal.into()),
            // Sent by an appliance that it has left before: it may be needed elsewhere.
            (Status::StaleSession, Some(_)) if leaving && !self.places.is_home() => {
                return Err(Ignored::NotFatal.into());
            }
            (Status::TooMany | Status::UnknownPsn, _) => return Err(Ignored::NotFatal.into()),
            _ => {
                return rejection
                    .map_or(Err(Ignored::LateAnswer.into()), |rejection| self.rejected(now, rejection));
            }
        }
        Ok(None)
    }

    /// Whether an Ack says that this worker is a member of the generation that it knows: another one may have
    /// its number, but not its first PSN as well, which only members get.
    fn is_member_of(&self, header: &Header, ack: &Control) -> bool {
        (header.epoch, ack.psn) == (self.membership.epoch, self.membership.base)
    }

    /// An Ack to a Leave.
    fn on_left(&mut self, now: Duration, header: &Header, ack: &Control) -> Handled {
        let lives = self.is_member_of(header, ack);
        let State::Leaving(leaving) = &mut self.state else { return Err(Ignored::LateAnswer.into()) };
        leaving.heard = now;
        let left = match ack.status {
            Status::TooMany => return Err(Ignored::NotFatal.into()),
            Status::Pending if lives => (!leaving.must_stay(now, ack.expected > 0)).then_some(Left::Lingered),
            Status::WrongEpoch if lives => None,
            Status::Pending | Status::WrongEpoch | Status::NotMember => {
                // A restarted appliance: others may still need this worker's results.
                self.lose_generation(now, Some(header.epoch));
                None
            }
            _ => Some(Left::Everyone),
        };
        Ok(left.map(|left| self.left(left)))
    }

    pub(super) fn lose_generation(&mut self, now: Duration, told: Option<u16>) {
        let Some(place @ None) = self.state.rejoin_place() else { return };
        *place = Some(Rejoin::resuming(now, told));
        if let Some(operation) = self.state.operation_mut() {
            operation.reminder = None;
        }
        if let State::Leaving(leaving) = &mut self.state {
            leaving.heard = now;
        }
        self.requests.outdate();
    }

    /// Notes the job's generation while asking to resume. Answers to requests that named another one are out
    /// of date: that generation has ended.
    fn adopt(&mut self, told: Option<u16>) {
        if self.state.rejoin_mut().is_some_and(|rejoin| rejoin.adopt(told)) {
            self.requests.outdate();
        }
    }

    /// The appliance has answered `ok` to a Join that asks to resume, or to start from nothing.
    fn admitted(&mut self, now: Duration, header: &Header, ack: &Control) -> Handled {
        let Membership { identity, epoch, spread, .. } = self.membership;
        let anew = self.state.rejoin().is_some_and(|rejoin| rejoin.anew);
        // The generation that this worker and all others can resume.
        let agreed = control::named_generation(ack.expected);
        let resumed = agreed.is_some_and(|agreed| agreed == epoch || Some(agreed) == self.psns.base);
        if (resumed || anew) && ack.payload == 0 {
            return Err(Ignored::LateAnswer.into()); // 0 means that it cannot resume: never sent to a member
        }
        let agreed_on = agrees(ack, identity.payload, self.membership.flexible && anew);
        if (resumed || anew) && (!agreed_on || ack.window == 0) {
            let differs = identity.rejection(Reason::Payload, ack.payload.into(), identity.payload.into());
            return self.rejected(now, differs);
        }
        if self.sums && resumed && !anew && ack.workers != self.membership.workers {
            // The appliance has the job without its parent, or below another one: its results have other
            // ranks inside.
            let all = |workers| if workers == 0 { identity.ranks.into() } else { workers };
            let (there, before) = (all(ack.workers), all(self.membership.workers));
            return self.rejected(now, identity.rejection(Reason::Workers, there, before));
        }
        let mut event = None;
        if anew {
            self.previous = Some((epoch, now.saturating_add(LATE)));
            let (epoch, spread, base, workers) = (header.epoch, ack.window, ack.psn, ack.workers);
            let identity = Identity { payload: ack.payload, ..identity };
            if let Err(why) =
                self.start_anew(now, Membership { identity, epoch, spread, base, workers, ..self.membership })
            {
                return self.rejected(now, why);
            }
        } else if resumed && ack.window >= spread {
            self.previous = Some((epoch, now.saturating_add(LATE)));
            self.psns.base = agreed;
            self.resume(now, header.epoch, ack.psn);
        } else if self.is_over() {
            // No rank can need its results, and it is not a member that others wait for.
            event = Some(self.left(Left::Everyone));
        } else {
            event = self.end_generation(now, header.epoch);
        }
        self.requests.outdate();
        self.counters.rejections += u64::from(matches!(event, Some(Event::Failed(_))));
        Ok(event)
    }

    /// Resumes: PSNs without a result are sent again, kept results stay valid.
    fn resume(&mut self, now: Duration, epoch: u16, base: u32) {
        (self.membership.epoch, self.membership.base) = (epoch, base);
        self.places.settle(now, epoch);
        self.state.take_rejoin();
        self.psns.window.begin_generation();
        self.psns.recovery.begin_generation();
        if let State::Leaving(leaving) = &mut self.state {
            // No rank is known to wait in this one yet.
            leaving.asking.begin_again();
            (leaving.needed, leaving.heard) = (now, now);
        }
        self.counters.resumed += 1;
    }

    /// The appliance has refused for good.
    pub(super) fn rejected(&mut self, now: Duration, rejection: Rejection) -> Handled {
        if self.is_over() {
            return Ok(Some(self.left(Left::Everyone)));
        }
        let event = self.fail(|progress| Failure::Rejected { rejection, progress }, now);
        self.state.take_rejoin();
        self.counters.rejections += u64::from(event.is_some());
        event.map_or(Err(Ignored::LateRejection.into()), |event| Ok(Some(event)))
    }
}
