//! Evaluation of determined cases, event by event, with the shipping queue.

use num_rational::BigRational;
use num_traits::{One as _, ToPrimitive as _};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool};
use pascaline_queue::{Config, EnqueueOutcome, Update, UpdateQueue};

use self::grain::{MOST_TICKS, scale};
use crate::age::Age;
use crate::deadline::Deadline;
use crate::error::VerifyError;
use crate::scenario::{Coins, Control, Exact, Measure, Place, Scenario};

mod grain;
#[cfg(test)]
mod tests;

/// The most updates of a run.
pub(crate) const MOST_UPDATES: u64 = 5_000_000;
/// Updates between two looks at the clock.
const LOOK: usize = 1024;

/// The limits of an evaluation.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The most updates up to the horizon.
    pub updates: u64,
    /// The number of events to keep, the first ones.
    pub events: usize,
    /// The deadline.
    pub deadline: Deadline,
}

/// One value for everything that a scenario leaves open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// Each cluster's phase, in ns.
    pub phases: Vec<Exact>,
    /// Each cluster's period, in ns.
    pub periods: Vec<Exact>,
    /// For each cluster whose coins are free: whether each of its updates, in order of time, is sent if its
    /// coin decides.
    pub coins: Vec<Option<Vec<bool>>>,
}

impl Choice {
    /// The lowest of each range, and coins that always permit. The only choice if the scenario is determined.
    #[must_use]
    pub fn lowest(scenario: &Scenario) -> Self {
        let clusters = &scenario.clusters;
        Self {
            phases: clusters.iter().map(|cluster| cluster.phase.low.clone()).collect(),
            periods: clusters.iter().map(|cluster| cluster.period.low.clone()).collect(),
            coins: vec![None; clusters.len()],
        }
    }
}

/// An event of an update, or of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// Transmission control holds an update back.
    HeldBack,
    /// It waits at the tail; with the number of waiting updates.
    Appended(usize),
    /// It was combined with, or replaced, the waiting update of its cluster.
    Merged,
    /// It was dropped: the queue is full.
    Dropped,
    /// Its sending begins.
    Leaves,
    /// It arrives at the server; its newest update was generated at this tick.
    Arrives(i128),
}

/// What happened, when and to which cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// In ticks.
    pub at: i128,
    /// The cluster's index.
    pub cluster: usize,
    /// The worker, if any.
    pub worker: Option<u16>,
    /// The event.
    pub what: Happening,
}

/// Counts of the events of a cluster's updates.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Generated.
    pub generated: u64,
    /// Held back by transmission control.
    pub held_back: u64,
    /// Dropped by the queue.
    pub dropped: u64,
    /// Merged into a waiting one.
    pub merged: u64,
    /// Arrived at the server within the horizon.
    pub arrived: u64,
}

/// A run from 0 to the horizon.
#[derive(Debug, Clone)]
pub struct Run {
    /// Ticks per ns.
    pub scale: i128,
    /// Each cluster's totals.
    pub totals: Vec<Totals>,
    /// The first ones, in order of time.
    pub events: Vec<Event>,
    /// How many there were in all.
    pub happened: usize,
    ages: Vec<Age>,
    horizon: i128,
}

impl Run {
    /// A cluster's measure, in ns.
    #[must_use]
    pub fn measure(&self, cluster: usize, measure: Measure) -> Exact {
        self.ages[cluster].clone().measure(measure, self.horizon, self.scale)
    }

    /// Ticks in ns.
    #[must_use]
    pub fn nanos(&self, ticks: i128) -> Exact {
        Exact::new(ticks.into(), self.scale.into())
    }
}

/// Evaluates one choice.
///
/// # Errors [`VerifyError`] if the times have no common grain that is coarse enough, there are too many
/// updates, or time is over.
pub fn evaluate(scenario: &Scenario, choice: &Choice, limits: &Limits) -> Result<Run, VerifyError> {
    Evaluation::new(scenario, choice, *limits)?.run()
}

/// A cluster while it runs.
struct Sender<'a> {
    places: Vec<Place>,
    control: Option<&'a Control>,
    uniform: Option<fastrand::Rng>,
    forced: Option<&'a [bool]>,
    /// The times of acknowledgements still to come, and of the last one that came.
    acks: std::collections::VecDeque<i128>,
    heard: Option<i128>,
}

struct Evaluation<'a> {
    scenario: &'a Scenario,
    queue: UpdateQueue<HeapBuf>,
    packets: HeapPool,
    senders: Vec<Sender<'a>>,
    arrivals: Vec<(i128, usize, usize)>,
    service: i128,
    reply: i128,
    /// When the line has sent all it was given.
    free: i128,
    /// True while the head is being sent and keeps its segment.
    sending: bool,
    /// The last arrival.
    now: i128,
    limits: Limits,
    run: Run,
}

impl<'a> Evaluation<'a> {
    fn new(scenario: &'a Scenario, choice: &'a Choice, limits: Limits) -> Result<Self, VerifyError> {
        let scale = scale(scenario, choice)?;
        let ticks = |time: &Exact| -> Result<i128, VerifyError> {
            let ticks = (time * Exact::from_integer(scale.into())).to_integer().to_i128();
            ticks.filter(|ticks| *ticks < MOST_TICKS).ok_or(VerifyError::TooFine)
        };
        let horizon = ticks(&scenario.horizon)?;
        let senders = senders(scenario, choice, limits.updates)?;
        let mut arrivals = Vec::new();
        for (cluster, sender) in senders.iter().enumerate() {
            limits.deadline.check()?;
            let phase = ticks(&choice.phases[cluster])?;
            let parts = sender.places.first().map_or(1, |place| place.denominator);
            let step = ticks(&(&choice.periods[cluster] / Exact::from_integer(parts.into())))?;
            for (index, place) in sender.places.iter().enumerate() {
                let at = phase + step * i128::from(place.numerator);
                if at <= horizon {
                    arrivals.push((at, cluster, index));
                }
            }
        }
        arrivals.sort_unstable();
        let clusters = scenario.clusters.len();
        let config = Config {
            discipline: scenario.queue.discipline,
            segments: scenario.queue.length,
            clusters: u32::try_from(clusters).unwrap_or(u32::MAX),
            ..Config::default()
        };
        let ages = vec![Age::new(ticks(&scenario.from)?); clusters];
        Ok(Self {
            scenario,
            queue: UpdateQueue::new(&config, &Kernels::detect())?,
            packets: HeapPool::new(),
            senders,
            arrivals,
            service: ticks(&scenario.queue.service)?,
            reply: ticks(&scenario.reply)?,
            free: 0,
            sending: false,
            now: 0,
            limits,
            run: Run {
                scale,
                totals: vec![Totals::default(); clusters],
                events: Vec::new(),
                happened: 0,
                ages,
                horizon,
            },
        })
    }

    fn run(mut self) -> Result<Run, VerifyError> {
        for (number, (at, cluster, index)) in std::mem::take(&mut self.arrivals).into_iter().enumerate() {
            if number % LOOK == 0 {
                self.limits.deadline.check()?;
            }
            self.advance(at);
            self.now = at;
            self.arrive(at, cluster, index)?;
            self.advance(at);
        }
        self.advance(self.run.horizon);
        self.keep_first();
        Ok(self.run)
    }

    fn keep_first(&mut self) {
        self.run.events.sort_by_key(|event| event.at);
        self.run.events.truncate(self.limits.events);
    }

    /// Carries out all events of the line until `now`.
    fn advance(&mut self, now: i128) {
        loop {
            if self.sending && self.free <= now {
                self.sending = false;
                drop(self.queue.dequeue());
            }
            let start = self.free.max(self.now);
            if self.sending || self.queue.is_empty() || start > now {
                return;
            }
            self.begin(start);
        }
    }

    /// The head begins to leave.
    fn begin(&mut self, start: i128) {
        let update = if self.scenario.queue.held {
            self.sending = true;
            self.queue.lock()
        } else {
            self.queue.dequeue().map(|departure| departure.update)
        };
        let Some(update) = update else { return };
        let (cluster, generated) = (update.cluster as usize, i128::from(update.generated_ns));
        self.free = start + self.service;
        self.note(start, cluster, None, Happening::Leaves);
        if self.free > self.run.horizon {
            return;
        }
        self.note(self.free, cluster, None, Happening::Arrives(generated));
        self.run.totals[cluster].arrived += 1;
        self.run.ages[cluster].receive(self.free, generated);
        self.senders[cluster].acks.push_back(self.free + self.reply);
    }

    fn arrive(&mut self, at: i128, cluster: usize, index: usize) -> Result<(), VerifyError> {
        self.run.totals[cluster].generated += 1;
        let worker = self.senders[cluster].places[index].worker;
        let (share, scale) = (self.scenario.share(), self.run.scale);
        if !self.senders[cluster].permits(index, at, &share, scale) {
            self.run.totals[cluster].held_back += 1;
            self.note(at, cluster, Some(worker), Happening::HeldBack);
            return Ok(());
        }
        let tick = u64::try_from(at).map_err(|_| VerifyError::TooFine)?;
        let update = Update::new(u32::try_from(cluster).unwrap_or(u32::MAX), worker, tick, 4);
        let packet = self.packets.alloc(&[0; 4], 64);
        let what = match self.queue.enqueue(tick, update, packet).outcome {
            EnqueueOutcome::Appended => Happening::Appended(self.queue.len()),
            EnqueueOutcome::Aggregated | EnqueueOutcome::Replaced => Happening::Merged,
            EnqueueOutcome::Full => Happening::Dropped,
            other => return Err(VerifyError::Queue(format!("{other:?}"))),
        };
        let totals = &mut self.run.totals[cluster];
        match what {
            Happening::Merged => totals.merged += 1,
            Happening::Dropped => totals.dropped += 1,
            _ => {}
        }
        self.note(at, cluster, Some(worker), what);
        Ok(())
    }

    fn note(&mut self, at: i128, cluster: usize, worker: Option<u16>, what: Happening) {
        self.run.happened += 1;
        self.run.events.push(Event { at, cluster, worker, what });
        // An arrival at the server is noted when its sending begins: their order is known later.
        if self.run.events.len() > self.limits.events.saturating_mul(2) {
            self.keep_first();
        }
    }
}

impl Sender<'_> {
    /// Whether an update is sent. One coin per update is tossed, needed or not.
    fn permits(&mut self, index: usize, now: i128, share: &Exact, scale: i128) -> bool {
        let Some(control) = self.control else { return true };
        while self.acks.front().is_some_and(|ack| *ack <= now) {
            self.heard = self.acks.pop_front();
        }
        let uniform = self.uniform.as_mut().map(toss);
        let Some(heard) = self.heard else { return true };
        let silent = Exact::new((now - heard).into(), scale.into());
        let probability = probability(control, share, &silent);
        match (uniform, self.forced) {
            _ if probability >= Exact::one() => true,
            (Some(uniform), _) => uniform < probability,
            (None, Some(forced)) => forced.get(index).copied().unwrap_or(true),
            (None, None) => true,
        }
    }
}

/// P_s, which may be above 1, after this much silence.
fn probability(control: &Control, share: &Exact, silent: &Exact) -> Exact {
    let obsolete = silent - &control.threshold;
    if obsolete > BigRational::from_integer(0.into()) {
        share + &control.slope * obsolete
    } else {
        share.clone()
    }
}

/// A number from 0 to below 1.
pub(crate) fn toss(rng: &mut fastrand::Rng) -> Exact {
    Exact::new(rng.u32(..).into(), (1_u64 << 32).into())
}

/// The coins of a cluster's seed.
pub(crate) fn rng(seed: u64, cluster: usize) -> fastrand::Rng {
    fastrand::Rng::with_seed(seed.wrapping_add(cluster as u64))
}

fn senders<'a>(
    scenario: &'a Scenario,
    choice: &'a Choice,
    most: u64,
) -> Result<Vec<Sender<'a>>, VerifyError> {
    scenario.at_most(most)?;
    let sender = |(index, cluster)| {
        let control = scenario.tosses(cluster);
        Sender {
            places: cluster.places(&scenario.horizon),
            control,
            uniform: control.and_then(|control| match control.coins {
                Coins::Any => None,
                Coins::Seed(seed) => Some(rng(seed, index)),
            }),
            forced: choice.coins[index].as_deref(),
            acks: std::collections::VecDeque::new(),
            heard: None,
        }
    };
    Ok(scenario.clusters.iter().enumerate().map(sender).collect())
}
