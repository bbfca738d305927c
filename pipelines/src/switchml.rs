//! Jobs of SwitchML's own clients: which PSN a packet of theirs belongs to, and what its result looks like.
//!
//! Such a packet names a slot and one of its two sets. A worker uses the sets of a slot in turn, so its
//! packets to a slot count that worker's *rounds* there, and all workers' packets of one round are summed:
//! their PSN is `round × slots + slot`. In a region of so many sets each slot has a set of ways of its own,
//! whose oldest result is one that every worker has: to begin round r + 2 of a slot takes the result of
//! r + 1, for which all must have had that of r.
//!
//! The packets have no sequence numbers. What correct workers send for one round has one mark (operation and
//! packet), so the mark of the first one is kept, and what has another one is dropped. A packet that the
//! worker has sent in the round before the last is a late duplicate, and begins nothing: whoever sent it has
//! had its result. One that is later still cannot be told from the first of a round: workers' packets have to
//! come in order, as SwitchML's switch wants them.
//!
//! A mark comes again after 256 operations, two rounds later where these have one packet each and the window
//! is 128. So operations are counted on, for each worker by its latest one: a duplicate has the number that
//! the worker had two rounds ago, and a packet of its own one that is 256 higher. This holds unless
//! packets of a worker are more than 239 operations behind its latest, or 16 ahead of it.
//!
//! Operations without elements have numbers and no packets, so a worker may be further than its packets say:
//! 256 operations on, two rounds later, its packet looks like the duplicate. It is taken for a packet of its
//! own if every other place of the window has had its turn since the last round, and the duplicate would be
//! more than 32 operations late; or if the worker has sent nothing new for longer than duplicates live, and
//! so waits for its result.

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
    /// By rank and slot, then set: what the worker has sent there last, or `NOTHING`.
    sent: Box<[[AtomicU64; 2]]>,
    /// By rank: the worker's latest operation, counted on.
    latest: Box<[AtomicU32]>,
    /// By rank: packets that the worker has sent, each counted once.
    packets: Box<[AtomicU32]>,
    /// By rank and slot, then set: how many it had sent before the one in `sent`.
    before: Box<[[AtomicU32; 2]]>,
    /// By rank: when the last of these packets came, on the lcores' clock.
    moved: Box<[AtomicU64]>,
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

/// Which PSN a packet belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Belongs {
    /// The PSN.
    pub(crate) psn: u32,
    /// The worker has sent it before.
    pub(crate) again: bool,
}

/// Operations by which a packet may be ahead of its worker's latest: its threads do not wait for each other,
/// and several lcores receive what they send.
const AHEAD: u8 = 16;
/// Operations by which a duplicate is late at most where the window has been gone through since.
const LATE: u32 = 32;
/// Duplicates do not live so long, in nanoseconds; clients wait longer before they send again.
const LIFETIME_NS: u64 = 500_000_000;
/// Of what a worker has sent to a set of a slot: no packet.
const NOTHING: u64 = u64::MAX;

/// The number of the operation with these lowest eight bits that is nearest to the latest.
#[expect(clippy::cast_possible_truncation, reason = "the lowest eight bits")]
const fn counted_on(latest: u32, operation: u8) -> u32 {
    let ahead = operation.wrapping_sub(latest as u8);
    let number = latest.wrapping_add(ahead as u32);
    if ahead <= AHEAD { number } else { number.wrapping_sub(1 << u8::BITS) }
}

/// A mark with the round that it is for, in one word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Noted(u64);

impl Noted {
    const SET: u64 = 1;
    const NONE: Self = Self(0);

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
        let (workers, slots) = (usize::from(workers), terms.slots as usize);
        let none = |count: usize| (0..count).map(|_| AtomicU32::new(0)).collect();
        let nothing = || [AtomicU64::new(NOTHING), AtomicU64::new(NOTHING)];
        Self {
            terms,
            rounds: none(workers * slots),
            sent: (0..workers * slots).map(|_| nothing()).collect(),
            latest: none(workers),
            packets: none(workers),
            before: (0..workers * slots).map(|_| Default::default()).collect(),
            moved: (0..workers).map(|_| AtomicU64::new(0)).collect(),
            marks: (0..slots).map(|_| Default::default()).collect(),
            ports: none(workers),
        }
    }

    /// What its workers have been told.
    #[must_use]
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The PSN of a rank's packet, which came in on this port of the appliance at this time of the lcores'
    /// clock.
    ///
    /// # Errors
    /// Why it is dropped.
    pub(crate) fn psn(
        &self,
        rank: u16,
        (port, now_ns): (usize, u64),
        udp_port: u16,
        body: &Body,
    ) -> Result<Belongs, DropReason> {
        let Body { size, mark, place } = *body;
        let (slot, slots) = (u32::from(place.slot), self.terms.slots);
        if size != self.terms.size {
            return Err(DropReason::PayloadLength);
        }
        let (number, set) = (usize::from(rank), usize::from(place.second));
        let at = number * slots as usize + slot as usize;
        let outside = DropReason::OutsideWindow;
        let round = self.rounds.get(at).filter(|_| slot < slots).ok_or(outside)?;
        let (sent, latest) = (&self.sent[at][set], &self.latest[number]);
        let now = round.load(Ordering::Relaxed);
        let next = if (now & 1 == 1) == place.second { now } else { now.wrapping_add(1) };
        let (before, known) = (sent.load(Ordering::Relaxed), latest.load(Ordering::Relaxed));
        let mut operation = counted_on(known, mark.operation);
        let own = |operation: u32| u64::from(operation) << 32 | u64::from(mark.packet);
        let mut skips = false;
        // Of the round before the last, whose result it has: that of the last takes it.
        if next != now && before == own(operation) {
            skips = self.skips(number, (at, set), known.wrapping_sub(operation), now_ns);
            if !skips {
                return Err(DropReason::Duplicate);
            }
            operation = operation.wrapping_add(1 << u8::BITS);
        }
        Self::agree(Noted::new(mark, next, udp_port), next, &self.marks[slot as usize][set])?;
        let again = next == now && before != NOTHING;
        if !again {
            sent.store(own(operation), Ordering::Relaxed);
            round.store(next, Ordering::Relaxed);
            let count = self.packets[number].fetch_add(1, Ordering::Relaxed);
            self.before[at][set].store(count, Ordering::Relaxed);
            self.moved[number].store(now_ns, Ordering::Relaxed);
            if skips || operation.wrapping_sub(known) <= u32::from(AHEAD) {
                // Another lcore may have been faster, with what is as late or later.
                let _ = latest.compare_exchange(known, operation, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
        if let Some(heard_on) = self.ports.get(number) {
            heard_on.store(u32::try_from(port).unwrap_or(u32::MAX).saturating_add(1), Ordering::Relaxed);
        }
        Ok(Belongs { psn: next.wrapping_mul(slots).wrapping_add(slot), again })
    }

    /// Whether a packet with the marks of one that a worker has sent two rounds ago is one of 256 operations
    /// later. Its latest operation is `late` after the one that the packet names.
    fn skips(&self, number: usize, (at, set): (usize, usize), late: u32, now_ns: u64) -> bool {
        let load = |count: &AtomicU32| count.load(Ordering::Relaxed);
        let (first, last) = (load(&self.before[at][set]), load(&self.before[at][1 - set]));
        let turn = last.wrapping_sub(first);
        let in_turn = load(&self.packets[number]).wrapping_sub(last) >= turn;
        let quiet = now_ns.saturating_sub(self.moved[number].load(Ordering::Relaxed)) >= LIFETIME_NS;
        late > LATE && in_turn || quiet
    }

    /// Notes what a packet of a round says, if it is the first; else it must say the same.
    fn agree(own: Noted, round: u32, noted: &AtomicU64) -> Result<(), DropReason> {
        let found = Noted(noted.load(Ordering::Relaxed));
        let found = if found.is_of(round) {
            found
        } else if found != Noted::NONE && !found.is_of(round.wrapping_sub(2)) {
            // Others are further: by packets that came too late, which this one must not be added to.
            return Err(DropReason::OperationChanged);
        } else {
            // Another lcore may have been faster: then it is that mark that counts.
            let swapped =
                noted.compare_exchange(found.0, own.0, Ordering::Relaxed, Ordering::Relaxed).map(|_| own.0);
            Noted(swapped.unwrap_or_else(|theirs| theirs))
        };
        let agrees = found.is_of(round) && found.mark() == own.mark();
        if agrees { Ok(()) } else { Err(DropReason::OperationChanged) }
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

    /// How many packets a rank has sent, each counted once: how far it is, whichever slots they went to.
    pub(crate) fn packets(&self, rank: u16) -> u32 {
        self.packets.get(usize::from(rank)).map_or(0, |packets| packets.load(Ordering::Relaxed))
    }

    /// The port that a rank was last heard on.
    pub(crate) fn port(&self, rank: u16) -> Option<usize> {
        let port = self.ports.get(usize::from(rank))?.load(Ordering::Relaxed);
        port.checked_sub(1).map(|port| port as usize)
    }
}

#[cfg(test)]
mod tests;
