//! An asynchronous job: workers send updates through the real queue to a parameter server (Olaf).
//!
//! Each gradient is a number times the cluster's pattern of powers of two. Sums and averages keep the pattern
//! bit by bit; damaged updates do not.

use core::num::{NonZeroU16, NonZeroU64};
use core::time::Duration;

use pascaline_pipelines::PortQueue;
use pascaline_pipelines::jobs::Mode;
use pascaline_pipelines::membership::{JobSpec, ServerMode};
use pascaline_ps::asynchronous::{AsyncJob, AsyncServer, Settings as Training};
use pascaline_wire::control::{Action, Control, SERVER_RANK, Status};
use pascaline_wire::{Element, Header, Kind, header};
use pascaline_worker::asynchronous::{AsyncSession, Initial, Policy, Settings};
use pascaline_worker::{Identity, Join, Left};

use crate::host::Host;
use crate::plan::{MICRO, MILLI};
use crate::random::Random;
use crate::violation::Violation;

/// Between two Serves.
const SERVE_EVERY: u64 = 20 * MILLI;
/// How long a worker may take: on a bad network most updates get lost, and one at a time may be outstanding,
/// for a second each. And where something is stopped for a while: what gets lost is waited for as long.
const DEADLINE: u64 = 60_000 * MILLI;
const LATE_DEADLINE: u64 = 200_000 * MILLI;
/// Between two looks at the clock while there is nothing to wait for.
const IDLE: u64 = 10 * MILLI;

/// An asynchronous job and what its workers do.
#[derive(Debug, Clone)]
pub(crate) struct ClusterPlan {
    pub(crate) id: u16,
    pub(crate) ranks: u16,
    floats: u16,
    outstanding: u16,
    /// Acknowledged updates after which a worker leaves.
    wanted: u64,
    /// The longest time between two updates of a worker.
    pace: u64,
    policy: Policy,
    queue: PortQueue,
    /// The appliance restarts: workers that have left do not come back, so the others wait in vain.
    pub(crate) forsaken: bool,
    /// For what a worker does, in nanoseconds.
    deadline: u64,
}

impl ClusterPlan {
    pub(crate) fn draw(random: &mut Random) -> Self {
        let olaf = Policy::Olaf {
            slope: pascaline_worker::Slope::Urgency,
            threshold: Duration::from_millis(random.between(1, 100)),
        };
        let rate = random.pick(&[0, 5_000_000, 50_000_000]);
        let mut queue = PortQueue { rate: NonZeroU64::new(rate), ..PortQueue::default() };
        queue.queue.clusters = 512;
        queue.queue.segments = random.pick(&[1, 2, 8]);
        queue.queue.reward_threshold = if random.chance(500_000) { f32::INFINITY } else { 2.0 };
        Self {
            // No other job has it.
            id: 300,
            ranks: random.pick(&[1, 2, 3, 5]),
            floats: random.pick(&[2, 4, 8]),
            outstanding: random.pick(&[1, 1, 4]),
            wanted: random.between(1, 12),
            pace: random.pick(&[200 * MICRO, 2 * MILLI, 10 * MILLI]),
            policy: if random.chance(700_000) { Policy::AtWill } else { olaf },
            queue,
            forsaken: false,
            deadline: DEADLINE,
        }
    }

    /// Parts will be stopped.
    pub(crate) const fn wait(&mut self) {
        self.deadline = LATE_DEADLINE;
    }

    /// Its hosts: one for each rank, and the parameter server's.
    pub(crate) const fn hosts(&self) -> usize {
        self.ranks as usize + 1
    }

    /// A queue in front of each of this many ports.
    pub(crate) fn queues(&self, ports: usize) -> Vec<PortQueue> {
        vec![self.queue; ports]
    }

    const fn payload(&self) -> u16 {
        self.floats * 4
    }

    /// The job as the appliance is told of it. The last host is the server's.
    pub(crate) fn spec(&self, hosts: &[Host], admitted: bool) -> JobSpec {
        let (server, workers) = hosts.split_last().unzip();
        let listed = workers.unwrap_or_default().iter().map(|host: &Host| host.address).collect();
        let mut spec = JobSpec::new(self.id, self.ranks);
        spec.mode = Mode::Olaf;
        spec.policy.server = true;
        spec.dead_after = None;
        spec.admitted = admitted.then_some(listed);
        if let Some(Host { address, udp_port, .. }) = server {
            spec.server = ServerMode::External { address: *address, udp_port: *udp_port };
        }
        spec
    }
}

/// Where a worker of a cluster is in its life.
#[allow(clippy::large_enum_variant, reason = "there are few of them")]
enum Stage {
    Joining(Join),
    Training(Box<AsyncSession>),
    Leaving(Box<AsyncSession>),
    Over,
}

struct Member {
    stage: Stage,
    next_push: u64,
}

/// An asynchronous job's workers and its parameter server, which has the last host.
pub(crate) struct Cluster {
    plan: ClusterPlan,
    pub(crate) hosts: Vec<Host>,
    members: Vec<Member>,
    server: AsyncServer,
    next_serve: u64,
    /// When each host is going to be woken.
    pub(crate) wakes: Vec<Option<u64>>,
    /// Updates acknowledged.
    pub(crate) acknowledged: u64,
}

impl Cluster {
    /// A cluster whose first host has this number in the world.
    pub(crate) fn new(plan: &ClusterPlan, first: usize, ports: usize, v6: bool) -> Self {
        let hosts: Vec<Host> =
            (first..first + plan.hosts()).map(|number| Host::new(number, ports, v6)).collect();
        let join = |rank| {
            let identity = Identity { job: plan.id, rank, ranks: plan.ranks, payload: plan.payload() };
            let deadline = Duration::from_nanos(plan.deadline);
            Join::new(identity, 1000 + u64::from(rank), 1, Duration::ZERO, deadline)
        };
        let member = |rank| Member { stage: Stage::Joining(join(rank)), next_push: 0 };
        Self {
            plan: plan.clone(),
            wakes: vec![None; hosts.len()],
            hosts,
            members: (0..plan.ranks).map(member).collect(),
            server: AsyncServer::new(Training::default()),
            next_serve: 0,
            acknowledged: 0,
        }
    }

    /// True once all workers have come to their end.
    pub(crate) fn is_over(&self) -> bool {
        self.members.iter().all(|member| matches!(member.stage, Stage::Over))
    }

    /// A frame reaches a host. Unix time is the lcores' clock.
    pub(crate) fn deliver(
        &mut self,
        at: usize,
        now: u64,
        unix_ns: u64,
        frame: &[u8],
    ) -> Result<(), Violation> {
        let Some(datagram) = self.hosts.get(at).and_then(|host| host.receive(frame)) else { return Ok(()) };
        if at == self.members.len() {
            self.serve(now, unix_ns, datagram);
            return Ok(());
        }
        let Some(member) = self.members.get_mut(at) else { return Ok(()) };
        let time = Duration::from_nanos(now);
        match &mut member.stage {
            Stage::Joining(join) => match join.handle_datagram(datagram) {
                Some(Ok(membership)) => {
                    let settings = Settings {
                        floats: usize::from(self.plan.floats),
                        outstanding: NonZeroU16::new(self.plan.outstanding).unwrap_or(NonZeroU16::MIN),
                        policy: self.plan.policy,
                        seed: u64::from(membership.identity.rank),
                        patience: Duration::from_nanos(self.plan.deadline),
                    };
                    let session = AsyncSession::new(membership, settings, Initial::Nothing);
                    (member.stage, member.next_push) = (Stage::Training(Box::new(session)), now);
                    Ok(())
                }
                Some(Err(failure)) => self.fail(at, failure.to_string()),
                None => Ok(()),
            },
            Stage::Training(session) | Stage::Leaving(session) => {
                let left = session.handle_datagram(time, datagram);
                self.check(at)?;
                self.note_left(at, left);
                Ok(())
            }
            Stage::Over => Ok(()),
        }
    }

    /// A datagram for the parameter server.
    fn serve(&mut self, now: u64, unix_ns: u64, datagram: &[u8]) {
        let Ok((header, body)) = Header::parse(datagram) else { return };
        if header.kind != Kind::Control {
            let verdict = self.server.handle_datagram(unix_ns, datagram);
            if verdict == pascaline_ps::asynchronous::AsyncOutcome::WrongEpoch {
                self.next_serve = now;
            }
            return;
        }
        let Ok(answer) = Control::parse(body) else { return };
        if answer.answers == Some(Action::Serve) && answer.status == Status::Ok && answer.payload > 0 {
            let Header { fan_in, epoch, job, .. } = header;
            self.server.set_job(job, AsyncJob { fan_in, epoch, payload: answer.payload });
        }
    }

    /// Does what is due at a host, and gives the frames that it sends. `random` sets the pace.
    pub(crate) fn turn(
        &mut self,
        at: usize,
        now: u64,
        unix_ns: u64,
        random: &mut Random,
    ) -> Result<Vec<Vec<u8>>, Violation> {
        if at == self.members.len() {
            return Ok(self.server_turn(now));
        }
        let time = Duration::from_nanos(now);
        let Some(member) = self.members.get_mut(at) else { return Ok(Vec::new()) };
        let mut left = None;
        match &mut member.stage {
            Stage::Joining(join) => {
                if let Some(failure) = join.handle_timeout(time) {
                    self.fail(at, failure.to_string())?;
                }
            }
            Stage::Training(session) => {
                left = session.handle_timeout(time);
                let mut pushed = Ok(());
                if member.next_push <= now {
                    member.next_push = now + random.between(1, self.plan.pace);
                    pushed = push(session, &self.plan, time, unix_ns, random);
                }
                if let Err(why) = pushed {
                    self.fail(at, why)?;
                } else if session.counters().acknowledged >= self.plan.wanted {
                    self.acknowledged += session.counters().acknowledged;
                    self.leave(at, time);
                } else if now > self.plan.deadline {
                    self.fail(at, "its updates are not acknowledged".to_owned())?;
                }
            }
            Stage::Leaving(session) => left = session.handle_timeout(time),
            Stage::Over => {}
        }
        self.check(at)?;
        self.note_left(at, left);
        Ok(self.outgoing(at, time))
    }

    fn leave(&mut self, at: usize, now: Duration) {
        let Some(member) = self.members.get_mut(at) else { return };
        if let Stage::Training(mut session) = core::mem::replace(&mut member.stage, Stage::Over) {
            session.leave(now, Duration::from_millis(500));
            member.stage = Stage::Leaving(session);
        }
    }

    fn note_left(&mut self, at: usize, left: Option<Left>) {
        if let (Some(_), Some(member)) = (left, self.members.get_mut(at)) {
            member.stage = Stage::Over;
        }
    }

    /// A worker has failed, which only a restart of the appliance excuses.
    fn fail(&mut self, at: usize, why: String) -> Result<(), Violation> {
        if let Some(member) = self.members.get_mut(at) {
            member.stage = Stage::Over;
        }
        let (job, rank) = (self.plan.id, u16::try_from(at).unwrap_or(u16::MAX));
        if self.plan.forsaken { Ok(()) } else { Err(Violation::Unexcused { job, rank, why }) }
    }

    fn outgoing(&mut self, at: usize, now: Duration) -> Vec<Vec<u8>> {
        let (Some(member), Some(host)) = (self.members.get_mut(at), self.hosts.get(at)) else {
            return Vec::new();
        };
        let mut frames = Vec::new();
        match &mut member.stage {
            Stage::Joining(join) => {
                while let Some((head, body)) = join.poll_transmit(now).and_then(<[u8]>::split_first_chunk) {
                    frames.push(host.send(head, body));
                }
            }
            Stage::Training(session) | Stage::Leaving(session) => {
                let mut room = vec![0; session.longest()];
                while let Ok(Some(len)) = session.poll_transmit(now, &mut room) {
                    if let Some((head, body)) = room[..len].split_first_chunk() {
                        frames.push(host.send(head, body));
                    }
                }
            }
            Stage::Over => {}
        }
        frames
    }

    fn server_turn(&mut self, now: u64) -> Vec<Vec<u8>> {
        let Some(host) = self.hosts.last() else { return Vec::new() };
        let mut frames = Vec::new();
        if self.next_serve <= now {
            self.next_serve = now + SERVE_EVERY;
            let serve = Control::request(Action::Serve, 1).to_bytes();
            frames.push(host.send(&serve_header(self.plan.id).to_bytes(), &serve));
        }
        let mut datagram = Vec::new();
        while self.server.next_reply(&mut datagram) {
            if let Some((head, body)) = datagram.split_first_chunk::<{ header::LEN }>() {
                frames.push(host.send(head, body));
            }
        }
        frames
    }

    /// When a host has something to do by itself; `None` for never.
    pub(crate) fn due(&self, at: usize, now: u64) -> Option<u64> {
        let Some(member) = self.members.get(at) else { return Some(self.next_serve) };
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        match &member.stage {
            Stage::Joining(join) => Some(nanos(join.poll_timeout())),
            Stage::Training(session) => {
                let timer = session.poll_timeout().map_or(now + IDLE, nanos);
                Some(timer.min(member.next_push))
            }
            Stage::Leaving(session) => Some(session.poll_timeout().map_or(now + IDLE, nanos)),
            Stage::Over => None,
        }
    }

    /// A worker's weights must have the cluster's pattern, and its counters must add up.
    fn check(&self, at: usize) -> Result<(), Violation> {
        let Some(Member { stage: Stage::Training(session) | Stage::Leaving(session), .. }) =
            self.members.get(at)
        else {
            return Ok(());
        };
        let (job, rank) = (self.plan.id, u16::try_from(at).unwrap_or(u16::MAX));
        let (weights, version) = session.weights();
        let first = weights.first().copied().unwrap_or(0.0);
        let off = weights.iter().enumerate().find(|(index, weight)| **weight != first * factor(*index));
        if let Some((index, weight)) = off {
            let why = format!("weight {index} of version {version} is {weight}, the first is {first}");
            return Err(Violation::WrongModel { job, rank, why });
        }
        let counters = session.counters();
        let sent = counters.acknowledged + counters.given_up + u64::from(session.outstanding());
        let pushed = counters.sent + counters.skipped + counters.busy;
        if (counters.received, counters.pushed, counters.sent) != (counters.accounted(), pushed, sent) {
            let why = format!("its counters do not add up: {counters:?}");
            return Err(Violation::WrongModel { job, rank, why });
        }
        Ok(())
    }
}

/// A worker offers an update.
fn push(
    session: &mut AsyncSession,
    plan: &ClusterPlan,
    now: Duration,
    unix_ns: u64,
    random: &mut Random,
) -> Result<(), String> {
    let size = random.between(1, 1000);
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let gradient: Vec<f32> = (0..plan.floats).map(|index| size as f32 * factor(usize::from(index))).collect();
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let reward = (unix_ns / 1_000_000) as f32 + if random.chance(500_000) { 0.5 } else { 0.0 };
    session.push(now, unix_ns, &gradient, reward).map(drop).map_err(|error| error.to_string())
}

/// The pattern: a power of two with a sign, so that multiplying by it rounds nothing.
fn factor(index: usize) -> f32 {
    const FACTORS: [f32; 8] = [1.0, -2.0, 0.5, 8.0, -0.25, 4.0, -16.0, 0.125];
    FACTORS[index % FACTORS.len()]
}

/// The header of a parameter server's registration.
const fn serve_header(job: u16) -> Header {
    Header { rank: SERVER_RANK, ..Header::about(Kind::Control, Element::F32_SUM, job, 0) }
}
