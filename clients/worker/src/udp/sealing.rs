//! Sealed packets: sessions see plain datagrams, and only what is sent and received is sealed.

use core::fmt;
use core::time::Duration;

use pascaline_seal::{Fault, Holder, KeyError, KeyFile, LONGER, MemberEnd};

use super::socket::BATCH;
use super::{Config, Notice};
use crate::counters::{Counters, Ignored};
use crate::identity::{CONTROL_LEN, Identity};
use crate::membership::{Join, JoinFailure};
use crate::rejection::Reason;
use crate::session::{Session, Transmit};

/// How long no datagram may open after the appliance has said that it does not take this rank's packets as
/// proven: that answer may be forged.
const UNPROVEN: Duration = Duration::from_millis(1500);
/// Bytes of sealed packets at once: a full window of usual packets.
const ROOM: usize = 512 << 10;

/// For drivers: a worker's end of a sealed path, in one session.
pub struct Sealing {
    end: MemberEnd,
    /// Where its keys are, to see when they are replaced.
    file: Option<KeyFile>,
    /// Why the key that was put there is not used.
    refused: Option<KeyError>,
    /// Sealed packets until the system has taken them, one behind the other, ...
    room: Vec<u8>,
    /// ... and where each ends.
    ends: [usize; BATCH],
    /// When a datagram last opened, or when the session began.
    opened: Duration,
    /// The appliance's demand on packets, by its unsealed answers since then.
    demanded: Option<u32>,
    /// Whether that has been reported to the user.
    told: bool,
    /// Datagrams that did not open before there was a session to count them.
    early: Counters,
}

/// The appliance does not take a rank's packets as proven. Both are
/// [codes](pascaline_seal::Protection::code) of protections, or 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Unproven {
    /// What the job demands of them.
    demanded: u32,
    /// What they have.
    own: u32,
}

/// Packets that have been sealed.
pub(super) struct SealedPackets<'a> {
    bytes: &'a [u8],
    ends: &'a [usize],
}

impl<'a> SealedPackets<'a> {
    pub(super) const fn count(&self) -> usize {
        self.ends.len()
    }

    /// All bytes of one of them; empty if there are fewer.
    pub(super) fn packet(&self, at: usize) -> &'a [u8] {
        let begin = at.checked_sub(1).map_or(Some(0), |before| self.ends.get(before).copied());
        let range = begin.zip(self.ends.get(at).copied());
        range.and_then(|(begin, end)| self.bytes.get(begin..end)).unwrap_or_default()
    }
}

impl fmt::Debug for Sealing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sealing").field("end", &self.end).finish_non_exhaustive()
    }
}

impl Sealing {
    /// Of a session that begins now, and of which nothing has been sealed before; none without a key.
    #[must_use]
    pub fn of(config: &Config, session: u64, now: Duration) -> Option<Self> {
        config.key().map(|key| Self::new(key, session, now))
    }

    pub(super) fn new((holder, file): (&Holder, Option<KeyFile>), session: u64, now: Duration) -> Self {
        Self {
            end: MemberEnd::new(holder.clone(), session),
            file,
            refused: None,
            room: vec![0; CONTROL_LEN + LONGER],
            ends: [0; BATCH],
            opened: now,
            demanded: None,
            told: false,
            early: Counters::default(),
        }
    }

    /// Looks for another key from time to time. True if there is one: a request should be sent soon, since an
    /// answer to it decides when that key is used.
    pub fn renew(&mut self, now: Duration) -> bool {
        match self.file.as_mut().and_then(|file| file.poll(now)) {
            Some(Ok(holder)) => self.end.renew(holder),
            Some(Err(why)) => {
                self.refused = Some(why);
                false
            }
            None => false,
        }
    }

    /// Takes the room for batches of packets of this length, as it is without a seal.
    pub(super) fn make_room(&mut self, length: usize) {
        let each = length + LONGER;
        self.room.resize((BATCH * each).min(ROOM).max(each), 0);
    }

    /// Seals a datagram; empty if it is none that can be sealed.
    pub(super) fn seal(&mut self, datagram: &[u8]) -> &[u8] {
        let sealed = self.seal_at(0, &[datagram]).unwrap_or(0);
        self.room.get(..sealed).unwrap_or_default()
    }

    /// Seals packets from the batch's beginning as far as the room goes, and at least one.
    pub(super) fn seal_batch(
        &mut self,
        batch: &[Transmit],
        session: &Session,
        tensor: &[u8],
    ) -> SealedPackets<'_> {
        let (mut end, mut count) = (0, 0);
        for (packet, place) in batch.iter().zip(0..BATCH) {
            let parts = [&packet.header[..], session.payload(packet, tensor), session.trailer(packet)];
            let Some(length) = self.seal_at(end, &parts) else { break };
            end += length;
            self.ends[place] = end;
            count = place + 1;
        }
        SealedPackets { bytes: &self.room[..end], ends: &self.ends[..count] }
    }

    /// Seals a datagram made of these parts in the room from `begin` on. Returns its length; `None` if there
    /// is too little room behind others.
    fn seal_at(&mut self, begin: usize, parts: &[&[u8]]) -> Option<usize> {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if begin == 0 && self.room.len() < length + LONGER {
            self.room.resize(length + LONGER, 0);
        }
        let room = self.room.get_mut(begin..).filter(|room| room.len() >= length + LONGER)?;
        let mut at = 0;
        for part in parts {
            room.get_mut(at..at + part.len())?.copy_from_slice(part);
            at += part.len();
        }
        self.end.seal(room, length)
    }

    /// Seals the first `length` bytes of `room`, a datagram that is to be in the session's next packet.
    /// Returns how long it is then; `None` if the room is not [`Config::longer`] more.
    pub fn seal_in_place(&mut self, room: &mut [u8], length: usize) -> Option<usize> {
        self.end.seal(room, length)
    }

    /// Opens a datagram where it lies. Returns its length without the seal.
    ///
    /// # Errors
    /// Why it is to be ignored.
    pub fn open(&mut self, now: Duration, datagram: &mut [u8]) -> Result<usize, Ignored> {
        let fault = match self.end.open(datagram) {
            Ok(length) => {
                (self.opened, self.demanded, self.told) = (now, None, false);
                return Ok(length);
            }
            Err(fault) => fault,
        };
        if let Fault::Unproven(demanded) = fault {
            self.demanded = Some(demanded);
        }
        Err(match fault {
            Fault::Unsealed | Fault::Unproven(_) => Ignored::Unsealed,
            Fault::Forged => Ignored::Forged,
            Fault::Replayed => Ignored::Replayed,
            Fault::Elsewhere => Ignored::ForeignRank,
        })
    }

    /// As [`open`](Self::open), before there is a session: counts what does not open.
    pub(super) fn open_early(&mut self, now: Duration, datagram: &mut [u8]) -> Option<usize> {
        self.open(now, datagram).inspect_err(|&why| self.early.ignore(why)).ok()
    }

    /// The counters from before there was a session.
    pub(super) fn take_early(&mut self) -> Counters {
        core::mem::take(&mut self.early)
    }

    /// True if an answer since the appliance last proved itself says that it rejects this rank's packets.
    #[must_use]
    pub const fn is_in_doubt(&self) -> bool {
        self.demanded.is_some()
    }

    /// When that answer begins to count.
    pub(super) fn poll_timeout(&self) -> Option<Duration> {
        self.demanded.map(|_| self.opened.saturating_add(UNPROVEN))
    }

    /// The content of that answer, if it counts: no datagram has opened for long.
    fn unproven(&self, now: Duration) -> Option<Unproven> {
        let demanded = self.demanded.filter(|_| self.poll_timeout().is_some_and(|due| now >= due))?;
        Some(Unproven { demanded, own: self.end.protection().code() })
    }

    /// What that answer means for a worker that joins; at its deadline however long the silence was.
    #[must_use]
    pub fn failure(&self, join: &Join, now: Duration, is_late: bool) -> Option<JoinFailure> {
        let unproven = self.unproven(if is_late { Duration::MAX } else { now });
        unproven.map(|Unproven { demanded, own }| join.unproven(demanded, own))
    }

    /// Reports to the user that the appliance does not take this rank's packets as proven, once for each
    /// silence, and why the key in the file is not used.
    pub fn notify(&mut self, Notice(tell): Notice, identity: &Identity, now: Duration) {
        if let Some(Unproven { demanded, own }) = self.unproven(now).filter(|_| !self.told) {
            self.told = true;
            tell(&identity.rejection(Reason::Unproven, demanded, own));
        }
        if let Some(why) = self.refused.take() {
            tell(&format_args!("continues with the key that it has: {why}"));
        }
    }
}

#[cfg(test)]
mod tests;
