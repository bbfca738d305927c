//! Evaluation of what is determined, event by event, with the shipping queue.

use num_rational::BigRational;
use num_traits::{One as _, ToPrimitive as _};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool};
use pascaline_queue::{Config, EnqueueOutcome, Update, UpdateQueue};

use crate::age::Age;
use crate::error::VerifyError;
use crate::scenario::{Coins, Control, Exact, Measure, Place, Scenario};

#[cfg(test)]
mod tests;

/// The longest run, in ticks: the area below an age of that length still fits.
const MOST_TICKS: i128 = 1 << 60;
/// The most updates of a run.
pub(crate) const MOST_UPDATES: u64 = 5_000_000;

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
    /// The lowest of each range, and coins that always let pass. All there is if the scenario is determined.
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

/// What became of an update, or of the line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Happening {
    /// Transmission control holds an update back.
    HeldBack,
    /// It waits at the tail; so many wait now.
    Appended(usize),
    /// It was combined with, or replaced, what waited of its cluster.
    Merged,
    /// It was dropped: the queue is full.
    Dropped,
    /// Its sending begins.
    Leaves,
    /// The server has it; its newest update was generated at this tick.
    Arrives(i128),
}

/// What happened, when and to which cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// In ticks.
    pub at: i128,
    /// The cluster's index.
    pub cluster: usize,
    /// The worker, where there is one.
    pub worker: Option<u16>,
    /// What.
    pub what: Happening,
}

/// How often each thing happened to a cluster's updates.
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
    /// In order of time; empty unless wanted.
    pub events: Vec<Event>,
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
/// # Errors
/// [`VerifyError`] if the times have no common grain that is coarse enough, or there are too many updates.
pub fn evaluate(scenario: &Scenario, choice: &Choice, log: bool) -> Result<Run, VerifyError> {
    Evaluation::new(scenario, choice, log)?.run()
}

/// A cluster while it runs.
struct Sender<'a> {
    places: Vec<Place>,
    control: Option<&'a Control>,
    uniform: Option<fastrand::Rng>,
    forced: Option<&'a [bool]>,
    /// When acknowledgements come that have not come yet, and the last one that has.
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
    /// When the line has sent what it was given.
    free: i128,
    /// True while the head is being sent and keeps its segment.
    sending: bool,
    /// The last arrival.
    now: i128,
    log: bool,
    run: Run,
}

impl<'a> Evaluation<'a> {
    fn new(scenario: &'a Scenario, choice: &'a Choice, log: bool) -> Result<Self, VerifyError> {
        let scale = scale(scenario, choice)?;
        let ticks = |time: &Exact| -> Result<i128, VerifyError> {
            let ticks = (time * Exact::from_integer(scale.into())).to_integer().to_i128();
            ticks.filter(|ticks| *ticks < MOST_TICKS).ok_or(VerifyError::TooFine)
        };
        let horizon = ticks(&scenario.horizon)?;
        let senders = senders(scenario, choice)?;
        let mut arrivals = Vec::new();
        for (cluster, sender) in senders.iter().enumerate() {
            let phase = ticks(&choice.phases[cluster])?;
            for (index, place) in sender.places.iter().enumerate() {
                let step =
                    ticks(&(&choice.periods[cluster] / Exact::from_integer(place.denominator.into())))?;
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
            log,
            run: Run { scale, totals: vec![Totals::default(); clusters], events: Vec::new(), ages, horizon },
        })
    }

    fn run(mut self) -> Result<Run, VerifyError> {
        for (at, cluster, index) in std::mem::take(&mut self.arrivals) {
            self.advance(at);
            self.now = at;
            self.arrive(at, cluster, index)?;
            self.advance(at);
        }
        self.advance(self.run.horizon);
        self.run.events.sort_by_key(|event| event.at);
        Ok(self.run)
    }

    /// Everything that the line does until `now`.
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
        if self.log {
            self.run.events.push(Event { at, cluster, worker, what });
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

fn senders<'a>(scenario: &'a Scenario, choice: &'a Choice) -> Result<Vec<Sender<'a>>, VerifyError> {
    let expected = scenario.clusters.iter().map(|cluster| cluster.expected(&scenario.horizon));
    let updates = expected.fold(0_u64, u64::saturating_add);
    if updates > MOST_UPDATES {
        return Err(VerifyError::TooMany { updates, most: MOST_UPDATES });
    }
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

/// Ticks per ns, so that every time is a whole number of ticks.
fn scale(scenario: &Scenario, choice: &Choice) -> Result<i128, VerifyError> {
    let mut times = vec![
        scenario.queue.service.clone(),
        scenario.reply.clone(),
        scenario.from.clone(),
        scenario.horizon.clone(),
    ];
    times.extend(choice.phases.iter().cloned());
    for (cluster, period) in scenario.clusters.iter().zip(&choice.periods) {
        times.push(period / Exact::from_integer(cluster.workers.into()));
    }
    let mut scale = 1_i128;
    for time in times {
        let denominator = time.denom().to_i128().ok_or(VerifyError::TooFine)?;
        scale = lcm(scale, denominator).filter(|scale| *scale < MOST_TICKS).ok_or(VerifyError::TooFine)?;
    }
    Ok(scale)
}

fn lcm(a: i128, b: i128) -> Option<i128> {
    let (mut x, mut y) = (a, b);
    while y != 0 {
        (x, y) = (y, x % y);
    }
    (a / x).checked_mul(b)
}
