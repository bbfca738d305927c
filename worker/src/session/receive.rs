//! What a received datagram does.

use core::time::Duration;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::{Flags, Header, Kind, Malformed, Trailer};

use super::{Event, Session};
use crate::allreduce::{Failure, Report};
use crate::counters::Ignored;
use crate::refusal::Refusal;
use crate::window::Standing;

impl Session {
    /// Handles a received datagram. A result is written into its place in `tensor`; everything that has no effect is
    /// [counted](Self::counters) by reason.
    pub fn handle_datagram(&mut self, now: Duration, datagram: &[u8], tensor: &mut [u8]) -> Option<Event> {
        self.counters.received += 1;
        match self.dispatch(now, datagram, tensor) {
            Ok(event) => event,
            Err(Unusable::Malformed(reason)) => {
                self.counters.refuse(reason);
                None
            }
            Err(Unusable::Ignored(reason)) => {
                self.counters.ignore(reason);
                None
            }
        }
    }

    fn dispatch(
        &mut self,
        now: Duration,
        datagram: &[u8],
        tensor: &mut [u8],
    ) -> Result<Option<Event>, Unusable> {
        let (header, body) = Header::parse(datagram)?;
        if header.job != self.membership.identity.job {
            return Err(Ignored::ForeignJob.into());
        }
        match header.kind {
            Kind::Control if header.rank != self.membership.identity.rank => Err(Ignored::ForeignRank.into()),
            Kind::Control => return self.on_control(now, &Control::parse(body)?),
            Kind::Result | Kind::Reminder if header.epoch != self.membership.epoch => {
                Err(Ignored::WrongEpoch.into())
            }
            Kind::Result => return self.on_result(now, &header, body, tensor),
            Kind::Reminder => self.on_reminder(now, header.psn),
            Kind::Gradient | Kind::Partial | Kind::Update | Kind::Ack | Kind::Fetch => {
                Err(Ignored::Unexpected.into())
            }
        }
        .map(|()| None)
    }

    fn on_result(
        &mut self,
        now: Duration,
        header: &Header,
        body: &[u8],
        tensor: &mut [u8],
    ) -> Result<Option<Event>, Unusable> {
        let psn = header.psn;
        let operation = match &self.operation {
            Some(operation) if self.window.standing(psn) == Standing::Outstanding => operation,
            Some(_) if self.window.standing(psn) == Standing::Unsent => return Err(Ignored::Unsent.into()),
            _ if self.has_result(psn) => {
                self.counters.duplicate_results += 1;
                return Ok(None);
            }
            _ => return Err(Ignored::UnknownPsn.into()),
        };
        if header.element != operation.element {
            return Err(Ignored::WrongElement.into());
        }
        if header.count != self.membership.identity.ranks {
            return Err(Ignored::Incomplete.into());
        }
        let payload = if header.flags.has(Flags::TRAILER) { Trailer::split(body)?.0 } else { body };
        let place = tensor.get_mut(operation.range(psn)).filter(|place| place.len() == payload.len());
        place.ok_or(Ignored::WrongLength)?.copy_from_slice(payload);
        let overflowed = header.flags.has(Flags::OVERFLOW);
        if let Some(completion) = self.window.complete(psn, overflowed) {
            self.counters.results += 1;
            self.counters.overflows += u64::from(overflowed);
            self.recovery.on_result(now, &completion, &mut self.window);
        }
        if !self.window.is_complete() {
            return Ok(None);
        }
        self.finish(now, tensor);
        Ok(Some(Event::Completed))
    }

    fn has_result(&self, psn: u32) -> bool {
        self.kept.entry(psn).is_some() || self.operation.is_some() && self.window.is_done(psn)
    }

    /// Ends a complete operation: the tensor goes back to its owner, so the last results are copied.
    fn finish(&mut self, now: Duration, tensor: &[u8]) {
        let Some(operation) = self.operation.take() else { return };
        let end = self.window.end();
        let packets = end.wrapping_sub(operation.start);
        for back in (1..=packets.min(self.window.spread())).rev() {
            let psn = end.wrapping_sub(back);
            let bytes = tensor.get(operation.range(psn)).unwrap_or_default();
            self.kept.keep(psn, operation.element, self.window.overflowed(psn), bytes);
        }
        self.reminder = None;
        self.report = Report {
            packets,
            bytes: operation.tensor_len,
            elapsed: now.saturating_sub(operation.started),
            counters: self.counters - operation.before,
            round_trip: self.recovery.rtt().smoothed(),
        };
    }

    fn on_reminder(&mut self, now: Duration, psn: u32) -> Result<(), Unusable> {
        let standing = self.operation.as_ref().map(|_| self.window.standing(psn));
        let last = match standing {
            Some(Standing::Outstanding | Standing::Done) => self.window.last_reaction(psn),
            _ => match self.kept.entry(psn) {
                Some(entry) => entry.reminded_at,
                None => return Err(Ignored::ReminderUnanswerable.into()),
            },
        };
        if !self.answers.admit(now, last) {
            return Err(Ignored::ReminderLimited.into());
        }
        self.counters.reminders_received += 1;
        match standing {
            Some(Standing::Outstanding) => {
                self.window.lose(psn);
            }
            Some(Standing::Done) => {
                self.window.note_answer(psn, now);
                self.answers.push(psn);
            }
            _ => {
                self.kept.note_answer(psn, now);
                self.answers.push(psn);
            }
        }
        Ok(())
    }

    fn on_control(&mut self, now: Duration, control: &Control) -> Result<Option<Event>, Unusable> {
        if control.action != Action::Ack {
            return Err(Ignored::Unexpected.into());
        }
        if control.answers.is_some() {
            return Err(Ignored::LateAnswer.into());
        }
        let refusal = Refusal::of(control, &self.membership.identity).ok_or(Ignored::Unexpected)?;
        // If the generation that the appliance expects is this session's, then it refused a packet that was under way
        // since an earlier session.
        let stale = control.status == Status::WrongEpoch
            && control.got != control.expected
            && control.expected == u32::from(self.membership.epoch);
        if stale || self.operation.is_none() {
            return Err(Ignored::LateRefusal.into());
        }
        self.counters.refusals += 1;
        Ok(self.fail(|progress| Failure::Refused { refusal, progress }, now))
    }
}

/// Why a datagram has no effect.
enum Unusable {
    Malformed(Malformed),
    Ignored(Ignored),
}

impl From<Malformed> for Unusable {
    fn from(reason: Malformed) -> Self {
        Self::Malformed(reason)
    }
}

impl From<Ignored> for Unusable {
    fn from(reason: Ignored) -> Self {
        Self::Ignored(reason)
    }
}
