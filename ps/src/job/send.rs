//! The packets to send for a job.

use core::time::Duration;

use pascaline_wire::{Element, Flags, Header, Kind, Own, round};

use super::Job;
use crate::action::{Action, Destination};
use crate::counters::Counters;
use crate::entry::{Ask, Entry};
use crate::outcome::Answer;

/// A packet to send, before its payload is borrowed.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Packet {
    /// A cached result.
    Result { psn: u32, to: Destination },
    /// A fetch or a reminder.
    Request { header: Header, to: Destination },
    /// The reason for which a contribution was rejected.
    Rejection { header: Header },
}

impl Job {
    /// Whether there may be something to send.
    pub(crate) fn has_output(&self) -> bool {
        !self.replies.is_empty() || !self.asking.is_empty() || self.rejection.is_some()
    }

    /// Sends a rank the reason why its contribution was rejected, unless another rejection was sent just now.
    pub(crate) fn send_rejection(&mut self, now: Duration, answer: Answer, counters: &mut Counters) {
        let pause = self.config.floor;
        if self.rejected_at.is_some_and(|at| now < at.saturating_add(pause)) {
            counters.answers_limited += 1;
            return;
        }
        self.rejected_at = Some(now);
        self.body = answer.control.to_bytes();
        self.rejection = Some(answer.header);
    }

    /// The next packet: rejections and results first, then requests, if those are allowed.
    pub(crate) fn next_packet(&mut self, may_ask: bool, counters: &mut Counters) -> Option<Packet> {
        if let Some(header) = self.rejection.take() {
            counters.rejections_sent += 1;
            return Some(Packet::Rejection { header });
        }
        while let Some(reply) = self.replies.pop_front() {
            let Some(finished) = self.cached.get(reply.psn) else {
                counters.results_lost += 1;
                continue;
            };
            if reply.asks {
                counters.reminders_sent += 1;
                let header = self.header(Kind::Reminder, reply.psn, finished.content.element, reply.to);
                let header = Header { own: Own::vote(finished.round, u16::MAX), ..header };
                return Some(Packet::Request { header, to: reply.to });
            }
            match reply.to {
                Destination::Appliance => counters.results_sent += 1,
                Destination::Rank(_) => counters.answers_sent += 1,
            }
            return Some(Packet::Result { psn: reply.psn, to: reply.to });
        }
        while may_ask && let Some((_, psn)) = self.asking.pop_first() {
            if let Some(packet) = self.next_request(psn, counters) {
                return Some(packet);
            }
        }
        None
    }

    /// The next request of an entry's round, which then goes to the end of the queue; `None` ends the round.
    fn next_request(&mut self, psn: u32, counters: &mut Counters) -> Option<Packet> {
        let entry = self.entries.get_mut(&psn)?;
        let ask = entry.ask.take()?;
        let (next_rank, to) = if ask.fetch {
            counters.fetches_sent += 1;
            (0, Destination::Appliance)
        } else {
            let rank = entry.next_to_ask(ask.next_rank, self.params.fan_in)?;
            counters.reminders_sent += 1;
            (rank + 1, Destination::Rank(rank))
        };
        counters.asked += u64::from(ask.new);
        entry.ask = Some(Ask { ticket: self.next_ticket, new: false, fetch: false, next_rank });
        self.asking.insert(self.next_ticket, psn);
        self.next_ticket += 1;
        let header = self.request(psn, self.entries.get(&psn)?, to);
        Some(Packet::Request { header, to })
    }

    fn request(&self, psn: u32, entry: &Entry, to: Destination) -> Header {
        let element = entry.content.as_ref().map_or(Element::F32_SUM, |content| content.element);
        let kind = match to {
            Destination::Appliance => Kind::Fetch,
            Destination::Rank(_) => Kind::Reminder,
        };
        let round = entry.vote.as_ref().map_or(round::NONE, |vote| vote.round);
        Header { own: Own::vote(round, u16::MAX), ..self.header(kind, psn, element, to) }
    }

    fn header(&self, kind: Kind, psn: u32, element: Element, to: Destination) -> Header {
        let (flags, rank) = match to {
            Destination::Appliance => (Flags::NONE, 0),
            Destination::Rank(rank) => (Flags::BYPASS, rank),
        };
        Header {
            flags,
            rank,
            psn,
            fan_in: self.params.fan_in,
            ..Header::about(kind, element, self.id, self.params.epoch)
        }
    }

    /// The packet with its payload; `None` if its result has been forgotten since.
    pub(crate) fn action(&self, packet: Packet) -> Option<Action<'_>> {
        let (psn, to) = match packet {
            Packet::Request { header, to } => return Some(Action { to, header, payload: &[], bitmap: None }),
            Packet::Rejection { header } => {
                let to = Destination::Rank(header.rank);
                return Some(Action { to, header, payload: &self.body, bitmap: None });
            }
            Packet::Result { psn, to } => (psn, to),
        };
        let finished = self.cached.get(psn)?;
        let content = &finished.content;
        let count = content.ranks.len();
        let fan_in = self.params.fan_in;
        let bitmap = if count < fan_in { content.ranks.to_bitmap(fan_in) } else { None };
        let mut header = self.header(Kind::Result, psn, content.element, to);
        header.count = count;
        header.own = Own::vote(finished.round, content.marks.wnd_cap);
        header.flags = header.flags.with(content.marks.flags);
        if bitmap.is_some() {
            header.flags = header.flags.with(Flags::TRAILER);
        }
        Some(Action { to, header, payload: &content.bytes, bitmap })
    }
}
