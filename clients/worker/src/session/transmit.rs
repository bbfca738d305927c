//! The order of sending: requests first, then answers, a reminder, and contributions.

use core::ops::Range;
use core::time::Duration;

use pascaline_wire::{Flags, Header, Kind, Own, control, header, round};

use super::{REMIND_AFTER, Session};
use crate::allreduce::Operation;
use crate::answers::Asked;
use crate::collective::TAG;
use crate::identity::Membership;
use crate::inquiry::query;
use crate::probe::{EPOCH_AWAY, Probe};
use crate::window::Standing;

/// Where the bytes after the header lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Source {
    Nothing,
    Control([u8; control::LEN]),
    Tensor {
        begin: usize,
        end: usize,
    },
    Cached {
        psn: u32,
    },
    /// The numbers that the ranks compare.
    Tag([u8; TAG]),
}

/// A packet to send: these header bytes, then [`Session::payload`], then [`Session::trailer`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The header.
    pub header: [u8; header::LEN],
    source: Source,
    /// The PSN of a result whose trailer names the ranks inside.
    trailer: Option<u32>,
    /// A contribution of tensor bytes that has not been sent before: no longer than a full packet.
    pub(crate) fresh: bool,
}

impl Transmit {
    pub(crate) const PLACEHOLDER: Self =
        Self { header: [0; header::LEN], source: Source::Nothing, trailer: None, fresh: false };

    pub(super) fn control(header: &Header, body: &control::Control) -> Self {
        Self { source: Source::Control(body.to_bytes()), ..Self::new(header, Source::Nothing) }
    }

    fn new(header: &Header, source: Source) -> Self {
        Self { header: header.to_bytes(), source, trailer: None, fresh: false }
    }

    /// Where in `tensor` the payload lies that comes `packets` contributions later, so that a driver can
    /// prefetch it. Empty if the tensor ends before that payload does, or if this is no contribution.
    #[must_use]
    pub fn ahead<'a>(&self, tensor: &'a [u8], packets: usize) -> &'a [u8] {
        let Source::Tensor { begin, end } = self.source else { return &[] };
        let far = (end - begin) * packets;
        tensor.get(begin + far..end + far).unwrap_or_default()
    }

    /// Up to where in the tensor its payload lies; 0 if the payload is elsewhere, or if there is none.
    #[must_use]
    pub const fn reach(&self) -> usize {
        if let Source::Tensor { end, .. } = self.source { end } else { 0 }
    }

    /// The PSN that it concerns, which decides its UDP port. `None` for control packets, which go to the
    /// first port.
    #[must_use]
    pub fn psn(&self) -> Option<u32> {
        let psn = self.header.get(8..12)?.first_chunk().map(|bytes| u32::from_be_bytes(*bytes));
        psn.filter(|_| !matches!(self.source, Source::Control(_)))
    }

    /// True for a contribution of tensor bytes that has not been sent before. Those that follow each other
    /// are of one length, the full packet's, but for the last one of a tensor, which may be shorter: a driver
    /// can have the system cut them out of one long datagram.
    #[must_use]
    pub const fn is_fresh(&self) -> bool {
        self.fresh
    }
}

impl Session {
    /// The next packet to send, if there is one.
    pub fn poll_transmit(&mut self, now: Duration) -> Option<Transmit> {
        let mut transmit = self.request(now).or_else(|| self.order(now)).or_else(|| self.inquire(now));
        // While the generation is in doubt, any other packet would be refused.
        if transmit.is_none() && !self.is_in_doubt() {
            transmit = self.answer().or_else(|| self.remind(now)).or_else(|| self.probe());
            transmit = transmit.or_else(|| self.contribute(now));
        }
        self.counters.packets_sent += u64::from(transmit.is_some());
        transmit
    }

    /// Asks for missing ranks, if the operation is stalled.
    fn inquire(&mut self, now: Duration) -> Option<Transmit> {
        let Membership { identity, session, epoch, .. } = self.membership;
        let operation = self.state.operation_mut()?;
        if !operation.inquiry.is_due(now, self.psns.window.completed(), identity.rank) {
            return None;
        }
        let (head, body) = query(&identity, epoch, self.requests.next(), session, self.psns.window.una());
        Some(Transmit::control(&head, &body))
    }

    /// A packet to find out whether its length gets through.
    fn probe(&mut self) -> Option<Transmit> {
        let operation = self.state.operation_mut()?;
        let full =
            self.membership.identity.payload.min(u16::try_from(operation.tensor_len).unwrap_or(u16::MAX));
        let Probe { psn, length } = operation.inquiry.probe(full, self.psns.window.una())?;
        let element = operation.plan.on_the_wire();
        let epoch = self.membership.epoch.wrapping_add(EPOCH_AWAY);
        let header = self.membership.identity.header(Kind::Gradient, element, psn, epoch);
        let source = Source::Tensor { begin: 0, end: element.dtype.whole(length.into()) };
        Some(Transmit::new(&Header { count: 1, ..header }, source))
    }

    /// An answer to a reminder: the requested packet may have changed since, or be gone.
    fn answer(&mut self) -> Option<Transmit> {
        while let Some(asked) = self.psns.answers.pop() {
            if let Some(transmit) = self.result(asked) {
                self.counters.reminders_answered += 1;
                return Some(transmit);
            }
            if asked.bypass
                && let Some(transmit) = self.original(asked.psn)
            {
                self.counters.originals_sent += 1;
                return Some(transmit);
            }
        }
        None
    }

    fn result(&self, asked: Asked) -> Option<Transmit> {
        let Asked { psn, bypass } = asked;
        let done = self.psns.window.standing(psn) == Standing::Done;
        let (element, mut flags, source) = match self.state.operation() {
            Some(operation) if done && operation.holds(psn) => {
                let Range { start: begin, end } = operation.range(psn);
                let flags = operation.result_flags(psn, self.psns.window.overflowed(psn));
                (operation.element(psn), flags, Source::Tensor { begin, end })
            }
            _ => {
                let entry = self.psns.cache.entry(psn)?;
                (entry.element, entry.flags, Source::Cached { psn })
            }
        };
        let identity = &self.membership.identity;
        let count = match &self.psns.partials {
            Some(partials) => partials.count(psn)?,
            None => identity.ranks,
        };
        let partial = (count != identity.ranks).then_some(psn);
        for (flag, set) in [(Flags::BYPASS, bypass), (Flags::TRAILER, partial.is_some())] {
            flags = if set { flags.with(flag) } else { flags };
        }
        let header = Header {
            count,
            flags,
            own: Own::vote(round::TAKEN, 0),
            ..identity.header(Kind::Result, element, psn, self.membership.epoch)
        };
        Some(Transmit { trailer: partial, ..Transmit::new(&header, source) })
    }

    /// This worker's contribution, on its way past the aggregation.
    fn original(&self, psn: u32) -> Option<Transmit> {
        let outstanding = self.psns.window.standing(psn) == Standing::Outstanding;
        let operation = self.state.operation().filter(|_| outstanding)?;
        let flags = Flags::BYPASS.with(Flags::RETRANSMISSION);
        let own = Own::vote(self.psns.window.promised(psn), 0);
        Some(contribution(&self.membership, operation, psn, flags, own))
    }

    fn remind(&mut self, now: Duration) -> Option<Transmit> {
        let operation = self.state.operation_mut()?;
        let psn = operation.reminder.take()?;
        let element = operation.element(psn);
        if self.hearing.note_overdue(now) {
            self.set_heartbeat(now);
        }
        self.counters.reminders_sent += 1;
        let header = Header {
            own: Own::vote(self.psns.window.promised(psn), 0),
            ..self.membership.identity.header(Kind::Reminder, element, psn, self.membership.epoch)
        };
        Some(Transmit::new(&header, Source::Nothing))
    }

    fn contribute(&mut self, now: Duration) -> Option<Transmit> {
        let operation = self.state.operation_mut()?;
        let sending = self.psns.window.send(now)?;
        self.psns.recovery.on_sent(now);
        self.counters.retransmissions += u64::from(sending.again);
        // An answer to a reminder must not remind in turn: reminders would circulate among the ranks forever.
        if sending.retransmissions > REMIND_AFTER && !sending.prompted {
            operation.reminder = Some(sending.psn);
        }
        let flags = if sending.again { Flags::RETRANSMISSION } else { Flags::NONE };
        let fresh = !sending.again && !operation.compares(sending.psn);
        Some(Transmit {
            fresh,
            ..contribution(&self.membership, operation, sending.psn, flags, Own::sum(operation.priority, 0))
        })
    }

    /// The payload of a packet; empty if it has none, or if `tensor` is not the operation's.
    #[must_use]
    pub fn payload<'a>(&'a self, transmit: &'a Transmit, tensor: &'a [u8]) -> &'a [u8] {
        match &transmit.source {
            Source::Nothing => &[],
            Source::Control(body) => body,
            Source::Tag(tag) => tag,
            Source::Tensor { begin, end } => tensor.get(*begin..*end).unwrap_or_default(),
            Source::Cached { psn } => self.psns.cache.bytes(*psn),
        }
    }

    /// The trailer of a packet, which follows the payload; mostly empty.
    #[must_use]
    pub fn trailer(&self, transmit: &Transmit) -> &[u8] {
        let partials = transmit.trailer.zip(self.psns.partials.as_ref());
        partials.map_or(&[], |(psn, partials)| partials.trailer(psn))
    }
}

fn contribution(
    membership: &Membership,
    operation: &Operation,
    psn: u32,
    flags: Flags,
    own: Own,
) -> Transmit {
    let header = Header {
        count: 1,
        flags: flags.with(operation.end_flag(psn)),
        own,
        ..membership.identity.header(Kind::Gradient, operation.element(psn), psn, membership.epoch)
    };
    let Range { start: begin, end } = operation.range(psn);
    let tag = operation.compares(psn).then(|| Source::Tag(operation.tag()));
    Transmit::new(&header, tag.unwrap_or(Source::Tensor { begin, end }))
}
