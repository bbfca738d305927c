//! One run: hosts, lines, the appliance and the servers under a virtual clock.

mod report;

use pascaline_aggregator::Key;
use pascaline_sim::random::Random;
use pascaline_sim::wheel::{Timer, Wheel};
use pascaline_wire::{Flags, Header, Kind, Own, round};

use super::ledger::{Case, Ledger, Role};
use super::line::{Line, NEVER};
use super::outcome::{Datagram, EPOCH, Send, header};
use super::payload::{MAX_RANKS, Payload};
use super::server::{Host, clock};
use super::setting::{LEAST_FRAME, MICRO, Setting};
use super::switch::{Remains, Switch};
use super::worker::{Down, Up, Worker};
use super::{Run, Violation};

/// The deadline: ten thousand times the length of an iteration.
const DEADLINE: u64 = 20_000_000 * MICRO;

/// The events.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// A worker's packet reaches the appliance.
    Up(usize),
    /// A worker polls.
    Poll(usize),
    /// A packet reaches a job's server.
    ToServer(usize),
    /// A server's packet reaches the appliance.
    FromServer(usize),
    /// A server's timer is due.
    Timer(usize),
}

/// The whole simulation. Workers are numbered consecutively, job by job.
struct World {
    setting: Setting,
    wheel: Wheel<Event>,
    workers: Vec<Worker>,
    ups: Vec<Line<Up>>,
    downs: Vec<Line<Down>>,
    hosts: Vec<Host>,
    to_servers: Vec<Line<(Datagram, bool)>>,
    from_servers: Vec<Line<Datagram>>,
    switch: Switch,
    /// The next poll of each host, and the earliest that may be.
    poll_timers: Vec<Timer>,
    earliest: Vec<u64>,
    server_timers: Vec<Timer>,
    /// Random polling intervals of hosts.
    polls: Random,
    running: usize,
    server_packets: u64,
    ledger: Ledger,
}

impl World {
    fn new(setting: &Setting) -> Result<Self, Violation> {
        let (jobs, ranks) = (setting.jobs.clamp(1, 1000), setting.ranks.clamp(1, MAX_RANKS));
        let setting = Setting { jobs, ranks, ..*setting };
        // Starts and stragglers are the same for all policies.
        let mut random = Random::new(setting.seed);
        let (starts, jitter) = setting.chance();
        let mut workers = Vec::new();
        for job in 0..jobs {
            let began = random.below(starts);
            for rank in 0..ranks {
                workers.push(Worker::new(&setting, (job, rank), began, random.below(jitter)));
            }
        }
        let line = setting.server_line();
        let seeds = random.next();
        let seed = |number: usize| seeds.wrapping_add(number as u64);
        let own = |worker: &Worker| setting.worker_line(worker.name().1);
        let mut world = Self {
            wheel: Wheel::default(),
            ups: workers.iter().zip(0..).map(|(who, number)| Line::new(own(who), seed(2 * number))).collect(),
            downs: workers
                .iter()
                .zip(0..)
                .map(|(who, number)| Line::new(own(who), seed(2 * number + 1)))
                .collect(),
            hosts: (0..jobs).map(|job| Host::new(&setting, job)).collect::<Result<_, _>>()?,
            to_servers: (0..jobs).map(|job| Line::new(line, !seed(2 * usize::from(job)))).collect(),
            from_servers: (0..jobs).map(|job| Line::new(line, !seed(2 * usize::from(job) + 1))).collect(),
            switch: Switch::new(&setting)?,
            poll_timers: vec![Timer::default(); workers.len()],
            earliest: vec![0; workers.len()],
            server_timers: vec![Timer::default(); usize::from(jobs)],
            polls: Random::new(random.next()),
            running: workers.len(),
            server_packets: 0,
            ledger: Ledger::default(),
            workers,
            setting,
        };
        for number in 0..world.workers.len() {
            let ready = world.workers[number].next(0);
            world.set(Event::Poll(number), ready);
        }
        Ok(world)
    }

    /// Sets the timer of an event, or cancels it.
    fn set(&mut self, event: Event, time: u64) {
        let timer = match event {
            Event::Poll(number) => &mut self.poll_timers[number],
            Event::Timer(job) => &mut self.server_timers[job],
            _ => return,
        };
        if time == NEVER {
            timer.cancel();
        } else if timer.set(time) {
            self.wheel.push(time, event);
        }
    }

    /// The next event, and its time.
    fn next(&mut self) -> Option<(u64, Event)> {
        loop {
            let (now, event) = self.wheel.pop()?;
            let is_due = match event {
                Event::Poll(number) => self.poll_timers[number].expire(now),
                Event::Timer(job) => self.server_timers[job].expire(now),
                Event::Up(_) | Event::ToServer(_) | Event::FromServer(_) => true,
            };
            if is_due {
                return Some((now, event));
            }
        }
    }

    /// Runs until every worker has finished.
    fn run(&mut self) -> Result<(), Violation> {
        let mut now = 0;
        while self.running > 0 {
            let Some((time, event)) = self.next().filter(|&(time, _)| time <= DEADLINE) else {
                return Err(self.stalled(now));
            };
            now = time;
            self.step(now, event)?;
        }
        Ok(())
    }

    /// Waits until no packet is in flight. A contribution that was needlessly sent again may have reopened
    /// its PSN; servers then ask for the rest until they give up.
    fn settle(&mut self) -> Result<(), Violation> {
        let until = DEADLINE + 2 * clock(Host::patience());
        while let Some((now, event)) = self.next() {
            if now > until {
                return Err(Violation::Restless);
            }
            self.step(now, event)?;
        }
        Ok(())
    }

    fn step(&mut self, now: u64, event: Event) -> Result<(), Violation> {
        match event {
            Event::Up(number) => self.arrive(now, number),
            Event::Poll(number) => self.poll(now, number)?,
            Event::ToServer(job) => {
                if let Some((_, (datagram, whole))) = self.to_servers[job].receive(now) {
                    self.hosts[job].receive(now, &datagram, whole);
                }
                self.drain_server(now, job);
            }
            Event::FromServer(job) => {
                if let Some((_, datagram)) = self.from_servers[job].receive(now) {
                    self.switch.served(now, &datagram);
                }
                self.drain_switch(now);
            }
            Event::Timer(job) => {
                self.hosts[job].wake(now);
                self.drain_server(now, job);
            }
        }
        Ok(())
    }

    fn stalled(&self, now: u64) -> Violation {
        let waiting = self.workers.iter().find(|worker| worker.deeds().finished.is_none());
        let ((job, rank), psn) = waiting.map_or(((0, 0), 0), |worker| (worker.name(), worker.waits_for()));
        Violation::Stalled { job, rank, psn, after_us: now / MICRO }
    }

    /// A worker's packet reaches the appliance.
    fn arrive(&mut self, now: u64, number: usize) {
        let Some((_, packet)) = self.ups[number].receive(now) else { return };
        let (job, rank) = self.workers[number].name();
        let ranks = self.setting.ranks;
        let head =
            |kind, psn, count| Header { rank, ..header(kind, Key::new(job, EPOCH, psn), ranks, count) };
        use pascaline_aggregator::Verb;
        match packet {
            Up::Gradient { psn, priority, again } => {
                let flags = if again { Flags::RETRANSMISSION } else { Flags::NONE };
                let header =
                    Header { own: Own::sum(priority, u16::MAX), flags, ..head(Kind::Gradient, psn, 1) };
                self.switch.offer(now, Verb::Add, &header, &Payload::of(job, rank, psn).to_bytes());
            }
            Up::Original { psn, round } => {
                let flags = Flags::BYPASS.with(Flags::RETRANSMISSION);
                let header =
                    Header { flags, own: Own::vote(round, u16::MAX), ..head(Kind::Gradient, psn, 1) };
                self.switch.pass_on(header, &Payload::of(job, rank, psn).to_bytes(), Role::Original);
            }
            Up::Result { psn, bypass } => {
                let sum = Payload::sum(job, ranks, psn).to_bytes();
                let header =
                    Header { own: Own::vote(round::TAKEN, u16::MAX), ..head(Kind::Result, psn, ranks) };
                if bypass {
                    self.switch.pass_on(Header { flags: Flags::BYPASS, ..header }, &sum, Role::Held);
                } else {
                    self.switch.offer(now, Verb::Install, &header, &sum);
                }
            }
            Up::Reminder { psn } => {
                self.switch.offer(now, Verb::Remind, &head(Kind::Reminder, psn, 0), &[]);
            }
        }
        self.drain_switch(now);
    }

    /// A worker polls, and sends the allowed packets.
    fn poll(&mut self, now: u64, number: usize) -> Result<(), Violation> {
        let worker = &mut self.workers[number];
        let finished = worker.deeds().finished.is_some();
        while let Some((_, packet)) = self.downs[number].receive(now) {
            let (results, Down::Result { psn, .. } | Down::Remind { psn, .. }) =
                (worker.deeds().results, packet);
            worker.receive(now, packet)?;
            if worker.deeds().results > results {
                self.ledger.got(now, (worker.name().0, psn));
            }
        }
        worker.wake(now);
        let frame = self.setting.frame();
        while let Some(packet) = worker.send(now) {
            let bytes = if matches!(packet, Up::Reminder { .. }) { LEAST_FRAME } else { frame };
            let (role, psn) = Role::up(&packet);
            let arrives = self.ups[number].send(now, bytes, packet, self.setting.loss_of(role));
            self.ledger.sent(now, role, (worker.name().0, psn), arrives);
            arrives.into_iter().for_each(|at| self.wheel.push(at, Event::Up(number)));
        }
        self.running -= usize::from(!finished && worker.deeds().finished.is_some());
        let mean = u64::from(self.setting.poll_us) * MICRO;
        self.earliest[number] = now + 1 + mean / 2 + self.polls.below(mean);
        self.next_poll(number, self.workers[number].next(now));
        Ok(())
    }

    /// A host polls when it has received something or its own timer is due, but not at once again.
    fn next_poll(&mut self, number: usize, own: u64) {
        let at = self.downs[number].next().min(own).max(self.earliest[number]);
        self.set(Event::Poll(number), at);
    }

    /// Sends the appliance's packets.
    fn drain_switch(&mut self, now: u64) {
        let mut sends = self.switch.sends();
        for send in sends.drain(..) {
            match send {
                Send::FanOut { job, psn, sum } => {
                    for rank in 0..self.setting.ranks {
                        self.down(now, (job, rank), Role::Result, Down::Result { psn, sum });
                    }
                }
                Send::Answer { job, rank, psn, sum } => {
                    self.down(now, (job, rank), Role::Answer, Down::Result { psn, sum });
                }
                Send::Remind { job, rank, psn, bypass, round } => {
                    self.down(now, (job, rank), Role::Ask, Down::Remind { psn, bypass, round });
                }
                Send::ToServer { datagram, role } => {
                    let job = usize::from(datagram.header.job);
                    let bytes = self.bytes(&datagram);
                    self.server_packets += 1;
                    let (psn, whole) = (about(&datagram), role == Role::Whole);
                    let loss = self.setting.loss_of(role);
                    let arrives = self.to_servers[job].send(now, bytes, (datagram, whole), loss);
                    self.ledger.sent(now, role, psn, arrives);
                    arrives.into_iter().for_each(|at| self.wheel.push(at, Event::ToServer(job)));
                }
            }
        }
        self.switch.give_back(sends);
    }

    fn down(&mut self, now: u64, (job, rank): (u16, u16), role: Role, packet: Down) {
        if rank < self.setting.ranks {
            let number = usize::from(job) * usize::from(self.setting.ranks) + usize::from(rank);
            let (psn, bytes) = match packet {
                Down::Result { psn, .. } => (psn, self.setting.frame()),
                Down::Remind { psn, .. } => (psn, LEAST_FRAME),
            };
            let line = &mut self.downs[number];
            let waits = line.next();
            let arrives = line.send(now, bytes, packet, self.setting.loss_of(role));
            self.ledger.sent(now, role, (job, psn), arrives);
            if waits == NEVER && arrives.is_some() {
                let own = self.workers[number].next(now);
                self.next_poll(number, own);
            }
        }
    }

    /// Sends a server's packets, and sets its timer.
    fn drain_server(&mut self, now: u64, job: usize) {
        while let Some(datagram) = self.hosts[job].send() {
            let bytes = self.bytes(&datagram);
            let (role, psn) = (Role::from_server(&datagram), about(&datagram));
            let arrives = self.from_servers[job].send(now, bytes, datagram, self.setting.loss_of(role));
            self.ledger.sent(now, role, psn, arrives);
            arrives.into_iter().for_each(|at| self.wheel.push(at, Event::FromServer(job)));
        }
        let timer = self.hosts[job].next(now);
        self.set(Event::Timer(job), timer);
    }

    /// Bytes of a packet to or from a server, with a payload of the modelled length.
    fn bytes(&self, datagram: &Datagram) -> u64 {
        if datagram.body.is_empty() { LEAST_FRAME } else { self.setting.frame() }
    }
}

/// The job and PSN of a packet.
fn about(datagram: &Datagram) -> (u16, u32) {
    (datagram.header.job, datagram.header.psn)
}

/// Runs one cell of the comparison.
///
/// # Errors
/// [`Violation`] if a sum is wrong, a worker or packet is stuck, the pool loses a packet, or the setting is
/// impossible.
pub(crate) fn run(setting: &Setting) -> Result<Run, Violation> {
    Ok(watched(setting, false)?.run)
}

/// A run with more details.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Its figures.
    pub(crate) run: Run,
    /// For how many picoseconds each slot was taken: from its first contribution until its result has left
    /// for the workers, or its partial for the server.
    pub(crate) occupation: Vec<u64>,
    /// PSNs that lost packets.
    pub(crate) cases: Vec<Case>,
}

/// The same; with `watch` also the use of slots, and the task of each case.
///
/// # Errors
/// As `run`.
pub(crate) fn watched(setting: &Setting, watch: bool) -> Result<Seen, Violation> {
    let mut world = World::new(setting)?;
    if watch {
        world.switch.watch(setting);
    }
    world.run()?;
    let run = world.report();
    world.settle()?;
    let seen = world.switch.watched();
    let expected = world.setting.results();
    if run.verified != expected {
        return Err(Violation::Results { expected, got: run.verified });
    }
    let Remains { packets, offered, answered } = world.switch.close();
    if packets != 0 {
        return Err(Violation::Leak { packets });
    }
    if offered != answered {
        return Err(Violation::Unaccounted { offered, answered });
    }
    let cases = world.ledger.close(|job, psn| seen.tasks(Key::new(job, EPOCH, psn)));
    Ok(Seen { run, occupation: seen.occupation, cases })
}
