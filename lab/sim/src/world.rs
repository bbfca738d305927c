//! One schedule from its first event to its last.

use core::time::Duration;
use std::collections::BTreeSet;

use pascaline_telemetry::{Counter, DropReason, Reading};
use pascaline_worker::Hints;

use crate::appliance::Appliance;
use crate::attacker::{self, Attacker};
use crate::campaign::Shape;
use crate::clients::Clients;
use crate::clock::Drift;
use crate::cluster::{Cluster, ClusterPlan};
use crate::corruption::Direction;
use crate::faults::{Fault, Faults, Reach, Reached};
use crate::host::Host;
use crate::io::Clock;
use crate::link::Link;
use crate::oracle::Generations;
use crate::outside::Outside;
use crate::plan::{JobPlan, MILLI, Plan, Tree, Upset};
use crate::random::Random;
use crate::sabotage::{Sabotage, Saboteur};
use crate::trace::{Trace, Words};
use crate::violation::Violation;
use crate::wheel::{Timer, Wheel};
use crate::worker::{Phase, Worker};

mod clients;
mod clusters;
mod commands;
mod event;
mod lives;
mod network;
mod outside;
mod pauses;
pub(crate) mod runs;
pub(crate) mod script;
mod trees;
mod turns;
mod upsets;
mod verdict;

use event::What;
pub(crate) use network::datagram;
use pauses::Stopped;
use runs::Runs;

/// The appliance's clock does not begin at 0.
const EPOCH: u64 = 1_000_000_000;
/// Events after which a schedule counts as endless. The usual one has a few thousand.
const MOST_EVENTS: u64 = 3_000_000;

/// The outcome of a schedule.
#[derive(Debug, Clone)]
pub(crate) struct Outcome {
    pub(crate) faults: Faults,
    pub(crate) reached: Reached,
    /// Allreduces that a worker finished, and those that ended with a typed error.
    pub(crate) finished: u64,
    pub(crate) failed: u64,
    pub(crate) events: u64,
    pub(crate) hash: u64,
    pub(crate) lines: Vec<String>,
    pub(crate) violation: Option<Violation>,
    /// The cell that the schedule is of, by its number, where one was asked for and found.
    pub(crate) cell: Option<usize>,
}

/// A job's history.
#[derive(Debug, Default)]
struct JobStory {
    /// When the first life of each rank had joined.
    formed: Option<u64>,
    /// A worker has begun from the first PSN with the session that it had.
    begun_anew: bool,
    /// The ranks that were declared lost, each time.
    losses: Vec<Vec<u16>>,
}

/// An operation of a job's generation, a rank that has finished it, and its result.
type Finished = ((usize, u16, usize), u16, Vec<u8>);

/// An appliance.
struct Node {
    appliance: Option<Appliance>,
    first_epoch: u16,
    /// Its lives so far.
    life: u64,
    /// The timers of the lcores' turns, and of the control plane's.
    turning: Vec<Timer>,
    controlling: Timer,
    /// How often lcores have been stuck, and until when they are.
    stuck: u64,
    stuck_until: u64,
    stopped: Stopped,
}

impl Node {
    fn new(first_epoch: u16, lcores: usize) -> Self {
        Self {
            appliance: None,
            first_epoch,
            life: 0,
            turning: vec![Timer::default(); lcores],
            controlling: Timer::default(),
            stuck: 0,
            stuck_until: 0,
            stopped: Stopped::default(),
        }
    }
}

pub(crate) struct World<'a> {
    plan: &'a Plan,
    random: Random,
    now: u64,
    wheel: Wheel<What>,
    trace: Trace,
    clock: Clock,
    /// The appliance, or those of a tree, the root first.
    nodes: Vec<Node>,
    /// The timer of the turn of the parameter server in the appliance.
    serving: Timer,
    workers: Vec<Worker>,
    jobs: Vec<JobStory>,
    /// The asynchronous job. Its hosts come after the workers' in number.
    cluster: Option<Cluster>,
    /// The job of `SwitchML`'s clients, whose hosts come next.
    clients: Option<Clients>,
    /// The separate parameter server. Its host comes last.
    outside: Option<Outside>,
    up: Vec<Link>,
    down: Vec<Link>,
    /// From each appliance to its parent, and back; the root's are not used.
    climbing: Vec<Link>,
    descending: Vec<Link>,
    /// Cut pairs of workers and appliances, and until when.
    cut: Vec<((usize, usize), u64)>,
    generations: Generations,
    /// For each job, generation in which PSNs began, and operation: the rank that finished first, and its
    /// result.
    results: Vec<Finished>,
    faults: Faults,
    reached: Reached,
    finished: u64,
    failed: u64,
    /// The outcomes of many runs in a row.
    runs: Runs,
    saboteur: Saboteur,
    /// On the path of jobs whose packets are sealed, and what it has found.
    attacker: Attacker,
    found: Option<Violation>,
    /// Jobs for which the appliance has had another key, also in an earlier life.
    rekeyed: BTreeSet<u16>,
}

/// Runs the schedule of a seed. The caller catches panics.
pub(crate) fn run(shape: Shape, seed: u64, sabotage: Sabotage, words: Words) -> Outcome {
    let mut random = Random::new(seed);
    let mut cell = None;
    let mut plan = match (shape, shape.cell_of(seed)) {
        (_, Some(number)) => Plan::of_cell(number, seed, (&mut random, &mut cell)),
        (Shape::Sealed, _) => Plan::sealed(&mut random, attacker::protection(seed)),
        (Shape::Backup, _) => Plan::of_backup(&mut random, None),
        (Shape::Trees(trees), _) => Plan::of_trees(&mut random, trees),
        (Shape::Levels(levels), _) if levels > 1 => Plan::of_tree(&mut random, levels, None),
        _ => Plan::draw(&mut random),
    };
    if sabotage == Sabotage::ForgetSpares {
        plan.tree.iter_mut().for_each(Tree::forget_spares);
    }
    // Nothing is drawn for that, so that other schedules stay the same.
    if matches!(shape, Shape::Levels(levels) if levels > 1) && seed % 4 == 3 {
        plan.jobs.iter_mut().for_each(|job| job.seal(attacker::protection(seed / 4)));
    }
    Outcome { cell, ..act(&plan, random, sabotage, words).0 }
}

/// Runs one job again and again.
fn run_again_and_again(seed: u64, runs: u64, words: Words) -> (Outcome, Runs) {
    let mut random = Random::new(seed);
    let plan = Plan::of_runs(&mut random, runs);
    act(&plan, random, Sabotage::None, words)
}

fn act(plan: &Plan, random: Random, sabotage: Sabotage, words: Words) -> (Outcome, Runs) {
    let mut world = World::new(plan, random, sabotage, words);
    world.trace.note(0, 0, &[], || format!("{plan:?}"));
    let violation = world.run().and_then(|()| world.end()).err();
    if let Some(violation) = &violation {
        world.trace.note(world.now, 1, &[], || format!("VIOLATION: {violation}"));
    }
    let (faults, reached, finished, failed) = (world.faults, world.reached, world.finished, world.failed);
    let (events, runs) = (world.trace.events(), world.runs);
    let (hash, lines) = world.trace.finish();
    (Outcome { faults, reached, finished, failed, events, hash, lines, violation, cell: None }, runs)
}

/// The workers of a plan, before their first lives.
fn workers(plan: &Plan, random: &mut Random) -> Vec<Worker> {
    let mut workers: Vec<Worker> = Vec::new();
    for (job, one) in plan.jobs.iter().enumerate() {
        for rank in 0..one.ranks {
            let host = Host::new(workers.len(), plan.ports, plan.v6);
            let host = if plan.has_backup() { host.towards(plan.home_of(job)) } else { host };
            let layers = u32::from(random.pick(&[1_u8, 10, 50]));
            let layer = u32::try_from(random.between(1, u64::from(layers))).unwrap_or(1);
            let remaining = Some(Duration::from_millis(random.between(1, 1000)));
            let hints = Hints { layer, layers, remaining };
            let tends = random.chance(500_000);
            let mut worker = Worker::new(host, job, (rank, plan.place_of(rank, one.ranks)), tends, hints);
            (worker.places, worker.nodes) = (plan.places(), (plan.home_of(job), plan.nodes()));
            worker.keyed = plan.node_of(workers.len());
            workers.push(worker.with_group(one.multicast.as_ref()));
        }
    }
    workers
}

impl<'a> World<'a> {
    fn new(plan: &'a Plan, mut random: Random, sabotage: Sabotage, words: Words) -> Self {
        let attacker = Attacker::new(random.clone().next());
        let workers = workers(plan, &mut random);
        let cluster = plan.cluster.as_ref();
        let cluster = cluster.map(|cluster| Cluster::new(cluster, workers.len(), plan.ports, plan.v6));
        let hosts = workers.len() + plan.cluster.as_ref().map_or(0, ClusterPlan::hosts);
        let clients = plan.clients.as_ref().map(|clients| Clients::new(clients, hosts));
        let outside = plan.server.filter(|_| plan.outside);
        let outside = outside.map(|server| Outside::new(plan, server, plan.links.len() - 1));
        let listed = plan.jobs.iter().all(|job| job.admitted);
        let up = plan.links.iter().map(|one| Link::new(one.up, Direction::Up { listed }, one.dark.clone()));
        let hosts = plan.links.len() - usize::from(plan.outside);
        let towards = |at| if at < hosts { Direction::Down } else { Direction::ToServer };
        let down = plan.links.iter().enumerate();
        let down = down.map(|(at, one)| Link::new(one.down, towards(at), one.dark.clone()));
        let (up, down) = (up.collect(), down.collect());
        let between = || {
            // Frames between appliances are unchanged.
            let links = plan.tree.iter().flat_map(|tree| &tree.links);
            links.map(|one| Link::new(one.up, Direction::Down, one.dark.clone())).collect()
        };
        Self {
            plan,
            random,
            now: 0,
            wheel: Wheel::default(),
            trace: Trace::new(words),
            clock: Clock::default(),
            nodes: plan.first_epochs().map(|epoch| Node::new(epoch, plan.lcores)).collect(),
            serving: Timer::default(),
            workers,
            jobs: plan.jobs.iter().map(|_| JobStory::default()).collect(),
            cluster,
            clients,
            outside,
            up,
            down,
            climbing: between(),
            descending: between(),
            cut: Vec::new(),
            generations: Generations::default(),
            results: Vec::new(),
            faults: Faults::default(),
            reached: Reached::default(),
            finished: 0,
            failed: 0,
            runs: Runs::default(),
            saboteur: Saboteur::new(sabotage),
            attacker,
            found: None,
            rekeyed: BTreeSet::new(),
        }
    }

    /// The time on the clock of an appliance's machine.
    fn machine(&self, node: usize) -> u64 {
        self.plan.clock_of(node).local(self.now)
    }

    /// The clock of a host.
    fn clock_of(&self, host: usize) -> Drift {
        self.plan.clocks.get(host).copied().unwrap_or_default()
    }

    /// The time that it shows.
    fn time_of(&self, host: usize) -> Duration {
        Duration::from_nanos(self.clock_of(host).local(self.now))
    }

    fn job(&self, worker: usize) -> Option<&'a JobPlan> {
        self.plan.jobs.get(self.workers.get(worker)?.job)
    }

    fn run(&mut self) -> Result<(), Violation> {
        (0..self.nodes.len()).for_each(|node| self.start_appliance(node));
        for (number, &(at, _)) in self.plan.upsets.iter().enumerate() {
            self.wheel.push(at, What::Upset { number });
        }
        let mut acts = self.plan.upsets.iter().filter(|(_, upset)| matches!(upset, Upset::Curtain)).count();
        for worker in 0..if acts > 0 { 0 } else { self.ranks() } {
            let at = self.random.below(2 * MILLI);
            self.wheel.push(at, What::WorkerBack { worker });
        }
        let over = |worker: &Worker| matches!(worker.phase, Phase::Over(_));
        for host in 0..self.plan.cluster.as_ref().map_or(0, ClusterPlan::hosts) {
            self.wheel.push(self.random.below(2 * MILLI), What::Cluster { host });
        }
        if self.outside.is_some() {
            self.wheel.push(0, What::OutsideBack);
        }
        // The schedule is over once all workers have ended.
        while !(acts == 0
            && self.workers.iter().all(over)
            && self.cluster.as_ref().is_none_or(Cluster::is_over)
            && self.clients.as_ref().is_none_or(Clients::is_over))
            && let Some((at, what)) = self.wheel.pop()
        {
            self.now = at;
            let runs = self.runs.runs;
            self.handle(what)?;
            if let Some(found) = self.found.take() {
                return Err(found);
            }
            acts -= usize::from(self.runs.runs > runs);
            if self.trace.events() > MOST_EVENTS * (1 + self.runs.runs) {
                return Err(Violation::Endless { events: self.trace.events() });
            }
        }
        Ok(())
    }

    fn handle(&mut self, what: What) -> Result<(), Violation> {
        match what {
            What::Up { worker, bytes, bad_checksum } => self.arrive(worker, &bytes, bad_checksum),
            What::Down { worker, bytes } => return self.deliver(worker, &bytes),
            What::Across { node, bytes } => self.arrive_across(node, &bytes),
            What::Turn { node, lcore } => return self.turn(node, lcore),
            What::Control { node } => return self.control(node),
            What::Serve => return self.serve(),
            What::Resume { worker } => return self.resume(worker),
            What::Wake { worker } => return self.wake(worker),
            What::Begin { worker, stage } => return self.begin(worker, stage),
            What::Audit { worker, stage } => return self.audit(worker, stage),
            What::Cluster { host } => return self.cluster_turn(host),
            What::Client { host } => return self.client_turn(host),
            What::Outside => return self.outside_turn(),
            What::OutsideBack => return self.outside_back(),
            What::Upset { number } => return self.upset(number),
            What::ApplianceBack { node } => self.start_appliance(node),
            What::ServerBack => self.start_server(),
            What::WorkerBack { worker } => return self.start_worker(worker),
        }
        Ok(())
    }

    /// Checks what must hold at the end.
    fn end(&mut self) -> Result<(), Violation> {
        for worker in 0..self.workers.len() {
            self.check_end(worker)?;
        }
        self.reached
            .add(Reach::Acknowledged, self.cluster.as_ref().map_or(0, |cluster| cluster.acknowledged));
        self.reached.add(Reach::ClientSum, self.clients.as_ref().map_or(0, |clients| clients.finished));
        for at in 0..self.nodes.len() {
            let node = self.nodes.get_mut(at).and_then(|node| node.appliance.take());
            let Some(appliance) = node else { continue };
            let total = appliance.end(self.saboteur.what == Sabotage::Miscount)?;
            self.note_end(&total);
        }
        Ok(())
    }

    /// Notes the outcome of a life of the appliance.
    fn note_end(&mut self, (total, server_full): &(Reading, u64)) {
        let account = format!("{total:?}");
        self.trace.note(self.now, 9, account.as_bytes(), || format!("the appliance ends: {account}"));
        self.faults.add(Fault::Preempted, total.get(Counter::Preempted));
        self.faults.add(Fault::ServerFull, total.dropped(DropReason::ServerFull) + server_full);
        for (reach, count) in [
            (Reach::ServerResult, total.get(Counter::ServerResults)),
            (Reach::Evicted, total.get(Counter::Evicted)),
            (Reach::Spilled, total.get(Counter::Spilled)),
            (Reach::Refused, total.dropped(DropReason::Conflict) + total.dropped(DropReason::Quota)),
        ] {
            self.reached.add(reach, count);
        }
    }
}
