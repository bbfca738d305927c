//! The parameter server in the appliance: the real state machine between two queues.

use core::time::Duration;
use std::sync::Arc;

use crossbeam_queue::ArrayQueue;
use pascaline_aggregator::Order;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf as _};
use pascaline_pipelines::ServerEnd;
use pascaline_pipelines::jobs::{ServedJob, ServedJobs};
use pascaline_ps::{Capacity, Completion, Config, JobParams, RejectReason};
use pascaline_wire::{DType, Element, Header, Op};

use crate::io::ROOM;
use crate::plan::{ServerPlan, WIDEST};
use crate::sabotage::Sabotage;
use crate::sabotage::server as tamper;
use crate::violation::Violation;

/// Room before a packet, as mbufs have it.
const HEADROOM: usize = 128;
/// Packets handled in one turn.
const BATCH: usize = 64;
/// Least time between two rounds of requests.
const PACE: Duration = Duration::from_micros(100);

/// The server and its driver.
pub(crate) struct Server {
    state: pascaline_ps::Server,
    plan: ServerPlan,
    end: ServerEnd<HeapBuf>,
    frames: HeapPool,
    /// The jobs that it serves.
    wanted: ServedJobs,
    /// The list of jobs that it has last seen, and the jobs that it serves.
    seen: Arc<Vec<ServedJob>>,
    jobs: Vec<(u16, JobParams)>,
    away: bool,
    /// It has been away, and has lost its earlier state.
    ignorant: bool,
    may_advance: Duration,
    datagram: Vec<u8>,
    /// Packets without room in the memory, of all its lives.
    full: u64,
}

/// The outcome of a turn.
#[derive(Debug)]
pub(crate) struct Turn {
    /// Packets put into the queue to the lcores.
    pub(crate) sent: u64,
    /// Its next timer.
    pub(crate) next: Option<Duration>,
}

impl Server {
    pub(crate) fn new(plan: ServerPlan, frames: &HeapPool, wanted: ServedJobs) -> Self {
        let queue = || Arc::new(ArrayQueue::new(plan.queue.max(1)));
        Self {
            state: state(plan),
            plan,
            end: ServerEnd { to: queue(), from: queue() },
            frames: frames.clone(),
            wanted,
            seen: Arc::default(),
            jobs: Vec::new(),
            away: false,
            ignorant: false,
            may_advance: Duration::ZERO,
            datagram: Vec::new(),
            full: 0,
        }
    }

    /// The lcores' side of the queues.
    pub(crate) fn end(&self) -> ServerEnd<HeapBuf> {
        self.end.clone()
    }

    /// Packets in both queues.
    pub(crate) fn queued(&self) -> usize {
        self.end.to.len() + self.end.from.len()
    }

    /// Packets that lcores have not taken yet.
    pub(crate) fn unread(&self) -> usize {
        self.end.from.len()
    }

    /// True if there are packets for it.
    pub(crate) fn is_wanted(&self) -> bool {
        !self.end.to.is_empty()
    }

    /// It loses its state, and is away until [`come_back`](Self::come_back).
    pub(crate) fn go_away(&mut self, queue_too: bool) {
        self.full += self.state.counters().rejected(RejectReason::Full);
        self.state = state(self.plan);
        self.jobs.clear();
        self.away = true;
        while queue_too && self.end.to.pop().is_some() {}
    }

    pub(crate) fn come_back(&mut self) {
        (self.away, self.ignorant, self.seen) = (false, true, Arc::default());
    }

    /// Its turn. Without buffers its packets are lost.
    pub(crate) fn turn(
        &mut self,
        now: Duration,
        starved: bool,
        sabotage: Sabotage,
    ) -> Result<Turn, Violation> {
        if self.away {
            return Ok(Turn { sent: 0, next: None });
        }
        if let Some(wanted) = self.wanted.newer(&self.seen) {
            self.set_jobs(&wanted, sabotage)?;
            (self.seen, self.ignorant) = (wanted, false);
        }
        for _ in 0..BATCH {
            let Some(mut packet) = self.end.to.pop() else { break };
            let extra = tamper::incoming(sabotage, packet.bytes_mut());
            self.state.handle_datagram(now, packet.bytes());
            if let Some(extra) = extra {
                self.state.handle_datagram(now, &extra);
            }
            if sabotage == Sabotage::LeakToServer {
                core::mem::forget(packet);
            }
        }
        if self.next().is_some_and(|at| at <= now) {
            self.state.handle_timeout(now);
            self.may_advance = now + PACE;
        }
        let mut sent = 0;
        while !self.end.from.is_full() && self.next_datagram() {
            tamper::outgoing(sabotage, &mut self.datagram, &self.jobs);
            let packet = (!starved).then(|| self.packet());
            sent += u64::from(packet.is_some_and(|packet| self.end.from.push(packet).is_ok()));
        }
        // It soon tries again to send packets that found no room.
        let more = self.end.from.is_full() || self.is_wanted();
        Ok(Turn { sent, next: if more { Some(now) } else { self.next() } })
    }

    fn set_jobs(&mut self, wanted: &[ServedJob], sabotage: Sabotage) -> Result<(), Violation> {
        let gone = |job: &u16| wanted.iter().all(|still| still.job != *job);
        for (job, _) in self.jobs.drain(..).filter(|(job, _)| gone(job)) {
            if sabotage != Sabotage::ServerForgetsNothing {
                self.state.remove_job(job);
            }
        }
        for served in wanted {
            let (job, params) = (served.job, params(self.plan, served));
            let epoch = if sabotage == Sabotage::ServerForgetsNothing { 0 } else { params.epoch };
            // It does not know generations that began while it was away, or before.
            if !self.ignorant && self.state.job(job).is_none_or(|before| before.epoch != epoch) {
                self.state.witness(job);
            }
            let set = self.state.set_job(job, JobParams { epoch, ..params });
            set.map_err(|error| Violation::NotServed { job, why: error.to_string() })?;
            self.jobs.push((job, params));
        }
        Ok(())
    }

    /// Serves a job of its appliance.
    pub(crate) fn serve_job(&mut self, job: &ServedJob) {
        // A job without room is not served.
        let _ = self.state.set_job(job.job, params(self.plan, job));
    }

    /// Forgets a job whose next generation it will see from the beginning.
    pub(crate) fn await_job(&mut self, job: u16) {
        self.state.remove_job(job);
        self.state.witness(job);
    }

    pub(crate) fn forget_job(&mut self, job: u16) {
        self.state.remove_job(job);
    }

    /// True if a packet is of no job, or of no generation, that it serves.
    pub(crate) fn is_unknown(&self, header: &Header) -> bool {
        self.state.job(header.job).is_none_or(|job| job.epoch != header.epoch)
    }

    pub(crate) fn next(&self) -> Option<Duration> {
        Some(self.state.poll_timeout()?.max(self.may_advance))
    }

    fn next_datagram(&mut self) -> bool {
        let Some(action) = self.state.poll_action() else { return false };
        self.datagram.clear();
        self.datagram.resize(action.len(), 0);
        action.write(&mut self.datagram).is_ok()
    }

    /// The datagram as a packet, with room for headers before it.
    fn packet(&self) -> HeapBuf {
        let bytes = [&[0; HEADROOM], &*self.datagram].concat();
        let mut packet = self.frames.alloc(&bytes, bytes.len() + ROOM);
        // It was put in front just now.
        let _ = packet.advance(HEADROOM);
        packet
    }

    /// Packets that found no room in its memory, in all its lives.
    pub(crate) fn full(&self) -> u64 {
        self.full + self.state.counters().rejected(RejectReason::Full)
    }
}

fn state(plan: ServerPlan) -> pascaline_ps::Server {
    let default = Config::default();
    pascaline_ps::Server::new(Config {
        cached: plan.kept,
        burst: plan.burst,
        ceiling: plan.ceiling,
        ahead: 2 * u32::from(WIDEST),
        ..default
    })
}

fn params(plan: ServerPlan, job: &ServedJob) -> JobParams {
    let &ServedJob { fan_in, epoch, needed, order, payload, .. } = job;
    let params = JobParams {
        completion: if needed == fan_in { Completion::All } else { Completion::AtLeast(needed) },
        order: match order {
            Order::Arrival => pascaline_ps::Order::Arrival,
            Order::Rank => pascaline_ps::Order::Rank,
        },
        payload_max: payload,
        ..JobParams::new(fan_in, epoch)
    };
    JobParams { capacity: share(plan, &params), ..params }
}

/// The memory of a job: this many entries, plus the results.
fn share(plan: ServerPlan, params: &JobParams) -> Capacity {
    const WIDEST: Element = Element { dtype: DType::F16, op: Op::Sum };
    let entry = params.entry_bytes(WIDEST, usize::from(params.payload_max));
    Capacity { entries: plan.entries, bytes: (plan.entries + plan.kept) as usize * entry }
}
