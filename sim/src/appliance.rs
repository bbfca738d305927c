//! The appliance: real lcores, pool, membership and control plane over ports in memory.

use std::collections::VecDeque;
use std::sync::Arc;

use pascaline_aggregator::Pool;
use pascaline_buffer::HeapPool;
use pascaline_buffer::combine::Kernels;
use pascaline_pipelines::membership::JobSpec;
use pascaline_pipelines::{
    ControlPlane, ControlRequest, IdlePolicy, Lcore, LcoreParts, Membership, PortSetup, Reply, Setup,
};
use pascaline_telemetry::{Counter, LcoreCounters, Reading, Tally, recorder};

use crate::host::{Host, OWN_V4, OWN_V6, UDP_PORT, port_mac};
use crate::io::{Clock, MemoryIo, Mood};
use crate::oracle::Violation;
use crate::plan::Plan;

/// One life of the appliance.
pub(crate) struct Appliance {
    lcores: Vec<Lcore<MemoryIo>>,
    counters: Vec<Arc<LcoreCounters>>,
    plane: ControlPlane,
    membership: Membership,
    setup: Arc<Setup>,
    frames: HeapPool,
    headers: HeapPool,
    requests: VecDeque<ControlRequest>,
    replies: VecDeque<(usize, Reply)>,
    delivered: u64,
}

impl Appliance {
    /// `None` if the plan is none that an appliance can be made from.
    pub(crate) fn new<'a>(
        plan: &Plan,
        hosts: impl Iterator<Item = &'a Host>,
        first_epoch: u8,
        clock: &Clock,
    ) -> Option<Self> {
        let port = |port| PortSetup {
            mac: port_mac(port),
            peer: (plan.ports == 2).then_some(1_usize.saturating_sub(port)),
        };
        let setup = Arc::new(Setup {
            addresses: vec![OWN_V4, OWN_V6],
            udp_port: UDP_PORT,
            ports: (0..plan.ports).map(port).collect(),
        });
        let membership = Membership::new(specs(plan, hosts), first_epoch);
        let (mut plane, ends) = ControlPlane::new(plan.lcores);
        plane.publish(membership.table(port_mac));
        let sessions = Pool::sessions(&plan.pool, Kernels::detect(), plan.lcores).ok()?;
        let (frames, headers) = (HeapPool::new(), HeapPool::new());
        let mut counters = Vec::new();
        let mut lcores = Vec::new();
        for (number, (end, session)) in ends.into_iter().zip(sessions).enumerate() {
            let io = MemoryIo::new(plan.ports, plan.multi_segment, (&frames, &headers), clock);
            let own = Arc::new(LcoreCounters::default());
            counters.push(Arc::clone(&own));
            lcores.push(Lcore::new(LcoreParts {
                number,
                io,
                session,
                setup: Arc::clone(&setup),
                end,
                counters: own,
                spread: recorder().ok()?.0,
                service: recorder().ok()?.0,
            }));
        }
        let (requests, replies) = (VecDeque::new(), VecDeque::new());
        Some(Self {
            lcores,
            counters,
            plane,
            membership,
            setup,
            frames,
            headers,
            requests,
            replies,
            delivered: 0,
        })
    }

    /// A frame reaches a port and is put on the queue of an lcore.
    pub(crate) fn arrive(&mut self, lcore: usize, port: usize, bytes: &[u8], bad_checksum: bool) {
        self.delivered += 1;
        if let Some(lcore) = self.lcores.get_mut(lcore) {
            lcore.io().arrive(port, bytes, bad_checksum);
        }
    }

    /// As [`arrive`](Self::arrive), but the frame gets lost between the port's count and the queue: a defect, for proving
    /// that it is noticed.
    pub(crate) fn swallow(&mut self) {
        self.delivered += 1;
    }

    /// An lcore's turn, with idle turns behind it. Gives the frames that it sent, and whether it has something left to do.
    pub(crate) fn turn(&mut self, at: usize, mood: Mood, idle: u32) -> (Vec<Vec<u8>>, bool) {
        let Some(lcore) = self.lcores.get_mut(at) else { return (Vec::new(), false) };
        lcore.io().mood = mood;
        lcore.turn();
        if lcore.io().backlog() == 0 {
            (0..idle).for_each(|_| _ = lcore.turn());
        }
        while let Some(request) = self.plane.request() {
            self.requests.push_back(request);
        }
        let more = lcore.io().backlog() > 0 || lcore.waiting() > 0;
        (lcore.io().take_sent(), more)
    }

    /// True if the control plane has something to do.
    pub(crate) fn control_is_due(&self) -> bool {
        !self.requests.is_empty() || !self.replies.is_empty()
    }

    /// The control plane's turn: decides on what has been asked, and gives the answers once all lcores know. True if it has
    /// to come back for that.
    pub(crate) fn control(&mut self) -> bool {
        let mac = |port: usize| self.setup.ports.get(port).map_or_else(|| port_mac(port), |port| port.mac);
        let mut changed = false;
        for request in self.requests.drain(..) {
            if let Some(answer) = self.membership.handle(&request) {
                changed |= answer.changed;
                let reply =
                    Reply::new(&request.from, mac(request.from.port), &answer.header, &answer.control);
                self.replies.push_back((request.lcore, reply));
            }
        }
        if changed {
            self.plane.publish(self.membership.table(mac));
        }
        if self.plane.settled() {
            for (lcore, reply) in self.replies.drain(..) {
                self.plane.reply(lcore, reply);
            }
            self.plane.reap();
        }
        !self.replies.is_empty()
    }

    /// Ends this life and draws up the account. `miscount` is a packet received by nobody: a defect, for proving that it is
    /// noticed.
    pub(crate) fn end(mut self, miscount: bool) -> Result<Reading, Violation> {
        self.plane.stop();
        let backlog: usize = self.lcores.iter_mut().map(|lcore| lcore.io().backlog()).sum();
        // Told to stop beforehand, an lcore only does what it does last.
        self.lcores.iter_mut().for_each(|lcore| lcore.run(IdlePolicy::Spin));
        let mut total = Reading::default();
        self.counters.iter().for_each(|counters| total.merge(&counters.read()));
        if miscount {
            total.merge(&one_more());
        }
        check_account(&total)?;
        let received = total.get(Counter::Received);
        if received + backlog as u64 != self.delivered {
            let (delivered, backlog) = (self.delivered, backlog as u64);
            return Err(Violation::Uncounted { delivered, received, backlog });
        }
        let slots = usize::try_from(total.open_slots() + total.done_slots()).unwrap_or(usize::MAX);
        check_live("frame", &self.frames, slots + backlog)?;
        check_live("header", &self.headers, 0)?;
        let Self { lcores, plane, frames, headers, .. } = self;
        drop((lcores, plane));
        check_live("frame", &frames, 0)?;
        check_live("header", &headers, 0)?;
        Ok(total)
    }
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

/// The reading of an lcore that has received a packet and does not know what became of it.
fn one_more() -> Reading {
    let (counters, mut tally) = (LcoreCounters::default(), Tally::default());
    tally.add(Counter::Received, 1);
    counters.publish(&mut tally);
    counters.read()
}

fn specs<'a>(plan: &Plan, mut hosts: impl Iterator<Item = &'a Host>) -> Vec<JobSpec> {
    let spec = |job: &crate::plan::JobPlan| {
        let addresses = hosts.by_ref().take(usize::from(job.ranks)).map(|host| host.address).collect();
        JobSpec {
            id: job.id,
            fan_in: job.ranks,
            window: job.window,
            max_payload: 1408,
            admitted: job.admitted.then_some(addresses),
        }
    };
    plan.jobs.iter().map(spec).collect()
}
