//! Connections: of others, or of a job to its worker's next or to its server.

use core::time::Duration;

use pascaline_sim::fabric::Dctcp;
use pascaline_sim::random::mix;
use pascaline_wire::CongestionControl;
use pascaline_worker::congestion::{Congestion, Sample, Signal};

use super::{PACKET, Packet, WIRE, What, World};
use crate::experiments::cluster::{Scheme, Transport};

/// A connection, its packets on one way.
pub(super) struct Flow {
    from: usize,
    to: usize,
    spine: usize,
    pub(super) packets: u32,
    pub(super) sent: u32,
    pub(super) acked: u32,
    pub(super) arrived: u32,
    /// The packets that may be sent: all, or those that a job's step allows.
    pub(super) allowed: u32,
    control: Control,
    began: u64,
    pub(super) ended: Option<u64>,
    /// The job it belongs to, and its place there.
    job: Option<(usize, usize)>,
}

enum Control {
    Dctcp(Dctcp),
    Panama(Box<Congestion>),
}

impl Control {
    fn new(transport: Transport) -> Self {
        match transport {
            Transport::Dctcp(cuts) => Self::Dctcp(Dctcp::new(cuts)),
            Transport::Panama => {
                let most = u32::MAX;
                Self::Panama(Box::new(Congestion::new(CongestionControl::Panama, most, PACKET as u32)))
            }
        }
    }

    fn window(&self) -> u32 {
        match self {
            Self::Dctcp(dctcp) => dctcp.window(),
            Self::Panama(congestion) => congestion.window(),
        }
    }
}

impl Flow {
    /// Packets wanted and arrived, and for how long, if the run ends then.
    pub(super) fn outcome(&self, ends: u64) -> (u32, u32, u64) {
        (self.packets, self.arrived, self.ended.unwrap_or(ends) - self.began)
    }
}

impl World<'_> {
    pub(super) fn add_flow(&mut self, from: usize, to: usize, job: Option<(usize, usize)>) {
        let spine = mix(self.flows.len() as u64 ^ 0xf10) as usize % self.setting.clos.spines;
        self.flows.push(Flow {
            from,
            to,
            spine,
            packets: 0,
            sent: 0,
            acked: 0,
            arrived: 0,
            allowed: 0,
            control: Control::new(self.setting.transport),
            began: self.fabric.now(),
            ended: None,
            job,
        });
    }

    /// A flow that is no job's begins.
    pub(super) fn begin(&mut self, number: usize) {
        let plain = self.setting.flows[number];
        let at = self.flows.len();
        self.add_flow(plain.from, plain.to, None);
        (self.flows[at].packets, self.flows[at].allowed) = (plain.packets, plain.packets);
        self.push(at);
        if let Some(next) = self.setting.flows.get(number + 1) {
            self.later(next.begins.saturating_sub(self.fabric.now()), What::Begin(number as u32 + 1));
        }
    }

    /// Sends the packets that a flow's window allows.
    pub(super) fn push(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        let window = flow.control.window();
        while flow.sent - flow.acked < window && flow.sent < flow.packets.min(flow.allowed) {
            flow.sent += 1;
            let packet = Packet { what: What::Data(at as u32, 1), marked: false };
            self.fabric.send(self.setting.clos.up(flow.from), WIRE, packet);
        }
    }

    /// An acknowledgement has come.
    pub(super) fn ack(&mut self, at: usize, marked: bool) {
        let now = Duration::from_nanos(self.fabric.now());
        let flow = &mut self.flows[at];
        flow.acked += 1;
        match &mut flow.control {
            Control::Dctcp(dctcp) => dctcp.on_ack(marked, flow.sent - flow.acked),
            Control::Panama(congestion) => {
                let signal = Signal { marked, ..Signal::default() };
                let limited = flow.sent < flow.packets.min(flow.allowed);
                congestion.on_result(&Sample { now, sent_at: now, ambiguous: false, signal, limited });
            }
        }
        self.push(at);
    }

    /// A packet has come to the end of a link.
    pub(super) fn data(&mut self, number: u32, hop: u8, marked: bool) {
        let at = number as usize;
        let flow = &mut self.flows[at];
        if let Some(link) = self.setting.clos.hop(flow.from, flow.to, flow.spine, hop) {
            return self.fabric.send(link, WIRE, Packet { what: What::Data(number, hop + 1), marked });
        }
        flow.arrived += 1;
        let done = flow.arrived == flow.packets;
        if done {
            flow.ended = Some(self.fabric.now());
        }
        let (job, arrived) = (flow.job, flow.arrived);
        // Acknowledgements are small, and wait in no queue.
        let late = self.setting.host + self.random.below(self.setting.jitter);
        let back = u64::from(hop) * self.setting.delay + late;
        self.fabric.after(back, Packet { what: What::Ack(number), marked });
        match job {
            Some((job, place)) => self.step(job, place, arrived, done),
            None => self.sample(0, at == self.first_plain),
        }
    }

    /// A packet of a job's flow has arrived: the worker, or the server, may pass on its data.
    fn step(&mut self, number: usize, place: usize, arrived: u32, done: bool) {
        self.sample(1, number == 0 && place == 0);
        let job = &self.jobs[number];
        if self.setting.scheme == Scheme::Ring {
            let workers = job.flows.len() / self.setting.rings;
            let next = job.flows[place - place % workers + (place + 1) % workers];
            let chunk = self.flows[next].packets / (2 * (workers as u32 - 1)).max(1);
            self.flows[next].allowed = self.flows[next].allowed.max(chunk + arrived);
            self.push(next);
        } else if place < job.flows.len() / 2 {
            // The server adds up whole tensors, and sends when it has them all.
            let half = job.flows.len() / 2;
            if job.flows[..half].iter().all(|&flow| self.flows[flow].ended.is_some()) {
                for place in half..2 * half {
                    let flow = self.jobs[number].flows[place];
                    self.flows[flow].allowed = u32::MAX;
                    self.push(flow);
                }
            }
        }
        if done {
            self.part_done(number);
        }
    }
}
