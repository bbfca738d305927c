//! Handling of received datagrams.

use core::time::Duration;

use pascaline_wire::control::{APPLIANCE_RANK, Action, Control as Request, Status};
use pascaline_wire::header::PAUSE_UNIT;
use pascaline_wire::{Element, Header, Kind};
use zerocopy::IntoBytes as _;

use super::super::control::Heard;
use super::super::counters::AsyncIgnored;
use super::super::outstanding::Acknowledged;
use super::AsyncSession;
use super::genuine::{Answer, Numbers};
use crate::counters::Unusable;
use crate::identity::Membership;
use crate::membership::Left;
use crate::rejection::Rejection;
use crate::session::Event;

/// How long a worker that has never had weights waits for another to offer some.
const LAST: Duration = Duration::from_millis(300);

impl AsyncSession {
    /// Handles a received datagram. A datagram without effect is [counted](Self::counters) by reason. Returns
    /// the outcome once the worker has left.
    pub fn handle_datagram(&mut self, now: Duration, datagram: &[u8]) -> Option<Left> {
        self.counters.received += 1;
        match self.dispatch(now, datagram) {
            Ok(left) => left,
            Err(why) => {
                self.counters.reject(&why);
                None
            }
        }
    }

    fn dispatch(&mut self, now: Duration, datagram: &[u8]) -> Result<Option<Left>, Unusable<AsyncIgnored>> {
        let (header, body) = Header::parse(datagram)?;
        if header.job != self.membership().identity.job {
            return Err(AsyncIgnored::ForeignJob.into());
        }
        match header.kind {
            Kind::Control => {
                let (ack, _) = Request::parse_with_trailer(&header, body)?;
                if !self.is_answer(now, &header, &ack) {
                    return Err(AsyncIgnored::Unsolicited.into());
                }
                Ok(self.on_control(now, &header, body, datagram))
            }
            Kind::Ack => self.on_ack(now, &header, body).map(|()| None),
            _ => Err(AsyncIgnored::Unexpected.into()),
        }
    }

    fn on_ack(&mut self, now: Duration, header: &Header, body: &[u8]) -> Result<(), Unusable<AsyncIgnored>> {
        if header.epoch != self.membership().epoch {
            return Err(AsyncIgnored::WrongEpoch.into());
        }
        let (payload, trailer) = header.payload(body)?;
        let identity = &self.membership().identity;
        let update = trailer.and_then(|trailer| trailer.update);
        let known = header.rank < identity.ranks || header.rank == APPLIANCE_RANK;
        let update = update.filter(|_| known).ok_or(AsyncIgnored::NoUpdate)?;
        let own = header.rank == identity.rank;
        let answer = self.classify(header).ok_or(AsyncIgnored::Unsolicited)?;
        let why = header.own.status().filter(|why| *why != Status::Ok);
        if !payload.is_empty() {
            let fits = payload.len() == size_of_val(self.weights.as_slice());
            if header.element != Element::F32_SUM || !fits {
                return Err(AsyncIgnored::WrongModel.into());
            }
        }
        if !payload.is_empty() && answer == Answer::Latest {
            self.weights.as_mut_bytes().copy_from_slice(payload);
            self.version += 1;
            self.offer = None;
            self.counters.weights += 1;
        }
        if let Some(queue) = trailer.and_then(|trailer| trailer.queue) {
            let pause = PAUSE_UNIT * u32::from(header.own.pause());
            self.control.on_ack(now, Heard { queue, pause });
        }
        self.judged(now, why, own || header.count > 1, header.psn == self.initial_psn());
        *(if own { &mut self.counters.acks_own } else { &mut self.counters.acks_cluster }) += 1;
        if let Acknowledged::Open(updates) = self.outstanding.on_ack(now, own.then_some(header.psn), &update)
        {
            self.counters.acknowledged += u64::from(updates);
        }
        Ok(())
    }

    /// An answer about an update: one of this worker's, or one that may contain this worker's.
    fn judged(&mut self, now: Duration, why: Option<Status>, ours: bool, first: bool) {
        match why {
            None => self.counters.applied += u64::from(!first),
            Some(why) if ours => self.counters.refuse(why),
            Some(_) => {}
        }
        match why {
            None | Some(Status::LowReward) => self.futile.succeed(),
            Some(Status::NoModel) => self.offer_weights(now),
            Some(why) => self.futile.refuse(why),
        }
    }

    /// The server has no model: it gets the latest weights that this worker knows. A worker that has never
    /// had any lets others go first.
    fn offer_weights(&mut self, now: Duration) {
        let due = if self.version > 0 || self.own { now } else { now.saturating_add(LAST) };
        self.offer.get_or_insert(due);
    }

    fn on_control(&mut self, now: Duration, header: &Header, body: &[u8], datagram: &[u8]) -> Option<Left> {
        self.counters.controls += 1;
        self.futile.note_answer(now);
        let before = *self.membership();
        if header.rank == before.identity.rank
            && let Ok((ack, trailer)) = Request::parse_with_trailer(header, body)
            && let Some(rejection) = Rejection::of(&ack, trailer.as_ref(), &before.identity)
            && !self.member.is_over()
        {
            if ack.answers.is_none() {
                self.refused(header, ack.status);
            } else if ack.answers == Some(Action::Join)
                && ack.session == before.session
                && for_good(ack.status)
            {
                // An answer to anything else, such as a Query of its handshake, is not about its membership.
                self.rejection = Some(rejection);
            }
        }
        let event = self.member.handle_datagram(now, datagram, &mut []);
        let Membership { identity, epoch, base, .. } = *self.membership();
        if (epoch, base) != (before.epoch, before.base) {
            if base != before.base {
                self.next_psn = base;
                self.numbers = Numbers::new(base, identity.ranks);
            }
            // Updates in flight belong to the generation before.
            self.counters.given_up += u64::from(self.outstanding.forget());
            self.update.clear();
        }
        match event {
            Some(Event::Left(left)) => Some(left),
            _ => None,
        }
    }
}

impl AsyncSession {
    /// The appliance has refused an update. A single one, which may have been damaged on its way, has no
    /// consequence.
    fn refused(&mut self, header: &Header, why: Status) {
        if header.epoch != self.membership().epoch {
            return;
        }
        self.counters.refuse(why);
        match why {
            // A queue's filter compares rewards, as the server's rule does: others of the cluster train.
            Status::LowReward => self.futile.succeed(),
            why => self.futile.refuse(why),
        }
        self.counters.acknowledged += u64::from(self.outstanding.on_refused(header.psn));
    }
}

/// Whether a status ends the membership whatever the worker does; the others mean that it has to join again
/// or later, which it does by itself.
const fn for_good(status: Status) -> bool {
    !matches!(
        status,
        Status::Ok
            | Status::Pending
            | Status::WrongEpoch
            | Status::NotMember
            | Status::TooMany
            | Status::UnknownPsn
    )
}
