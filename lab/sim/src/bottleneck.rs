//! Jobs that share links, under a virtual clock: real workers, the real appliance, and links with a rate, a
//! queue and a threshold from which on they mark packets.
//!
//! ```text
//!   host 0: a rank of each job ─┐ link: up and down, each with its queue
//!   host 1: a rank of each job ─┼──────────── appliance, which takes no time
//!   ...                        ─┘
//! ```
//!
//! Each host has one link, and every job has one rank on each host, so that all jobs meet in all queues. A
//! rank begins its next allreduce as soon as the one before is done, or after a pause. Frames pass as bytes,
//! with their payload; on the link a frame takes the time of its bytes and of their framing. A link may be
//! one that Linux shapes by a bucket of tokens (tbf): after a pause, a bucket of bytes passes at once.

mod link;

use core::time::Duration;

use pascaline_aggregator::{Order, PoolConfig, Region};
use pascaline_pipelines::membership::{JobKind, JobSpec};
use pascaline_worker::{CongestionControl, Identity};

use crate::centre::Centre;
use crate::host::Host;
use crate::random::Random;
use crate::rank::{Doing, Rank};
use crate::wheel::{Wheel, nanos};
use link::Link;

/// Preamble, frame check sequence and gap of Ethernet, in bytes.
pub const FRAMING: u64 = 24;
/// Bytes of headers before the payload.
const HEADERS: u64 = 64;

/// A job on the links.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharer {
    /// The control of its workers.
    pub control: CongestionControl,
    /// Packets in flight at most; 0 for as many as the appliance lets a worker run ahead.
    pub in_flight: u16,
    /// When its workers join.
    pub begins: Duration,
}

/// The simulated setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Decides which packets are lost.
    pub seed: u64,
    /// Hosts, and so ranks of each job.
    pub hosts: u16,
    /// The jobs.
    pub jobs: Vec<Sharer>,
    /// Bits per second of each link, each way.
    pub rate: u64,
    /// Bytes of a link for each frame, in addition to those from the Ethernet header on: [`FRAMING`] on a
    /// wire, none where software shapes it.
    pub framing: u64,
    /// Bytes that pass a link at once after it was idle; 0 on a wire.
    pub bucket: u64,
    /// From one end of a link to the other.
    pub propagation: Duration,
    /// Packets that wait in a queue at most; more are dropped.
    pub queue: u64,
    /// Packets in a queue from which on those that can be are marked; none if links do not mark.
    pub marks_from: Option<u64>,
    /// How many of a million packets are lost on a link.
    pub loss_per_million: u32,
    /// Payload bytes of a packet.
    pub payload: u16,
    /// Bytes of an allreduce, a multiple of 4.
    pub bytes: usize,
    /// How long a rank waits after an allreduce before it begins the next one.
    pub pause: Duration,
    /// How far a worker may run ahead, as the appliance is configured.
    pub window: u16,
    /// Allreduces of each job's first rank after which the simulation ends.
    pub operations: usize,
    /// When it ends at the latest.
    pub ends: Duration,
}

impl Setting {
    /// Links of 10 Gbit/s and a round trip of 50 µs, as in a rack: 55 packets of 1 KiB. Their queues hold
    /// 1,000 packets, and mark from 85 on (PANAMA, section 7). No job so far.
    #[must_use]
    pub const fn rack(hosts: u16) -> Self {
        Self {
            seed: 1,
            hosts,
            jobs: Vec::new(),
            rate: 10_000_000_000,
            framing: FRAMING,
            bucket: 0,
            propagation: Duration::from_micros(12),
            queue: 1000,
            marks_from: Some(85),
            loss_per_million: 0,
            payload: 1024,
            bytes: 4 << 20,
            pause: Duration::ZERO,
            window: 512,
            operations: usize::MAX,
            ends: Duration::from_millis(50),
        }
    }

    /// How long a full packet takes on a link.
    #[must_use]
    pub fn packet_time(&self) -> Duration {
        self.line_time(u64::from(self.payload) + HEADERS + self.framing)
    }

    /// The time that `bytes` take on a link.
    fn line_time(&self, bytes: u64) -> Duration {
        Duration::from_nanos(8 * bytes * 1_000_000_000 / self.rate.max(1))
    }
}

/// A job's share.
#[derive(Debug, Clone, PartialEq)]
pub struct Share {
    /// Its control.
    pub control: CongestionControl,
    /// Allreduces that rank 0 has completed, and how long each took.
    pub operations: Vec<Duration>,
    /// When rank 0 got each result, from the beginning of the simulation.
    pub results: Vec<Duration>,
    /// Wrong sums.
    pub wrong: u64,
    /// Contributions that its ranks have sent again.
    pub resent: u64,
    /// Results that said that packets have met congestion.
    pub marked: u64,
}

/// The outcome.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// By job.
    pub shares: Vec<Share>,
    /// When packets came to the queue of the first link up, and how long each waited there.
    pub waits: Vec<(Duration, Duration)>,
    /// Packets that found a queue full.
    pub dropped: u64,
    /// Packets that queues have marked.
    pub marked: u64,
}

impl Outcome {
    /// The mean wait in the first queue up between two times.
    #[must_use]
    pub fn mean_wait(&self, from: Duration, to: Duration) -> Duration {
        let waits = self.waits.iter().filter(|(at, _)| (from..to).contains(at)).map(|&(_, wait)| wait);
        let (count, sum) = waits.fold((0, Duration::ZERO), |(count, sum), wait| (count + 1, sum + wait));
        sum / count.max(1)
    }

    /// Results of each job between two times.
    #[must_use]
    pub fn results(&self, from: Duration, to: Duration) -> Vec<usize> {
        let within = |share: &Share| share.results.iter().filter(|at| (from..to).contains(at)).count();
        self.shares.iter().map(within).collect()
    }
}

/// An event.
#[derive(Debug)]
enum What {
    /// A frame reaches the appliance.
    Up(Vec<u8>),
    /// A frame reaches a rank.
    Down(usize, Vec<u8>),
    /// A rank has something to do.
    Wake(usize),
    /// The appliance's control plane has work.
    Control,
}

/// How often the appliance's control plane turns.
const CONTROL: u64 = 1_000_000;

struct World<'a> {
    setting: &'a Setting,
    wheel: Wheel<What>,
    random: Random,
    centre: Centre,
    up: Vec<Link>,
    down: Vec<Link>,
    ranks: Vec<Rank>,
}

/// Runs a setting to its end. `None` if no appliance can be made for it: no hosts, or more than 64 of them.
#[must_use]
pub fn run(setting: &Setting) -> Option<Outcome> {
    let mut world = World::new(setting)?;
    world.wheel.push(0, What::Control);
    for at in 0..world.ranks.len() {
        let begins = world.ranks[at].begins();
        world.wheel.push(begins, What::Wake(at));
    }
    let ends = nanos(setting.ends);
    while let Some((now, what)) = world.wheel.pop() {
        if now > ends || world.is_done() {
            break;
        }
        world.handle(now, what);
    }
    Some(world.outcome())
}

/// The appliance: each job has a region of twice its window, so that jobs meet nowhere but on the links.
fn centre(setting: &Setting) -> Option<Centre> {
    let slots = (2 * u32::from(setting.window)).next_power_of_two();
    let place = |number: u32| Region { first: number * slots, sets: slots };
    let spec = |(number, sharer): (u32, &Sharer)| JobSpec {
        window: setting.window,
        max_payload: setting.payload,
        kind: JobKind::Region { place: place(number), order: Order::Arrival },
        congestion: Some(sharer.control),
        dead_after: None,
        ..JobSpec::new(u16::try_from(number + 1).unwrap_or(u16::MAX), setting.hosts)
    };
    let specs: Vec<JobSpec> = (0..).zip(&setting.jobs).map(spec).collect();
    let reserved = slots as usize * specs.len();
    let all = (slots as usize * specs.len().max(1)).next_power_of_two();
    Centre::new(specs, &PoolConfig { slots: all, reserved, ways: 1, ..PoolConfig::default() }, 0)
}

/// Ranks of the first job come first, that of the first host before the others. Each adds its number and one.
fn rank(setting: &Setting, number: usize) -> Rank {
    let hosts = usize::from(setting.hosts);
    let (at, rank) = (number / hosts, u16::try_from(number % hosts).unwrap_or(0));
    let job = u16::try_from(at + 1).unwrap_or(u16::MAX);
    let doing = Doing {
        identity: Identity { job, rank, ranks: setting.hosts, payload: setting.payload },
        session: number as u64 + 1,
        sharer: setting.jobs[at],
        window: setting.window,
        elements: setting.bytes / 4,
        values: (i32::from(rank) + 1, (1..=i32::from(setting.hosts)).sum()),
        pause: setting.pause,
        most: usize::MAX,
    };
    Rank::new(Host::new(number, 1, false), doing)
}

/// The outcome of a job, by its ranks; operations and results are the first one's.
fn share(ranks: &[Rank]) -> Share {
    let counts = ranks.iter().map(Rank::counts);
    let (wrong, resent, marked) =
        counts.fold((0, 0, 0), |all, one| (all.0 + one.0, all.1 + one.1, all.2 + one.2));
    Share {
        control: ranks.first().map_or(CongestionControl::Fixed, Rank::control),
        operations: ranks.first().map(|rank| rank.operations().to_vec()).unwrap_or_default(),
        results: ranks.first().map(|rank| rank.results().to_vec()).unwrap_or_default(),
        wrong,
        resent,
        marked,
    }
}

impl<'a> World<'a> {
    fn new(setting: &'a Setting) -> Option<Self> {
        if !(1..=64).contains(&setting.hosts) {
            return None;
        }
        let hosts = usize::from(setting.hosts);
        let ranks: Vec<Rank> = (0..hosts * setting.jobs.len()).map(|number| rank(setting, number)).collect();
        let links = || (0..hosts).map(|_| Link::new(setting)).collect();
        Some(Self {
            setting,
            wheel: Wheel::default(),
            random: Random::new(setting.seed),
            centre: centre(setting)?,
            up: links(),
            down: links(),
            ranks,
        })
    }

    /// True if the first rank of each job has completed all its allreduces.
    fn is_done(&self) -> bool {
        let mut first = self.ranks.iter().step_by(usize::from(self.setting.hosts));
        first.all(|rank| rank.operations().len() >= self.setting.operations)
    }

    fn handle(&mut self, now: u64, what: What) {
        let sent = match what {
            What::Up(frame) => self.centre.receive(now, &frame),
            What::Control => {
                self.wheel.push(now + CONTROL, What::Control);
                self.centre.control(now)
            }
            What::Down(at, frame) => {
                self.ranks[at].receive(now, &frame);
                return self.tend(now, at);
            }
            What::Wake(at) => return self.tend(now, at),
        };
        for mut frame in sent {
            let Some(at) = Host::number_in(&frame).filter(|&at| at < self.ranks.len()) else {
                continue;
            };
            let link = at % usize::from(self.setting.hosts);
            if let Some(arrives) = self.down[link].carry(now, &mut frame, &mut self.random) {
                self.wheel.push(arrives, What::Down(at, frame));
            }
        }
    }

    /// Lets a rank send its packets, and sets its next timer.
    fn tend(&mut self, now: u64, at: usize) {
        let link = at % usize::from(self.setting.hosts);
        while let Some(mut frame) = self.ranks[at].poll_transmit(now) {
            if let Some(arrives) = self.up[link].carry(now, &mut frame, &mut self.random) {
                self.wheel.push(arrives, What::Up(frame));
            }
        }
        if let Some(due) = self.ranks[at].due(now) {
            self.wheel.push(due, What::Wake(at));
        }
    }

    fn outcome(self) -> Outcome {
        let hosts = usize::from(self.setting.hosts);
        let links = self.up.iter().chain(&self.down);
        let (dropped, marked) =
            links.fold((0, 0), |(dropped, marked), link| (dropped + link.dropped(), marked + link.marked()));
        Outcome {
            shares: self.ranks.chunks(hosts.max(1)).map(share).collect(),
            waits: self.up.into_iter().next().map(Link::into_waits).unwrap_or_default(),
            dropped,
            marked,
        }
    }
}
