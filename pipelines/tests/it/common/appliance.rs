//! Lcores and the control plane around them, as an appliance puts them together.

use std::sync::Arc;
use std::time::Duration;

use crossbeam_queue::ArrayQueue;
use pascaline_aggregator::{Policy, Pool, PoolConfig};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf};
use pascaline_pipelines::bridge::Station;
use pascaline_pipelines::membership::{JobKind, JobSpec, ServerMode};
use pascaline_pipelines::{
    Bridge, ControlPlane, Io, Lcore, LcoreParts, Marks, Membership, Passing, PortQueue, PortSetup, Ports,
    QueueCounts, ServerEnd, Setup, Turn, UpdateEnd,
};
use pascaline_telemetry::{Counter, DropReason, LcoreCounters, Reading, RecorderReader, Surveyor, recorder};
use pascaline_wire::UdpPorts;
use pascaline_wire::control::{Action, Status};
use pascaline_wire::frame::{Address, Mac};
use pascaline_wire::header::{Header, Kind};

use pascaline_testkit::{
    Clock, Heard, JOB, MemoryIo, OWN_V4, OWN_V6, UDP_PORT, Worker, contents, port_mac, received,
};

/// What an appliance is to look like.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The peer of each port.
    pub(crate) peers: Vec<Option<usize>>,
    /// MACs that the bridge between all ports remembers; none: no bridge, but peers.
    pub(crate) bridge: Option<usize>,
    /// When the stations were last heard that take all its places, if they are taken.
    pub(crate) crowded: Option<u64>,
    pub(crate) jobs: Vec<JobSpec>,
    pub(crate) pool: PoolConfig,
    pub(crate) first_epoch: u16,
    pub(crate) addresses: Vec<Address>,
    pub(crate) udp_ports: UdpPorts,
    /// What its packets have to carry.
    pub(crate) dscp: Option<u8>,
    /// In front of each port.
    pub(crate) queue: PortQueue,
    /// When what passes through leaves.
    pub(crate) passing: Passing,
    /// From when on it marks results itself.
    pub(crate) marks: Marks,
}

/// The kind of a job that uses the pool so, with this server.
pub(crate) fn kind(policy: Policy, server: ServerMode) -> JobKind {
    let Policy { conflict, order, region, quota, .. } = policy;
    match region {
        Some(place) => JobKind::Region { place, order },
        None => JobKind::Shared { conflict, order, quota, server },
    }
}

pub(crate) fn job(id: u16, fan_in: u16) -> JobSpec {
    JobSpec::new(id, fan_in)
}

impl Plan {
    /// One port without a peer, one job of four ranks.
    pub(crate) fn one_armed() -> Self {
        Self {
            peers: vec![None],
            bridge: None,
            crowded: None,
            jobs: vec![job(JOB, 4)],
            pool: PoolConfig { slots: 64, ways: 4, ..PoolConfig::default() },
            first_epoch: 5,
            addresses: vec![OWN_V4, OWN_V6],
            udp_ports: UdpPorts::single(UDP_PORT),
            dscp: None,
            queue: PortQueue::default(),
            passing: Passing::First,
            marks: Marks::default(),
        }
    }

    /// A bridge between three ports.
    pub(crate) fn bridge() -> Self {
        Self { peers: vec![None; 3], bridge: Some(64), ..Self::one_armed() }
    }

    /// Two ports, each the other's peer.
    pub(crate) fn inline() -> Self {
        Self { peers: vec![Some(1), Some(0)], ..Self::one_armed() }
    }

    pub(crate) fn setup(&self) -> Setup {
        let port = |(port, &peer): (usize, &Option<usize>)| PortSetup {
            mac: port_mac(u8::try_from(port).unwrap()),
            beyond: match self.bridge {
                Some(_) => Ports::of(0..self.peers.len()).without(port),
                None => Ports::of(peer),
            },
            mtu: 1500,
        };
        let ports = self.peers.iter().enumerate().map(port).collect();
        let mut setup = Setup::new(self.addresses.clone(), self.udp_ports, ports).known_by(self.dscp);
        (setup.passing, setup.marks) = (self.passing, self.marks);
        if let Some(addresses) = self.bridge {
            let bridge = Bridge::new(addresses, Duration::from_secs(300));
            // Each MAC in all VLANs: one station in each set of the smallest table.
            for (heard, last) in
                self.crowded.into_iter().flat_map(|heard| (0..8).map(move |last| (heard, last)))
            {
                for vlan in 0..4096 {
                    let station = Station { mac: Mac([2, 9, 9, 9, 9, last]), vlan };
                    bridge.hear(station, 0, Ports::of(0..self.peers.len()), heard);
                }
            }
            setup.bridge = Arc::new(bridge);
        }
        setup
    }
}

pub(crate) struct Appliance<I: Io = MemoryIo> {
    pub(crate) lcores: Vec<Lcore<I>>,
    pub(crate) counters: Vec<Arc<LcoreCounters>>,
    pub(crate) readers: Vec<RecorderReader>,
    /// Of the queue of updates in front of each port.
    pub(crate) queues: Vec<Arc<QueueCounts>>,
    pub(crate) plane: ControlPlane,
    /// The control plane's time.
    pub(crate) now: Duration,
    /// What passes of it in each of its turns.
    pub(crate) step: Duration,
    /// Requests that the control plane has taken, and answers that it has given.
    pub(crate) requests: u64,
    pub(crate) replies: u64,
}

impl<I: Io> Appliance<I> {
    /// An appliance with one lcore for each of these.
    pub(crate) fn new(plan: &Plan, ios: Vec<I>) -> Self {
        Self::with_server(plan, ios, None)
    }

    /// The same with queues to and from a parameter server in the appliance.
    pub(crate) fn with_server(plan: &Plan, ios: Vec<I>, server: Option<ServerEnd<I::Buf>>) -> Self {
        let setup = Arc::new(plan.setup());
        let membership = Membership::new(
            plan.jobs.clone(),
            pascaline_pipelines::membership::Secret::NONE,
            plan.first_epoch,
        )
        .counted_by(ios.len());
        let (plane, ends) = ControlPlane::new(membership, Arc::clone(&setup), ios.len());
        let sessions = Pool::sessions(&plan.pool, Kernels::detect(), ios.len()).unwrap();
        let queues = vec![plan.queue; plan.peers.len()];
        let (updates, queues) = UpdateEnd::connect(&queues, ios.len(), &Kernels::detect()).unwrap();
        let mut updates = updates.into_iter();
        let mut counters = Vec::new();
        let mut readers = Vec::new();
        let mut lcores = Vec::new();
        for (number, ((io, end), session)) in ios.into_iter().zip(ends).zip(sessions).enumerate() {
            let (spread, spread_reader) = recorder().unwrap();
            let (service, service_reader) = recorder().unwrap();
            readers.extend([spread_reader, service_reader]);
            counters.push(Arc::new(LcoreCounters::default()));
            let counters = Arc::clone(&counters[number]);
            let setup = Arc::clone(&setup);
            lcores.push(Lcore::new(LcoreParts {
                number,
                io,
                session,
                setup,
                end,
                server: server.clone(),
                updates: updates.next(),
                counters,
                spread,
                service,
                surveyor: Surveyor::default(),
            }));
        }
        let now = Duration::ZERO;
        Self {
            lcores,
            counters,
            readers,
            queues,
            plane,
            now,
            step: Duration::from_millis(10),
            requests: 0,
            replies: 0,
        }
    }

    /// The control plane's turns, and turns of lcores where it waits for them, until there is nothing left to
    /// do.
    pub(crate) fn control(&mut self) {
        while self.plane.is_due() {
            let turn = self.control_turn();
            // An lcore sends a few answers in each of its turns.
            for _ in 0..usize::from(!turn.settled) + turn.answers {
                self.lcores.iter_mut().for_each(|lcore| _ = lcore.turn());
            }
        }
    }

    /// One turn of the control plane.
    pub(crate) fn control_turn(&mut self) -> Turn {
        // Slowly enough for nobody to ask too often.
        self.now += self.step;
        let turn = self.plane.turn(self.now);
        self.requests += turn.decided.len() as u64;
        self.replies += turn.answers as u64;
        turn
    }

    /// Twice, a turn of every lcore and whatever the control plane has to do; the second for its answers. No
    /// request is left with it: what the lcores have counted as answered, it has decided.
    pub(crate) fn turn(&mut self) {
        for _ in 0..2 {
            self.lcores.iter_mut().for_each(|lcore| _ = lcore.turn());
            self.control();
        }
    }

    /// The counters of all lcores.
    pub(crate) fn reading(&self) -> Reading {
        let mut sum = Reading::default();
        self.counters.iter().for_each(|counters| sum.merge(&counters.read()));
        sum
    }

    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.reading().get(counter)
    }

    pub(crate) fn dropped(&self, reason: DropReason) -> u64 {
        self.reading().dropped(reason)
    }
}

/// An appliance with one lcore over ports in memory.
pub(crate) struct Bench {
    pub(crate) appliance: Appliance,
    /// The queues of a parameter server in the appliance.
    pub(crate) server: ServerEnd<HeapBuf>,
    pub(crate) pool: HeapPool,
    pub(crate) clock: Clock,
}

impl Bench {
    pub(crate) fn new(plan: &Plan) -> Self {
        Self::with_queues(plan, 256)
    }

    /// The same where so many packets may wait for the parameter server.
    pub(crate) fn with_queues(plan: &Plan, len: usize) -> Self {
        let (pool, clock) = (HeapPool::new(), Clock::default());
        clock.advance(1_000_000_000);
        let io = MemoryIo::new(plan.peers.len(), &pool, &clock);
        let queue = || Arc::new(ArrayQueue::new(len));
        let server = ServerEnd { to: queue(), from: queue() };
        let appliance = Appliance::with_server(plan, vec![io], Some(server.clone()));
        Self { appliance, server, pool, clock }
    }

    pub(crate) fn io(&mut self) -> &mut MemoryIo {
        self.appliance.lcores[0].io()
    }

    /// Puts frames in front of a port and lets the appliance work until they are done.
    pub(crate) fn feed<'a>(&mut self, port: usize, frames: impl IntoIterator<Item = &'a Vec<u8>>) {
        for frame in frames {
            self.io().arrive(port, frame);
        }
        self.settle();
    }

    pub(crate) fn feed_packet(&mut self, port: usize, packet: HeapBuf) {
        self.io().arrive_packet(port, packet);
        self.settle();
    }

    pub(crate) fn settle(&mut self) {
        self.appliance.turn();
        while self.io().ports.iter().any(|port| !port.rx.is_empty()) || !self.server.from.is_empty() {
            self.appliance.turn();
        }
        assert_eq!(self.appliance.reading().unaccounted(), 0);
    }

    /// Has the parameter server in the appliance send a packet.
    pub(crate) fn serve(&mut self, header: &Header, body: &[u8]) {
        self.serve_bytes(&[&header.to_bytes(), body].concat());
    }

    pub(crate) fn serve_bytes(&mut self, bytes: &[u8]) {
        self.server.from.push(received(&self.pool, bytes)).expect("room in the queue");
        self.settle();
    }

    /// What the parameter server in the appliance has got since the last call.
    pub(crate) fn served(&mut self) -> Vec<ToServer> {
        let packets = core::iter::from_fn(|| self.server.to.pop());
        packets.map(|packet| ToServer::parse(packet.bytes())).collect()
    }

    /// What a port has sent since the last call, taken apart.
    pub(crate) fn heard(&mut self, port: usize) -> Vec<Heard> {
        self.io().sent(port).iter().map(|frame| Heard::parse(frame)).collect()
    }

    /// What went to one worker since the last call, in the order sent; what went to others is lost.
    pub(crate) fn heard_by(&mut self, worker: &Worker) -> Vec<Heard> {
        let mut heard = self.heard(worker.port);
        heard.retain(|heard| heard.to == (worker.address, worker.udp_port));
        heard
    }

    /// Lets all workers join, and gives each the generation they are in.
    pub(crate) fn join(&mut self, workers: &mut [Worker]) {
        for _ in 0..2 {
            for worker in workers.iter_mut() {
                let (port, frame) = (worker.port, worker.control(Action::Join));
                self.feed(port, [&frame]);
                let heard = self.heard_by(worker);
                let [ack] = &heard[..] else { panic!("one answer: {heard:?}") };
                ack.assert_addressed_to(worker);
                worker.epoch = ack.header.epoch;
                let control = ack.control();
                assert_eq!((control.answers, control.session), (Some(Action::Join), worker.session));
                assert!(matches!(control.status, Status::Ok | Status::Pending), "{control:?}");
            }
        }
        assert!(workers.iter().all(|worker| worker.epoch == workers[0].epoch));
    }

    /// Lets everything go, and asserts that no packet is left.
    pub(crate) fn end(self) {
        drop(self.appliance);
        drop(self.server);
        assert_eq!(self.pool.live(), 0, "packets leaked");
    }
}

/// A packet for the parameter server in the appliance, taken apart.
#[derive(Debug, Clone)]
pub(crate) struct ToServer {
    pub(crate) header: Header,
    pub(crate) values: Vec<i32>,
    /// The ranks that a trailer names.
    pub(crate) inside: Option<Vec<u16>>,
}

impl ToServer {
    fn parse(bytes: &[u8]) -> Self {
        let (header, body) = Header::parse(bytes).expect("it begins with the aggregation header");
        let (values, inside) = contents(&header, body);
        Self { header, values, inside }
    }
}

/// Four ranks that have joined a one-armed appliance, all behind port 0.
pub(crate) fn four(plan: &Plan) -> (Bench, Vec<Worker>) {
    let mut bench = Bench::new(plan);
    let mut workers: Vec<Worker> = (0..4).map(|rank| Worker::new(rank, 4)).collect();
    bench.join(&mut workers);
    (bench, workers)
}

/// Asserts that each worker has heard exactly one result of this PSN with these values, and nothing else.
pub(crate) fn assert_results(bench: &mut Bench, workers: &[Worker], psn: u32, expected: &[i32]) {
    let ports = bench.io().ports.len();
    let heard: Vec<Heard> = (0..ports).flat_map(|port| bench.heard(port)).collect();
    assert_eq!(heard.len(), workers.len(), "{heard:?}");
    for worker in workers {
        let mine: Vec<&Heard> =
            heard.iter().filter(|heard| heard.to == (worker.address, worker.udp_port)).collect();
        let [result] = mine[..] else { panic!("one result for {worker:?}: {mine:?}") };
        result.assert_addressed_to(worker);
        let header = result.header;
        assert_eq!((header.kind, header.psn, header.epoch), (Kind::Result, psn, worker.epoch));
        assert_eq!(
            (header.fan_in, header.count, header.element),
            (worker.fan_in, worker.fan_in, worker.element)
        );
        assert_eq!(pascaline_testkit::values(&result.body), expected);
    }
}

/// A pool that any conflict shows in: one set of one slot.
pub(crate) fn single_slot() -> PoolConfig {
    PoolConfig { slots: 1, ways: 1, age_limit: Duration::from_millis(500), ..PoolConfig::default() }
}
