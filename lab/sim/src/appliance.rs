//! The appliance: real lcores, pool, membership, control plane and parameter server over ports in memory.

use core::time::Duration;
use std::collections::BTreeMap;
use std::sync::Arc;

use ipnet::{Ipv4Net, Ipv6Net};
use pascaline_aggregator::Pool;
use pascaline_buffer::HeapPool;
use pascaline_buffer::combine::Kernels;
use pascaline_pipelines::membership::{
    Admission, Answer, Event, JobSpec, JobStatus, Registration, Secret, ServerMode,
};
use pascaline_pipelines::switchml::Terms;
use pascaline_pipelines::{
    ControlPlane, Decided, IdlePolicy, Lcore, LcoreParts, Membership, PortSetup, Ports, Setup, UpdateEnd,
};
use pascaline_seal::JobKeys;
use pascaline_telemetry::{Counter, LcoreCounters, Reading, Surveyor, Tally, recorder};
use pascaline_wire::control::{self, Action, Control, Status};
use pascaline_wire::{Header, UdpPorts};

use crate::clock::Awake;
use crate::cluster::Cluster;
use crate::host::{Host, OWN_V4, OWN_V6, UDP_PORT, node_address, port_mac};
use crate::io::{Clock, MemoryIo, Mood};
use crate::plan::{ClientsPlan, JobPlan, Plan};
use crate::sabotage::Sabotage;
use crate::server::{Server, Turn};
use crate::violation::Violation;

/// Frames that the rings of an lcore hold.
const RING: usize = 256;

/// Silence of a rank that has joined a generation which is not complete, after which it is no member.
const JOINING: Duration = Duration::from_secs(3);
/// The same where sums go to a parent.
const BELOW: Duration = Duration::from_millis(500);

/// The start of a life: the epoch, the secret, and the first PSN of each job, if that is fixed.
type First = (u16, Secret, Option<u32>);

/// One life of the appliance.
pub(crate) struct Appliance {
    lcores: Vec<Lcore<MemoryIo>>,
    counters: Vec<Arc<LcoreCounters>>,
    /// Updates may wait in queues, whose packets are not counted.
    queues: bool,
    plane: ControlPlane,
    pub(crate) server: Option<Server>,
    frames: HeapPool,
    headers: HeapPool,
    /// The last Join of each rank that counted in its job's present generation, by job and rank.
    heartbeats: BTreeMap<(u16, u16), Duration>,
    dead_after: BTreeMap<u16, Option<Duration>>,
    delivered: u64,
    /// The oldest table that an lcore uses.
    pub(crate) in_use: u64,
    /// The control plane's clock.
    pub(crate) awake: Awake,
}

/// The outcome of the control plane's turn.
#[derive(Debug)]
pub(crate) struct Controlled {
    /// It must turn again, to send answers.
    pub(crate) again: bool,
    /// When time alone changes something.
    pub(crate) due: Option<Duration>,
    /// Events that time has caused.
    pub(crate) events: Vec<Event>,
}

impl Appliance {
    /// `None` if no appliance can be made from the plan.
    pub(crate) fn new<'a>(
        (plan, node): (&Plan, usize),
        hosts: impl Iterator<Item = &'a Host>,
        others: (Option<&Cluster>, Option<&Host>),
        (first_epoch, secret, first_psn): First,
        (clock, began): (&Clock, u64),
    ) -> Option<Self> {
        let port = |port| PortSetup {
            mac: port_mac(port),
            beyond: Ports::of((plan.ports == 2).then_some(1_usize.saturating_sub(port))),
            mtu: 1500,
        };
        let ports = (0..plan.ports).map(port).collect();
        let own = plan.tree.as_ref().map(|_| node_address(node));
        let addresses = [OWN_V4, OWN_V6].into_iter().chain(own).collect();
        let setup = Arc::new(Setup::new(addresses, UdpPorts::single(UDP_PORT), ports));
        let all = begun(membership((plan, node), hosts, others, (first_epoch, secret)), first_psn);
        let (plane, ends) = ControlPlane::new(all, Arc::clone(&setup), plan.lcores);
        let sessions = Pool::sessions(&plan.pool, Kernels::detect(), plan.lcores).ok()?;
        let (frames, headers) = (HeapPool::new(), HeapPool::new());
        let queues = plan.cluster.as_ref().map(|cluster| cluster.queues(plan.ports)).unwrap_or_default();
        let (updates, _) = UpdateEnd::connect(&queues, plan.lcores, &Kernels::detect()).ok()?;
        let mut updates = updates.into_iter();
        let payload = plan.jobs.iter().map(|job| usize::from(job.payload)).max().unwrap_or(0);
        let server = plan
            .server
            .filter(|_| !plan.outside)
            .map(|server| Server::new(server, &frames, plane.served_jobs()));
        let mut appliance = Self {
            lcores: Vec::new(),
            counters: Vec::new(),
            queues: plan.cluster.is_some(),
            plane,
            server,
            frames,
            headers,
            heartbeats: BTreeMap::new(),
            dead_after: plan.jobs.iter().map(|job| (job.id, job.dead_after)).collect(),
            delivered: 0,
            in_use: 0,
            awake: Awake::new(began),
        };
        for (number, (end, session)) in ends.into_iter().zip(sessions).enumerate() {
            let counters = Arc::new(LcoreCounters::default());
            appliance.counters.push(Arc::clone(&counters));
            let pools = (&appliance.frames, &appliance.headers);
            appliance.lcores.push(Lcore::new(LcoreParts {
                number,
                io: MemoryIo::new(plan.ports, plan.multi_segment, pools, clock).with_room(payload),
                session,
                setup: Arc::clone(&setup),
                end,
                server: appliance.server.as_ref().map(Server::end),
                updates: updates.next().filter(|_| plan.cluster.is_some()),
                counters,
                spread: recorder().ok()?.0,
                service: recorder().ok()?.0,
                surveyor: Surveyor::default(),
            }));
        }
        Some(appliance)
    }

    /// A frame reaches a port and is put on the queue of an lcore. False if there is no room.
    pub(crate) fn arrive(&mut self, lcore: usize, port: usize, bytes: &[u8], bad_checksum: bool) -> bool {
        let Some(lcore) = self.lcores.get_mut(lcore) else { return false };
        let room = lcore.io().backlog() < RING;
        if room {
            self.delivered += 1;
            lcore.io().arrive(port, bytes, bad_checksum);
        }
        room
    }

    /// A defect: the port counts a frame and loses it before the queue.
    pub(crate) fn swallow(&mut self) {
        self.delivered += 1;
    }

    /// An lcore's turn, then idle turns. Returns the frames that it sent, and whether work is left.
    pub(crate) fn turn(&mut self, at: usize, mood: Mood, idle: u32) -> (Vec<Vec<u8>>, bool) {
        let Some(lcore) = self.lcores.get_mut(at) else { return (Vec::new(), false) };
        lcore.io().mood = mood;
        lcore.turn();
        if lcore.io().backlog() == 0 {
            (0..idle).for_each(|_| _ = lcore.turn());
        }
        let unread = self.server.as_ref().is_some_and(|server| server.unread() > 0);
        let more = lcore.io().backlog() > 0 || lcore.waiting() > 0 || unread;
        (lcore.io().take_sent(), more)
    }

    /// A client of `SwitchML`'s registers; also returns the table from which on it is known. `None` if it
    /// cannot.
    pub(crate) fn register(&mut self, machine: u64, job: u16, who: &Registration) -> Option<(Terms, u64)> {
        let now = self.awake.turn(machine);
        let terms = self.plane.register(now, job, who).ok()?;
        Some((terms, self.plane.next_table()))
    }

    /// Another key for a job's packets.
    pub(crate) fn rekey(&mut self, machine: u64, job: u16, keys: Arc<JobKeys>) {
        let now = self.awake.turn(machine);
        self.plane.rekey(now, job, keys);
    }

    /// True if the control plane has work.
    pub(crate) fn control_is_due(&self) -> bool {
        self.plane.is_due()
    }

    /// The parameter server's turn, if there is one.
    pub(crate) fn serve(
        &mut self,
        now: Duration,
        starved: bool,
        sabotage: Sabotage,
    ) -> Result<Turn, Violation> {
        let Some(server) = &mut self.server else { return Ok(Turn { sent: 0, next: None }) };
        let turn = server.turn(now, starved, sabotage)?;
        self.delivered += turn.sent;
        Ok(turn)
    }

    /// The control plane's turn, judged: no rank may be lost whose heartbeats arrived, or could not arrive.
    pub(crate) fn control(&mut self, machine: u64) -> Result<Controlled, Violation> {
        let now = self.awake.turn(machine);
        let before = self.plane.membership().status();
        let turn = self.plane.turn(self.awake.reported());
        self.in_use = turn.in_use;
        for event in &turn.events {
            match event {
                Event::Lost { job, ranks, .. }
                    if before.iter().any(|status| status.id == *job && status.complete) =>
                {
                    let limit = self.dead_after.get(job).copied().flatten();
                    ranks.iter().try_for_each(|&rank| self.check_loss(now, (*job, rank), limit))?;
                }
                Event::GaveUp { job, rank } => {
                    let below = self.plane.membership().uplink(*job, self.awake.reported()).is_some();
                    let limit = if below { BELOW } else { JOINING };
                    self.check_loss(now, (*job, *rank), Some(limit))?;
                }
                _ => {}
            }
        }
        for Decided { request, answer } in &turn.decided {
            // An earlier session, a newcomer without an answer yet, or another rank whose number was
            // damaged on the way, is no sign of life.
            let counts = |Answer { control, .. }: &Answer| {
                matches!(control.status, Status::Ok | Status::Pending) && control.window > 0
            };
            if answer.as_ref().is_some_and(counts) && is_heartbeat(&before, &request.header, &request.control)
            {
                self.heartbeats.insert((request.header.job, request.header.rank), now);
            }
        }
        Ok(Controlled { again: self.plane.is_due(), due: self.plane.poll_timeout(), events: turn.events })
    }

    /// A defect: records a heartbeat of rank 0 of a complete generation. If true, the caller loses
    /// it.
    pub(crate) fn overhear(&mut self, now: Duration, datagram: &[u8]) -> bool {
        let status = self.plane.membership().status();
        let Some((header, _)) = Header::parse(datagram)
            .ok()
            .and_then(|(header, body)| Some((header, Control::parse(body).ok()?)))
            .filter(|(header, control)| header.rank == 0 && is_heartbeat(&status, header, control))
        else {
            return false;
        };
        let complete = status.iter().any(|status| status.id == header.job && status.complete);
        if complete {
            self.heartbeats.insert((header.job, 0), now);
        }
        complete
    }

    /// A rank was declared lost: no heartbeat of it may have arrived for this time.
    fn check_loss(
        &self,
        now: Duration,
        (job, rank): (u16, u16),
        limit: Option<Duration>,
    ) -> Result<(), Violation> {
        let silent = self.heartbeats.get(&(job, rank)).map_or(now, |&heard| now.saturating_sub(heard));
        if limit.is_some_and(|limit| silent >= limit) {
            return Ok(());
        }
        let silent_ms = u64::try_from(silent.as_millis()).unwrap_or(u64::MAX);
        Err(Violation::Misjudged { job, rank, silent_ms })
    }

    /// Ends this life; returns the account, and how often the parameter server had no room.
    ///
    /// `miscount` is a defect: a packet that was never received.
    pub(crate) fn end(mut self, miscount: bool) -> Result<(Reading, u64), Violation> {
        self.plane.stop();
        let backlog: usize = self.lcores.iter_mut().map(|lcore| lcore.io().backlog()).sum();
        self.lcores.iter_mut().for_each(Lcore::close);
        // An lcore that was stopped before only does its last work.
        self.lcores.iter_mut().for_each(|lcore| lcore.run(IdlePolicy::Spin));
        let mut total = Reading::default();
        self.counters.iter().for_each(|counters| total.merge(&counters.read()));
        if miscount {
            total.merge(&one_more());
        }
        check_account(&total)?;
        let received = total.get(Counter::Received);
        let (unread, queued) =
            self.server.as_ref().map_or((0, 0), |server| (server.unread(), server.queued()));
        if received + (backlog + unread) as u64 != self.delivered {
            let (delivered, backlog) = (self.delivered, (backlog + unread) as u64);
            return Err(Violation::Uncounted { delivered, received, backlog });
        }
        let full = self.server.as_ref().map_or(0, Server::full);
        let held: usize = self.lcores.iter().map(Lcore::packets_held).sum();
        if !self.queues {
            check_live("frame", &self.frames, held + backlog + queued)?;
        }
        check_live("header", &self.headers, 0)?;
        let Self { lcores, plane, server, frames, headers, .. } = self;
        drop((lcores, plane, server));
        check_live("frame", &frames, 0)?;
        check_live("header", &headers, 0)?;
        Ok((total, full))
    }
}

/// A member's Join that names its generation.
fn is_heartbeat(status: &[JobStatus], header: &Header, control: &Control) -> bool {
    let job = status.iter().find(|status| status.id == header.job);
    control.action == Action::Join && job.is_some_and(|job| control.got == control::generation(job.epoch))
}

fn check_account(total: &Reading) -> Result<(), Violation> {
    let packets = total.unaccounted();
    if packets == 0 {
        return Ok(());
    }
    let account = format!(
        "received {} = forwarded {} + absorbed {} + answered {} + dropped {}",
        total.get(Counter::Received),
        total.get(Counter::Forwarded),
        total.get(Counter::Absorbed),
        total.get(Counter::Answered),
        total.dropped_total()
    );
    Err(Violation::Unaccounted { packets, account })
}

fn check_live(what: &'static str, pool: &HeapPool, held: usize) -> Result<(), Violation> {
    let live = pool.live();
    if live == held { Ok(()) } else { Err(Violation::Leak { what, live, held }) }
}

/// The reading of an lcore that has received a packet and not accounted for it.
fn one_more() -> Reading {
    let (counters, mut tally) = (LcoreCounters::default(), Tally::default());
    tally.add(Counter::Received, 1);
    counters.publish(&mut tally);
    counters.read()
}

fn begun(membership: Membership, first_psn: Option<u32>) -> Membership {
    first_psn.into_iter().fold(membership, Membership::beginning_with)
}

fn membership<'a>(
    (plan, node): (&Plan, usize),
    mut hosts: impl Iterator<Item = &'a Host>,
    (cluster, outside): (Option<&Cluster>, Option<&Host>),
    (first_epoch, secret): (u16, Secret),
) -> Membership {
    if let Some(tree) = &plan.tree {
        return tree.membership((plan, node), hosts, (first_epoch, secret));
    }
    let server = match outside {
        None => ServerMode::Embedded,
        Some(&Host { address, udp_port, .. }) => ServerMode::External { address, udp_port },
    };
    let mut spec = |job: &JobPlan| {
        let addresses = hosts.by_ref().take(usize::from(job.ranks)).map(|host| host.address).collect();
        JobSpec { admitted: job.admitted.then_some(addresses), ..job.spec(server) }
    };
    let specs: Vec<(bool, JobSpec)> = plan.jobs.iter().map(|job| (job.formed, spec(job))).collect();
    // All jobs that are formed by Joins are alike, so there is one.
    let formed = specs.iter().find(|(formed, _)| *formed).map(|(_, spec)| spec.clone());
    let admitted = plan.jobs.iter().all(|job| job.admitted);
    let cluster = plan.cluster.as_ref().zip(cluster).map(|(plan, it)| plan.spec(&it.hosts, admitted));
    let clients = plan.clients.as_ref().map(ClientsPlan::spec);
    let besides = cluster.into_iter().chain(clients);
    let listed = specs.into_iter().filter(|(formed, _)| !formed).map(|(_, spec)| spec).chain(besides);
    let membership = Membership::new(listed.collect(), secret, first_epoch).counted_by(plan.lcores);
    match formed {
        None => membership,
        Some(like) => membership.with_admission(Admission {
            jobs: like.id..=like.id,
            from: vec![Ipv4Net::default().into(), Ipv6Net::default().into()],
            max_jobs: 1,
            max_jobs_per_host: 1,
            max_fan_in: like.fan_in,
            like,
            idle: Admission::IDLE,
        }),
    }
}
