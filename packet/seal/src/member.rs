//! A rank's end of a sealed path.

use core::fmt;

use pascaline_wire::control::{Action, Control, Status};
use pascaline_wire::header::{self, Kind};

use crate::cipher::{Cipher, Fault, Opened, counter};
use crate::keys::{Holder, Protection, RankKeys};

/// How far an lcore's packets may come out of order, in its own numbers. A piece's number comes round after
/// 2³² results, of which each of at most 256 lcores has sent its part.
const ORDER: u64 = 1 << 22;
/// Bits of a counter that number an lcore's packets; those above them are the lcore.
const NUMBER_BITS: u32 = 56;

/// Seals what a rank sends in one session, and opens what it receives.
pub struct MemberEnd {
    holder: Holder,
    keys: RankKeys,
    session: u64,
    /// Packets sealed.
    sent: u64,
    /// The latest request that was answered.
    answered: u32,
    /// The appliance's salt, and the key for results with it; once an answer has told it.
    results: Option<(u64, Cipher)>,
    /// The latest number of each lcore, under this salt.
    latest: Box<[u64; 256]>,
}

impl fmt::Debug for MemberEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemberEnd").field("sent", &self.sent).finish_non_exhaustive()
    }
}

impl MemberEnd {
    /// For one session of a rank: another one each time, of which no packet has been sealed before.
    #[must_use]
    pub fn new(holder: Holder, session: u64) -> Self {
        let keys = holder.keys();
        Self { holder, keys, session, sent: 0, answered: 0, results: None, latest: Box::new([0; 256]) }
    }

    /// How packets are protected.
    #[must_use]
    pub const fn protection(&self) -> Protection {
        self.holder.protection()
    }

    /// Seals the first `len` bytes of `room`, a datagram from the protocol's header on. Returns the sealed
    /// one's length; `None` if the room is not [`LONGER`](crate::LONGER) more.
    #[must_use]
    pub fn seal(&mut self, room: &mut [u8], len: usize) -> Option<usize> {
        self.sent += 1;
        self.keys.up.seal(self.session, self.sent, room, len)
    }

    /// Opens a datagram of the appliance's where it lies, and returns its length without the seal.
    ///
    /// # Errors
    /// See [`Fault`]: it is to be ignored then.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<usize, Fault> {
        let answer = (datagram.get(1) == Some(&(Kind::Control as u8)))
            .then(|| {
                Control::parse(
                    datagram.get(header::LEN..)?.first_chunk::<{ pascaline_wire::control::LEN }>()?,
                )
                .ok()
            })
            .flatten()
            .filter(|ack| ack.action == Action::Ack && ack.answers.is_some());
        if counter(datagram).is_none() {
            let told = answer.filter(|ack| ack.status == Status::Unproven && ack.session == self.session);
            return Err(told.map_or(Fault::Unsealed, |ack| Fault::Unproven(ack.expected)));
        }
        match answer {
            Some(ack) if ack.session == self.session => {
                let Opened { len, .. } = self.keys.down.open(self.session, datagram)?;
                self.learn(ack.salt(), ack.number);
                Ok(len)
            }
            Some(_) => Err(Fault::Forged),
            None => {
                let (_, cipher) = self.results.as_ref().ok_or(Fault::Forged)?;
                let Opened { len, counter } = cipher.open(0, datagram)?;
                let number = counter & ((1 << NUMBER_BITS) - 1);
                // The upper byte.
                let [lcore, ..] = counter.to_be_bytes();
                let latest = &mut self.latest[usize::from(lcore)];
                if number.saturating_add(ORDER) < *latest {
                    return Err(Fault::Replayed);
                }
                *latest = number.max(*latest);
                Ok(len)
            }
        }
    }

    /// Takes the salt of an answer, unless a later request has been answered: that one may be of another life
    /// of the appliance.
    fn learn(&mut self, salt: u64, number: u32) {
        let newer = number.wrapping_sub(self.answered) < 1 << 31;
        if newer {
            self.answered = number;
        }
        if newer && salt != 0 && self.results.as_ref().is_none_or(|(known, _)| *known != salt) {
            self.results = Some((salt, self.holder.results(salt)));
            self.latest.fill(0);
        }
    }
}

#[cfg(test)]
mod tests;
