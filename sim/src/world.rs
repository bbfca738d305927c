//! One schedule from its first event to its last.

use core::time::Duration;

use crate::appliance::Appliance;
use crate::corruption::Direction;
use crate::faults::{Fault, Faults};
use crate::host::Host;
use crate::io::Clock;
use crate::link::Link;
use crate::oracle::{Generations, Violation};
use crate::plan::{JobPlan, MILLI, Plan, Upset};
use crate::queue::{Queue, What};
use crate::random::Random;
use crate::sabotage::{Sabotage, Saboteur};
use crate::trace::{Trace, Words};
use crate::worker::{Ending, Phase, Worker};

mod lives;
mod network;

/// The appliance's clock does not begin at 0.
const EPOCH: u64 = 1_000_000_000;
/// Events after which a schedule is taken to have no end. The usual one has a few thousand.
const MOST_EVENTS: u64 = 3_000_000;

/// What came of a schedule.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) faults: Faults,
    /// Allreduces that a worker finished, and those that ended with a typed error.
    pub(crate) finished: u64,
    pub(crate) failed: u64,
    pub(crate) events: u64,
    pub(crate) hash: u64,
    pub(crate) lines: Vec<String>,
    pub(crate) violation: Option<Violation>,
}

pub(crate) struct World<'a> {
    plan: &'a Plan,
    random: Random,
    now: u64,
    queue: Queue,
    trace: Trace,
    clock: Clock,
    appliance: Option<Appliance>,
    first_epoch: u8,
    /// Which lcores have a turn coming, and whether the control plane has.
    turning: Vec<bool>,
    controlling: bool,
    workers: Vec<Worker>,
    up: Vec<Link>,
    down: Vec<Link>,
    generations: Generations,
    faults: Faults,
    finished: u64,
    failed: u64,
    saboteur: Saboteur,
}

/// Runs the schedule of a seed. A panic is the caller's to catch.
pub(crate) fn run(seed: u64, sabotage: Sabotage, words: Words) -> Outcome {
    let mut random = Random::new(seed);
    let plan = Plan::draw(&mut random);
    let mut world = World::new(&plan, random, sabotage, words);
    world.trace.note(0, 0, &[], || format!("{plan:?}"));
    let violation = world.run().and_then(|()| world.end()).err();
    if let Some(violation) = &violation {
        world.trace.note(world.now, 1, &[], || format!("VIOLATION: {violation}"));
    }
    let (faults, finished, failed, events) =
        (world.faults, world.finished, world.failed, world.trace.events());
    let (hash, lines) = world.trace.finish();
    Outcome { faults, finished, failed, events, hash, lines, violation }
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, random: Random, sabotage: Sabotage, words: Words) -> Self {
        let mut workers: Vec<Worker> = Vec::new();
        for (job, one) in plan.jobs.iter().enumerate() {
            for rank in 0..one.ranks {
                workers.push(Worker::new(Host::new(workers.len(), plan.ports, plan.v6), job, rank));
            }
        }
        let listed = |worker: &Worker| plan.jobs.get(worker.job).is_some_and(|job| job.admitted);
        let (up, down) = (plan.links.iter().zip(&workers))
            .map(|((conditions, down), worker)| {
                let link = |direction| Link::new(*conditions, direction, down.clone());
                (link(Direction::Up { listed: listed(worker) }), link(Direction::Down))
            })
            .unzip();
        Self {
            plan,
            random,
            now: 0,
            queue: Queue::default(),
            trace: Trace::new(words),
            clock: Clock::default(),
            appliance: None,
            first_epoch: plan.first_epoch,
            turning: vec![false; plan.lcores],
            controlling: false,
            workers,
            up,
            down,
            generations: Generations::default(),
            faults: Faults::default(),
            finished: 0,
            failed: 0,
            saboteur: Saboteur::new(sabotage),
        }
    }

    const fn time(&self) -> Duration {
        Duration::from_nanos(self.now)
    }

    fn job(&self, worker: usize) -> Option<&'a JobPlan> {
        self.plan.jobs.get(self.workers.get(worker)?.job)
    }

    fn run(&mut self) -> Result<(), Violation> {
        self.start_appliance();
        for (number, &(at, _)) in self.plan.upsets.iter().enumerate() {
            self.queue.push(at, What::Upset { number });
        }
        for worker in 0..self.workers.len() {
            let at = self.random.below(2 * MILLI);
            self.queue.push(at, What::WorkerBack { worker });
        }
        while let Some((at, what)) = self.queue.pop() {
            self.now = at;
            self.happen(what)?;
            if self.trace.events() > MOST_EVENTS {
                return Err(Violation::Endless { events: self.trace.events() });
            }
        }
        Ok(())
    }

    fn happen(&mut self, what: What) -> Result<(), Violation> {
        match what {
            What::Up { worker, bytes, bad_checksum } => self.arrive(worker, &bytes, bad_checksum),
            What::Down { worker, bytes } => return self.deliver(worker, &bytes),
            What::Turn { lcore } => self.turn(lcore),
            What::Control => self.control(),
            What::Wake { worker } => return self.wake(worker),
            What::Begin { worker, life } => return self.begin(worker, life),
            What::Audit { worker, stage } => return self.audit(worker, stage),
            What::Upset { number } => return self.upset(number),
            What::ApplianceBack => self.start_appliance(),
            What::WorkerBack { worker } => return self.start_worker(worker),
        }
        Ok(())
    }

    fn start_appliance(&mut self) {
        let hosts = self.workers.iter().map(|worker| &worker.host);
        self.clock.set(EPOCH + self.now);
        self.appliance = Appliance::new(self.plan, hosts, self.first_epoch, &self.clock);
        let epoch = self.first_epoch;
        self.trace.note(self.now, 7, &[], || format!("the appliance starts with generation {epoch}"));
    }

    /// One of the plan's upsets happens, if what it concerns is still there.
    fn upset(&mut self, number: usize) -> Result<(), Violation> {
        let Some(&(_, upset)) = self.plan.upsets.get(number) else { return Ok(()) };
        self.trace.note(self.now, 8, &[], || format!("{upset:?}"));
        match upset {
            Upset::RestartAppliance { down } => {
                let Some(appliance) = self.appliance.take() else { return Ok(()) };
                self.faults.count(Fault::ApplianceRestart);
                // Generations must not repeat: beyond all that this life can have come to.
                self.first_epoch =
                    self.first_epoch.wrapping_add(u8::try_from(32 + self.random.below(32)).unwrap_or(32));
                self.queue.push(self.now + down, What::ApplianceBack);
                return appliance.end(false).map(|_| ());
            }
            Upset::Kill { worker } => {
                if self.kill(worker, Phase::Over(Ending::Killed)) {
                    self.faults.count(Fault::WorkerKilled);
                }
            }
            Upset::Restart { worker, down } => {
                if self.kill(worker, Phase::Away) {
                    self.faults.count(Fault::WorkerRestarted);
                    self.queue.push(self.now + down, What::WorkerBack { worker });
                }
            }
        }
        Ok(())
    }

    /// What must hold once everything has come to rest.
    fn end(&mut self) -> Result<(), Violation> {
        for worker in 0..self.workers.len() {
            self.check_end(worker)?;
        }
        if let Some(appliance) = self.appliance.take() {
            let total = appliance.end(self.saboteur.what == Sabotage::Miscount)?;
            let account = format!("{total:?}");
            self.trace.note(self.now, 9, account.as_bytes(), || format!("the appliance ends: {account}"));
        }
        Ok(())
    }
}
