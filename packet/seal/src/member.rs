//! A rank's end of a sealed path, in one session.

use core::fmt;

use pascaline_wire::control::{Control, Status};
use pascaline_wire::header::Kind;

use crate::cipher::Fault;
use crate::keys::{Holder, Protection};
use crate::shared::{Received, SharedEnd};

/// Seals what a rank sends in one session, and opens what it receives.
///
/// Its keys may change meanwhile: see [`renew`](Self::renew).
pub struct MemberEnd {
    end: SharedEnd,
    session: u64,
    /// Packets sealed.
    sent: u64,
    /// The latest request was sealed with the keys that are offered.
    turn: bool,
    /// The latest request that was answered.
    answered: u32,
    /// Requests in a row whose address was refused, and the latest of them.
    refused: (u32, u32),
}

/// An address counts as refused after this many requests in a row. A host on the path can send a recorded
/// request from another address, and have the rank find the answer to that.
const REFUSALS: u32 = 3;

impl fmt::Debug for MemberEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberEnd").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl MemberEnd {
    /// For one session of a rank: another one each time, of which no packet has been sealed before.
    #[must_use]
    pub fn new(holder: Holder, session: u64) -> Self {
        Self { end: SharedEnd::new(holder), session, sent: 0, turn: false, answered: 0, refused: (0, 0) }
    }

    /// How packets are protected.
    #[must_use]
    pub const fn protection(&self) -> Protection {
        self.end.protection()
    }

    /// Has the rank use these keys as soon as the appliance does. True if they are other ones: then a request
    /// should be sent soon, since an answer to it decides.
    pub fn renew(&mut self, holder: Holder) -> bool {
        let Some(end) = self.end.with_offer(holder) else { return false };
        (self.end, self.turn) = (end, false);
        self.end.is_offering()
    }

    /// Seals the first `len` bytes of `room`, a datagram from the protocol's header on. Returns the sealed
    /// one's length; `None` if the room is not [`LONGER`](crate::LONGER) more.
    #[must_use]
    pub fn seal(&mut self, room: &mut [u8], len: usize) -> Option<usize> {
        self.sent += 1;
        let asks = self.end.is_offering() && room.get(1) == Some(&(Kind::Control as u8));
        self.turn ^= asks;
        self.end.up(asks && self.turn).seal(self.session, self.sent, room, len)
    }

    /// Opens a datagram of the appliance's where it lies, and returns its length without the seal.
    ///
    /// # Errors
    /// See [`Fault`]: it is to be ignored then.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<usize, Fault> {
        let Received { len, answer } = self.end.open(self.session, datagram)?;
        if let Some(end) = self.end.settled() {
            self.end = end;
        }
        if let Some(ack) = answer {
            self.learn(ack.salt(), ack.number);
            if self.may_be_of_another_address(&ack) {
                return Err(Fault::Elsewhere);
            }
        }
        Ok(len)
    }

    /// True for an answer that depends on the address of the request, before it counts.
    const fn may_be_of_another_address(&mut self, ack: &Control) -> bool {
        if !matches!(ack.status, Status::SourceRefused | Status::RanksOfHost | Status::RankTaken) {
            self.refused.0 = 0;
        } else if self.refused.0 == 0 || self.refused.1 != ack.number {
            self.refused = (self.refused.0.saturating_add(1), ack.number);
        }
        matches!(self.refused.0, 1..REFUSALS)
    }

    /// Takes the salt of an answer, unless a later request has been answered: that one may be of another life
    /// of the appliance.
    fn learn(&mut self, salt: u64, number: u32) {
        if number.wrapping_sub(self.answered) >= 1 << 31 {
            return;
        }
        self.answered = number;
        if let Some(end) = self.end.with_salt(salt) {
            self.end = end;
        }
    }
}

#[cfg(test)]
mod tests;
