//! Jobs of SwitchML's own clients: which PSN a packet of theirs belongs to, and what its result looks like.
//!
//! Such a packet names a slot and one of its two sets. A worker uses the sets of a slot in turn, so its
//! packets to a slot count that worker's *rounds* there, and all workers' packets of one round are summed:
//! their PSN is `round × slots + slot`. In a region of so many sets each slot has a set of ways of its own,
//! whose oldest result is one that every worker has: to begin round r + 2 of a slot takes the result of
//! r + 1, for which all must have had that of r.
//!
//! The packets have no sequence numbers. What correct workers send for one round has one mark (operation and
//! packet), so the mark of the first one is kept, and what has another one is dropped. A packet with the mark
//! of the round before the last is a late duplicate, and begins nothing. One that is later still cannot be
//! told from the first of a round: workers' packets have to come in order, as SwitchML's switch wants them.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use pascaline_telemetry::DropReason;
use pascaline_wire::frame::Mac;
use pascaline_wire::switchml::{Body, Mark, Place, Size};

/// What one formation of a job shares between lcores. What an lcore reads it has written itself or it is
/// compared with the packet at hand, so nothing is ordered: relaxed.
#[derive(Debug)]
pub struct SwitchMl {
    terms: Terms,
    /// By rank and slot: the round that the worker is in.
    rounds: Box<[AtomicU32]>,
    /// By slot and set: the mark of the round that is there, with the round and the UDP port.
    marks: Box<[[AtomicU64; 2]]>,
    /// By rank: one more than the port that it was last heard on.
    ports: Box<[AtomicU32]>,
}

/// What a job's workers have been told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// The UDP port that they send to.
    pub udp_port: u16,
    /// The MAC that they send to.
    pub mac: Mac,
    /// The address that they send to.
    pub address: [u8; 4],
    /// Slots that they may name: sets of the job's region, a power of two.
    pub slots: u32,
    /// How long their packets are.
    pub size: Size,
}

/// A mark with the round that it is for, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Noted(u64);

impl Noted {
    const SET: u64 = 1;

    const fn new(mark: Mark, round: u32, udp_port: u16) -> Self {
        let Mark { operation, packet } = mark;
        let low = (operation as u64) << 24 | (udp_port as u64) << 8 | (round as u64 & 0x7f) << 1;
        Self((packet as u64) << 32 | low | Self::SET)
    }

    const fn is_of(self, round: u32) -> bool {
        self.0 & 0xff == (round as u64 & 0x7f) << 1 | Self::SET
    }

    #[expect(clippy::cast_possible_truncation, reason = "one field each")]
    const fn mark(self) -> Mark {
        Mark { operation: (self.0 >> 24) as u8, packet: (self.0 >> 32) as u32 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "one field")]
    const fn udp_port(self) -> u16 {
        (self.0 >> 8) as u16
    }
}

impl SwitchMl {
    /// A formation of this many workers.
    ///
    /// # Panics
    /// If `slots` is not a power of two.
    #[must_use]
    pub fn new(terms: Terms, workers: u16) -> Self {
        assert!(terms.slots.is_power_of_two(), "{} slots", terms.slots);
        let slots = terms.slots as usize;
        let none = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        Self {
            terms,
            rounds: none(usize::from(workers) * slots),
            marks: (0..slots).map(|_| Default::default()).collect(),
            ports: none(usize::from(workers)),
        }
    }

    /// What its workers have been told.
    #[must_use]
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The PSN of a rank's packet, which came in on this port of the appliance.
    ///
    /// # Errors
    /// Why it is dropped.
    pub(crate) fn psn(&self, rank: u16, port: usize, udp_port: u16, body: &Body) -> Result<u32, DropReason> {
        let Body { size, mark, place } = *body;
        let (slot, slots) = (u32::from(place.slot), self.terms.slots);
        if size != self.terms.size {
            return Err(DropReason::PayloadLength);
        }
        let at = usize::from(rank) * slots as usize + slot as usize;
        let round = self.rounds.get(at).filter(|_| slot < slots).ok_or(DropReason::OutsideWindow)?;
        let noted = &self.marks[slot as usize][usize::from(place.second)];
        let now = round.load(Ordering::Relaxed);
        let next = if (now & 1 == 1) == place.second { now } else { now.wrapping_add(1) };
        let (before, found) = (next.wrapping_sub(2), Noted(noted.load(Ordering::Relaxed)));
        let psn = |round: u32| Ok(round.wrapping_mul(slots).wrapping_add(slot));
        if next != now && found.is_of(before) && found.mark() == mark {
            return psn(before);
        }
        let own = Noted::new(mark, next, udp_port);
        let found = if found.is_of(next) {
            found
        } else {
            // Another lcore may have been faster: then it is that mark that counts.
            let swapped =
                noted.compare_exchange(found.0, own.0, Ordering::Relaxed, Ordering::Relaxed).map(|_| own.0);
            Noted(swapped.unwrap_or_else(|theirs| theirs))
        };
        if !found.is_of(next) || found.mark() != mark {
            return Err(DropReason::OperationChanged);
        }
        round.store(next, Ordering::Relaxed);
        if let Some(heard_on) = self.ports.get(usize::from(rank)) {
            heard_on.store(u32::try_from(port).unwrap_or(u32::MAX).saturating_add(1), Ordering::Relaxed);
        }
        psn(next)
    }

    /// What the result of a PSN says of itself, and the UDP port that it goes to at every worker.
    pub(crate) fn result(&self, psn: u32) -> (Body, u16) {
        let slot = psn & (self.terms.slots - 1);
        let second = psn >> self.terms.slots.ilog2() & 1 == 1;
        let noted = self
            .marks
            .get(slot as usize)
            .map_or(0, |marks| marks[usize::from(second)].load(Ordering::Relaxed));
        let place = Place { slot: u16::try_from(slot).unwrap_or(u16::MAX), second };
        let noted = Noted(noted);
        (Body { size: self.terms.size, mark: noted.mark(), place }, noted.udp_port())
    }

    /// The port that a rank was last heard on.
    pub(crate) fn port(&self, rank: u16) -> Option<usize> {
        let port = self.ports.get(usize::from(rank))?.load(Ordering::Relaxed);
        port.checked_sub(1).map(|port| port as usize)
    }
}

#[cfg(test)]
mod tests;
