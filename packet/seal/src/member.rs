//! A rank's end of a sealed path.

use core::fmt;

use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::header::{self, Kind};

use crate::cipher::{Cipher, Fault, Opened, counter};
use crate::keys::{Holder, Protection, RankKeys};

/// How far an lcore's packets may come out of order, in its own numbers. A piece's number comes round after
/// 2³² results, of which each of at most 256 lcores has sent its part.
const ORDER: u64 = 1 << 22;
/// Bits of a counter that number an lcore's packets; those above them are the lcore.
const NUMBER_BITS: u32 = 56;

/// Seals what a rank sends in one session, and opens what it receives.
///
/// Its keys may change meanwhile: see [`renew`](Self::renew).
pub struct MemberEnd {
    keys: Keys,
    /// Other keys of the same rank, while they change.
    beside: Option<Beside>,
    session: u64,
    /// Packets sealed.
    sent: u64,
    /// The latest request that was answered.
    answered: u32,
    /// The appliance's salt; 0 until an answer has told it.
    salt: u64,
    /// The latest number of each lcore, under this salt.
    latest: Box<[u64; 256]>,
}

/// Keys of a rank.
struct Keys {
    holder: Holder,
    own: RankKeys,
    /// That for results, once the salt is known.
    results: Option<Cipher>,
}

/// Keys beside those in use.
struct Beside {
    keys: Keys,
    stage: Stage,
}

/// What keys beside those in use are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// They are to be used once an answer shows that the appliance has them: requests are sealed with them in
    /// turn with the others. `turn`: the latest one was.
    Offered { turn: bool },
    /// They were in use, and results may still come with them. `over`: one has come with the others.
    Former { over: bool },
}

impl Keys {
    fn of(holder: Holder, salt: u64) -> Self {
        let own = holder.keys();
        Self { results: (salt != 0).then(|| holder.results(salt)), holder, own }
    }
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
        let keys = Keys::of(holder, 0);
        let latest = Box::new([0; 256]);
        Self { keys, beside: None, session, sent: 0, answered: 0, salt: 0, latest }
    }

    /// How packets are protected.
    #[must_use]
    pub const fn protection(&self) -> Protection {
        self.keys.holder.protection()
    }

    /// Has the rank use these keys as soon as the appliance does. True if they are other ones: then a request
    /// should be sent soon, since an answer to it decides.
    pub fn renew(&mut self, holder: Holder) -> bool {
        let offered = self.beside.take_if(|beside| matches!(beside.stage, Stage::Offered { .. }));
        if self.keys.holder == holder {
            return false;
        }
        if offered.as_ref().is_some_and(|beside| beside.keys.holder == holder) {
            self.beside = offered;
            return false;
        }
        let keys = Keys::of(holder, self.salt);
        self.beside = Some(Beside { keys, stage: Stage::Offered { turn: false } });
        true
    }

    /// Seals the first `len` bytes of `room`, a datagram from the protocol's header on. Returns the sealed
    /// one's length; `None` if the room is not [`LONGER`](crate::LONGER) more.
    #[must_use]
    pub fn seal(&mut self, room: &mut [u8], len: usize) -> Option<usize> {
        self.sent += 1;
        let keys = match &mut self.beside {
            Some(Beside { keys, stage: Stage::Offered { turn } }) if is_control(room) => {
                *turn = !*turn;
                if *turn { keys } else { &self.keys }
            }
            _ => &self.keys,
        };
        keys.own.up.seal(self.session, self.sent, room, len)
    }

    /// Opens a datagram of the appliance's where it lies, and returns its length without the seal.
    ///
    /// # Errors
    /// See [`Fault`]: it is to be ignored then.
    pub fn open(&mut self, datagram: &mut [u8]) -> Result<usize, Fault> {
        let answer = answer_in(datagram);
        if counter(datagram).is_none() {
            let told = answer.filter(|ack| ack.status == Status::Unproven && ack.session == self.session);
            return Err(told.map_or(Fault::Unsealed, |ack| Fault::Unproven(ack.expected)));
        }
        match answer {
            Some(ack) if ack.session == self.session => {
                let beside = self.beside.as_ref().map(|beside| &beside.keys.own.down);
                let (Opened { len, .. }, other) =
                    open_with(&self.keys.own.down, beside, self.session, datagram)?;
                self.answered_with(other);
                self.learn(ack.salt(), ack.number);
                Ok(len)
            }
            Some(_) => Err(Fault::Forged),
            None => {
                let own = self.keys.results.as_ref().ok_or(Fault::Forged)?;
                let beside = self.beside.as_ref().and_then(|beside| beside.keys.results.as_ref());
                let (Opened { len, counter }, other) = open_with(own, beside, 0, datagram)?;
                let number = counter & ((1 << NUMBER_BITS) - 1);
                // The upper byte.
                let [lcore, ..] = counter.to_be_bytes();
                let latest = &mut self.latest[usize::from(lcore)];
                if number.saturating_add(ORDER) < *latest {
                    return Err(Fault::Replayed);
                }
                *latest = number.max(*latest);
                self.given_with(other);
                Ok(len)
            }
        }
    }

    /// An answer was sealed with the keys in use, or with the `other` ones.
    fn answered_with(&mut self, other: bool) {
        match self.beside.as_ref().map(|beside| beside.stage) {
            Some(Stage::Offered { .. }) if other => self.change_over(false),
            // Packets that were sealed with the former ones have arrived, or nearly all.
            Some(Stage::Former { over: true }) if !other => self.beside = None,
            _ => {}
        }
    }

    /// So was a result: the appliance seals with new keys once all ranks have them.
    fn given_with(&mut self, other: bool) {
        match self.beside.as_mut().map(|beside| &mut beside.stage) {
            Some(Stage::Offered { .. }) if other => self.change_over(true),
            Some(Stage::Former { over }) => *over |= !other,
            _ => {}
        }
    }

    /// Uses the keys that were offered.
    fn change_over(&mut self, over: bool) {
        if let Some(beside) = &mut self.beside {
            core::mem::swap(&mut self.keys, &mut beside.keys);
            beside.stage = Stage::Former { over };
        }
    }

    /// Takes the salt of an answer, unless a later request has been answered: that one may be of another life
    /// of the appliance.
    fn learn(&mut self, salt: u64, number: u32) {
        let newer = number.wrapping_sub(self.answered) < 1 << 31;
        if newer {
            self.answered = number;
        }
        if newer && salt != 0 && salt != self.salt {
            self.salt = salt;
            for keys in core::iter::once(&mut self.keys).chain(self.beside.as_mut().map(|it| &mut it.keys)) {
                keys.results = Some(keys.holder.results(salt));
            }
            self.latest.fill(0);
        }
    }
}

/// Opens a datagram with the first key, or with the second if there is one.
fn open_with(
    first: &Cipher,
    second: Option<&Cipher>,
    of: u64,
    datagram: &mut [u8],
) -> Result<(Opened, bool), Fault> {
    match second {
        None => first.open(of, datagram).map(|opened| (opened, false)),
        Some(second) => first.open_or(second, of, datagram),
    }
}

fn is_control(datagram: &[u8]) -> bool {
    datagram.get(1) == Some(&(Kind::Control as u8))
}

/// The Ack in a datagram that answers a request.
fn answer_in(datagram: &[u8]) -> Option<Control> {
    let body = datagram.get(header::LEN..)?.first_chunk::<{ control::LEN }>()?;
    let ack = Control::parse(body).ok().filter(|_| is_control(datagram))?;
    (ack.action == Action::Ack && ack.answers.is_some()).then_some(ack)
}

#[cfg(test)]
mod tests;
