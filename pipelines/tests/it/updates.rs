//! Updates on their way to a cluster's server, and its answers on their way back.

mod acks;
mod bad_input;
mod bypass;
mod generations;
mod lcores;
mod on_the_way;
mod rate;
mod traces;

use pascaline_pipelines::PortQueue;
use pascaline_pipelines::membership::{JobKind, JobSpec, ServerMode};
use pascaline_pipelines::updates::{Fate, QueueReading};
use pascaline_queue::Config;
use pascaline_testkit::{Heard, JOB, UDP_PORT, Worker, bytes, port_mac, values};
use pascaline_wire::control::{Action, Status};
use pascaline_wire::frame::{Address, Mac};
use pascaline_wire::header::{Flags, Header, Kind};
use pascaline_wire::trailer::{Trailer, Update};

use crate::common::{
    self,
    appliance::{Bench, Plan, job},
};

/// The other clusters have the next numbers.
const CLUSTERS: u16 = 3;
const RANKS: u16 = 3;
/// The port that the server is behind; the workers are behind port 0.
const SERVER_PORT: usize = 1;

/// The host that the server runs on.
fn host() -> Worker {
    common::server_host(SERVER_PORT)
}

/// A worker of a cluster, each with an address of its own.
fn worker(cluster: u16, rank: u16) -> Worker {
    let low = u8::try_from(10 * cluster + rank + 1).unwrap();
    Worker {
        job: JOB + cluster,
        mac: Mac([2, 0, 0, 0, 1, low]),
        address: Address::from_v4([10, 77, 1, low]),
        ..Worker::new(rank, RANKS)
    }
}

/// Three clusters of three workers, and a queue like this in front of each of two ports.
fn plan(queue: PortQueue) -> Plan {
    let kind = JobKind::Updates { server: server() };
    let cluster = |number| JobSpec { kind, ..job(JOB + number, RANKS) };
    Plan { peers: vec![None, None], jobs: (0..CLUSTERS).map(cluster).collect(), queue, ..Plan::one_armed() }
}

fn server() -> ServerMode {
    ServerMode::External { address: host().address, udp_port: host().udp_port }
}

/// A queue of so many updates, drained as fast as the port takes them.
fn queue(segments: u16) -> PortQueue {
    PortQueue { queue: Config { segments, ..Config::default() }, rate: None }
}

/// An appliance with clusters whose workers have joined, and whose server has registered.
struct Rig {
    bench: Bench,
    /// By cluster and rank.
    workers: Vec<Vec<Worker>>,
    /// By cluster: as it speaks of that one.
    servers: Vec<Worker>,
}

impl Rig {
    fn new(queue: PortQueue) -> Self {
        let mut rig = Self::unregistered(&plan(queue));
        rig.register();
        rig
    }

    fn unregistered(plan: &Plan) -> Self {
        let mut bench = Bench::new(plan);
        let of = |cluster| (0..RANKS).map(|rank| worker(cluster, rank)).collect();
        let mut workers: Vec<Vec<Worker>> = (0..CLUSTERS).map(of).collect();
        workers.iter_mut().for_each(|cluster| bench.join(cluster));
        let server = |cluster: &Vec<Worker>| Worker { job: cluster[0].job, ..host() };
        let servers = workers.iter().map(server).collect();
        Self { bench, workers, servers }
    }

    fn register(&mut self) {
        for server in &mut self.servers {
            self.bench.feed(SERVER_PORT, [&Worker { fan_in: 0, epoch: 0, ..*server }.control(Action::Serve)]);
            let heard = self.bench.heard(SERVER_PORT);
            let [ack] = &heard[..] else { panic!("{heard:?}") };
            assert_eq!((ack.control().status, ack.control().answers), (Status::Ok, Some(Action::Serve)));
            (server.fan_in, server.epoch) = (RANKS, ack.header.epoch);
        }
    }

    fn worker(&self, cluster: usize, rank: usize) -> Worker {
        self.workers[cluster][rank]
    }

    /// Keeps the port from taking anything, with one update of a cluster that nobody else uses waiting for
    /// it: what comes after it waits in the queue.
    fn plug(&mut self) {
        self.bench.io().ports[SERVER_PORT].room = 0;
        let last = self.worker(2, 2);
        let frame = self.update(&last, 0, &[0]);
        self.send([frame]);
        assert_eq!(self.reading().waiting, 0, "it waits for the port");
    }

    /// Lets it take again, and gives what the server hears, the first one left out.
    fn unplug(&mut self) -> Vec<FromQueue> {
        self.bench.io().ports[SERVER_PORT].room = usize::MAX;
        let mut served = self.served();
        assert_eq!(served.remove(0).header.job, JOB + 2);
        served
    }

    /// An update generated now.
    fn update(&self, worker: &Worker, psn: u32, values: &[i32]) -> Vec<u8> {
        update(worker, psn, values, 0.0, self.bench.clock.now())
    }

    fn send(&mut self, frames: impl IntoIterator<Item = Vec<u8>>) {
        let frames: Vec<_> = frames.into_iter().collect();
        self.bench.feed(0, &frames);
    }

    /// What the server hears until nothing comes any more.
    fn served(&mut self) -> Vec<FromQueue> {
        let mut all = Vec::new();
        loop {
            self.bench.settle();
            let heard = self.bench.heard(SERVER_PORT);
            if heard.is_empty() {
                return all;
            }
            all.extend(heard.iter().map(FromQueue::parse));
        }
    }

    /// Of the queue in front of the server's port.
    fn reading(&self) -> QueueReading {
        self.bench.appliance.queues[SERVER_PORT].read()
    }

    fn fate(&self, fate: Fate) -> u64 {
        self.reading().get(fate)
    }

    fn end(self) {
        self.bench.end();
    }
}

/// An update frame.
fn update(worker: &Worker, psn: u32, values: &[i32], reward: f32, generated_ns: u64) -> Vec<u8> {
    let trailer = Trailer { update: Some(Update { reward, generated_ns }), ..Trailer::default() };
    let header = Header { flags: Flags::TRAILER, ..worker.header(Kind::Update, psn, 1) };
    worker.frame(&header, &[bytes(values), emitted(&trailer)].concat())
}

fn emitted(trailer: &Trailer) -> Vec<u8> {
    let mut bytes = vec![0; trailer.emitted_len()];
    trailer.emit(&mut bytes).unwrap();
    bytes
}

/// What the server has heard.
#[derive(Debug, Clone)]
struct FromQueue {
    header: Header,
    values: Vec<i32>,
    update: Update,
}

impl FromQueue {
    /// Takes it apart, and asserts that it came from the appliance by the way that the server registered.
    fn parse(heard: &Heard) -> Self {
        let server = host();
        assert_eq!((heard.dst, heard.src), (server.mac, port_mac(1)));
        assert_eq!(heard.from, (server.local(), UDP_PORT));
        assert_eq!(heard.to, (server.address, server.udp_port));
        assert_eq!((heard.header.kind, heard.header.fan_in), (Kind::Update, RANKS));
        let (payload, trailer) = heard.header.payload(&heard.body).expect("a sound packet");
        let Trailer { bitmap, update, queue, operations, ranks, sentence, seal } =
            trailer.expect("a trailer");
        assert!(bitmap.is_none() && queue.is_none());
        assert!(operations.is_none() && ranks.is_none() && sentence.is_none() && seal.is_none());
        Self { header: heard.header, values: values(payload), update: update.expect("its reward and time") }
    }

    /// Job, rank, PSN and count.
    fn brief(&self) -> (u16, u16, u32, u16) {
        let Header { job, rank, psn, count, .. } = self.header;
        (job, rank, psn, count)
    }
}
