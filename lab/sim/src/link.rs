//! One direction of one worker's link, and its faults.

use core::time::Duration;

use arrayvec::ArrayVec;
use pascaline_worker::session::HEARTBEAT;

use crate::corruption::{self, Direction};
use crate::faults::{Fault, Faults};
use crate::plan::{MICRO, MILLI, often};
use crate::random::Random;

/// The faults of a link; chances in millionths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
}

/// The longest delay of a stray frame.
const LONGEST: u64 = 150 * MILLI;

impl Conditions {
    pub(crate) fn draw(random: &mut Random) -> Self {
        Self {
            latency: random.between(2 * MICRO, 50 * MICRO),
            loss: often(random, 200_000),
            duplicate: often(random, 200_000),
            delayed: often(random, 500_000),
            delay: random.pick(&[20 * MICRO, 200 * MICRO, 2 * MILLI]),
            stray: often(random, 40_000),
            corrupt: often(random, 50_000),
            truncate: often(random, 30_000),
        }
    }

    /// A network that loses, doubles and delays a little.
    pub(crate) const fn slightly_bad() -> Self {
        Self {
            latency: 20 * MICRO,
            loss: 10_000,
            duplicate: 10_000,
            delayed: 50_000,
            delay: 200 * MICRO,
            stray: 5_000,
            corrupt: 0,
            truncate: 0,
        }
    }

    /// A network in which frames hardly overtake each other.
    pub(crate) fn in_step(random: &mut Random) -> Self {
        let (latency, delay) = (random.between(20 * MICRO, 50 * MICRO), 20 * MICRO);
        Self { latency, delay, stray: 0, corrupt: 0, truncate: 0, ..Self::draw(random) }
    }

    /// How long a worker may wait for news in the appliance's answers to heartbeats.
    ///
    /// The time that its link is down, plus enough heartbeats that hardly ever all of them, or all answers,
    /// are lost.
    pub(crate) fn news(&self, starved: u32, down: u64) -> Duration {
        const HARDLY_EVER: f64 = 1e-8;
        const MILLION: f64 = 1e6;
        let arrives = [self.loss, self.corrupt, self.truncate].map(|one| 1.0 - f64::from(one) / MILLION);
        let through: f64 = arrives.iter().product();
        let answered = through * through * (1.0 - f64::from(starved) / MILLION);
        let mut heartbeats = 1;
        let mut all_lost = 1.0 - answered;
        while all_lost > HARDLY_EVER {
            heartbeats += 1;
            all_lost *= 1.0 - answered;
        }
        // Packets in flight may come late, and the appliance may be slow.
        let late = if self.stray > 0 { LONGEST } else { 0 } + 2 * self.delay + 20 * MILLI;
        HEARTBEAT * heartbeats + Duration::from_nanos(down + late)
    }

    /// The same, but with at least this many lost frames per million.
    pub(crate) fn losing(self, loss: u32) -> Self {
        Self { loss: self.loss.max(loss), ..self }
    }

    /// The same, but frames that arrive are unchanged.
    pub(crate) const fn intact(self) -> Self {
        Self { corrupt: 0, ..self }
    }

    /// The same without duplicates.
    pub(crate) const fn without_duplicates(self) -> Self {
        Self { duplicate: 0, ..self }
    }

    /// Another link of the same network, with its own latency.
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

    /// The arrivals of a frame that is sent now.
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
        let Conditions { latency, loss, delayed, delay, stray, corrupt, truncate, .. } = self.conditions;
        if random.chance(loss) {
            faults.count(Fault::Lost);
            return None;
        }
        let mut at = now + latency;
        if random.chance(delayed) {
            faults.count(Fault::Delayed);
            at += random.between(1, delay);
        }
        if random.chance(stray) {
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
