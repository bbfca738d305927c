//! Two groups of clusters behind one bottleneck; one group sends more often (Olaf, section 8.3, tables 2 and
//! 3). Shows the effect of transmission control on loss, age and fairness.
//!
//! ```text
//! C1 … C5  (every 100 ms)     ── SW1, 5 places ──┐
//!                                                ├── SW3, 8 places ── server
//! C6 … C10 (every 100/300 ms) ── SW2, 5 places ──┘
//! ```
//!
//! Queues, ages and the workers' transmission control are the real code; trainers, lines and the server are
//! simulated. The server acknowledges each update at once to the whole cluster, with the state of SW3's
//! queue. The paper does not give the lines' rates. Times are in nanoseconds.

#[cfg(test)]
mod tests;

use core::num::NonZeroU64;
use core::time::Duration;

use pascaline_buffer::HeapPool;
use pascaline_ps::asynchronous::{Age, Pace, jain};
use pascaline_queue::{Config, ConfigError, Discipline, EnqueueOutcome, Shaper, Update};
use pascaline_sim::random::{Random, mix};
use pascaline_sim::wheel::{Wheel, nanos};
use pascaline_wire::header::PAUSE_UNIT;
use pascaline_wire::trailer::QueueState;
use pascaline_worker::asynchronous::{Control, Heard, Policy};

use super::arrivals::{exponential, uniform};
use super::bottleneck::{Bottleneck, Hold};

const CLUSTERS: u16 = 10;
/// Workers of each cluster.
const WORKERS: u16 = 10;
/// Bytes of an update on the lines.
const BYTES: u16 = 1000;
/// Places of SW1, SW2 and SW3.
const PLACES: [u16; 3] = [5, 5, 8];
const LAST: usize = 2;
const MS: u64 = 1_000_000;
/// From the server's reception of an update to the workers' reception of its acknowledgement.
const REPLY: u64 = MS;

/// When trainers have updates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Senders {
    /// At equal intervals, all at the same times, in the order of their numbers.
    Locked,
    /// Each interval is longer or shorter by up to this many millionths. The first update leaves at a random
    /// time within the first interval.
    Jittered(u32),
    /// Each trainer is a Poisson process.
    Poisson,
}

/// A combination under comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Scheme {
    /// The queues' discipline.
    pub(crate) discipline: Discipline,
    /// The workers' transmission control.
    pub(crate) policy: Policy,
}

/// The experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Table3 {
    /// The seed.
    pub(crate) seed: u64,
    /// Runs to average.
    pub(crate) runs: u32,
    /// Virtual time of a run.
    pub(crate) lasts: Duration,
    /// Interval of the second group's workers: 300 ms in table 3, 100 ms in table 2.
    pub(crate) slow: Duration,
    /// Rate behind SW1 and behind SW2, in kbit/s.
    pub(crate) edge_kbps: [u32; 2],
    /// Rate behind SW3, in kbit/s.
    pub(crate) last_kbps: u32,
}

/// Outcome of a scheme: means over the runs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Outcome {
    /// Updates that trainers produced.
    pub(crate) updates: f64,
    /// Updates that transmission control let pass.
    pub(crate) sent: f64,
    /// Share of those that were dropped, alone or inside others, in percent.
    pub(crate) lost_pct: f64,
    /// Updates that the server received, combined ones once.
    pub(crate) received: f64,
    /// Age-of-Model in milliseconds, averaged over time and over the clusters of each group.
    pub(crate) aom_ms: [f64; 2],
    /// The same of each worker's own updates, where none are combined.
    pub(crate) worker_aom_ms: [f64; 2],
    /// The mean of its peaks.
    pub(crate) worker_peak_ms: [f64; 2],
    /// Jain's index of the clusters' averages.
    pub(crate) jain: f64,
    /// The same of the workers' averages.
    pub(crate) worker_jain: f64,
}

/// One of the paper's rows: loss in percent, ages in milliseconds, Jain's index as printed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Contest {
    /// FIFO, Olaf, or Olaf with transmission control.
    pub(crate) name: &'static str,
    /// Loss in percent.
    pub(crate) lost_pct: f64,
    /// The two groups' Age-of-Model in milliseconds.
    pub(crate) aom_ms: [f64; 2],
    /// The fairness index.
    pub(crate) jain: f64,
}

impl Senders {
    /// At intervals up to a tenth longer or shorter.
    pub(crate) const TENTH: Self = Self::Jittered(100_000);
}

impl Table3 {
    /// The paper's table 3.
    pub(crate) const PAPER: [Contest; 3] = [
        Contest { name: "FIFO", lost_pct: 86.0, aom_ms: [1381.0, 5382.0], jain: 0.86 },
        Contest { name: "Olaf", lost_pct: 5.6, aom_ms: [243.0, 291.0], jain: 0.91 },
        Contest { name: "Olaf_TC", lost_pct: 4.7, aom_ms: [263.0, 270.0], jain: 0.99 },
    ];

    /// Runs one scheme.
    ///
    /// # Errors
    /// [`ConfigError`]: not to be expected.
    pub(crate) fn run(&self, senders: Senders, scheme: Scheme) -> Result<Outcome, ConfigError> {
        let runs = self.runs.max(1);
        let share = 1.0 / f64::from(runs);
        let mut mean = Outcome::default();
        for number in 0..runs {
            let seed = mix(self.seed).wrapping_add(u64::from(number));
            let one = World::new(self, senders, scheme, seed)?.run();
            mean.updates += one.updates * share;
            mean.sent += one.sent * share;
            mean.lost_pct += one.lost_pct * share;
            mean.received += one.received * share;
            mean.jain += one.jain * share;
            mean.worker_jain += one.worker_jain * share;
            let groups = [
                (&mut mean.aom_ms, one.aom_ms),
                (&mut mean.worker_aom_ms, one.worker_aom_ms),
                (&mut mean.worker_peak_ms, one.worker_peak_ms),
            ];
            for (mean, one) in groups {
                mean.iter_mut().zip(one).for_each(|(mean, one)| *mean += one * share);
            }
        }
        Ok(mean)
    }
}

#[derive(Debug)]
enum Event {
    /// A line has sent its update.
    Sent { line: usize },
    /// An acknowledgement reaches all workers of a cluster, with active clusters, places and waiting updates.
    Ack { cluster: u16, pause: u16, state: (u16, u16, u32) },
    /// A trainer has an update.
    Update { worker: u16 },
}

struct World {
    senders: Senders,
    lasts: u64,
    intervals: [u64; 2],
    random: Random,
    wheel: Wheel<Event>,
    controls: Vec<Control>,
    lines: Vec<Bottleneck>,
    ages: Vec<Age>,
    /// Of each worker alone.
    workers: Vec<Age>,
    pace: Pace,
    pool: HeapPool,
    updates: u64,
    sent: u64,
    lost: u64,
    received: u64,
}

impl World {
    fn new(experiment: &Table3, senders: Senders, scheme: Scheme, seed: u64) -> Result<Self, ConfigError> {
        let line = |at: usize| {
            let kbps = experiment.edge_kbps.get(at).copied().unwrap_or(experiment.last_kbps);
            let rate = NonZeroU64::new(u64::from(kbps) * 1000).unwrap_or(NonZeroU64::MIN);
            let config = Config {
                discipline: scheme.discipline,
                segments: PLACES[at],
                clusters: u32::from(CLUSTERS),
                ..Config::default()
            };
            Bottleneck::with_line(&config, Shaper::new(rate, Duration::ZERO), Hold::UntilBegun)
        };
        let mut world = Self {
            senders,
            lasts: nanos(experiment.lasts),
            intervals: [100 * MS, nanos(experiment.slow)],
            random: Random::new(seed),
            wheel: Wheel::default(),
            controls: Vec::new(),
            lines: (0..PLACES.len()).map(line).collect::<Result<_, _>>()?,
            ages: vec![Age::default(); usize::from(CLUSTERS)],
            workers: vec![Age::default(); usize::from(CLUSTERS * WORKERS)],
            pace: Pace::default(),
            pool: HeapPool::new(),
            updates: 0,
            sent: 0,
            lost: 0,
            received: 0,
        };
        for worker in 0..CLUSTERS * WORKERS {
            world.controls.push(Control::new(scheme.policy, world.random.next()));
            let first = match senders {
                Senders::Locked => world.interval(worker),
                Senders::Jittered(_) => world.random.below(world.interval(worker)),
                Senders::Poisson => world.gap(worker),
            };
            world.wheel.push(first, Event::Update { worker });
        }
        Ok(world)
    }

    const fn interval(&self, worker: u16) -> u64 {
        self.intervals[group(worker / WORKERS)]
    }

    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "below hours"
    )]
    fn gap(&mut self, worker: u16) -> u64 {
        let factor = match self.senders {
            Senders::Locked => return self.interval(worker),
            Senders::Jittered(most) => 1.0 + f64::from(most) / 1e6 * (2.0 * uniform(&mut self.random) - 1.0),
            Senders::Poisson => exponential(&mut self.random),
        };
        (self.interval(worker) as f64 * factor) as u64
    }

    fn run(mut self) -> Outcome {
        while let Some((now, event)) = self.wheel.pop().filter(|&(now, _)| now <= self.lasts) {
            self.handle(now, event);
        }
        self.outcome()
    }

    fn handle(&mut self, now: u64, event: Event) {
        match event {
            Event::Sent { line } => self.depart(now, line),
            Event::Ack { cluster, pause, state: (clusters, capacity, waiting) } => {
                let queue = QueueState { clusters, capacity, waiting };
                let heard = Heard { queue, pause: PAUSE_UNIT * u32::from(pause) };
                let workers = usize::from(cluster * WORKERS)..usize::from((cluster + 1) * WORKERS);
                for control in self.controls.get_mut(workers).unwrap_or_default() {
                    control.on_ack(Duration::from_nanos(now), heard);
                }
            }
            Event::Update { worker } => {
                let next = now + self.gap(worker);
                self.wheel.push(next, Event::Update { worker });
                self.updates += 1;
                let control = self.controls.get_mut(usize::from(worker));
                if control.is_some_and(|control| control.permits(Duration::from_nanos(now))) {
                    self.sent += 1;
                    let update = Update::new(u32::from(worker / WORKERS), worker, now, BYTES);
                    self.offer(now, group(worker / WORKERS), update);
                }
            }
        }
    }

    fn offer(&mut self, now: u64, line: usize, update: Update) {
        let packet = self.pool.alloc(&[0; BYTES as usize], usize::from(BYTES));
        let Some(to) = self.lines.get_mut(line) else { return };
        let idle = to.next().is_none();
        if to.offer(now, update, packet).outcome == EnqueueOutcome::Full {
            self.lost += u64::from(update.count);
        }
        if idle && let Some(at) = to.next() {
            self.wheel.push(at, Event::Sent { line });
        }
    }

    fn depart(&mut self, now: u64, line: usize) {
        let Some(from) = self.lines.get_mut(line) else { return };
        let departure = from.finish(now);
        if let Some(at) = from.next() {
            self.wheel.push(at, Event::Sent { line });
        }
        let Some(departure) = departure else { return };
        if line != LAST {
            return self.offer(now, LAST, departure.update);
        }
        self.received += 1;
        let cluster = departure.update.cluster;
        if let Some(age) = self.ages.get_mut(cluster as usize) {
            age.receive(now, departure.update.generated_ns);
        }
        if let Some(age) = self.workers.get_mut(usize::from(departure.update.worker)) {
            age.receive(now, departure.update.generated_ns);
        }
        let QueueState { clusters, capacity, waiting } = self
            .lines
            .get_mut(LAST)
            .map_or(QueueState { clusters: 0, capacity: 0, waiting: 0 }, |line| line.state(now));
        let cluster = u16::try_from(cluster).unwrap_or(0);
        let age = Duration::from_nanos(now - departure.update.generated_ns);
        let pause = self.pace.on_update(cluster, Duration::from_nanos(now), age);
        let state = (clusters, capacity, waiting);
        self.wheel.push(now + REPLY, Event::Ack { cluster, pause, state });
    }

    #[expect(clippy::cast_precision_loss, reason = "counts of a run")]
    fn outcome(self) -> Outcome {
        let all = |ages: &[Age], of: &dyn Fn(&Age) -> f64| -> Vec<f64> {
            ages.iter().map(|age| of(age) / MS as f64).collect()
        };
        let mean = |ages: &[f64]| ages.iter().sum::<f64>() / ages.len() as f64;
        let halves = |ages: &[f64]| {
            let (fast, slow) = ages.split_at(ages.len() / 2);
            [mean(fast), mean(slow)]
        };
        let average = |age: &Age| age.average(self.lasts);
        let (ages, workers) = (all(&self.ages, &average), all(&self.workers, &average));
        Outcome {
            updates: self.updates as f64,
            sent: self.sent as f64,
            lost_pct: 100.0 * self.lost as f64 / self.sent as f64,
            received: self.received as f64,
            aom_ms: halves(&ages),
            worker_aom_ms: halves(&workers),
            worker_peak_ms: halves(&all(&self.workers, &Age::mean_peak)),
            jain: jain(&ages),
            worker_jain: jain(&workers),
        }
    }
}

/// 0 for the first half of the clusters, 1 for the second.
const fn group(cluster: u16) -> usize {
    (cluster >= CLUSTERS / 2) as usize
}
