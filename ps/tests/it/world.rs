//! Workers, the model appliance and the server under a virtual clock and a network that loses chosen packets.

use core::cmp::Reverse;
use core::time::Duration;
use std::collections::{BTreeMap, BinaryHeap};

use pascaline_ps::{Destination, JobParams, Order, Server};
use pascaline_wire::{Flags, Header, Kind};

use crate::appliance::{Appliance, To};
use crate::packets::{EPOCH, Packet, check_identities, contribution, give, ms, server_with, sum_of, take};

/// DSA, section IV.B: after three retransmissions, a reminder.
const REMIND_AFTER: u32 = 3;
const WORKER_TIMEOUT: Duration = ms(50);
const HOP: Duration = Duration::from_micros(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Hop {
    WorkerToAppliance,
    ApplianceToServer,
    ServerToAppliance,
    ApplianceToWorker(u16),
}

/// What the network does with a packet: how often it arrives, and how much later than usual.
pub(crate) type Network = Box<dyn FnMut(Hop, &Header) -> (u32, Duration)>;

#[derive(Debug, Default)]
pub(crate) struct Worker {
    /// By PSN: when to send again, and how often that has been done.
    sent: BTreeMap<u32, (Duration, u32)>,
    pub(crate) results: BTreeMap<u32, Vec<u8>>,
}

/// When, in which order if at the same time, over which hop, and the datagram.
type Arrival = (Duration, u64, Hop, Vec<u8>);

pub(crate) struct World {
    pub(crate) now: Duration,
    fan_in: u16,
    pub(crate) server: Server,
    pub(crate) appliance: Appliance,
    pub(crate) workers: Vec<Worker>,
    pub(crate) network: Network,
    queue: BinaryHeap<Reverse<Arrival>>,
    sequence: u64,
    /// All packets that were sent, whether or not they arrived.
    pub(crate) log: Vec<(Hop, Header)>,
}

impl World {
    pub(crate) fn new(fan_in: u16, order: Order) -> Self {
        Self {
            now: Duration::ZERO,
            fan_in,
            server: server_with(JobParams { order, ..JobParams::new(fan_in, EPOCH) }),
            appliance: Appliance::new(fan_in, order),
            workers: (0..fan_in).map(|_| Worker::default()).collect(),
            network: Box::new(|_, _| (1, Duration::ZERO)),
            queue: BinaryHeap::new(),
            sequence: 0,
            log: Vec::new(),
        }
    }

    /// Loses the packets for which this is true.
    pub(crate) fn losing(mut self, mut lost: impl FnMut(Hop, &Header) -> bool + 'static) -> Self {
        self.network = Box::new(move |hop, header| (u32::from(!lost(hop, header)), Duration::ZERO));
        self
    }

    pub(crate) fn with_script(
        mut self,
        script: impl FnMut(&Header) -> crate::appliance::SlotOutcome + 'static,
    ) -> Self {
        self.appliance.script = Box::new(script);
        self
    }

    /// A rank sends its contribution for the first time.
    pub(crate) fn contribute(&mut self, rank: u16, psn: u32) {
        self.workers[usize::from(rank)].sent.insert(psn, (self.now + WORKER_TIMEOUT, 0));
        let packet = Packet::gradient(rank, psn, self.fan_in, &contribution(rank, psn));
        self.send(Hop::WorkerToAppliance, &packet);
        // Packets of different ranks in the order of the calls.
        self.now += Duration::from_nanos(100);
    }

    pub(crate) fn contribute_all(&mut self, psn: u32) {
        (0..self.fan_in).for_each(|rank| self.contribute(rank, psn));
    }

    fn send(&mut self, hop: Hop, packet: &Packet) {
        self.log.push((hop, packet.header));
        let (copies, delay) = (self.network)(hop, &packet.header);
        for copy in 0..copies {
            let at = self.now + HOP + delay + HOP * copy;
            self.queue.push(Reverse((at, self.sequence, hop, packet.to_bytes())));
            self.sequence += 1;
        }
    }

    fn send_all(&mut self, packets: Vec<(To, Packet)>) {
        for (to, packet) in packets {
            match to {
                To::Server => self.send(Hop::ApplianceToServer, &packet),
                To::Worker(rank) => self.send(Hop::ApplianceToWorker(rank), &packet),
            }
        }
    }

    /// Another task takes the slot of this PSN.
    pub(crate) fn preempt(&mut self, psn: u32) {
        let out = self.appliance.evict(psn);
        self.send_all(out);
    }

    /// Runs until every rank has the result of all it has contributed to, and no packet is in flight.
    pub(crate) fn run(&mut self) {
        let limit = self.now + Duration::from_secs(25);
        while !self.is_done() {
            assert!(self.step() && self.now < limit, "stuck at {:?}: {:?}", self.now, self.server.counters());
        }
        while !self.queue.is_empty() {
            assert!(self.step());
        }
    }

    pub(crate) fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        while self.next_time().is_some_and(|at| at <= until) {
            self.step();
        }
        self.now = until;
    }

    fn is_done(&self) -> bool {
        self.workers.iter().all(|worker| worker.sent.is_empty())
    }

    fn next_time(&self) -> Option<Duration> {
        let arrival = self.queue.peek().map(|Reverse((at, ..))| *at);
        let retries = self.workers.iter().flat_map(|worker| worker.sent.values().map(|(at, _)| *at));
        retries.chain(arrival).chain(self.server.poll_timeout()).min()
    }

    fn step(&mut self) -> bool {
        let Some(at) = self.next_time() else { return false };
        self.now = self.now.max(at);
        if self.server.poll_timeout().is_some_and(|at| at <= self.now) {
            self.server.handle_timeout(self.now);
            self.drain_server();
        } else if self.queue.peek().is_some_and(|Reverse((at, ..))| *at <= self.now) {
            let Reverse((_, _, hop, bytes)) = self.queue.pop().unwrap();
            self.arrive(hop, Packet::parse(&bytes));
        } else {
            self.retransmit();
        }
        true
    }

    fn arrive(&mut self, hop: Hop, packet: Packet) {
        match hop {
            Hop::WorkerToAppliance => {
                let out = self.appliance.on_worker(packet);
                self.send_all(out);
            }
            Hop::ServerToAppliance => {
                let out = self.appliance.on_server(packet);
                self.send_all(out);
            }
            Hop::ApplianceToServer => {
                give(&mut self.server, self.now, &packet);
                self.drain_server();
            }
            Hop::ApplianceToWorker(rank) => self.at_worker(rank, packet),
        }
    }

    fn drain_server(&mut self) {
        for (to, packet) in take(&mut self.server) {
            if packet.header.kind == Kind::Result {
                assert_eq!(packet.payload, sum_of(&packet.ranks(), packet.header.psn), "each rank once");
                assert_eq!(packet.header.count, self.fan_in, "complete");
            }
            assert_eq!(matches!(to, Destination::Rank(_)), packet.header.flags.has(Flags::BYPASS));
            self.send(Hop::ServerToAppliance, &packet);
        }
        check_identities(&self.server);
    }

    fn at_worker(&mut self, rank: u16, packet: Packet) {
        let psn = packet.header.psn;
        let worker = &mut self.workers[usize::from(rank)];
        match packet.header.kind {
            Kind::Result => {
                assert_eq!(packet.payload, sum_of(&(0..self.fan_in).collect::<Vec<_>>(), psn));
                worker.sent.remove(&psn);
                worker.results.insert(psn, packet.payload);
            }
            Kind::Reminder => {
                if let Some(result) = worker.results.get(&psn) {
                    let mut kept = Packet::result(psn, self.fan_in, result);
                    kept.header.rank = rank;
                    self.send(Hop::WorkerToAppliance, &kept);
                } else if worker.sent.contains_key(&psn) {
                    let original = Packet::gradient(rank, psn, self.fan_in, &contribution(rank, psn));
                    self.send(Hop::WorkerToAppliance, &original.flag(Flags::BYPASS));
                }
            }
            kind => panic!("workers do not receive {kind:?}"),
        }
    }

    fn retransmit(&mut self) {
        for rank in 0..self.fan_in {
            let worker = &mut self.workers[usize::from(rank)];
            let due: Vec<(u32, u32)> = worker
                .sent
                .iter_mut()
                .filter(|(_, (at, _))| *at <= self.now)
                .map(|(&psn, (at, times))| {
                    *at = self.now + WORKER_TIMEOUT;
                    *times += 1;
                    (psn, *times)
                })
                .collect();
            for (psn, times) in due {
                let gradient = Packet::gradient(rank, psn, self.fan_in, &contribution(rank, psn));
                self.send(Hop::WorkerToAppliance, &gradient.flag(Flags::RETRANSMISSION));
                if times > REMIND_AFTER {
                    self.send(Hop::WorkerToAppliance, &Packet::reminder(rank, psn, self.fan_in));
                }
            }
        }
    }

    /// Packets of a kind that were sent over a hop.
    pub(crate) fn sent(&self, hop: impl Fn(Hop) -> bool, kind: Kind) -> usize {
        self.log.iter().filter(|(over, header)| hop(*over) && header.kind == kind).count()
    }
}

/// True for the first packets for which `which` is true, as many as `times`.
pub(crate) fn first(times: usize, which: impl Fn(Hop, &Header) -> bool) -> impl FnMut(Hop, &Header) -> bool {
    let mut seen = 0;
    move |hop, header| {
        let hit = which(hop, header);
        seen += usize::from(hit);
        hit && seen <= times
    }
}
