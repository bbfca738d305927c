//! When workers send. The paper replays traces that it does not publish; these are what they may have been
//! like.

use core::fmt;

use pascaline_sim::random::Random;

use super::SECOND;

/// An update reaches the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival {
    /// When, in ticks.
    pub(crate) at: u64,
    /// From whom.
    pub(crate) worker: u16,
}

/// How many send how much.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Workload {
    /// Workers; all send at the same rate.
    pub(crate) workers: u16,
    /// Updates that each of them sends.
    pub(crate) updates: u32,
    /// Bits of an update, on the line.
    pub(crate) bits: u32,
    /// What all send together on average, in Gbit/s.
    pub(crate) offered_gbps: u32,
    /// How fast updates follow each other within a burst, in Gbit/s; more than they offer on average.
    pub(crate) line_gbps: u32,
}

/// The traffic's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrivals {
    /// Each worker is a Poisson process.
    Poisson,
    /// Each worker sends at equal intervals, beginning at a random time of the first.
    Periodic,
    /// Each worker sends at equal intervals, and all at the same time: in the order of their numbers.
    Locked,
    /// Each worker sends so many updates one after the other at line rate; bursts of a worker begin like a
    /// Poisson process. With 1, that is what updates are.
    Bursts(u32),
    /// All workers send from behind one line (a packet generator with one port, say): so many updates of
    /// workers at random at line rate, then a pause, always the same.
    Trains(u32),
}

impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Poisson => f.write_str("poisson"),
            Self::Periodic => f.write_str("periodic"),
            Self::Locked => f.write_str("locked"),
            Self::Bursts(updates) => write!(f, "bursts of {updates}"),
            Self::Trains(updates) => write!(f, "trains of {updates}"),
        }
    }
}

impl Arrivals {
    /// Everything that arrives, in order of time.
    #[must_use]
    pub(crate) fn draw(self, load: &Workload, seed: u64) -> Vec<Arrival> {
        let mut random = Random::new(seed);
        let mut all = Vec::with_capacity(usize::from(load.workers) * load.updates as usize);
        match self {
            Self::Trains(length) => trains(load, length.max(1), &mut random, &mut all),
            _ => {
                for worker in 0..load.workers {
                    self.one(load, worker, &mut random, &mut all);
                }
            }
        }
        all.sort_unstable();
        all
    }

    /// What one worker sends, independently of the others.
    fn one(self, load: &Workload, worker: u16, random: &mut Random, all: &mut Vec<Arrival>) {
        let interval = load.interval() * f64::from(load.workers);
        let mut send = |time| all.push(Arrival { at: ticks(time), worker });
        let mut time = 0.0;
        match self {
            Self::Periodic | Self::Locked => {
                let phase = if self == Self::Locked { 0.0 } else { uniform(random) };
                (0..load.updates).for_each(|number| send((f64::from(number) + phase) * interval));
            }
            Self::Bursts(burst) => {
                let burst = burst.max(1);
                let mut left = load.updates;
                while left > 0 {
                    time += exponential(random) * interval * f64::from(burst);
                    let now = burst.min(left);
                    (0..now).for_each(|number| send(time + f64::from(number) * load.spacing()));
                    left -= now;
                }
            }
            Self::Poisson | Self::Trains(_) => {
                for _ in 0..load.updates {
                    time += exponential(random) * interval;
                    send(time);
                }
            }
        }
    }
}

fn trains(load: &Workload, length: u32, random: &mut Random, all: &mut Vec<Arrival>) {
    let mut left = vec![load.updates; usize::from(load.workers)];
    let mut able: Vec<u16> = (0..load.workers).filter(|_| load.updates > 0).collect();
    let (mut time, mut number) = (0.0, 0);
    while !able.is_empty() {
        let at = random.index(able.len());
        let worker = able[at];
        all.push(Arrival { at: ticks(time), worker });
        left[usize::from(worker)] -= 1;
        if left[usize::from(worker)] == 0 {
            able.swap_remove(at);
        }
        number += 1;
        time += load.spacing();
        if number == length {
            number = 0;
            time += f64::from(length) * (load.interval() - load.spacing());
        }
    }
}

impl Workload {
    /// Ticks from one update of any worker to the next, on average.
    fn interval(&self) -> f64 {
        serialization(self.bits, self.offered_gbps)
    }

    /// Ticks from one update of a burst to the next.
    fn spacing(&self) -> f64 {
        serialization(self.bits, self.line_gbps)
    }
}

/// Ticks that so many bits take.
fn serialization(bits: u32, gbps: u32) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a power of ten")]
    let ticks_per_bit = SECOND as f64 / 1e9 / f64::from(gbps);
    f64::from(bits) * ticks_per_bit
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of a run of milliseconds")]
fn ticks(time: f64) -> u64 {
    time.round() as u64
}

/// Between 0 and 1, never either of them.
#[expect(clippy::cast_precision_loss, reason = "53 bits")]
pub(super) fn uniform(random: &mut Random) -> f64 {
    ((random.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Exponentially distributed with mean 1.
pub(super) fn exponential(random: &mut Random) -> f64 {
    -uniform(random).ln()
}
