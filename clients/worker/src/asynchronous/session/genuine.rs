//! Which answers an asynchronous worker accepts: those to a packet of its own, and those with numbers that
//! only its cluster can know (protocol, sections 14 and 15).

use core::time::Duration;

use pascaline_wire::Header;
use pascaline_wire::control::{APPLIANCE_RANK, Control, Status};

use super::AsyncSession;

/// How far the number of a cluster mate's update may be from the latest one known of it, or of those who have
/// come furthest: with the epoch's 8 bits and those of a port, 40 are left to be guessed.
const AHEAD: u32 = 1 << 13;

/// A genuine answer's place among those to the updates of the same rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// It names the latest so far.
    Latest,
    /// One to a later update has overtaken it, or it is a copy: its weights are older than those known.
    Late,
}

/// The latest number of each cluster mate's updates, and of the Acks to those that came by other appliances.
#[derive(Debug)]
pub(super) struct Numbers {
    /// One past it, by rank; those of the others last.
    next: Box<[u32]>,
}

impl Numbers {
    /// Of a generation whose ranks number from `base`.
    pub(super) fn new(base: u32, ranks: u16) -> Self {
        Self { next: vec![base; usize::from(ranks) + 1].into_boxed_slice() }
    }

    /// Genuine if the rank's updates have come as far as this number, or not much further, or not much
    /// further than those of others and this worker's `own`: a rank that is combined into others' updates for
    /// long is not named meanwhile, and sends as many. An older one will do: answers overtake each other.
    fn admits(&mut self, own: u32, rank: u16, psn: u32) -> Option<Answer> {
        let ranks = self.next.len() - 1;
        let at = if rank == APPLIANCE_RANK { ranks } else { usize::from(rank) };
        let &known = self.next.get(at).filter(|_| at < ranks || rank == APPLIANCE_RANK)?;
        let further = |&mate: &u32| Some(mate.wrapping_sub(known)).filter(|&further| further < 1 << 31);
        let mates = self.next.iter().take(if at < ranks { ranks } else { 0 });
        let own = (at < ranks).then_some(&own);
        let reach = mates.chain(own).filter_map(further).max().unwrap_or(0);
        let ahead = psn.wrapping_sub(known);
        let admitted = ahead < reach.saturating_add(AHEAD);
        if let Some(next) = self.next.get_mut(at).filter(|_| admitted) {
            *next = psn.wrapping_add(1);
        }
        let late = (ahead >= AHEAD.wrapping_neg()).then_some(Answer::Late);
        if admitted { Some(Answer::Latest) } else { late }
    }
}

impl AsyncSession {
    /// The number of initial weights: one less than that of the generation's first update.
    pub(super) const fn initial_psn(&self) -> u32 {
        self.membership().base.wrapping_sub(1)
    }

    /// Classifies an answer to an update that this worker has sent, or that a mate can have sent; `None` if
    /// it names any other.
    pub(super) fn classify(&mut self, header: &Header) -> Option<Answer> {
        let (rank, psn) = (header.rank, header.psn);
        if rank != self.membership().identity.rank {
            return self.numbers.admits(self.next_psn, rank, psn);
        }
        let own = self.outstanding.has(psn) || self.offer.is_some() && psn == self.initial_psn();
        // An answer ends all updates sent before: answers that it overtakes name none in flight.
        own.then_some(Answer::Latest)
    }

    /// True if an Ack answers a request of this session, or names an update of it and repeats what that said.
    /// If such an Ack says that the generation is over, the worker asks.
    pub(super) fn is_answer(&mut self, now: Duration, header: &Header, ack: &Control) -> bool {
        let identity = self.membership().identity;
        if ack.answers.is_some() {
            return ack.session == self.membership().session;
        }
        let over = match ack.status {
            Status::WrongEpoch => Some(u32::from(self.membership().epoch)),
            Status::NotMember => Some(u32::from(identity.rank)),
            Status::UnknownJob => Some(u32::from(identity.job)),
            _ => None,
        };
        let own = header.rank == identity.rank && self.outstanding.has(header.psn);
        let genuine = own && over.map_or(header.epoch == self.membership().epoch, |said| said == ack.got);
        if genuine && over.is_some() {
            self.member.doubt(now);
        }
        genuine
    }
}

#[cfg(test)]
mod tests;
