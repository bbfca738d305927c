//! What an asynchronous worker believes: what answers something of its own, or carries numbers that only its
//! cluster can know (protocol, sections 14 and 15).

use core::time::Duration;

use pascaline_wire::Header;
use pascaline_wire::control::{APPLIANCE_RANK, Control, Status};

use super::AsyncSession;

/// How far the number of a cluster mate's update may be from the latest one known of it: with the epoch's
/// 8 bits and those of a port, 40 are left to be guessed.
const AHEAD: u32 = 1 << 13;

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

    /// True if the rank's updates have come as far as this number, or not much further. An older one will do:
    /// answers overtake each other.
    fn admits(&mut self, rank: u16, psn: u32) -> bool {
        let (others, ranks) = match self.next.split_last_mut() {
            Some(split) => split,
            None => return false,
        };
        let named = if rank == APPLIANCE_RANK { Some(others) } else { ranks.get_mut(usize::from(rank)) };
        let Some(next) = named else { return false };
        let ahead = psn.wrapping_sub(*next);
        if ahead < AHEAD {
            *next = psn.wrapping_add(1);
        }
        ahead < AHEAD || ahead >= AHEAD.wrapping_neg()
    }
}

impl AsyncSession {
    /// The number of initial weights: the one before the generation's first update.
    pub(super) const fn initial_psn(&self) -> u32 {
        self.membership().base.wrapping_sub(1)
    }

    /// True if an answer to an update names one that this worker has sent, or one that a mate can have sent.
    pub(super) fn is_genuine(&mut self, header: &Header) -> bool {
        let (rank, psn) = (header.rank, header.psn);
        if rank != self.membership().identity.rank {
            return self.numbers.admits(rank, psn);
        }
        self.outstanding.has(psn) || self.offer.is_some() && psn == self.initial_psn()
    }

    /// True if an Ack answers a request of this session, or names an update of it and repeats what that said.
    /// If such a one says that the generation is over, the worker asks.
    pub(super) fn is_answer(&mut self, now: Duration, header: &Header, ack: &Control) -> bool {
        let identity = self.membership().identity;
        if ack.answers.is_some() {
            return ack.session == self.membership().session;
        }
        let over = match ack.status {
            Status::WrongEpoch => Some(u32::from(self.epoch)),
            Status::NotMember => Some(u32::from(identity.rank)),
            Status::UnknownJob => Some(u32::from(identity.job)),
            _ => None,
        };
        let own = header.rank == identity.rank && self.outstanding.has(header.psn);
        let genuine = own && over.map_or(header.epoch == self.epoch, |said| said == ack.got);
        if genuine && over.is_some() {
            self.member.doubt(now);
        }
        genuine
    }
}
