//! Two lcores on two threads share one pool: ranks arrive on either, sums are exact, and everything is
//! accounted for.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crossbeam_queue::ArrayQueue;
use pascaline_aggregator::{Policy, PoolConfig};
use pascaline_buffer::HeapPool;
use pascaline_pipelines::membership::{JobSpec, ServerMode};
use pascaline_pipelines::{IdlePolicy, Lcore, ServerEnd};
use pascaline_telemetry::{Counter, DropReason, JobEvent};
use pascaline_testkit::{Clock, Heard, JOB, MemoryIo, UDP_PORT, Worker, values};
use pascaline_wire::UdpPorts;
use pascaline_wire::control::{Action, Status};
use pascaline_wire::header::Kind;

use crate::common::appliance::{Appliance, Plan, job, kind};

/// Which lcore the NIC would send a packet to.
fn rss(rank: u16, psn: u32) -> usize {
    ((u32::from(rank) + 1).wrapping_mul(0x9e37_79b1) ^ psn.wrapping_mul(0x85eb_ca6b)) as usize >> 7 & 1
}

const RANKS: u16 = 4;

struct Two {
    appliance: Appliance,
    wires: Vec<MemoryIo>,
    pool: HeapPool,
    workers: Vec<Worker>,
}

impl Two {
    fn new(pool: PoolConfig) -> Self {
        Self::listening(pool, UdpPorts::single(UDP_PORT))
    }

    fn listening(pool: PoolConfig, udp_ports: UdpPorts) -> Self {
        let (heap, clock) = (HeapPool::new(), Clock::default());
        clock.advance(1_000_000_000);
        let wires: Vec<_> = (0..2).map(|_| MemoryIo::new(1, &heap, &clock)).collect();
        let appliance = Appliance::new(&Plan { pool, udp_ports, ..Plan::one_armed() }, wires.clone());
        let workers = (0..RANKS).map(|rank| Worker::new(rank, RANKS)).collect();
        let mut two = Self { appliance, wires, pool: heap, workers };
        two.join();
        two
    }

    fn send(&self, lcore: usize, frame: &[u8]) {
        self.wires[lcore].arrive(0, frame);
    }

    fn heard(&self) -> Vec<(usize, Heard)> {
        let all = |(lcore, wire): (usize, &MemoryIo)| {
            wire.ports[0].sent().map(move |frame| (lcore, Heard::parse(&frame.to_vec()))).collect::<Vec<_>>()
        };
        self.wires.iter().enumerate().flat_map(all).collect()
    }

    fn join(&mut self) {
        for at in (0..4).chain(0..4) {
            let lcore = at % 2;
            self.send(lcore, &self.workers[at].control(Action::Join));
            self.appliance.turn();
            let heard = self.heard();
            assert_eq!(heard.len(), 1);
            assert_eq!(heard[0].0, lcore, "the answer leaves where the request came in");
            self.workers[at].epoch = heard[0].1.header.epoch;
            assert!(at < 3 || matches!(heard[0].1.control().status, Status::Ok | Status::Pending));
        }
    }

    /// Contributions of all ranks to these PSNs, each to the lcore that the NIC would choose.
    fn contribute(&self, psns: std::ops::Range<u32>, copies: usize) {
        for psn in psns {
            for worker in &self.workers {
                let value = psn.cast_signed() * 7 + i32::from(worker.rank);
                for _ in 0..copies {
                    self.send(rss(worker.rank, psn), &worker.gradient(psn, &[value; 16]));
                }
            }
        }
    }
}

fn expected(psn: u32) -> i32 {
    4 * (psn.cast_signed() * 7) + 6
}

/// Runs two lcores on two threads while `test` plays the network, then stops them.
fn run(two: &mut Two, policy: IdlePolicy, test: impl FnOnce(&Two)) {
    let lcores: Vec<Lcore<MemoryIo>> = two.appliance.lcores.drain(..).collect();
    let lcores = thread::scope(|scope| {
        let threads: Vec<_> = lcores
            .into_iter()
            .map(|mut lcore| {
                scope.spawn(move || {
                    lcore.run(policy);
                    lcore
                })
            })
            .collect();
        stopping(two, |two| test(two));
        threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
    });
    two.appliance.lcores = lcores;
}

/// Does it, and stops the lcores, also if it fails: the scope waits for them, and would hang instead of
/// failing.
fn stopping(two: &mut Two, test: impl FnOnce(&mut Two)) {
    let ended = panic::catch_unwind(AssertUnwindSafe(|| test(two)));
    two.appliance.plane.stop();
    ended.unwrap_or_else(|failure| panic::resume_unwind(failure));
}

pub(crate) fn wait<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < limit, "{what}");
        thread::yield_now();
    }
}

fn sums_are_exact(policy: IdlePolicy, pool: PoolConfig, rounds: u32, each: u32, copies: usize) {
    let mut two = Two::new(pool);
    run(&mut two, policy, |two| {
        for round in 0..rounds {
            let psns = round * each..(round + 1) * each;
            two.contribute(psns.clone(), copies);
            let mut missing = (each * u32::from(RANKS)) as usize;
            let mut firsts = vec![[false; 4]; each as usize];
            wait("results of every PSN for every rank", || {
                for (_, heard) in two.heard() {
                    assert_eq!((heard.header.kind, heard.header.count), (Kind::Result, RANKS));
                    assert_eq!(values(&heard.body), [expected(heard.header.psn); 16]);
                    heard.assert_addressed_to(&two.workers[usize::from(heard.header.rank)]);
                    if psns.contains(&heard.header.psn) {
                        let at = (heard.header.psn - psns.start) as usize;
                        let first = &mut firsts[at][usize::from(heard.header.rank)];
                        missing -= usize::from(!*first);
                        *first = true;
                    }
                }
                (missing == 0).then_some(())
            });
            wait("frames to be taken", || {
                two.wires.iter().all(|wire| wire.ports[0].rx.is_empty()).then_some(())
            });
        }
    });
    let reading = two.appliance.reading();
    assert_eq!(reading.unaccounted(), 0, "over both lcores");
    assert_eq!(reading.get(Counter::Completed), u64::from(rounds * each));
    assert_eq!(reading.dropped(DropReason::Conflict), 0);
    let alone = reading.dropped(DropReason::Duplicate) + reading.get(Counter::Replayed);
    let again = alone + reading.get(Counter::CombinedRefused);
    assert_eq!(again, u64::from(rounds * each * u32::from(RANKS)) * (copies as u64 - 1));
    let received: Vec<u64> =
        two.appliance.counters.iter().map(|one| one.read().get(Counter::Received)).collect();
    assert!(received.iter().all(|&received| received > 100), "{received:?}: both had work");
    let pool = two.pool.clone();
    drop(two);
    assert_eq!(pool.live(), 0);
}

#[test]
fn one_set_that_both_lcores_want() {
    let pool = PoolConfig { slots: 8, ways: 8, ..PoolConfig::default() };
    sums_are_exact(IdlePolicy::Spin, pool, 60, 8, 1);
}

#[test]
fn many_sets_and_every_packet_twice() {
    let pool = PoolConfig { slots: 2048, ways: 4, ..PoolConfig::default() };
    sums_are_exact(IdlePolicy::Spin, pool, 3, 256, 2);
}

#[test]
fn lcores_that_nap_wake_up_for_packets() {
    let pool = PoolConfig { slots: 256, ways: 4, ..PoolConfig::default() };
    let policy = IdlePolicy::Backoff { longest_nap: Duration::from_micros(50) };
    sums_are_exact(policy, pool, 20, 16, 1);
}

#[test]
fn stopping_leaves_partials_behind_and_no_packet_unaccounted_for() {
    let mut two = Two::new(PoolConfig { slots: 64, ways: 4, ..PoolConfig::default() });
    run(&mut two, IdlePolicy::Spin, |two| {
        for psn in 0..8 {
            for worker in &two.workers[..3] {
                two.send(rss(worker.rank, psn), &worker.gradient(psn, &[1]));
            }
        }
        wait("frames to be taken", || two.wires.iter().all(|wire| wire.ports[0].rx.is_empty()).then_some(()));
    });
    let reading = two.appliance.reading();
    assert_eq!(reading.unaccounted(), 0);
    assert_eq!((reading.open_slots(), reading.get(Counter::Completed)), (8, 0));
    let pool = two.pool.clone();
    drop(two);
    assert_eq!(pool.live(), 0, "partials are freed with the pool");
}

#[test]
fn a_generation_that_changes_while_lcores_run_reaches_both_before_its_first_packet() {
    let mut two = Two::new(PoolConfig { slots: 64, ways: 4, ..PoolConfig::default() });
    let lcores: Vec<Lcore<MemoryIo>> = two.appliance.lcores.drain(..).collect();
    thread::scope(|scope| {
        for mut lcore in lcores {
            scope.spawn(move || lcore.run(IdlePolicy::Spin));
        }
        stopping(&mut two, |two| {
            for session in 2000..2040 {
                two.workers.iter_mut().for_each(|worker| worker.session = session);
                for rank in (0..4).chain([0]) {
                    two.send(rank % 2, &two.workers[rank].control(Action::Join));
                    wait("the request", || two.appliance.plane.is_due().then_some(()));
                    // However often it turns, no time passes.
                    two.appliance.now += Duration::from_millis(10);
                    let now = two.appliance.now;
                    wait("both lcores", || (two.appliance.plane.turn(now).answers > 0).then_some(()));
                    let (_, ack) = wait("the answer", || two.heard().pop());
                    two.workers.iter_mut().for_each(|worker| worker.epoch = ack.header.epoch);
                }
                two.contribute(0..2, 1);
                let mut results = 0;
                wait("results", || {
                    results += two.heard().len();
                    (results == 2 * usize::from(RANKS)).then_some(())
                });
            }
        });
    });
    assert_eq!(two.appliance.dropped(DropReason::WrongEpoch), 0);
    assert_eq!(two.appliance.get(Counter::Completed), 80);
}

/// A NIC that brings each of these UDP ports to a queue of its own brings PSNs to where they are at home:
/// nothing crosses between lcores. Where it brings them elsewhere the sums are the same, and something does.
#[test]
fn psns_that_are_steered_by_their_udp_port_stay_where_they_came_in() {
    let ports = UdpPorts::new(UDP_PORT, 2).unwrap();
    let sums = [true, false].map(|steered| {
        let mut two = Two::listening(PoolConfig { slots: 256, ways: 4, ..PoolConfig::default() }, ports);
        for psn in 0..32 {
            let port = ports.of(psn);
            let queue = usize::from(port - ports.first());
            for worker in &two.workers {
                let mut frame = worker.gradient(psn, &[psn.cast_signed() * 7 + i32::from(worker.rank); 16]);
                frame[36..38].copy_from_slice(&port.to_be_bytes());
                two.send(if steered { queue } else { 1 - queue }, &frame);
            }
        }
        for _ in 0..16 {
            two.appliance.turn();
        }
        let reading = two.appliance.reading();
        assert_eq!(reading.unaccounted(), 0);
        assert_eq!(reading.get(Counter::HandedOff) == 0, steered, "{}", reading.get(Counter::HandedOff));
        let mut heard: Vec<_> = two.heard().into_iter().map(|(_, heard)| heard).collect();
        heard.sort_by_key(|heard| (heard.header.psn, heard.header.rank));
        assert_eq!(heard.len(), 32 * usize::from(RANKS));
        for heard in &heard {
            heard.assert_addressed_to(&two.workers[usize::from(heard.header.rank)]);
            assert_eq!(values(&heard.body), [expected(heard.header.psn); 16]);
        }
        heard.into_iter().map(|heard| (heard.to, heard.body)).collect::<Vec<_>>()
    });
    assert_eq!(sums[0], sums[1]);
}

/// What an lcore does for others is work as any other: its turns are busy, and take their time.
#[test]
fn work_that_another_lcore_has_handed_off_is_seen() {
    let mut two = Two::new(PoolConfig { slots: 256, ways: 4, ..PoolConfig::default() });
    two.appliance.lcores[1].io().tick = 5;
    let before = two.appliance.counters[1].read();
    for psn in 0..16 {
        two.workers.iter().for_each(|worker| two.send(0, &worker.gradient(psn, &[1; 16])));
    }
    for _ in 0..4 {
        two.appliance.turn();
    }
    assert_eq!(two.appliance.get(Counter::Completed), 16);
    let after = two.appliance.counters[1].read();
    let [received, turns] = [Counter::Received, Counter::BusyTurns].map(|c| after.get(c) - before.get(c));
    assert_eq!(received, 0, "all of it came in elsewhere");
    let busy = after.load().busy_ns - before.load().busy_ns;
    assert!(turns > 0 && busy >= 5 * turns, "{busy} ns in {turns} turns");
    // Turns that find nothing take none.
    (0..16).for_each(|_| two.appliance.turn());
    assert_eq!(two.appliance.counters[1].read().load(), after.load());
}

/// While nothing else is to be told, counts are published every few turns; but who naps has told all before.
#[test]
fn an_lcore_that_naps_has_said_how_often_it_has_turned() {
    let mut two = Two::new(PoolConfig { slots: 64, ways: 4, ..PoolConfig::default() });
    run(&mut two, IdlePolicy::Backoff { longest_nap: Duration::from_millis(5) }, |two| {
        for counters in &two.appliance.counters {
            let turns = || counters.get(Counter::BusyTurns) + counters.get(Counter::IdleTurns);
            // Not one that was told before it ran here.
            let begun = turns();
            wait("a turn before a nap", || {
                let turns = turns();
                (turns > begun + 8 && !turns.is_multiple_of(8)).then_some(())
            });
        }
    });
}

/// Contributions that travel as one and find no slot are as many of which a reason is known.
#[test]
fn what_is_combined_and_finds_no_slot_is_counted_one_by_one() {
    for server in [true, false] {
        let (heap, clock) = (HeapPool::new(), Clock::default());
        let wires: Vec<_> = (0..2).map(|_| MemoryIo::new(1, &heap, &clock)).collect();
        let pool = PoolConfig { slots: 2, ways: 1, ..PoolConfig::default() };
        let mode = if server { ServerMode::Embedded } else { ServerMode::None };
        let spec = JobSpec { kind: kind(Policy::default(), mode), ..job(JOB, RANKS) };
        let queue = || Arc::new(ArrayQueue::new(16));
        let ends = ServerEnd { to: queue(), from: queue() };
        let plan = Plan { pool, jobs: vec![spec], ..Plan::one_armed() };
        let appliance = Appliance::with_server(&plan, wires.clone(), Some(ends));
        let workers = (0..RANKS).map(|rank| Worker::new(rank, RANKS)).collect();
        let mut two = Two { appliance, wires, pool: heap, workers };
        two.join();
        // The first lcore is at home in the set of even PSNs, and the one slot is taken.
        two.send(0, &two.workers[0].gradient(2, &[1; 16]));
        two.workers[1..].iter().for_each(|worker| two.send(1, &worker.gradient(4, &[1; 16])));
        two.appliance.turn();
        let reading = two.appliance.reading();
        let (_, cells) = two.appliance.plane.membership().counts().into_iter().next().unwrap();
        let cells = cells.read();
        let events = [JobEvent::Collisions, JobEvent::Spilled, JobEvent::SpilledBytes, JobEvent::Evicted];
        let expected = if server { [3, 3, 3 * 64, 0] } else { [3, 0, 0, 0] };
        assert_eq!(events.map(|event| cells.get(event)), expected);
        assert_eq!([Counter::Conflicts, Counter::Spilled].map(|c| reading.get(c)), [3, expected[1]]);
        assert_eq!(reading.dropped(DropReason::Conflict), u64::from(!server));
        assert_eq!((reading.open_slots(), reading.unaccounted()), (1, 0));
    }
}
