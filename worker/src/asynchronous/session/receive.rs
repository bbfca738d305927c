//! What a received datagram does.

use core::time::Duration;

use pascaline_wire::control::{Control as Request, Status};
use pascaline_wire::{Element, Header, Kind};
use zerocopy::IntoBytes as _;

use super::super::control::Heard;
use super::super::counters::AsyncIgnored;
use super::super::outstanding::Acknowledged;
use super::{AsyncSession, PAUSE_UNIT};
use crate::counters::Unusable;
use crate::membership::Left;
use crate::rejection::Rejection;
use crate::session::Event;

impl AsyncSession {
    /// Handles a received datagram. Everything that has no effect is [counted](Self::counters) by reason.
    /// Tells when the worker has left.
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
            Kind::Control => Ok(self.on_control(now, &header, body, datagram)),
            Kind::Ack => self.on_ack(now, &header, body).map(|()| None),
            _ => Err(AsyncIgnored::Unexpected.into()),
        }
    }

    fn on_ack(&mut self, now: Duration, header: &Header, body: &[u8]) -> Result<(), Unusable<AsyncIgnored>> {
        if header.epoch != self.epoch {
            return Err(AsyncIgnored::WrongEpoch.into());
        }
        let (payload, trailer) = header.payload(body)?;
        let identity = &self.membership().identity;
        let update = trailer.and_then(|trailer| trailer.update);
        let update = update.filter(|_| header.rank < identity.ranks).ok_or(AsyncIgnored::NoUpdate)?;
        let own = header.rank == identity.rank;
        if !payload.is_empty() {
            let fits = payload.len() == size_of_val(self.weights.as_slice());
            if header.element != Element::F32_SUM || !fits {
                return Err(AsyncIgnored::WrongModel.into());
            }
            self.weights.as_mut_bytes().copy_from_slice(payload);
            self.version += 1;
            self.offer = None;
            self.counters.weights += 1;
        }
        if let Some(queue) = trailer.and_then(|trailer| trailer.queue) {
            let pause = PAUSE_UNIT * u32::from(header.wnd_cap);
            self.control.on_ack(now, Heard { queue, pause });
        }
        *(if own { &mut self.counters.acks_own } else { &mut self.counters.acks_cluster }) += 1;
        if let Acknowledged::Open(updates) = self.outstanding.on_ack(now, own.then_some(header.psn), &update)
        {
            self.counters.acknowledged += u64::from(updates);
        }
        Ok(())
    }

    fn on_control(&mut self, now: Duration, header: &Header, body: &[u8], datagram: &[u8]) -> Option<Left> {
        self.counters.controls += 1;
        let identity = self.membership().identity;
        if header.rank == identity.rank
            && let Ok((ack, trailer)) = Request::parse_with_trailer(header, body)
            && let Some(rejection) = Rejection::of(&ack, trailer.as_ref(), &identity)
            && for_good(ack.status)
            && !self.member.is_leaving()
        {
            self.rejection = Some(rejection);
        }
        let event = self.member.handle_datagram(now, datagram, &mut []);
        let epoch = self.member.membership().epoch;
        if epoch != self.epoch {
            self.epoch = epoch;
            // What was under way belongs to the generation before.
            self.counters.given_up += u64::from(self.outstanding.forget());
            if core::mem::take(&mut self.ready) {
                self.update.clear();
            }
        }
        match event {
            Some(Event::Left(left)) => Some(left),
            _ => None,
        }
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
