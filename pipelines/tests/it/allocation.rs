//! The packet path neither allocates nor frees, and copies no payload where ports can send several segments.
#![allow(unsafe_code, reason = "a global allocator that counts")]

use core::num::NonZeroU64;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pascaline_aggregator::PoolConfig;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf, SharedBuf};
use pascaline_pipelines::PortQueue;
use pascaline_pipelines::membership::{JobKind, JobSpec, ServerMode};
use pascaline_pipelines::updates::Fate;
use pascaline_queue::Config;
use pascaline_telemetry::{Counter, DropReason};
use pascaline_testkit::{Clock, Heard, JOB, MemoryIo, OWN_V4, Worker, received};
use pascaline_wire::arp::{Arp, Operation};
use pascaline_wire::control::{Action, SERVER_RANK};
use pascaline_wire::frame::Mac;
use pascaline_wire::header::{Flags, Header, Kind};
use pascaline_wire::trailer::{Trailer, Update};

use crate::common::appliance::{Appliance, Plan, single_slot};

/// Counts what this thread asks of the allocator while it is told to.
struct Counting;

thread_local! {
    static COUNTING: Cell<bool> = const { Cell::new(false) };
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn note() {
    if COUNTING.get() {
        CALLS.set(CALLS.get() + 1);
    }
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        note();
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }

    // Not by the trait's own bodies, which would slow down every test of this program.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note();
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        note();
        // SAFETY: as the caller promises.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Calls of the allocator during `act`.
fn calls(act: impl FnOnce()) -> u64 {
    let before = CALLS.get();
    COUNTING.set(true);
    act();
    COUNTING.set(false);
    CALLS.get() - before
}

struct Rig {
    appliance: Appliance,
    workers: Vec<Worker>,
    pool: HeapPool,
    clock: Clock,
    /// Calls of the allocator during turns.
    calls: u64,
}

impl Rig {
    fn new(pool: PoolConfig) -> Self {
        Self::of(&Plan { pool, ..Plan::one_armed() })
    }

    fn of(plan: &Plan) -> Self {
        let (pool, clock) = (HeapPool::reusing(8192, 2176), Clock::default());
        clock.advance(1 << 40);
        let appliance = Appliance::new(plan, vec![MemoryIo::new(plan.peers.len(), &pool, &clock)]);
        let workers = (0..4).map(|rank| Worker::new(rank, 4)).collect();
        let mut rig = Self { appliance, workers, pool, clock, calls: 0 };
        rig.join();
        rig
    }

    fn io(&mut self) -> &mut MemoryIo {
        self.appliance.lcores[0].io()
    }

    fn join(&mut self) {
        for at in (0..4).chain(0..4) {
            let join = self.workers[at].control(Action::Join);
            self.arrive(&join);
            self.turns(1);
            let first = self.appliance.control_turn();
            assert_eq!(first.decided.len(), 1);
            self.turns(1);
            assert_eq!(first.answers + self.appliance.control_turn().answers, 1);
            self.turns(1);
        }
        let epoch = self.appliance.plane.membership().status()[0].epoch;
        self.workers.iter_mut().for_each(|worker| worker.epoch = epoch);
        drop(self.sent());
    }

    fn arrive(&mut self, frame: &[u8]) {
        self.io().arrive(0, frame);
    }

    fn turns(&mut self, count: usize) {
        let lcore = &mut self.appliance.lcores[0];
        self.calls += calls(|| {
            for _ in 0..count {
                lcore.turn();
            }
        });
    }

    fn sent(&mut self) -> Vec<HeapBuf> {
        self.io().ports[0].sent().collect()
    }

    fn contribute(&mut self, psn: u32) {
        for worker in self.workers.clone() {
            self.arrive(&worker.gradient(psn, &[1; 256]));
        }
    }
}

/// One round of everything that happens on the packet path.
fn round(rig: &mut Rig, number: u32) {
    let [a, b, c, _] = rig.workers[..] else { panic!("four workers") };
    let old = Worker { epoch: a.epoch.wrapping_sub(1), ..a };
    for psn in 8 * number..8 * number + 8 {
        rig.contribute(psn);
    }
    rig.arrive(&b.gradient(8 * number, &[1; 256]));
    rig.arrive(&a.reminder(8 * number));
    rig.arrive(&a.reminder(360 + number));
    rig.arrive(&c.gradient(480 + number, &[1; 256]));
    rig.arrive(&c.gradient(480 + number, &[1; 256]));
    rig.arrive(&c.gradient(480 + number, &[1; 255]));
    rig.arrive(&a.reminder(480 + number));
    rig.arrive(&b.cached_result(400 + number, &[3; 256]));
    rig.arrive(&old.gradient(1, &[1]));
    rig.arrive(&a.gradient(1, &[1; 4])[..50]);
    rig.arrive(&a.control(Action::Join));
    let mut arp = [0; 28];
    let (sender_mac, target_mac) = (a.mac, Mac::default());
    let target_ip = OWN_V4.as_v4().unwrap();
    let request =
        Arp { operation: Operation::Request, sender_mac, sender_ip: [10, 77, 0, 1], target_mac, target_ip };
    request.emit(&mut arp).unwrap();
    rig.arrive(&[&[0xff; 6][..], &a.mac.0, &[8, 6], &arp].concat());
    rig.turns(5);
    rig.appliance.control();
    rig.turns(70);
    rig.appliance.readers.iter_mut().for_each(|reader| reader.collect());
    rig.clock.advance(700_000_000);
}

#[test]
fn a_turn_never_calls_the_allocator() {
    for multi_segment in [true, false] {
        let mut rig = Rig::new(PoolConfig { slots: 32, ways: 2, ..PoolConfig::default() });
        rig.io().ports[0].multi_segment = multi_segment;
        let mut sent = 0;
        for number in 0..40 {
            if number == 10 {
                // A capture on the way, which soon has no frames left.
                rig.appliance.plane.capture().begin(JOB);
            }
            if number == 20 {
                // A new table on the way: the old one must not be freed by the lcore either.
                rig.workers[3].session += 1;
                rig.workers[3].epoch = rig.workers[3].epoch.wrapping_add(1);
                rig.join();
            }
            round(&mut rig, number);
            sent += rig.sent().len();
        }
        assert_eq!(rig.calls, 0);
        let capture = rig.appliance.plane.capture();
        assert!(capture.missed() > 0 && capture.take().is_some());
        let reading = rig.appliance.reading();
        assert_eq!(reading.unaccounted(), 0);
        assert!(sent > 40 * 4 * 8);
        let happened = [
            Counter::Completed,
            Counter::Replayed,
            Counter::Installed,
            Counter::RemindersSent,
            Counter::RefusalsSent,
            Counter::DisplacedResults,
            Counter::DisplacedPartials,
        ];
        for counter in happened {
            assert!(reading.get(counter) >= 20, "{}: {}", counter.name(), reading.get(counter));
        }
        for reason in
            [DropReason::WrongEpoch, DropReason::Duplicate, DropReason::LengthChanged, DropReason::Length]
        {
            assert!(reading.dropped(reason) >= 20, "{}", reason.name());
        }
        assert_eq!(reading.get(Counter::PayloadCopies) == 0, multi_segment);
        assert!(rig.appliance.readers.iter().all(|reader| !reader.histogram().is_empty()));
    }
}

/// A cluster of four workers whose server is behind the same port.
fn asynchronous(rate: Option<NonZeroU64>) -> (Rig, Worker) {
    let host = Worker { rank: SERVER_RANK, fan_in: 0, udp_port: 16421, ..Worker::new(9, 4) };
    let server = ServerMode::External { address: host.address, udp_port: host.udp_port };
    let spec = JobSpec { kind: JobKind::Updates { server }, ..JobSpec::new(JOB, 4) };
    let queue = PortQueue { queue: Config { reward_threshold: 2.0, ..Config::default() }, rate };
    let mut rig = Rig::of(&Plan { jobs: vec![spec], queue, ..Plan::one_armed() });
    rig.arrive(&host.control(Action::Serve));
    rig.turns(1);
    rig.appliance.control();
    rig.turns(1);
    drop(rig.sent());
    let server = Worker { fan_in: 4, epoch: rig.workers[0].epoch, ..host };
    (rig, server)
}

#[test]
fn a_bridge_never_calls_the_allocator() {
    for multi_segment in [true, false] {
        let mut rig = Rig::of(&Plan { crowded: Some(1 << 40), ..Plan::bridge() });
        rig.io().ports.iter_mut().for_each(|port| port.multi_segment = multi_segment);
        // More MACs than it has places for, long frames and short ones, to all and to one.
        for number in 0..100u8 {
            for (to, length) in [(0xff, 60), (2, 60), (0xff, 1400), (2, 1400)] {
                let mut frame = vec![to; length];
                frame[6..12].copy_from_slice(&[2, 2, 2, 2, 2, number % 10]);
                rig.arrive(&frame);
            }
            rig.clock.advance(10_000_000_000);
            rig.turns(2);
            let sent = rig.io().ports.iter().map(|port| port.sent().count()).sum::<usize>();
            assert!(sent >= 4, "{sent}");
        }
        assert_eq!(rig.calls, 0);
        let reading = rig.appliance.reading();
        assert_eq!(reading.unaccounted(), 0);
        let happened = [Counter::Flooded, Counter::FloodCopies, Counter::BridgeLearned, Counter::BridgeFull];
        for counter in happened {
            assert!(reading.get(counter) > 0, "{}", counter.name());
        }
    }
}

#[test]
fn updates_and_answers_never_call_the_allocator() {
    // Slow enough for updates to meet, and fast enough for the last to leave in between.
    for rate in [None, NonZeroU64::new(1_000_000_000)] {
        let (mut rig, server) = asynchronous(rate);
        for round in 0..100u32 {
            // Of the second, third and fourth worker: much better, as good, much worse.
            for (reward, worker) in [0.0, 3.0, 1.0, -9.0].into_iter().zip(rig.workers.clone()) {
                // Of two bursts, the second one meets what the first has left.
                for psn in [round * 2, round * 2 + 1] {
                    let reward = reward * f32::from(u8::try_from(round % 3).unwrap());
                    let generated_ns = rig.clock.now() - u64::from(psn % 2);
                    let about = Update { reward, generated_ns };
                    let trailer = Trailer { update: Some(about), ..Trailer::default() };
                    let mut behind = vec![0; trailer.emitted_len()];
                    trailer.emit(&mut behind).unwrap();
                    let header = Header { flags: Flags::TRAILER, ..worker.header(Kind::Update, psn, 1) };
                    rig.arrive(&worker.frame(&header, &[&[0; 256][..], &behind].concat()));
                }
            }
            rig.arrive(&server.frame(&Header { rank: 1, ..server.header(Kind::Ack, round, 1) }, &[7; 256]));
            rig.turns(3);
            rig.clock.advance(10_000);
            drop(rig.sent());
        }
        assert_eq!(rig.calls, 0);
        let queue = rig.appliance.queues[0].read();
        for fate in [Fate::Appended, Fate::Aggregated, Fate::Preferred, Fate::LowReward, Fate::Departed] {
            assert!(queue.get(fate) > 20, "{fate:?}: {}", queue.get(fate));
        }
        assert_eq!(rig.appliance.get(Counter::AcksSent), 400);
        assert_eq!(rig.appliance.get(Counter::PayloadCopies), 0);
        assert_eq!(rig.appliance.reading().unaccounted(), 0);
    }
}

#[test]
fn every_members_result_is_the_first_contributions_memory() {
    let mut rig = Rig::new(single_slot());
    let frames: Vec<Vec<u8>> = rig.workers.iter().map(|worker| worker.gradient(1, &[1; 256])).collect();
    let first = received(&rig.pool, &frames[2]);
    let memory = first.bytes()[64..].as_ptr();
    rig.io().arrive_packet(0, first);
    for rank in [0, 1, 3] {
        rig.arrive(&frames[rank]);
    }
    rig.turns(1);
    // One of them again: a replay shares the same memory.
    rig.arrive(&frames[0]);
    rig.turns(1);
    let sent = rig.sent();
    assert_eq!(sent.len(), 5);
    for frame in &sent {
        let tail = frame.tail().expect("two segments");
        assert_eq!(tail.bytes().as_ptr(), memory);
        assert_eq!(tail.holders(), 5 + 1, "each frame, and the slot");
        assert_eq!(frame.bytes().len(), 64);
        let heard = Heard::parse(&frame.to_vec());
        assert_eq!((heard.header.kind, &heard.body), (Kind::Result, &pascaline_testkit::bytes(&[4; 256])));
    }
    assert_eq!(rig.appliance.get(Counter::PayloadCopies), 0);
    drop(sent);

    // Where the port cannot, each frame has its own copy, and it is counted.
    rig.io().ports[0].multi_segment = false;
    rig.contribute(2);
    rig.turns(1);
    let sent = rig.sent();
    assert_eq!(sent.len(), 4);
    assert!(sent.iter().all(|frame| frame.tail().is_none() && frame.bytes().len() == 64 + 1024));
    assert_eq!(rig.appliance.get(Counter::PayloadCopies), 4);
    drop(sent);
    let pool = rig.pool.clone();
    drop(rig);
    assert_eq!(pool.live(), 0, "every packet is back");
}
