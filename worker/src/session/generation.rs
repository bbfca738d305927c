//! The generation of the job that the session belongs to: showing that it is alive, going on where it ends, leaving.
//!
//! A generation can end without the worker's doing: the appliance was started anew, or goes on without a rank that has
//! died. The worker then joins again with the same session and says which generation it comes from. If all ranks
//! come from it, PSNs go on (protocol, sections 9 and 10).

use core::time::Duration;

use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::{Element, Header, Kind};

use super::receive::Unusable;
use super::{Condition, Event, Session, Transmit};
use crate::allreduce::Failure;
use crate::counters::Ignored;
use crate::identity::Membership;
use crate::membership::{Asking, Left, Told};
use crate::refusal::Refusal;

/// How often a worker that waits shows that it is alive. What follows is limited only by this: within so long it
/// learns what has become of its generation, even if nothing else arrives.
pub const HEARTBEAT: Duration = Duration::from_millis(100);

/// For how long after a change of generations Acks may still arrive that were sent before it: those of the generation
/// before, and those of this one from the time when it did not know this worker yet. Nothing tells them from those
/// of an appliance that has been started anew meanwhile, and which repeats what it has to say.
const LATE: Duration = Duration::from_secs(1);

/// Asking to go on in the job's next generation.
#[derive(Debug)]
pub(super) struct Rejoin {
    asking: Asking,
    told: Told,
    joined: Option<u16>,
}

impl Rejoin {
    /// Ranks that had joined by the latest Ack.
    pub(super) fn joined(&self) -> u16 {
        self.joined.unwrap_or(0)
    }

    fn hear(&mut self, told: Told) {
        if self.told != told {
            self.told = told;
            self.asking.begin_again();
        }
    }
}

/// Asking whether all others have left.
#[derive(Debug)]
pub(super) struct Leaving {
    asking: Asking,
    /// The job goes on without what this session has kept: nobody can need it, and any answer will do.
    superseded: bool,
}

impl Leaving {
    pub(super) fn new(now: Duration, linger: Duration) -> Self {
        Self { asking: Asking::new(now, linger), superseded: false }
    }

    pub(super) fn is_over(&self, now: Duration) -> bool {
        self.asking.is_over(now)
    }
}

impl Session {
    /// When the next request is due, or the linger limit.
    pub(super) fn next_request(&self) -> Option<Duration> {
        match (&self.rejoin, &self.leaving, &self.operation) {
            (Some(rejoin), Some(leaving), _) => Some(rejoin.asking.poll_timeout().min(leaving.asking.end())),
            (Some(rejoin), None, Some(_)) => Some(rejoin.asking.poll_timeout()),
            (None, Some(leaving), _) => Some(leaving.asking.poll_timeout()),
            (None, None, Some(_)) => self.heartbeat,
            (_, None, None) => None,
        }
    }

    /// When the next request is due of a session that runs no operations and is tended all the time.
    pub(crate) fn next_tending(&self) -> Option<Duration> {
        match &self.rejoin {
            Some(rejoin) if self.leaving.is_none() => Some(rejoin.asking.poll_timeout()),
            _ => self.next_request().or(self.heartbeat),
        }
    }

    /// Whether it is open which generation the job is in: until that is known, whatever is sent would be refused.
    pub(crate) const fn is_in_doubt(&self) -> bool {
        self.rejoin.is_some()
    }

    /// Whether the worker has begun to leave, or has left.
    pub(crate) fn is_leaving(&self) -> bool {
        self.leaving.is_some() || self.condition == Condition::Broken
    }

    /// The request that is due, if one is.
    pub(super) fn request(&mut self, now: Duration) -> Option<Transmit> {
        let Membership { identity, session, epoch, spread } = self.membership;
        if let Some(rejoin) = &mut self.rejoin {
            let due = rejoin.asking.is_due(now);
            let (head, body) = identity.join(session, spread, control::generation(epoch), rejoin.told);
            return due.then(|| Transmit::control(&head, &body));
        }
        if let Some(leaving) = &mut self.leaving {
            let due = leaving.asking.is_due(now);
            let head = identity.header(Kind::Control, Element::F32_SUM, 0, epoch);
            return due.then(|| Transmit::control(&head, &Control::request(Action::Leave, session)));
        }
        self.heartbeat.take_if(|at| *at <= now)?;
        self.heartbeat = Some(now.saturating_add(HEARTBEAT));
        self.counters.heartbeats_sent += 1;
        let (head, body) = identity.join(session, spread, 0, Told::generation(epoch));
        Some(Transmit::control(&head, &body))
    }

    /// Handles a control packet.
    pub(super) fn on_control(
        &mut self,
        now: Duration,
        header: &Header,
        body: &[u8],
    ) -> Result<Option<Event>, Unusable> {
        let (ack, trailer) = Control::parse_with_trailer(header, body)?;
        if ack.action != Action::Ack {
            return Err(Ignored::Unexpected.into());
        }
        let refusal = Refusal::of(&ack, trailer.as_ref(), &self.membership.identity);
        let mine = ack.session == self.membership.session;
        let late = self.previous.is_some_and(|(previous, until)| {
            let known = header.epoch == self.membership.epoch && ack.status == Status::NotMember;
            now < until && (header.epoch == previous || known)
        });
        match (ack.answers, refusal) {
            (None, None) => Err(Ignored::Unexpected.into()),
            (None, Some(_)) if late => Err(Ignored::LateRefusal.into()),
            (None, Some(refusal)) => self.on_refusal(now, &ack, refusal),
            (Some(Action::Join), refusal) if mine && !late => self.on_joined(now, header, &ack, refusal),
            (Some(Action::Leave), _) if mine && !late && self.leaving.is_some() => {
                self.on_left(now, header, &ack)
            }
            (Some(_), _) => Err(Ignored::LateAnswer.into()),
        }
    }

    /// An Ack that answers no request: a packet of this worker, or of an earlier session, was refused.
    fn on_refusal(
        &mut self,
        now: Duration,
        ack: &Control,
        refusal: Refusal,
    ) -> Result<Option<Event>, Unusable> {
        // If the generation that the appliance expects is this session's, then it refused a packet that was under way
        // since an earlier session.
        let stale = ack.got != ack.expected && ack.expected == u32::from(self.membership.epoch);
        let over = matches!(ack.status, Status::WrongEpoch | Status::NotMember);
        if self.condition == Condition::Broken || stale && ack.status == Status::WrongEpoch {
            // Whoever is leaving learns from the Ack to its next Leave what has become of the generation.
            return Err(Ignored::LateRefusal.into());
        }
        match ack.status {
            _ if over => self.lose_generation(now, Told::NOTHING),
            Status::TooMany | Status::UnknownPsn => return Err(Ignored::NotFatal.into()),
            _ => return self.refused(now, refusal),
        }
        self.counters.acks += 1;
        Ok(None)
    }

    /// An Ack to a heartbeat, or to a Join that asks to go on.
    fn on_joined(
        &mut self,
        now: Duration,
        header: &Header,
        ack: &Control,
        refusal: Option<Refusal>,
    ) -> Result<Option<Event>, Unusable> {
        if self.rejoin.is_none() && self.condition == Condition::Broken {
            return Err(Ignored::LateAnswer.into());
        }
        let told = Told::generation(header.epoch);
        let lives = header.epoch == self.membership.epoch;
        match (ack.status, &mut self.rejoin) {
            // If there were doubts, an old refusal has raised them.
            (Status::Ok | Status::Pending | Status::WrongEpoch, rejoin) if lives => *rejoin = None,
            (Status::Ok, Some(_)) => return self.admitted(now, header, ack),
            (Status::Pending, Some(rejoin)) => {
                rejoin.joined = Some(header.count);
                rejoin.hear(told);
            }
            (Status::WrongEpoch, Some(rejoin)) => rejoin.hear(told),
            (Status::Ok | Status::Pending | Status::WrongEpoch, None) => self.lose_generation(now, told),
            (Status::NotMember, _) => self.lose_generation(now, Told::NOTHING),
            (Status::TooMany | Status::UnknownPsn, _) => return Err(Ignored::NotFatal.into()),
            _ => {
                return refusal.map_or(Err(Ignored::LateAnswer.into()), |refusal| self.refused(now, refusal));
            }
        }
        self.counters.acks += 1;
        Ok(None)
    }

    /// An Ack to a Leave.
    fn on_left(&mut self, now: Duration, header: &Header, ack: &Control) -> Result<Option<Event>, Unusable> {
        let lives = header.epoch == self.membership.epoch;
        let superseded = self.leaving.as_ref().is_some_and(|leaving| leaving.superseded);
        match ack.status {
            Status::TooMany => return Err(Ignored::NotFatal.into()),
            // The answer to a Leave of the generation before this one.
            Status::WrongEpoch if lives && !superseded => return Err(Ignored::LateAnswer.into()),
            Status::Pending if lives && !superseded => {}
            Status::Pending | Status::WrongEpoch | Status::NotMember if !lives && !superseded => {
                // An appliance that was started anew: others may still need what this worker has kept.
                self.lose_generation(now, Told::generation(header.epoch));
            }
            _ => {
                self.counters.acks += 1;
                return Ok(Some(self.left(Left::Everyone)));
            }
        }
        self.counters.acks += 1;
        Ok(None)
    }

    fn lose_generation(&mut self, now: Duration, told: Told) {
        if self.rejoin.is_none() {
            self.reminder = None;
            self.rejoin = Some(Rejoin { asking: Asking::new(now, Duration::MAX), told, joined: None });
        }
    }

    /// The job's next generation is complete, with this worker.
    fn admitted(&mut self, now: Duration, header: &Header, ack: &Control) -> Result<Option<Event>, Unusable> {
        let Membership { identity, epoch, spread, .. } = self.membership;
        if ack.payload != identity.payload || ack.window == 0 {
            let (expected, got) = (u32::from(ack.payload), u32::from(identity.payload));
            return self.refused(now, Refusal::Payload { job: identity.job, expected, got });
        }
        // A smaller window than before would forbid what is under way.
        let resumed = ack.expected == control::generation(epoch) && ack.window >= spread;
        let event = if resumed {
            self.resume(header.epoch);
            None
        } else {
            let (expected, got) = (u32::from(header.epoch), u32::from(epoch));
            let refusal = Refusal::Generation { job: identity.job, expected, got };
            let before = self.condition;
            let event = self.fail(|progress| Failure::Refused { refusal, progress }, now);
            self.start_anew(now, Membership { epoch: header.epoch, spread: ack.window, ..self.membership });
            // Each worker is told once: by the failure of what was running, or when it begins the next allreduce.
            self.condition = match before {
                Condition::Broken => before,
                _ if event.is_some() => Condition::Good,
                _ => Condition::Ended { expected: header.epoch, got: epoch },
            };
            event
        };
        self.previous = Some((epoch, now.saturating_add(LATE)));
        self.counters.refusals += u64::from(event.is_some());
        self.counters.acks += u64::from(event.is_none());
        Ok(event)
    }

    /// Goes on: what has no result is sent again, what is kept stays valid.
    fn resume(&mut self, epoch: u8) {
        self.membership.epoch = epoch;
        self.rejoin = None;
        self.window.begin_generation();
        self.recovery.begin_generation();
        if let Some(leaving) = &mut self.leaving {
            leaving.asking.begin_again();
        }
        self.counters.resumed += 1;
    }

    /// Forgets everything that belongs to PSNs: they begin anew.
    fn start_anew(&mut self, now: Duration, membership: Membership) {
        let mut anew = Self::new(membership, self.in_flight, self.first_psn);
        if self.partials.is_some() {
            anew = anew.accept_partial();
        }
        anew.condition = self.condition;
        anew.meter = self.meter;
        anew.report = self.report;
        anew.counters = self.counters;
        anew.leaving = self.leaving.take();
        anew.heartbeat = Some(now.saturating_add(HEARTBEAT));
        if let Some(leaving) = &mut anew.leaving {
            leaving.superseded = true;
            leaving.asking.begin_again();
        }
        *self = anew;
    }

    /// The appliance said no, for good.
    fn refused(&mut self, now: Duration, refusal: Refusal) -> Result<Option<Event>, Unusable> {
        if self.leaving.is_some() {
            self.counters.acks += 1;
            return Ok(Some(self.left(Left::Everyone)));
        }
        let event = self.fail(|progress| Failure::Refused { refusal, progress }, now);
        self.rejoin = None;
        self.counters.refusals += u64::from(event.is_some());
        event.map_or(Err(Ignored::LateRefusal.into()), |event| Ok(Some(event)))
    }

    /// Ends the wait for the others.
    pub(super) fn left(&mut self, left: Left) -> Event {
        self.leaving = None;
        self.rejoin = None;
        Event::Left(left)
    }
}
