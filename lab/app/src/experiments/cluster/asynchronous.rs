//! Training without barriers, gradient by gradient: the time from one change of the weights to the next, and
//! how stale gradients are (iSwitch, sections 4.1 and 6.2, Table 5).
//!
//! The real pool decides when an iteration has enough gradients, and which are inside; the real asynchronous
//! server applies updates. The time of a gradient's way is given, as measured by [`run`](super::run). A
//! worker's stages are those of `pascaline_worker::pipeline`: it hands a gradient over once the one before
//! has its result, and computes the next meanwhile.

#![expect(clippy::cast_possible_truncation, reason = "few workers, and iterations of a run")]

use core::time::Duration;

use pascaline_aggregator::PoolConfigError;
use pascaline_ps::asynchronous::{AsyncJob, AsyncOutcome, AsyncServer, Audience, Rule, Settings};
use pascaline_sim::random::Random;
use pascaline_sim::wheel::Wheel;
use pascaline_wire::{Element, Flags, Header, Kind, Own, Trailer, trailer};

use super::adder::Adder;

/// The training, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Training {
    pub(crate) workers: u16,
    /// H: how many gradients an iteration takes.
    pub(crate) needed: u16,
    /// S: the most iterations by which a gradient may be late.
    pub(crate) bound: u64,
    /// A gradient's computation; each takes up to an eighth more or less.
    pub(crate) computes: u64,
    /// From the last gradient's first packet to the last packet of the sum; to the server, the way there.
    pub(crate) there: u64,
    /// The way back from the server.
    pub(crate) back: u64,
    /// The server's time for an update; it serves one after the other.
    pub(crate) serves: u64,
    pub(crate) iterations: u64,
    pub(crate) seed: u64,
}

/// The outcome.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Trained {
    /// Nanoseconds between two changes of the weights.
    pub(crate) interval: f64,
    /// By how many changes a gradient that counts is late, on average.
    pub(crate) staleness: f64,
    /// The most of them.
    pub(crate) most: u64,
    /// Gradients that were too late to be offered.
    pub(crate) refused: u64,
}

impl Training {
    /// How long one computation takes.
    fn computation(&self, random: &mut Random) -> u64 {
        self.computes - self.computes / 8 + random.below(self.computes / 4 + 1)
    }
}

/// Counts so far.
#[derive(Default)]
struct Tally {
    counted: u64,
    late: u64,
    most: u64,
    refused: u64,
}

impl Tally {
    fn count(&mut self, late: u64) {
        self.counted += 1;
        self.late += late;
        self.most = self.most.max(late);
    }

    fn trained(&self, time: u64, changes: u64) -> Trained {
        Trained {
            interval: time as f64 / changes.max(1) as f64,
            staleness: self.late as f64 / self.counted.max(1) as f64,
            most: self.most,
            refused: self.refused,
        }
    }
}

/// A worker's stages.
#[derive(Default)]
struct Stages {
    /// The iteration that its second stage is in.
    iteration: u64,
    /// t_w of the gradient in flight, or missed.
    offered: Option<u64>,
    /// A gradient that waits to be taken.
    ready: Option<u64>,
}

#[derive(Debug)]
enum Event {
    /// A worker has computed a gradient from the weights of an iteration.
    Computed { worker: usize, from: u64 },
    /// The result of an iteration reaches the workers that wait for it.
    Result { iteration: u64 },
}

/// Over a pool that adds.
struct Switched<'a> {
    training: &'a Training,
    adder: Adder,
    wheel: Wheel<Event>,
    stages: Vec<Stages>,
    /// When the result of each iteration is at the workers, and the workers inside.
    results: Vec<(u64, u32)>,
    random: Random,
    tally: Tally,
}

impl Switched<'_> {
    fn compute(&mut self, now: u64, worker: usize) {
        let takes = self.training.computation(&mut self.random);
        let from = self.stages[worker].iteration;
        self.wheel.push(now + takes, Event::Computed { worker, from });
    }

    /// The second stage offers its gradient, or takes the next one; then the first continues to compute.
    fn advance(&mut self, now: u64, worker: usize) {
        loop {
            let stages = &mut self.stages[worker];
            let from = match (stages.offered, stages.ready.take()) {
                (Some(from), ready) => {
                    stages.ready = ready;
                    from
                }
                (None, Some(from)) => {
                    self.compute(now, worker);
                    from
                }
                (None, None) => return,
            };
            let stages = &mut self.stages[worker];
            if stages.iteration - from <= self.training.bound {
                stages.offered = Some(from);
                return self.aggregate(now, worker, self.stages[worker].iteration);
            }
            stages.offered = None;
            self.tally.refused += 1;
        }
    }

    fn aggregate(&mut self, now: u64, worker: usize, iteration: u64) {
        let Training { workers, needed, there, .. } = *self.training;
        let known = usize::try_from(iteration).ok().and_then(|at| self.results.get(at));
        let at = if let Some(&(at, _)) = known {
            at.max(now)
        } else {
            let (psn, rank) = (iteration as u32, worker as u16);
            let inside = self.adder.add(now, 0, psn, rank, (workers, needed), 1 << worker);
            let Some(inside) = inside else { return };
            self.results.push((now + there, inside));
            now + there
        };
        self.wheel.push(at, Event::Result { iteration });
    }

    fn is_done(&self) -> bool {
        self.results.len() as u64 >= self.training.iterations
    }

    fn handle(&mut self, now: u64, event: Event) {
        match event {
            Event::Computed { worker, from } => {
                let stages = &mut self.stages[worker];
                stages.ready = Some(from);
                if stages.offered.is_none() {
                    self.advance(now, worker);
                }
            }
            Event::Result { iteration } => {
                let inside = self.results[iteration as usize].1;
                for worker in 0..self.stages.len() {
                    let stages = &mut self.stages[worker];
                    let Some(from) = stages.offered.filter(|_| stages.iteration == iteration) else {
                        continue;
                    };
                    if inside & (1 << worker) != 0 {
                        self.tally.count(iteration - from);
                        stages.offered = None;
                    }
                    stages.iteration += 1;
                    self.advance(now, worker);
                    if self.is_done() {
                        return;
                    }
                }
            }
        }
    }
}

/// Trains over a pool that adds.
///
/// # Errors If the pool cannot be made.
pub(crate) fn switched(training: &Training) -> Result<Trained, PoolConfigError> {
    let mut run = Switched {
        training,
        adder: Adder::new(vec![0])?,
        wheel: Wheel::default(),
        stages: (0..training.workers).map(|_| Stages::default()).collect(),
        results: Vec::new(),
        random: Random::new(training.seed),
        tally: Tally::default(),
    };
    (0..run.stages.len()).for_each(|worker| run.compute(0, worker));
    let mut last = 0;
    while let Some((now, event)) = run.wheel.pop() {
        last = now;
        run.handle(now, event);
        if run.is_done() {
            break;
        }
    }
    run.tally.refused += run.adder.refused();
    Ok(run.tally.trained(last, run.results.len() as u64))
}

/// Trains with a server, to which each worker sends its gradient, and which answers with weights. The server
/// and its link serve one message after the other.
///
/// # Errors If the server refuses an update.
pub(crate) fn served(training: &Training) -> Result<Trained, AsyncOutcome> {
    let settings = Settings {
        rule: Rule::Staleness { rate: 0.001, half: Duration::from_secs(1) },
        audience: Audience::Worker,
        ..Settings::default()
    };
    let (mut server, mut random) = (AsyncServer::new(settings), Random::new(training.seed));
    let fan_in = training.workers;
    server.set_job(1, AsyncJob { fan_in, epoch: 1, payload: 8 });
    let first = server.handle_datagram(0, &datagram(fan_in, 0, None));
    if first != AsyncOutcome::Initialised {
        return Err(first);
    }
    // Gradients by the time at which they are computed, and the weights that they are from.
    let mut wheel = Wheel::default();
    for worker in 0..fan_in {
        wheel.push(training.computation(&mut random), (worker, 0, 0));
    }
    let version = |server: &AsyncServer| server.clusters().map(|(_, cluster)| cluster.version()).sum::<u64>();
    let (mut up, mut busy, mut down, mut tally) = (0, 0, 0, Tally::default());
    let (mut reply, mut changes) = (Vec::new(), 0);
    while let Some((now, (worker, from, began))) = wheel.pop() {
        up = now.max(up) + training.there;
        busy = up.max(busy) + training.serves;
        let late = version(&server) - from;
        if late <= training.bound {
            let outcome = server.handle_datagram(busy, &datagram(fan_in, worker, Some(began)));
            if outcome != AsyncOutcome::Applied {
                return Err(outcome);
            }
            tally.count(late);
        } else {
            tally.refused += 1;
        }
        while server.next_reply(&mut reply) {}
        changes = version(&server);
        if changes >= training.iterations {
            break;
        }
        down = busy.max(down) + training.back;
        let done = down + training.computation(&mut random);
        wheel.push(done, (worker, changes, down));
    }
    Ok(tally.trained(busy, changes))
}

/// An update that was begun then, or the weights that training begins with.
fn datagram(fan_in: u16, rank: u16, began: Option<u64>) -> Vec<u8> {
    let (kind, flags, psn) = match began {
        Some(_) => (Kind::Update, Flags::TRAILER, 0),
        None => (Kind::Gradient, Flags::BYPASS, u32::MAX),
    };
    let (element, job, own) = (Element::F32_SUM, 1, Own::NONE);
    let header = Header { kind, flags, element, job, rank, psn, fan_in, count: 1, own, epoch: 1 };
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend([0; 8]);
    if let Some(generated_ns) = began {
        let update = Some(trailer::Update { reward: 1.0, generated_ns });
        let mut end = [0; trailer::MAX_LEN];
        let length = Trailer { update, ..Trailer::default() }.emit(&mut end).unwrap_or(0);
        bytes.extend_from_slice(&end[..length]);
    }
    bytes
}
