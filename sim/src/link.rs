//! One direction of one worker's link, and what it does to frames.

use arrayvec::ArrayVec;

use crate::corruption::{self, Direction};
use crate::faults::{Fault, Faults};
use crate::plan::{MICRO, MILLI, often};
use crate::random::Random;

/// What a link does to frames; chances in millionths.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Conditions {
    latency: u64,
    loss: u32,
    duplicate: u32,
    delayed: u32,
    /// The longest extra delay.
    delay: u64,
    /// Chance of a delay beyond retransmissions, operations and lives.
    stray: u32,
    corrupt: u32,
    truncate: u32,
    /// The appliance will lose its memory.
    forgets: bool,
}

impl Conditions {
    pub(crate) fn draw(random: &mut Random, forgets: bool) -> Self {
        Self {
            latency: random.between(2 * MICRO, 50 * MICRO),
            loss: often(random, 200_000),
            duplicate: often(random, 200_000),
            delayed: often(random, 500_000),
            delay: random.pick(&[20 * MICRO, 200 * MICRO, 2 * MILLI]),
            stray: often(random, 40_000),
            corrupt: often(random, 50_000),
            truncate: often(random, 30_000),
            forgets,
        }
    }

    /// Another link of the same network, with a latency of its own.
    pub(crate) fn vary(self, random: &mut Random) -> Self {
        Self { latency: self.latency + random.below(10 * MICRO), ..self }
    }
}

/// A frame on its way: when it arrives, its bytes, and whether the NIC finds its checksum wrong.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) at: u64,
    pub(crate) bytes: Vec<u8>,
    pub(crate) bad_checksum: bool,
}

/// One direction of a link.
#[derive(Debug)]
pub(crate) struct Link {
    conditions: Conditions,
    direction: Direction,
    down: Vec<(u64, u64)>,
    /// When the last of the frames arrives.
    latest: u64,
}

impl Link {
    pub(crate) fn new(conditions: Conditions, direction: Direction, down: Vec<(u64, u64)>) -> Self {
        Self { conditions, direction, down, latest: 0 }
    }

    /// Cuts the link from now on.
    pub(crate) fn cut(&mut self, now: u64) {
        self.down.push((now, u64::MAX));
    }

    /// What becomes of a frame that is sent now.
    pub(crate) fn send(
        &mut self,
        now: u64,
        bytes: Vec<u8>,
        random: &mut Random,
        faults: &mut Faults,
    ) -> ArrayVec<Arrival, 2> {
        let mut arrivals = ArrayVec::new();
        if self.down.iter().any(|&(from, to)| (from..to).contains(&now)) {
            faults.count(Fault::BlackedOut);
            return arrivals;
        }
        if random.chance(self.conditions.duplicate) {
            faults.count(Fault::Duplicated);
            arrivals.extend(self.carry(now, bytes.clone(), random, faults));
        }
        arrivals.extend(self.carry(now, bytes, random, faults));
        arrivals
    }

    fn carry(
        &mut self,
        now: u64,
        mut bytes: Vec<u8>,
        random: &mut Random,
        faults: &mut Faults,
    ) -> Option<Arrival> {
        const LONGEST: u64 = 150 * MILLI;
        let Conditions { latency, loss, delayed, delay, stray, corrupt, truncate, forgets, .. } =
            self.conditions;
        if random.chance(loss) {
            faults.count(Fault::Lost);
            return None;
        }
        let mut at = now + latency;
        if random.chance(delayed) {
            faults.count(Fault::Delayed);
            at += random.between(1, delay);
        }
        // Not requests to an appliance that will have lost its memory: it cannot tell a Join of a life that is over from
        // one of a life that has begun, and would let a generation begin with a rank that is no more. Its ranks then fail
        // by their deadline. Nothing short of a handshake with a number of the appliance's would prevent it.
        let request = self.direction != Direction::Down && corruption::is_control(&bytes);
        if random.chance(stray) && !(forgets && request) {
            faults.count(Fault::Stray);
            at += random.between(1, LONGEST);
        }
        if at < self.latest {
            faults.count(Fault::Reordered);
        }
        self.latest = self.latest.max(at);
        let mut bad_checksum = false;
        if random.chance(corrupt)
            && let Some(seen) = corruption::corrupt(&mut bytes, self.direction, random)
        {
            faults.count(Fault::Corrupted);
            bad_checksum = seen;
        }
        if random.chance(truncate) {
            faults.count(Fault::Truncated);
            bytes.truncate(random.index(bytes.len()));
        }
        Some(Arrival { at, bytes, bad_checksum })
    }
}
