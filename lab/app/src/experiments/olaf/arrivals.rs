//! When workers send. The paper replays traces that it does not publish; these are candidates.

use core::fmt;

use pascaline_sim::random::Random;

use super::SECOND;

/// An update reaches the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Arrival {
    /// Time in ticks.
    pub(crate) at: u64,
    /// Its sender.
    pub(crate) worker: u16,
}

/// The amount of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Workload {
    /// Workers; all send at the same rate.
    pub(crate) workers: u16,
    /// Updates that each worker sends.
    pub(crate) updates: u32,
    /// Bits of an update on the line.
    pub(crate) bits: u32,
    /// Average rate of all workers together, in Gbit/s.
    pub(crate) offered_gbps: u32,
    /// Rate within a burst, in Gbit/s; above the average.
    pub(crate) line_gbps: u32,
}

/// The traffic's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Arrivals {
    /// Each worker is a Poisson process.
    Poisson,
    /// Each worker sends at equal intervals, from a random time within the first.
    Periodic,
    /// All workers send at the same times, at equal intervals, in the order of their numbers.
    Locked,
    /// Each worker sends bursts of this many updates at line rate; bursts begin as a Poisson process. 1 means
    /// single updates.
    Bursts(u32),
    /// All workers share one line, as behind a packet generator with one port: this many updates of random
    /// workers at line rate, then a fixed pause.
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
    /// All arrivals, in order of time.
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

    /// The updates of one worker, independent of the others.
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

/// Ticks for this many bits.
fn serialization(bits: u32, gbps: u32) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "a power of ten")]
    let ticks_per_bit = SECOND as f64 / 1e9 / f64::from(gbps);
    f64::from(bits) * ticks_per_bit
}

/// A time in whole ticks.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "times of a run of milliseconds")]
pub(crate) fn ticks(time: f64) -> u64 {
    time.round() as u64
}

/// Uniform between 0 and 1, exclusive of both.
#[expect(clippy::cast_precision_loss, reason = "53 bits")]
pub(crate) fn uniform(random: &mut Random) -> f64 {
    ((random.next() >> 11) as f64 + 0.5) / (1u64 << 53) as f64
}

/// Exponentially distributed with mean 1.
pub(crate) fn exponential(random: &mut Random) -> f64 {
    -uniform(random).ln()
}
