//! An asynchronous job: workers send updates through the real queue to a parameter server (Olaf).
//!
//! Updates that leave for the server consist of updates that workers have sent, each once, and workers have
//! weights that the server has had: see [`ledger`].

mod ledger;
mod plan;
mod seals;

use core::num::NonZeroU16;
use core::time::Duration;

use pascaline_ps::asynchronous::{AsyncJob, AsyncServer};
use pascaline_wire::control::{Action, Control, SERVER_RANK, Status};
use pascaline_wire::{Element, Header, Kind, header};
use pascaline_worker::asynchronous::{AsyncSession, Initial, Push, Settings};
use pascaline_worker::{Identity, Join, Left};

use crate::host::Host;
use crate::plan::MILLI;
use crate::random::Random;
use crate::violation::Violation;
use crate::wheel::{Alarm, nanos};
use ledger::Ledger;
use seals::{Seals, session};

pub(crate) use plan::ClusterPlan;

/// Between two Serves.
const SERVE_EVERY: u64 = 20 * MILLI;
/// Between two checks of the clock while nothing is awaited.
const IDLE: u64 = 10 * MILLI;

/// The stage of a cluster's worker.
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
    /// Updates sent so far.
    sent: u32,
}

/// An asynchronous job's workers and its parameter server, which has the last host.
pub(crate) struct Cluster {
    plan: ClusterPlan,
    pub(crate) hosts: Vec<Host>,
    members: Vec<Member>,
    server: AsyncServer,
    seals: Option<Seals>,
    ledger: Ledger,
    next_serve: u64,
    /// When each host is going to be woken.
    pub(crate) wakes: Vec<Alarm>,
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
            Join::new(identity, session(rank), 1, Duration::ZERO, deadline)
        };
        let member = |rank| Member { stage: Stage::Joining(join(rank)), next_push: 0, sent: 0 };
        Self {
            plan: plan.clone(),
            wakes: vec![Alarm::default(); hosts.len()],
            hosts,
            members: (0..plan.ranks).map(member).collect(),
            server: AsyncServer::new(plan.training()),
            seals: Seals::new(plan),
            ledger: Ledger::new(plan.floats, plan.ranks),
            next_serve: 0,
            acknowledged: 0,
        }
    }

    /// True once all workers have ended.
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
        let opened = match &mut self.seals {
            Some(seals) => seals.open(at, datagram),
            None => Some(datagram.to_vec()),
        };
        let Some(datagram) = &opened else { return Ok(()) };
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
            if let Some(weights) = self.server.weights(header.job) {
                self.ledger.became(weights);
            }
            return;
        }
        let Ok(answer) = Control::parse(body) else { return };
        if answer.answers == Some(Action::Serve) && answer.status == Status::Ok && answer.payload > 0 {
            let Header { fan_in, epoch, job, .. } = header;
            self.server.set_job(job, AsyncJob { fan_in, epoch, payload: answer.payload });
        }
    }

    /// Handles a host's due timers, and returns the frames that it sends. `random` sets the pace.
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
                let mut pushed = Ok(Push::Busy);
                if member.next_push <= now {
                    member.next_push = now + random.between(1, self.plan.pace);
                    let gradient = self.ledger.gradient(at, member.sent);
                    pushed = push(session, time, unix_ns, &gradient, random);
                    if let Ok(Push::Sent(_)) = pushed {
                        self.ledger.sent(at, member.sent);
                        member.sent += 1;
                    }
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
        let Some(member) = self.members.get_mut(at) else { return Vec::new() };
        let mut datagrams = Vec::new();
        match &mut member.stage {
            Stage::Joining(join) => {
                while let Some(request) = join.poll_transmit(now) {
                    datagrams.push(request.to_vec());
                }
            }
            Stage::Training(session) | Stage::Leaving(session) => {
                let mut room = vec![0; session.longest()];
                while let Ok(Some(len)) = session.poll_transmit(now, &mut room) {
                    datagrams.push(room[..len].to_vec());
                }
            }
            Stage::Over => {}
        }
        self.frames(at, datagrams)
    }

    /// A host's datagrams, sealed if the job's are.
    fn frames(&mut self, at: usize, datagrams: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let Self { hosts, seals, .. } = self;
        let frame = |datagram: Vec<u8>| {
            let datagram = match seals {
                Some(seals) => seals.seal(at, datagram),
                None => datagram,
            };
            let (head, body) = datagram.split_first_chunk::<{ header::LEN }>()?;
            Some(hosts.get(at)?.send(head, body))
        };
        datagrams.into_iter().filter_map(frame).collect()
    }

    fn server_turn(&mut self, now: u64) -> Vec<Vec<u8>> {
        let mut datagrams = Vec::new();
        if self.next_serve <= now {
            self.next_serve = now + SERVE_EVERY;
            let serve = Control::request(Action::Serve, session(SERVER_RANK)).to_bytes();
            datagrams.push([&serve_header(self.plan.id).to_bytes()[..], &serve].concat());
        }
        let mut datagram = Vec::new();
        while self.server.next_reply(&mut datagram) {
            datagrams.push(datagram.clone());
        }
        self.frames(self.members.len(), datagrams)
    }

    /// When a host has something to do by itself; `None` for never.
    pub(crate) fn due(&self, at: usize, now: u64) -> Option<u64> {
        let Some(member) = self.members.get(at) else { return Some(self.next_serve) };
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

    /// A datagram leaves an appliance for a host.
    pub(crate) fn departs(&mut self, at: usize, datagram: &[u8]) -> Result<(), Violation> {
        if at != self.members.len() {
            return Ok(());
        }
        let opened = self.seals.as_mut().map(|seals| seals.observe(datagram));
        for datagram in opened.unwrap_or_else(|| vec![datagram.to_vec()]) {
            let Ok((header, body)) = Header::parse(&datagram) else { continue };
            let (job, rank) = (self.plan.id, header.rank);
            let departs = self.ledger.departs(&header, body);
            departs.map_err(|why| Violation::WrongModel { job, rank, why })?;
        }
        Ok(())
    }

    /// A worker's weights must be ones that the server has had, and its counters must add up.
    fn check(&self, at: usize) -> Result<(), Violation> {
        let Some(Member { stage: Stage::Training(session) | Stage::Leaving(session), .. }) =
            self.members.get(at)
        else {
            return Ok(());
        };
        let (job, rank) = (self.plan.id, u16::try_from(at).unwrap_or(u16::MAX));
        let (weights, version) = session.weights();
        if version > 0 && !self.ledger.knows(weights) {
            let why = format!("its weights of version {version} are not the server's: {weights:?}");
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
    now: Duration,
    unix_ns: u64,
    gradient: &[f32],
    random: &mut Random,
) -> Result<Push, String> {
    #[expect(clippy::cast_precision_loss, reason = "small numbers")]
    let reward = (unix_ns / 1_000_000) as f32 + if random.chance(500_000) { 0.5 } else { 0.0 };
    session.push(now, unix_ns, gradient, reward).map_err(|error| error.to_string())
}

/// The header of a parameter server's registration.
const fn serve_header(job: u16) -> Header {
    Header { rank: SERVER_RANK, ..Header::about(Kind::Control, Element::F32_SUM, job, 0) }
}
