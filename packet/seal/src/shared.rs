//! The keys of a rank at one appliance, and the datagrams that they have opened.
//!
//! Several threads may seal and open with one [`SharedEnd`]. It stays as it is but for what it has noted;
//! what follows from that is another one ([`settled`](SharedEnd::settled)).

use core::fmt;
use core::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::Arc;

use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::header::{self, Kind};

use crate::cipher::{Cipher, Fault, Opened, counter};
use crate::keys::{Holder, Protection, RankKeys};

/// How far an lcore's packets may come out of order, in its own numbers. A piece's number comes round after
/// 2³² results, of which each of at most 256 lcores has sent its part.
pub(crate) const ORDER: u64 = 1 << 22;
/// Bits of a counter that number an lcore's packets; those above them are the lcore.
pub const NUMBER_BITS: u32 = 56;

/// A rank's end of sealed paths to one appliance.
///
/// Its keys may change: see [`with_offer`](Self::with_offer).
pub struct SharedEnd {
    keys: Keys,
    /// Other keys of the same rank, while they change.
    beside: Option<Beside>,
    /// The appliance's; 0 until it is known.
    salt: u64,
    /// The datagrams since there are keys beside those in use, by the flags below.
    shown: AtomicU8,
}

/// An answer with the keys beside those in use.
const ANSWER_BESIDE: u8 = 1;
/// A result with them.
const RESULT_BESIDE: u8 = 2;
/// A result with those in use, after others were.
const RESULT: u8 = 4;
/// An answer with those in use, after such a result.
const ANSWER_AFTER: u8 = 8;

/// Keys of a rank.
#[derive(Clone)]
struct Keys {
    holder: Holder,
    own: RankKeys,
    /// That for results, once the salt is known.
    results: Option<Arc<Results>>,
}

/// The key of results, of one salt.
struct Results {
    cipher: Cipher,
    /// The latest number of each lcore.
    latest: [AtomicU64; 256],
}

/// Keys beside those in use.
struct Beside {
    keys: Keys,
    stage: Stage,
}

/// What keys beside those in use are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// They are to be used once the appliance shows that it has them.
    Offered,
    /// They were in use, and results may still come with them.
    Former,
}

/// A datagram of the appliance's that has been opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Received {
    /// Its length without the seal.
    pub len: usize,
    /// What it says, if it is the answer to a request.
    pub answer: Option<Control>,
}

impl Keys {
    fn of(holder: Holder, salt: u64) -> Self {
        let own = holder.keys();
        Self { results: None, holder, own }.with_salt(salt)
    }

    fn with_salt(&self, salt: u64) -> Self {
        let results =
            || Results { cipher: self.holder.results(salt), latest: [const { AtomicU64::new(0) }; 256] };
        Self { results: (salt != 0).then(|| Arc::new(results())), ..self.clone() }
    }
}

impl fmt::Debug for SharedEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedEnd").field("protection", &self.protection()).finish_non_exhaustive()
    }
}

impl SharedEnd {
    /// With the keys of a rank, before anything has come.
    #[must_use]
    pub fn new(holder: Holder) -> Self {
        Self { keys: Keys::of(holder, 0), beside: None, salt: 0, shown: AtomicU8::new(0) }
    }

    /// How packets are protected.
    #[must_use]
    pub const fn protection(&self) -> Protection {
        self.keys.holder.protection()
    }

    /// With these keys offered: it uses them as soon as the appliance does. `None` if that changes nothing.
    #[must_use]
    pub fn with_offer(&self, holder: Holder) -> Option<Self> {
        let offered = self.beside.as_ref().filter(|beside| beside.stage == Stage::Offered);
        let beside = match offered {
            None if self.keys.holder == holder => return None,
            Some(offered) if offered.keys.holder == holder => return None,
            // The offer is taken back: those in use stay.
            Some(_) if self.keys.holder == holder => None,
            _ => Some(Beside { keys: Keys::of(holder, self.salt), stage: Stage::Offered }),
        };
        Some(Self { beside, ..self.copy() })
    }

    /// True while keys are offered: then a request should be sent soon, since an answer to it decides.
    #[must_use]
    pub fn is_offering(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.stage == Stage::Offered)
    }

    /// With the appliance's salt, by which results open. `None` if that is known.
    #[must_use]
    pub fn with_salt(&self, salt: u64) -> Option<Self> {
        let beside = || {
            let Beside { keys, stage } = self.beside.as_ref()?;
            Some(Beside { keys: keys.with_salt(salt), stage: *stage })
        };
        (salt != 0 && salt != self.salt).then(|| Self {
            keys: self.keys.with_salt(salt),
            beside: beside(),
            salt,
            shown: self.shown.load(Ordering::Relaxed).into(),
        })
    }

    /// As it should go on after all that has come. `None` if that is as it is.
    #[must_use]
    pub fn settled(&self) -> Option<Self> {
        let beside = self.beside.as_ref()?;
        let shown = self.shown.load(Ordering::Relaxed);
        match beside.stage {
            // The appliance seals results with new keys once all ranks have them.
            Stage::Offered if shown & (ANSWER_BESIDE | RESULT_BESIDE) != 0 => Some(Self {
                keys: beside.keys.clone(),
                beside: Some(Beside { keys: self.keys.clone(), stage: Stage::Former }),
                salt: self.salt,
                shown: (if shown & RESULT_BESIDE != 0 { RESULT } else { 0 }).into(),
            }),
            // Packets that were sealed with the former ones have arrived, or nearly all.
            Stage::Former if shown & ANSWER_AFTER != 0 => Some(self.copy()),
            _ => None,
        }
    }

    /// Without keys beside those in use.
    fn copy(&self) -> Self {
        Self { keys: self.keys.clone(), beside: None, salt: self.salt, shown: AtomicU8::new(0) }
    }

    /// The key for what the rank sends, or the one that is offered: requests are sealed with both in turn.
    #[must_use]
    pub fn up(&self, offered: bool) -> &Cipher {
        match &self.beside {
            Some(Beside { keys, stage: Stage::Offered }) if offered => &keys.own.up,
            _ => &self.keys.own.up,
        }
    }

    /// Opens a datagram of the appliance's where it lies.
    ///
    /// # Errors
    /// See [`Fault`]: it is to be ignored then.
    pub fn open(&self, session: u64, datagram: &mut [u8]) -> Result<Received, Fault> {
        let answer = answer_in(datagram);
        if counter(datagram).is_none() {
            let told = answer.filter(|ack| ack.status == Status::Unproven && ack.session == session);
            return Err(told.map_or(Fault::Unsealed, |ack| Fault::Unproven(ack.expected)));
        }
        let beside = self.beside.as_ref().map(|beside| &beside.keys);
        match answer {
            Some(ack) if ack.session == session => {
                let beside = beside.map(|keys| &keys.own.down);
                let (Opened { len, .. }, other) = open_with(&self.keys.own.down, beside, session, datagram)?;
                self.show(true, other);
                Ok(Received { len, answer })
            }
            Some(_) => Err(Fault::Elsewhere),
            None => {
                let own = self.keys.results.as_ref().ok_or(Fault::Forged)?;
                let beside = beside.and_then(|keys| keys.results.as_ref());
                let other = beside.map(|results| &results.cipher);
                let (Opened { len, counter }, other) = open_with(&own.cipher, other, 0, datagram)?;
                beside.filter(|_| other).unwrap_or(own).note(counter)?;
                self.show(false, other);
                Ok(Received { len, answer: None })
            }
        }
    }

    /// Notes with which keys something has come.
    fn show(&self, is_answer: bool, other: bool) {
        let Some(beside) = &self.beside else { return };
        let before = self.shown.load(Ordering::Relaxed);
        let shows = match (beside.stage, is_answer) {
            (Stage::Offered, true) if other => ANSWER_BESIDE,
            (Stage::Offered, false) if other => RESULT_BESIDE,
            (Stage::Former, true) if !other && before & RESULT != 0 => ANSWER_AFTER,
            (Stage::Former, false) if !other => RESULT,
            _ => 0,
        };
        if before & shows != shows {
            self.shown.fetch_or(shows, Ordering::Relaxed);
        }
    }
}

impl Results {
    /// Takes the number of a packet, unless it is too old. Two threads that note numbers of one lcore at once
    /// may leave the lower one: both are on their way.
    fn note(&self, counter: u64) -> Result<(), Fault> {
        let number = counter & ((1 << NUMBER_BITS) - 1);
        // The upper byte.
        let [lcore, ..] = counter.to_be_bytes();
        let latest = &self.latest[usize::from(lcore)];
        let before = latest.load(Ordering::Relaxed);
        if number.saturating_add(ORDER) < before {
            return Err(Fault::Replayed);
        }
        if number > before {
            latest.store(number, Ordering::Relaxed);
        }
        Ok(())
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

/// The Ack in a datagram that answers a request.
fn answer_in(datagram: &[u8]) -> Option<Control> {
    let is_control = datagram.get(1) == Some(&(Kind::Control as u8));
    let body = datagram.get(header::LEN..)?.first_chunk::<{ control::LEN }>().filter(|_| is_control)?;
    let ack = Control::parse(body).ok()?;
    (ack.action == Action::Ack && ack.answers.is_some()).then_some(ack)
}
