//! Handling of received datagrams.

use core::time::Duration;

use pascaline_wire::{Flags, Header, Kind, RankSet, Trailer, round};

use super::state::{State, Task};
use super::{Event, Session};
use crate::allreduce::Report;
use crate::answers::Asked;
use crate::congestion::Signal;
use crate::counters::{Ignored, Unusable};
use crate::identity::Membership;
use crate::rejection::Reason;
use crate::window::{Completion, Standing};

/// A datagram's effect, or why it has none.
pub(super) type Handled<T = Option<Event>> = Result<T, Unusable<Ignored>>;

impl Session {
    /// Handles a received datagram. A result is written into its place in `tensor`; a datagram without effect
    /// is [counted](Self::counters) by reason.
    pub fn handle_datagram(&mut self, now: Duration, datagram: &[u8], tensor: &mut [u8]) -> Option<Event> {
        self.handle_marked(now, datagram, false, tensor)
    }

    /// Likewise, of a datagram that was `marked` on its way if the IP header says so (CE).
    pub fn handle_marked(
        &mut self,
        now: Duration,
        datagram: &[u8],
        marked: bool,
        tensor: &mut [u8],
    ) -> Option<Event> {
        self.counters.received += 1;
        self.way.note_received(now);
        self.places.note_answer();
        let event = match self.dispatch(now, datagram, marked, tensor) {
            Ok(event) => event,
            Err(why) => {
                self.counters.reject(&why);
                None
            }
        };
        if self.state.command().is_none() { event } else { event.or_else(|| self.command_answer(datagram)) }
    }

    /// Whether this is the answer to a command, even if it has no other use here.
    fn command_answer(&mut self, datagram: &[u8]) -> Option<Event> {
        let (header, _) = Header::parse(datagram).ok()?;
        let Membership { identity, epoch, .. } = self.membership;
        let about = matches!(header.kind, Kind::Result | Kind::Reminder);
        let mine = about && (header.job, header.epoch) == (identity.job, epoch);
        (mine && self.commands_about(header.psn)).then(|| self.commanded(Ok(())))
    }

    fn dispatch(&mut self, now: Duration, datagram: &[u8], marked: bool, tensor: &mut [u8]) -> Handled {
        let (mut header, body) = Header::parse(datagram)?;
        if header.job != self.membership.identity.job {
            return Err(Ignored::ForeignJob.into());
        }
        if marked && header.kind == Kind::Result {
            header.flags = header.flags.with(Flags::ECN_ECHO);
        }
        match header.kind {
            Kind::Control if header.rank != self.membership.identity.rank => Err(Ignored::ForeignRank.into()),
            Kind::Control => {
                let rejections = self.counters.rejections;
                let event = self.on_control(now, &header, body)?;
                self.counters.acks += u64::from(self.counters.rejections == rejections);
                return Ok(event);
            }
            Kind::Result | Kind::Reminder if header.epoch != self.membership.epoch => {
                Err(Ignored::WrongEpoch.into())
            }
            Kind::Result => return self.on_result(now, &header, body, tensor),
            Kind::Reminder => self.on_reminder(now, &header),
            Kind::Gradient | Kind::Partial | Kind::Update | Kind::Ack | Kind::Fetch => {
                Err(Ignored::Unexpected.into())
            }
        }
        .map(|()| None)
    }

    fn on_result(&mut self, now: Duration, header: &Header, body: &[u8], tensor: &mut [u8]) -> Handled {
        let psn = header.psn;
        let standing = self.state.operation().map(|_| self.psns.window.standing(psn));
        let operation = match standing {
            Some(Standing::Outstanding) => self.state.operation_mut(),
            Some(Standing::Unsent) => return Err(Ignored::Unsent.into()),
            _ if self.has_result(psn) => {
                self.counters.duplicate_results += 1;
                return Ok(None);
            }
            _ => None,
        };
        let operation = operation.ok_or(Ignored::UnknownPsn)?;
        if !round::admits(self.psns.window.promised(psn), header.own.round()) {
            return Err(Ignored::OutVoted.into());
        }
        if header.element != operation.element(psn) {
            return Err(Ignored::WrongElement.into());
        }
        let ranks = self.membership.identity.ranks;
        if header.count != ranks && self.psns.partials.is_none() {
            return Err(Ignored::Incomplete.into());
        }
        let (payload, inside) = contents(header, body, ranks)?;
        if operation.lacks_source(inside.as_ref()) {
            return Err(Ignored::Incomplete.into());
        }
        let divisor = match self.membership.workers {
            0 => u32::from(header.count),
            workers => workers,
        };
        match operation.take(psn, payload, divisor, tensor) {
            Ok(()) => {}
            Err(Ignored::OtherOperation) => return self.disagree(now),
            Err(why) => return Err(why.into()),
        }
        let overflowed = header.flags.has(Flags::OVERFLOW);
        if let Some(partials) = &mut self.psns.partials {
            partials.note(psn, inside.as_ref());
        }
        if let Some(inside) = &inside {
            operation.note_partial(inside, ranks);
            self.counters.partial_results += 1;
        }
        if !operation.holds(psn) {
            let flags = operation.result_flags(psn, overflowed);
            self.psns.cache.insert(psn, operation.element(psn), flags, payload);
        }
        self.note_result(now, header, overflowed);
        if !self.psns.window.is_complete() {
            return Ok(None);
        }
        self.finish(now, tensor);
        Ok(Some(Event::Completed))
    }

    /// Notes a taken result's information about the path, once.
    fn note_result(&mut self, now: Duration, header: &Header, overflowed: bool) {
        let Some(completion) = self.psns.window.complete(header.psn, overflowed) else { return };
        let marked = header.flags.has(Flags::ECN_ECHO);
        let signal = Signal { marked, cap: header.own.wnd_cap() };
        self.psns.base = None;
        self.counters.results += 1;
        self.places.note_progress(now);
        self.counters.overflows += u64::from(overflowed);
        self.counters.marked += u64::from(marked);
        if self.hearing.note_result(now) {
            self.set_heartbeat(now);
        }
        self.psns.recovery.on_result(now, &Completion { signal, ..completion }, &mut self.psns.window);
    }

    /// The ranks call different operations, as the result of the PSN that compares has shown.
    fn disagree(&mut self, now: Duration) -> Handled {
        if self.has_expired_dispute(now) {
            let rejection = self.membership.identity.rejection(Reason::Operations(None), 0, 0);
            return self.rejected(now, rejection);
        }
        Err(Ignored::OtherOperation.into())
    }

    fn has_result(&self, psn: u32) -> bool {
        self.psns.cache.entry(psn).is_some()
            || self.state.operation().is_some() && self.psns.window.is_done(psn)
    }

    /// Ends a complete operation: the tensor returns to its owner, so the last results are copied.
    fn finish(&mut self, now: Duration, tensor: &[u8]) {
        let Some(Task::Operation(operation)) = self.state.take_task() else { return };
        let end = self.psns.window.end();
        let packets = end.wrapping_sub(operation.start);
        let latest = (1..=packets.min(self.psns.window.spread())).rev().map(|back| end.wrapping_sub(back));
        for psn in latest.filter(|&psn| operation.holds(psn)) {
            let bytes = tensor.get(operation.range(psn)).unwrap_or_default();
            let flags = operation.result_flags(psn, self.psns.window.overflowed(psn));
            self.psns.cache.insert(psn, operation.element(psn), flags, bytes);
        }
        self.meter.end(now);
        self.report = Report {
            packets,
            bytes: operation.tensor_len,
            elapsed: now.saturating_sub(operation.started),
            counters: self.counters - operation.before,
            round_trip: self.psns.recovery.rtt().smoothed(),
            priority: operation.priority,
            partial: operation.partial,
        };
    }

    /// Another rank lacks a result, or (with BYPASS) the parameter server collects contributions to make it.
    fn on_reminder(&mut self, now: Duration, header: &Header) -> Handled<()> {
        let (psn, bypass) = (header.psn, header.flags.has(Flags::BYPASS));
        let standing = self.state.operation().map(|_| self.psns.window.standing(psn));
        let last = match standing {
            Some(Standing::Outstanding) if !bypass => self.psns.window.last_sending(psn),
            Some(Standing::Outstanding | Standing::Done) => self.psns.window.last_answer(psn),
            _ => match self.psns.cache.entry(psn) {
                Some(entry) => entry.reminded_at,
                None => return Err(Ignored::ReminderUnanswerable.into()),
            },
        };
        if let State::Leaving(leaving) = &mut self.state {
            leaving.needed = now;
        }
        if !self.psns.answers.admit(now, last) {
            return Err(Ignored::ReminderLimited.into());
        }
        self.counters.reminders_received += 1;
        match standing {
            Some(Standing::Outstanding) if !bypass => {
                self.psns.window.prompt(psn);
                return Ok(());
            }
            Some(standing @ (Standing::Outstanding | Standing::Done)) => {
                if standing == Standing::Outstanding && header.own.round() != round::NONE {
                    self.psns.window.promise(psn, header.own.round());
                }
                self.psns.window.note_answer(psn, now);
            }
            _ => self.psns.cache.note_answer(psn, now),
        }
        self.psns.answers.push(Asked { psn, bypass });
        Ok(())
    }
}

/// A result's payload, and the ranks inside if it lacks some.
fn contents<'a>(header: &Header, body: &'a [u8], ranks: u16) -> Handled<(&'a [u8], Option<RankSet>)> {
    let (payload, bitmap) = if header.flags.has(Flags::TRAILER) {
        let (payload, trailer) = Trailer::split(body)?;
        (payload, trailer.bitmap)
    } else {
        (body, None)
    };
    let whole = header.count == ranks;
    if whole && bitmap.is_none() {
        return Ok((payload, None));
    }
    // A whole result that names ranks must name them all.
    let inside = bitmap
        .and_then(|bitmap| RankSet::from_bitmap(&bitmap, ranks))
        .filter(|inside| !inside.is_empty() && inside.len() == header.count)
        .ok_or(Ignored::WrongBitmap)?;
    Ok((payload, (!whole).then_some(inside)))
}
