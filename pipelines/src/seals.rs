//! The appliance's end of jobs whose packets are sealed, and of the way to its parents.
//!
//! Packets are opened where they lie, before they are sorted, and sealed once their bytes are known. In
//! between nothing handles seals. `lcore/seals.rs` opens, `emit/sealed.rs` seals what lcores send,
//! `membership/reply.rs` answers and requests.

mod above;

use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use pascaline_seal::{Cipher, Fault, JobKeys, Opened, Protection, RankKeys};
use pascaline_telemetry::DropReason;
use pascaline_wire::control::SERVER_RANK;

pub(crate) use above::{Demand, Numbers, SealsAbove, asking};

/// How far behind the latest packet of a session one may be that is still on its way, in its rank's numbers.
/// A PSN comes round after 2³² packets.
const LATE: u64 = 1 << 31;
/// The latest number is noted when it is this much above the one noted, so that lcores seldom write what all
/// of them read.
const NOTED: u64 = 1 << 20;

/// The ciphers of a job, for as long as it has these keys.
pub(crate) struct Seals {
    protection: Protection,
    /// By rank; the last one is a parameter server's of its own process.
    ranks: Box<[RankEnd]>,
    results: Cipher,
    salt: u64,
    /// Those before, while keys change.
    former: Option<Former>,
}

/// The keys before, which ranks may still use.
struct Former {
    ranks: Box<[RankKeys]>,
    results: Cipher,
    /// All ranks have the new ones, which results are sealed with from now on.
    over: AtomicBool,
}

struct RankEnd {
    keys: RankKeys,
    /// The session whose packets were opened last, and the latest of their numbers, nearly.
    session: AtomicU64,
    latest: AtomicU64,
    /// A packet has come with these keys, and not with the ones before.
    renewed: AtomicBool,
}

impl fmt::Debug for Seals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seals").field("protection", &self.protection).finish_non_exhaustive()
    }
}

/// The seal of one packet: a key, and numbers that are used once with it.
#[derive(Clone, Copy)]
pub struct Sealing<'a> {
    cipher: &'a Cipher,
    of: u64,
    counter: u64,
}

impl fmt::Debug for Sealing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sealing(..)")
    }
}

impl Sealing<'_> {
    /// As [`Cipher::seal`].
    #[must_use]
    pub(crate) fn seal(&self, room: &mut [u8], len: usize) -> Option<usize> {
        self.cipher.seal(self.of, self.counter, room, len)
    }
}

impl Seals {
    /// With this salt, which differs from one life of the appliance to the next.
    pub(crate) fn new(keys: &JobKeys, ranks: u16, salt: u64) -> Self {
        let end = |rank| RankEnd {
            keys: keys.rank(rank),
            session: AtomicU64::default(),
            latest: AtomicU64::default(),
            renewed: AtomicBool::new(true),
        };
        Self {
            protection: keys.protection(),
            ranks: (0..ranks).chain([SERVER_RANK]).map(end).collect(),
            results: keys.results(salt),
            salt,
            former: None,
        }
    }

    /// With other keys, beside which these are taken until [`settled`](Self::settled).
    pub(crate) fn renewed(&self, keys: &JobKeys) -> Self {
        let former = Former {
            ranks: self.ranks.iter().map(|end| end.keys.clone()).collect(),
            results: self.results.clone(),
            over: AtomicBool::new(false),
        };
        let last = self.ranks.len() - 1;
        let end = |(rank, end): (u16, &RankEnd)| RankEnd {
            keys: keys.rank(if usize::from(rank) == last { SERVER_RANK } else { rank }),
            renewed: AtomicBool::new(false),
            ..end.as_it_is()
        };
        Self {
            protection: keys.protection(),
            ranks: (0..).zip(&self.ranks).map(end).collect(),
            results: keys.results(self.salt),
            salt: self.salt,
            former: Some(former),
        }
    }

    /// Without the keys before.
    pub(crate) fn settled(&self) -> Self {
        Self {
            protection: self.protection,
            ranks: self.ranks.iter().map(RankEnd::as_it_is).collect(),
            results: self.results.clone(),
            salt: self.salt,
            former: None,
        }
    }

    /// True while ranks may use the keys before.
    pub(crate) const fn is_changing(&self) -> bool {
        self.former.is_some()
    }

    /// Whether a rank has used the present keys since they are here.
    pub(crate) fn has_renewed(&self, rank: u16) -> bool {
        self.end(rank).is_some_and(|(end, _)| end.renewed.load(Ordering::Relaxed))
    }

    /// The end of a rank or the server, and the keys before.
    fn end(&self, rank: u16) -> Option<(&RankEnd, Option<&RankKeys>)> {
        let server = self.ranks.len() - 1;
        let at = if rank == SERVER_RANK { server } else { usize::from(rank) };
        let end = self.ranks.get(at).filter(|_| rank == SERVER_RANK || at < server)?;
        Some((end, self.former.as_ref().and_then(|former| former.ranks.get(at))))
    }

    /// Seals results with the present keys from now on: all ranks have them.
    pub(crate) fn use_for_results(&self) {
        if let Some(former) = &self.former {
            former.over.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) const fn salt(&self) -> u64 {
        self.salt
    }

    /// As an answer says what the job demands.
    pub(crate) const fn demand(&self) -> u32 {
        self.protection.code()
    }

    /// Opens what a rank, or the server, has sent in a session, the one that it is here by (`present`) or
    /// another one.
    /// Returns its length.
    ///
    /// # Errors
    /// Why it is dropped.
    pub(crate) fn open(
        &self,
        rank: u16,
        (session, present): (u64, bool),
        datagram: &mut [u8],
    ) -> Result<usize, DropReason> {
        let (end, former) = self.end(rank).ok_or(DropReason::RankOutOfRange)?;
        let opened = end.open(former, session, datagram).map_err(dropped)?;
        // A recorded request of a former session must not make the present one's numbers forgotten.
        if present {
            end.note(session, opened.counter)?;
        }
        Ok(opened.len)
    }

    /// For what answers a request of a rank in this session.
    pub(crate) fn answering(&self, rank: u16, session: u64, counter: u64) -> Option<Sealing<'_>> {
        let (end, former) = self.end(rank)?;
        let former = former.filter(|_| !end.renewed.load(Ordering::Relaxed));
        Some(Sealing { cipher: &former.unwrap_or(&end.keys).down, of: session, counter })
    }

    /// For what an lcore sends unasked, with a number that only it uses.
    pub(crate) fn unasked(&self, counter: u64) -> Sealing<'_> {
        let former = self.former.as_ref().filter(|former| !former.over.load(Ordering::Relaxed));
        Sealing { cipher: former.map_or(&self.results, |former| &former.results), of: 0, counter }
    }
}

/// Why a packet is dropped that does not open.
const fn dropped(fault: Fault) -> DropReason {
    match fault {
        Fault::Unsealed | Fault::Unproven(_) => DropReason::Unsealed,
        Fault::Forged | Fault::Elsewhere => DropReason::Forged,
        Fault::Replayed => DropReason::Replayed,
    }
}

impl RankEnd {
    /// With the key that the rank has used last, and with the other one if there is one.
    fn open(&self, former: Option<&RankKeys>, session: u64, datagram: &mut [u8]) -> Result<Opened, Fault> {
        let Some(former) = former else { return self.keys.up.open(session, datagram) };
        let renewed = self.renewed.load(Ordering::Relaxed);
        let (first, second) = if renewed { (&self.keys.up, &former.up) } else { (&former.up, &self.keys.up) };
        let (opened, other) = first.open_or(second, session, datagram)?;
        if !renewed && other {
            self.renewed.store(true, Ordering::Relaxed);
        }
        Ok(opened)
    }

    /// A copy, with what has been noted.
    fn as_it_is(&self) -> Self {
        Self {
            keys: self.keys.clone(),
            session: self.session.load(Ordering::Relaxed).into(),
            latest: self.latest.load(Ordering::Relaxed).into(),
            renewed: self.renewed.load(Ordering::Relaxed).into(),
        }
    }

    /// Notes the number of a packet. Lcores may do so at once: then one that is older by a little is noted.
    fn note(&self, session: u64, counter: u64) -> Result<(), DropReason> {
        if self.session.load(Ordering::Relaxed) != session {
            self.latest.store(counter, Ordering::Relaxed);
            self.session.store(session, Ordering::Relaxed);
            return Ok(());
        }
        let latest = self.latest.load(Ordering::Relaxed);
        if counter.saturating_add(LATE) < latest {
            return Err(DropReason::Replayed);
        }
        if counter > latest.saturating_add(NOTED) {
            self.latest.store(counter, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
