//! Clients of SwitchML's around one appliance: whatever order their packets come in, however often they are
//! sent and whichever results are lost, the sums are exact.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use pascaline_aggregator::{PoolConfig, Region};
use pascaline_pipelines::membership::{JobKind, JobSpec, Registration, Registry};
use pascaline_telemetry::{Counter, DropReason, JobCells};
use pascaline_testkit::{JOB, port_mac};
use pascaline_wire::frame::Mac;
use pascaline_wire::switchml::{Body, HEADERS, Route, Size, headers};
use pascaline_worker::switchml::{Client, Terms};
use proptest::prelude::*;

use crate::common::appliance::{Bench, Plan, job};

const OWN: [u8; 4] = [10, 77, 0, 254];
const UDP_PORT: u16 = 48864;
const SLOTS: u32 = 256;
/// By how many of its client's packets a duplicate is late at most. Where an operation has one packet, it is
/// as many operations late.
const LATE: usize = 230;

fn mac(rank: u8) -> Mac {
    Mac([2, 0, 0, 1, 0, rank])
}

fn address(rank: u8) -> [u8; 4] {
    [10, 77, 1, rank + 1]
}

fn plan(workers: u16) -> Plan {
    let place = Region { first: 0, sets: SLOTS };
    let registry = Registry { udp_port: UDP_PORT, address: OWN, slots: SLOTS };
    let kind = JobKind::Switchml { place, registry };
    let spec = JobSpec { kind, dead_after: None, ..job(JOB, workers) };
    let slots = 2 * SLOTS as usize;
    let pool = PoolConfig { slots, reserved: slots, ways: 2, ..PoolConfig::default() };
    Plan { jobs: vec![spec], pool, peers: vec![None, None], ..Plan::one_armed() }
}

/// By slot and set: what a client has sent there last, with its number among all that it has sent.
type Sent = BTreeMap<Vec<u8>, (usize, Vec<u8>)>;

/// All that is under way between clients and the appliance.
struct Network {
    bench: Bench,
    clients: Vec<Client>,
    size: Size,
    /// Requests of each client on their way, in order: SwitchML takes that for granted.
    requests: Vec<VecDeque<Vec<u8>>>,
    sent: Vec<Sent>,
    /// How many packets it has sent, each counted once.
    count: Vec<usize>,
    window: u16,
    now: Duration,
}

impl Network {
    fn new(workers: u16, window: u16, size: Size) -> Self {
        let mut network = Self::before_any_registers(workers, window, size);
        network.register();
        network
    }

    fn register(&mut self) {
        let workers = u32::try_from(self.clients.len()).unwrap();
        for rank in 0..u8::try_from(workers).unwrap() {
            let (mac, address, size) = (mac(rank), address(rank), u32::from(self.size.code()));
            let who = Registration { rank: rank.into(), workers, mac, address, size };
            let told = self.bench.appliance.plane.register(Duration::ZERO, JOB, &who).unwrap();
            assert_eq!((told.address, told.mac), (OWN, port_mac(0)));
            self.bench.settle();
        }
    }

    fn before_any_registers(workers: u16, window: u16, size: Size) -> Self {
        let bench = Bench::new(&plan(workers));
        let terms = Terms { workers, window, size, timeout: Duration::from_millis(10) };
        let clients = (0..workers).map(|_| Client::new(terms).unwrap()).collect();
        let (requests, sent) = (vec![VecDeque::new(); workers.into()], vec![BTreeMap::new(); workers.into()]);
        let count = vec![0; workers.into()];
        Self { bench, clients, size, requests, sent, count, window, now: Duration::ZERO }
    }

    /// The first packet of a rank's operation.
    fn first(&mut self, rank: usize, values: Vec<i32>) -> Vec<u8> {
        let mut out = Vec::new();
        self.clients[rank].start_integers(values);
        assert!(self.clients[rank].poll_transmit(self.now, &mut out));
        Self::frame(rank, &out)
    }

    /// Takes note of what a client sends, unless it sends it again.
    fn note(&mut self, rank: usize, frame: &[u8]) {
        let place = self.sent[rank].entry(frame[48..50].to_vec()).or_default();
        if place.1 != frame {
            self.count[rank] += 1;
            *place = (self.count[rank], frame.to_vec());
        }
    }

    /// A packet that a client has sent in this round of its slot or the one before, whatever has come since
    /// then; none that is still on its way.
    fn late(&self, rank: usize, random: &mut Rng) -> Option<Vec<u8>> {
        let (number, frame) = random.choice(self.sent[rank].values())?;
        let late = number + LATE > self.count[rank] && !self.requests[rank].contains(frame);
        late.then(|| frame.clone())
    }

    /// What is counted of the job.
    fn cells(&self) -> Arc<JobCells> {
        let jobs = self.bench.appliance.plane.membership().counts();
        jobs.into_iter().find(|(id, _)| *id == JOB).unwrap().1
    }

    /// The frame of a client's datagram, with neither checksum.
    fn frame(rank: usize, datagram: &[u8]) -> Vec<u8> {
        let rank = u8::try_from(rank).unwrap();
        let route = Route { to: (port_mac(0), OWN, UDP_PORT), from: (mac(rank), address(rank), 4000) };
        let mut frame = headers(&route, Body::parse(datagram).unwrap()).to_vec();
        frame[24..26].fill(0);
        frame.extend_from_slice(&datagram[HEADERS - 42..]);
        frame
    }

    /// Each rank behind its port.
    fn port(rank: usize) -> usize {
        rank % 2
    }

    /// Runs until `done`: in random order, with every loss, duplicate and retransmission that `random` picks.
    fn run(&mut self, random: &mut Rng, loss: f64, mut done: impl FnMut(&mut [Client]) -> bool) {
        let mut out = Vec::new();
        for _ in 0..200_000 {
            if done(&mut self.clients) {
                return;
            }
            let rank = random.usize(0..self.clients.len());
            if self.clients[rank].poll_transmit(self.now, &mut out) {
                let frame = Self::frame(rank, &out);
                self.note(rank, &frame);
                self.requests[rank].push_back(frame);
            }
            let rank = random.usize(0..self.clients.len());
            if random.f64() < loss
                && let Some(frame) = self.late(rank, random)
            {
                self.bench.feed(Self::port(rank), [&frame]);
                self.deliver(random, loss);
            }
            let rank = random.usize(0..self.clients.len());
            // Of those under way, the next one or, rarely, the one behind it; not where several that are
            // ahead would soon make a duplicate too late.
            let behind = self.window > 8 && random.f64() < loss && self.requests[rank].len() > 1;
            let behind = usize::from(behind);
            if let Some(frame) = self.requests[rank].remove(behind) {
                if random.f64() < loss {
                    continue;
                }
                let twice = random.f64() < loss;
                self.bench.feed(Self::port(rank), core::iter::repeat_n(&frame, 1 + usize::from(twice)));
                self.deliver(random, loss);
            } else if random.u8(0..8) == 0 {
                self.now += Duration::from_millis(3);
                self.bench.clock.advance(3_000_000);
                self.clients.iter_mut().for_each(|client| client.handle_timeout(self.now));
            }
        }
        panic!("it does not end");
    }

    /// Sums random integers. True if all clients have their sums.
    fn allreduces(&mut self, random: &mut Rng, loss: f64, elements: usize) -> bool {
        let tensors: Vec<Vec<i32>> =
            self.clients.iter().map(|_| (0..elements).map(|_| random.i32(..)).collect()).collect();
        let sum = |at: usize| tensors.iter().fold(0, |sum: i32, tensor| sum.wrapping_add(tensor[at]));
        let sums: Vec<i32> = (0..elements).map(sum).collect();
        for (client, tensor) in self.clients.iter_mut().zip(tensors) {
            client.start_integers(tensor);
        }
        let mut got = vec![None; self.clients.len()];
        self.run(random, loss, |clients| {
            for (client, got) in clients.iter_mut().zip(&mut got) {
                *got = got.take().or_else(|| client.take_integers());
            }
            got.iter().all(Option::is_some)
        });
        got.into_iter().all(|got| got.as_ref() == Some(&sums))
    }

    fn deliver(&mut self, random: &mut Rng, loss: f64) {
        for port in 0..2 {
            for frame in self.bench.io().sent(port) {
                let packet = pascaline_wire::switchml::Packet::parse(&frame).unwrap();
                let rank = usize::from(packet.dst.as_v4().unwrap()[3] - 1);
                assert_eq!((packet.dst_mac, Self::port(rank)), (mac(u8::try_from(rank).unwrap()), port));
                assert_eq!((packet.src_port, packet.dst_port), (UDP_PORT, 4000));
                if random.f64() >= loss {
                    self.clients[rank].handle(self.now, &frame[42..]);
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn sums_are_exact_in_whatever_order_packets_come(
        workers in 1u16..=5, window in 1u16..=16, lossy in any::<bool>(), large in any::<bool>(),
        counts in prop::collection::vec(0usize..3000, 1..4), seed in any::<u64>(),
    ) {
        let size = if large { Size::Bytes1024 } else { Size::Bytes256 };
        let mut network = Network::new(workers, window, size);
        let mut random = Rng::with_seed(seed);
        let loss = if lossy { 0.1 } else { 0.0 };
        for count in counts {
            prop_assert!(network.allreduces(&mut random, loss, count));
        }
        prop_assert_eq!(network.bench.appliance.reading().unaccounted(), 0);
        drop(network.clients);
        network.bench.end();
    }
}

/// Operations of one packet each, more than packets can number. With a window of 128 or 256 a packet says
/// the same of itself as one that was there two rounds before.
#[test]
fn sums_are_exact_when_the_numbers_of_operations_begin_again() {
    for (window, loss, seed) in [(128, 0.0, 1), (128, 0.3, 2), (256, 0.3, 3), (16, 0.3, 4), (1, 0.3, 5)] {
        let mut network = Network::new(2, window, Size::Bytes256);
        let mut random = Rng::with_seed(seed);
        for operation in 0..600 {
            let right = network.allreduces(&mut random, loss, 3);
            assert!(right, "operation {operation}, window {window}, seed {seed}");
        }
        assert_eq!(network.bench.appliance.reading().unaccounted(), 0);
    }
}

/// Operations without elements have numbers and no packets, so the numbers of packets begin again sooner.
#[test]
fn sums_are_exact_beside_operations_without_elements() {
    for (window, few) in [(64, 128), (32, 64), (16, 32), (4, 8), (1, 2)] {
        let mut network = Network::new(2, window, Size::Bytes256);
        let mut random = Rng::with_seed(u64::from(window));
        let mut longest = Duration::ZERO;
        for operation in 0..600 {
            let (elements, began) = (usize::from(operation % 256 < few), network.now);
            let right = network.allreduces(&mut random, 0.0, elements);
            assert!(right, "operation {operation}, window {window}");
            longest = longest.max(network.now - began);
        }
        assert_eq!(network.bench.appliance.reading().unaccounted(), 0);
        // Where a duplicate may be as late, the packet counts once it has been sent again for long enough.
        assert_eq!(longest >= Duration::from_millis(500), few <= 32, "window {window}: {longest:?}");
    }
}

/// Clients may have no retransmission, or a timeout of seconds.
#[test]
fn what_has_come_waits_for_a_late_worker_however_long_it_takes() {
    let mut network = Network::new(2, 4, Size::Bytes256);
    let (early, late) = (network.first(0, vec![5; 64]), network.first(1, vec![6; 64]));
    network.bench.feed(0, [&early]);
    for _ in 0..100 {
        network.bench.clock.advance(100_000_000);
        // Each turn sweeps a part of the pool.
        (0..4).for_each(|_| network.bench.settle());
    }
    let missed = network.cells().late_ranks(network.bench.clock.now());
    assert_eq!(missed.iter().map(|late| late.rank).collect::<Vec<_>>(), [1]);
    network.bench.feed(1, [&late]);
    network.deliver(&mut Rng::with_seed(1), 0.0);
    for client in &mut network.clients {
        assert_eq!(client.take_integers(), Some(vec![11; 64]));
    }
}

#[test]
fn packets_of_a_former_formation_are_those_of_no_member() {
    let mut network = Network::before_any_registers(2, 4, Size::Bytes256);
    let frame = network.first(0, vec![5; 64]);
    network.bench.feed(0, [&frame]);
    assert_eq!(network.bench.appliance.dropped(DropReason::NotMember), 1);
    assert_eq!(network.bench.appliance.dropped(DropReason::Checksum), 0);
    network.register();
    network.bench.feed(0, [&frame]);
    assert_eq!(network.bench.appliance.get(Counter::Opened), 1);
}

#[test]
fn packets_are_captured_and_counted_as_those_of_other_jobs() {
    let mut network = Network::new(2, 4, Size::Bytes256);
    network.clients[0].start_integers(vec![1; 200]);
    let mut frames = Vec::new();
    let mut out = Vec::new();
    while network.clients[0].poll_transmit(Duration::ZERO, &mut out) {
        frames.push(Network::frame(0, &out));
    }
    network.bench.appliance.plane.capture().begin(JOB);
    network.bench.feed(0, &frames);
    network.bench.feed(0, [&frames[1]]);
    let capture = network.bench.appliance.plane.capture();
    let copies: Vec<_> = core::iter::from_fn(|| capture.take()).map(|copy| copy.bytes().to_vec()).collect();
    assert_eq!((copies.len(), &copies[..4], &copies[4]), (5, &frames[..], &frames[1]));
    let other = network.first(1, vec![1; 200]);
    network.bench.feed(1, [&other]);
    let reading = network.cells().read();
    let counted: Vec<_> = reading.ranks.iter().map(|rank| (rank.contributions, rank.again)).collect();
    assert_eq!(counted, [(5, 1), (1, 0)]);
    assert_eq!([0, 1].map(|rank| reading.behind(&reading.ranks[rank])), [0, 3]);
}

#[test]
fn floats_are_summed_by_the_largest_exponent_of_all() {
    let mut network = Network::new(3, 4, Size::Bytes256);
    let mut random = Rng::with_seed(7);
    // Blocks whose magnitudes differ by rank, so that nobody's own exponent would do.
    let tensors: Vec<Vec<f32>> = (0..3)
        .map(|rank| (0..700).map(|at| (random.f32() - 0.5) * f32::powi(10.0, (rank + at / 64) % 5)).collect())
        .collect();
    for (client, tensor) in network.clients.iter_mut().zip(&tensors) {
        client.start_floats(tensor.clone());
    }
    let mut got = vec![None; 3];
    network.run(&mut random, 0.05, |clients| {
        for (client, got) in clients.iter_mut().zip(&mut got) {
            *got = got.take().or_else(|| client.take_floats());
        }
        got.iter().all(Option::is_some)
    });
    let got: Vec<Vec<f32>> = got.into_iter().map(Option::unwrap).collect();
    assert!(got.windows(2).all(|pair| pair[0] == pair[1]), "all ranks have the same bits");
    for (block, at) in (0..700).map(|at| (at / 64, at)) {
        let range = block * 64..700.min(block * 64 + 64);
        let largest = tensors.iter().flat_map(|tensor| &tensor[range.clone()]);
        let largest = largest.fold(0.0f64, |most, &value| most.max(f64::from(value).abs()));
        let exact: f64 = tensors.iter().map(|tensor| f64::from(tensor[at])).sum();
        // Each value is rounded to a multiple of 1 / scale, which is at most 2 · n · largest / 2^31.
        let bound = 3.0 * 3.0 * largest / f64::powi(2.0, 30) + exact.abs() * 1e-7;
        assert!((f64::from(got[0][at]) - exact).abs() <= bound, "{at}: {} for {exact}", got[0][at]);
    }
}

#[test]
fn what_does_not_belong_is_dropped_by_reason() {
    let mut network = Network::new(2, 4, Size::Bytes256);
    network.clients[0].start_integers(vec![1; 64]);
    let mut out = Vec::new();
    assert!(network.clients[0].poll_transmit(Duration::ZERO, &mut out));
    let good = Network::frame(0, &out);
    let with = |changes: &[(usize, u8)]| {
        let mut frame = good.clone();
        changes.iter().for_each(|&(at, value)| frame[at] = value);
        frame
    };
    // A stranger's MAC, a slot beyond the last, a length that is not the size's, another kind of packet.
    for (frame, reason) in [
        (with(&[(11, 9)]), DropReason::NotMember),
        (with(&[(48, 0x3f)]), DropReason::OutsideWindow),
        (with(&[(42, 0x13)]), DropReason::Length),
        (with(&[(42, 0x21)]), DropReason::Length),
    ] {
        let before = network.bench.appliance.dropped(reason);
        network.bench.feed(0, [&frame]);
        assert_eq!(network.bench.appliance.dropped(reason), before + 1, "{reason:?}");
    }
    network.bench.feed(0, [&good]);
    // Another packet, or another operation, than the slot's.
    for change in [(43, 9), (47, 9)] {
        let mut frame = Network::frame(1, &out);
        frame[change.0] = change.1;
        network.bench.feed(1, [&frame]);
    }
    assert_eq!(network.bench.appliance.dropped(DropReason::OperationChanged), 2);
    assert_eq!(network.bench.appliance.get(Counter::Opened), 1);
    // Another host's MAC, or another address at this one's: it is not for this job.
    network.bench.feed(0, [&with(&[(0, 4)]), &with(&[(33, 1)])]);
    assert_eq!(network.bench.appliance.dropped(DropReason::NotForUs), 1);
    assert_eq!(network.bench.appliance.dropped(DropReason::Checksum), 1);
}
