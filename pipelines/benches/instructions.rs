//! What the packet path's pieces take in instructions, for `scripts/instructions` to count.
//!
//! `instructions CASE` prepares the case, repeats it in the function [`counted`], where alone callgrind
//! counts, and prints the number of repetitions. `instructions --list` names the cases. Counts, unlike times,
//! are the same on a busy machine as on an idle one: instructions, branches, and misses of simulated caches.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "there is nobody to tell but whoever runs it"
)]

#[path = "../tests/it/common/mod.rs"]
#[allow(dead_code, reason = "shared with the tests")]
mod common;
#[path = "instructions/pool.rs"]
mod pool;
#[path = "instructions/slab.rs"]
mod slab;
#[path = "instructions/turn.rs"]
mod turn;

use std::hint::black_box;
use std::process::ExitCode;

use pascaline_aggregator::{Aggregate, Key};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapPool, PacketBuf as _};
use pascaline_pipelines::classify::{Class, Classifier};
use pascaline_pipelines::emit::Emitter;
use pascaline_pipelines::jobs::Endpoint;
use pascaline_pipelines::{Job, JobTable, Marks, Member, PortSetup, Ports, Setup};
use pascaline_queue::{Config, Update, UpdateQueue};
use pascaline_testkit::{Clock, JOB, OWN_V4, UDP_PORT, Worker, port_mac};
use pascaline_wire::fast_path::Lengths;
use pascaline_wire::{Element, UdpPorts};
use slab::{Slab, SlabIo};

const FAN_IN: u16 = 8;
/// PSNs of a case.
const PSNS: u32 = 64;
/// Elements of a payload: few, since adding has a case of its own.
const ELEMENTS: usize = 64;
/// Its bytes.
const PAYLOAD: u16 = 256;
const _: () = assert!(PAYLOAD as usize == 4 * ELEMENTS);

/// Where callgrind counts.
#[inline(never)]
fn counted(act: impl FnOnce()) {
    act();
    // Or what `act` did last would be a jump, and the rest of the program would be counted.
    black_box(());
}

/// A case: its name, and what does it and returns how many times.
type Case = (&'static str, fn() -> u32);

const CASES: [Case; 13] = [
    ("parse", parse),
    ("parse-any", parse_any),
    ("pool-add", pool::add),
    ("pool-complete", pool::complete),
    ("pool-rank-order", pool::rank_order),
    ("queue", queue),
    ("emit", emit),
    ("turn", turn::plain),
    ("turn-kept", turn::kept),
    ("turn-full", turn::full),
    ("turn-jobs", turn::jobs),
    ("turn-idle", turn::idle),
    ("kernel-f32", kernel),
];

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1).unwrap_or_default();
    if wanted == "--list" {
        CASES.iter().for_each(|(name, _)| println!("{name}"));
        return ExitCode::SUCCESS;
    }
    let Some((_, case)) = CASES.iter().find(|(name, _)| *name == wanted) else {
        eprintln!("there is no case {wanted:?}; --list names them");
        return ExitCode::FAILURE;
    };
    println!("{}", case());
    ExitCode::SUCCESS
}

/// The kernels that every machine has on which this is counted: callgrind knows no wider ones.
fn kernels() -> Kernels {
    let found = Kernels::available().into_iter().find(|kernels| kernels.isa == "avx2");
    found.expect("a processor with AVX2, as the table was made on")
}

fn worker(rank: u16) -> Worker {
    Worker { epoch: 5, payload: PAYLOAD, ..Worker::new(rank, FAN_IN) }
}

/// The contributions to all PSNs, by PSN and rank.
fn contributions() -> Vec<Vec<u8>> {
    let ranks = |psn| (0..FAN_IN).map(move |rank| worker(rank).gradient(psn, &[1; ELEMENTS]));
    (0..PSNS).flat_map(ranks).collect()
}

fn setup() -> Setup {
    let ports = vec![PortSetup { mac: port_mac(0), beyond: Ports::NONE, mtu: 1500 }];
    Setup::new(vec![OWN_V4], UdpPorts::single(UDP_PORT), ports)
}

fn the_job() -> Job {
    let member = |rank| {
        let Worker { port, mac, vlan, address, udp_port, .. } = worker(rank);
        let (local, local_udp_port) = (OWN_V4, UDP_PORT);
        let endpoint = Endpoint { port, mac, vlan, address, udp_port, local, local_udp_port, dscp: 0 };
        Some(Member::new(endpoint, port_mac(0), JOB, rank, FAN_IN, 5))
    };
    Job::new(JOB, FAN_IN, 5, PAYLOAD, (0..FAN_IN).map(member).collect())
}

fn with_classifier<T>(act: impl FnOnce(&Classifier<'_>) -> T) -> T {
    let (setup, table) = (setup(), JobTable::new(vec![the_job()]));
    act(&Classifier { setup: &setup, table: &table, port: 0, mac: port_mac(0), now: 1 })
}

/// Recognising a plain gradient.
fn parse() -> u32 {
    let frames = contributions();
    with_classifier(|classifier| {
        let mut lengths = Lengths::NONE;
        counted(|| {
            for frame in &frames {
                black_box(classifier.recognise(black_box(frame), &mut lengths));
            }
        });
        assert!(frames.iter().all(|frame| classifier.recognise(frame, &mut { Lengths::NONE }).is_some()));
    });
    PSNS * u32::from(FAN_IN)
}

/// Taking any frame apart, layer by layer; here the same ones.
fn parse_any() -> u32 {
    let frames = contributions();
    with_classifier(|classifier| {
        counted(|| {
            for frame in &frames {
                black_box(classifier.classify(black_box(frame)));
            }
        });
        let pool = |frame: &Vec<u8>| matches!(classifier.classify(frame), Class::Pool(..));
        assert!(frames.iter().all(pool));
    });
    PSNS * u32::from(FAN_IN)
}

/// Two updates in, of which one is combined with one that waits, and one out.
fn queue() -> u32 {
    const CLUSTERS: u32 = 128;
    let config = Config { segments: 128, clusters: CLUSTERS, ..Config::default() };
    let mut queue = UpdateQueue::new(&config, &kernels()).unwrap();
    let pool = HeapPool::new();
    let update = |cluster, worker| Update { offset: 64, ..Update::new(cluster, worker, 0, PAYLOAD) };
    let packet = || pool.alloc(&[0; 64 + 4 * ELEMENTS], 2048);
    let packets: Vec<_> = (0..CLUSTERS).map(|_| (packet(), packet())).collect();
    let (mut spent, mut gone) = (Vec::with_capacity(256), Vec::with_capacity(256));
    assert!(queue.enqueue(0, update(CLUSTERS - 1, 0), packet()).recycled.is_none());
    counted(|| {
        for (cluster, (first, second)) in (0..CLUSTERS).zip(packets) {
            let before = if cluster == 0 { CLUSTERS - 1 } else { cluster - 1 };
            spent.push(queue.enqueue(1, update(before, 1), first));
            spent.push(queue.enqueue(1, update(cluster, 0), second));
            gone.push(queue.dequeue());
        }
    });
    assert_eq!((queue.len(), gone.iter().flatten().count()), (1, CLUSTERS as usize));
    assert_eq!(spent.iter().filter(|enqueued| enqueued.recycled.is_some()).count(), CLUSTERS as usize);
    CLUSTERS
}

/// A result to each of the job's members.
fn emit() -> u32 {
    const RESULTS: u32 = 64;
    let slab = Slab::new(2048);
    let (table, clock) = (JobTable::new(vec![the_job()]), Clock::default());
    let job = table.get(JOB).unwrap();
    let mut emitter = Emitter::new(SlabIo::new(slab, &clock), 1, Marks::default());
    let payload = slab.take(&[0; 4 * ELEMENTS]).unwrap().freeze();
    counted(|| {
        for psn in 0..RESULTS {
            emitter.fan_out(
                &table,
                job,
                &Aggregate {
                    key: Key::new(JOB, 5, psn),
                    element: Element::I32_SUM.code(),
                    fan_in: FAN_IN,
                    count: FAN_IN,
                    overflow: false,
                    marked: false,
                    partial: false,
                    first: 0,
                    round: 0,
                    payload: &payload,
                },
            );
        }
        emitter.flush();
    });
    assert_eq!(emitter.io.tx.len(), (RESULTS * u32::from(FAN_IN)) as usize);
    RESULTS * u32::from(FAN_IN)
}

/// Adding 1 KiB of f32.
fn kernel() -> u32 {
    const TIMES: u32 = 256;
    let (mut into, from) = (vec![0; 1024], vec![0; 1024]);
    let add = kernels().f32_sum;
    counted(|| {
        for _ in 0..TIMES {
            black_box(add(black_box(&mut into), black_box(&from)));
        }
    });
    TIMES
}
