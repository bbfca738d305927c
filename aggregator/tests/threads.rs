//! A pool shared by real threads. The oracle is arithmetic: each PSN is completed exactly once with exactly its sum,
//! every packet is accounted for by all the sinks together, and nothing is left.
#![cfg(not(loom))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use common::{Parcel, config, full_signature, signature, values};
use pascaline_aggregator::{
    Aggregate, Displaced, Key, Pool, PoolConfig, Refusal, Reminded, Request, Session, Sink,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, HeapShared, SharedBuf};

/// Turns after which a thread gives up: far more than any of the cases needs.
const TURNS: usize = 20_000_000;

type Work = VecDeque<(Request, HeapBuf)>;

/// A small generator, so that a thread's choices do not depend on the others.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % n
    }

    fn shuffle(&mut self, work: &mut Work) {
        for n in (1..work.len()).rev() {
            work.swap(n, self.below(n + 1));
        }
    }
}

/// What one thread's sink has seen.
#[derive(Default)]
struct Tally {
    offered: usize,
    handed_off: usize,
    opened: usize,
    added: usize,
    replayed: usize,
    duplicates: usize,
    /// Refused for want of a slot, or of luck.
    again: usize,
    displaced: usize,
    completed: Vec<(Key, Vec<i32>)>,
}

impl Tally {
    fn answered(&self) -> usize {
        self.opened + self.added + self.completed.len() + self.replayed + self.duplicates + self.again
    }
}

/// Sends again what was refused for want of a slot, and now and then lets the others run while it owns a set.
struct Worker<'a> {
    tally: Tally,
    again: Work,
    random: Random,
    to_complete: &'a AtomicUsize,
}

impl Worker<'_> {
    fn dawdle(&mut self) {
        if self.random.below(8) == 0 {
            thread::yield_now();
        }
    }
}

impl<const WORDS: usize> Sink<HeapBuf, WORDS> for Worker<'_> {
    fn opened(&mut self, _: &Request) {
        self.tally.opened += 1;
        self.dawdle();
    }
    fn added(&mut self, _: &Request, _: HeapBuf) {
        self.tally.added += 1;
        self.dawdle();
    }
    fn completed(&mut self, request: &Request, _: Option<HeapBuf>, result: Aggregate<'_, HeapShared>) {
        assert_eq!((result.key, result.fan_in, result.count), (request.key, request.fan_in, request.fan_in));
        self.tally.completed.push((request.key, values(result.payload.bytes())));
        self.to_complete.fetch_sub(1, Ordering::SeqCst);
        self.dawdle();
    }
    fn replayed(&mut self, request: &Request, _: HeapBuf, result: Aggregate<'_, HeapShared>) {
        assert_eq!(values(result.payload.bytes()), full_signature(request.fan_in));
        self.tally.replayed += 1;
        self.dawdle();
    }
    fn installed(&mut self, _: &Request, _: Option<HeapBuf>, _: Aggregate<'_, HeapShared>) {
        panic!("nobody installs");
    }
    fn passed_on(&mut self, _: &Request, _: Aggregate<'_, HeapShared>) {
        panic!("nobody installs");
    }
    fn reminded(&mut self, _: &Request, _: HeapBuf, _: Reminded<'_, HeapShared, WORDS>) {
        panic!("nobody reminds");
    }
    fn refused(&mut self, request: &Request, packet: HeapBuf, why: Refusal) {
        match why {
            Refusal::Conflict | Refusal::Contention => {
                self.tally.again += 1;
                self.again.push_back((*request, packet));
            }
            Refusal::Duplicate => self.tally.duplicates += 1,
            other => panic!("{other:?}"),
        }
        self.dawdle();
    }
    fn handed_off(&mut self) {
        self.tally.handed_off += 1;
    }
    fn displaced(&mut self, _: Key, what: Displaced<HeapBuf>) {
        assert!(matches!(what, Displaced::Result), "no partial is old here");
        self.tally.displaced += 1;
    }
}

/// One case: `copies` of the contributions of all ranks to `psns` PSNs, dealt over `threads` threads.
struct Case {
    threads: usize,
    slots: usize,
    ways: usize,
    psns: u32,
    fan_in: u16,
    copies: usize,
}

impl Case {
    fn deal(&self, memory: &HeapPool) -> Vec<Work> {
        let mut hands: Vec<Work> = (0..self.threads).map(|_| Work::new()).collect();
        let mut random = Random(u64::from(self.psns));
        for psn in 0..self.psns {
            for rank in 0..self.fan_in {
                let parcel =
                    Parcel::add(Key::new(1, 1, psn), rank, self.fan_in, &signature(rank, self.fan_in));
                for _ in 0..self.copies {
                    let hand = random.below(self.threads);
                    hands[hand].push_back((parcel.request, parcel.packet(memory)));
                }
            }
        }
        for hand in &mut hands {
            random.shuffle(hand);
        }
        hands
    }

    /// Runs the case and checks what holds in all of them.
    fn run<const WORDS: usize>(&self) -> Tally {
        let memory = HeapPool::new();
        let layout = PoolConfig { age_limit: Duration::MAX, ..config(self.slots, self.ways) };
        let sessions = Pool::<HeapBuf, WORDS>::sessions(&layout, Kernels::detect(), self.threads).unwrap();
        let to_complete = AtomicUsize::new(self.psns as usize);
        let hands = self.deal(&memory);
        let tallies: Vec<Tally> = thread::scope(|scope| {
            let users: Vec<_> = sessions
                .into_iter()
                .zip(hands)
                .enumerate()
                .map(|(n, (session, work))| {
                    let to_complete = &to_complete;
                    scope.spawn(move || work_off(session, work, n as u64, to_complete))
                })
                .collect();
            users.into_iter().map(|user| user.join().unwrap()).collect()
        });

        let mut all = Tally::default();
        for tally in tallies {
            all.offered += tally.offered;
            all.handed_off += tally.handed_off;
            all.opened += tally.opened;
            all.added += tally.added;
            all.replayed += tally.replayed;
            all.duplicates += tally.duplicates;
            all.again += tally.again;
            all.displaced += tally.displaced;
            all.completed.extend(tally.completed);
        }
        assert_eq!(all.answered(), all.offered, "every packet is accounted for");
        assert_eq!(memory.live(), 0, "packets leaked");
        let mut sums = HashMap::new();
        for (key, sum) in &all.completed {
            assert!(sums.insert(*key, sum).is_none(), "{key:?} completed twice");
            assert_eq!(*sum, full_signature(self.fan_in));
        }
        assert_eq!(sums.len(), self.psns as usize);
        let once = self.psns as usize * usize::from(self.fan_in);
        assert_eq!(all.opened + all.added + all.completed.len(), once, "each contribution entered once");
        assert_eq!(all.duplicates + all.replayed, once * (self.copies - 1), "each copy was recognised");
        all
    }
}

fn work_off<const WORDS: usize>(
    mut session: Session<HeapBuf, WORDS>,
    mut work: Work,
    seed: u64,
    to_complete: &AtomicUsize,
) -> Tally {
    let mut worker =
        Worker { tally: Tally::default(), again: Work::new(), random: Random(seed), to_complete };
    for _ in 0..TURNS {
        work.append(&mut worker.again);
        match work.pop_front() {
            Some((request, packet)) => {
                worker.tally.offered += 1;
                session.offer(&request, packet, &mut worker);
            }
            None if to_complete.load(Ordering::SeqCst) == 0 && !session.has_parked() => return worker.tally,
            None => thread::yield_now(),
        }
        session.resume(&mut worker);
    }
    panic!("{} PSNs are still open after {TURNS} turns", to_complete.load(Ordering::SeqCst));
}

#[test]
fn one_slot_for_everybody() {
    for threads in 2..=4 {
        let case = Case { threads, slots: 1, ways: 1, psns: 200, fan_in: 4, copies: 1 };
        let tally = case.run::<1>();
        assert_eq!(tally.displaced, 199, "each result makes way for the next");
    }
}

#[test]
fn one_set_for_everybody() {
    Case { threads: 4, slots: 4, ways: 4, psns: 400, fan_in: 5, copies: 1 }.run::<1>();
}

#[test]
fn psns_spread_over_the_pool() {
    for threads in 2..=4 {
        Case { threads, slots: 256, ways: 4, psns: 2000, fan_in: 4, copies: 1 }.run::<1>();
    }
}

#[test]
fn copies_are_recognised_whoever_receives_them() {
    // A third of the sets at most, so that no result has to go and every copy meets what it is a copy of.
    let tally = Case { threads: 4, slots: 8192, ways: 8, psns: 300, fan_in: 6, copies: 3 }.run::<1>();
    assert_eq!((tally.again, tally.displaced), (0, 0));
}

#[test]
fn a_thousand_ranks_meet_in_one_slot() {
    Case { threads: 4, slots: 4, ways: 4, psns: 4, fan_in: 1024, copies: 2 }.run::<16>();
}
