//! A pool shared by real threads. The oracle is arithmetic: each PSN completes once with its exact sum, the
//! sinks together account for every packet, and nothing is left. With a parameter server, each contribution
//! is in a result or in exactly one piece that the server gets.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use fastrand::Rng;
use pascaline_aggregator::{
    Aggregate, Cause, ConflictPolicy, Contribution, Evicted, Key, Order, Policy, Pool, PoolConfig, Rejection,
    Request, Session, Sink,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, HeapShared, PacketBuf, SharedBuf};
use pascaline_wire::trailer::Trailer;

use crate::common::{Parcel, config, full_signature, signature, values};

/// Turns after which a thread gives up: far more than any of the cases needs.
const TURNS: usize = 20_000_000;

type Work = VecDeque<(Request, HeapBuf)>;

/// What one thread's sink has seen.
#[derive(Default)]
struct Tally {
    offered: usize,
    handed_off: usize,
    opened: usize,
    added: usize,
    replayed: usize,
    duplicates: usize,
    /// Refused without a slot, by chance, or because of those combined with it.
    again: usize,
    /// Of the added ones, those that were combined with others on their way, and refused in the end.
    taken_back: usize,
    displaced: usize,
    completed: Vec<(Key, Vec<i32>)>,
    /// What a parameter server would have got: contributions that found no slot, and what had to leave one.
    spilled: usize,
    preempted: usize,
    pieces: Vec<(Key, Vec<i32>)>,
}

impl Tally {
    /// Both together.
    fn with(mut self, other: Self) -> Self {
        self.offered += other.offered;
        self.handed_off += other.handed_off;
        self.opened += other.opened;
        self.added += other.added;
        self.replayed += other.replayed;
        self.duplicates += other.duplicates;
        self.again += other.again;
        self.taken_back += other.taken_back;
        self.displaced += other.displaced;
        self.spilled += other.spilled;
        self.preempted += other.preempted;
        self.completed.extend(other.completed);
        self.pieces.extend(other.pieces);
        self
    }

    fn answered(&self) -> usize {
        let taken_in = self.opened + self.added + self.completed.len() - self.taken_back;
        taken_in + self.replayed + self.duplicates + self.again + self.spilled
    }
}

/// Sends again what found no slot, and now and then lets other threads run.
struct Worker<'a> {
    tally: Tally,
    again: Work,
    random: Rng,
    to_complete: &'a AtomicUsize,
    memory: &'a HeapPool,
}

impl Worker<'_> {
    fn dawdle(&mut self) {
        if self.random.usize(..8) == 0 {
            thread::yield_now();
        }
    }
}

impl<const WORDS: usize> Sink<HeapBuf, WORDS> for Worker<'_> {
    fn opened(&mut self, _: &Contribution) {
        self.tally.opened += 1;
        self.dawdle();
    }
    fn added(&mut self, _: &Contribution) {
        self.tally.added += 1;
        self.dawdle();
    }
    fn completed(&mut self, of: &Contribution, _: bool, result: Aggregate<'_, HeapShared>) {
        assert_eq!((result.key, result.count), (of.key, result.fan_in));
        self.tally.completed.push((of.key, values(result.payload.bytes())));
        self.to_complete.fetch_sub(1, Ordering::SeqCst);
        self.dawdle();
    }
    fn replayed(&mut self, request: &Request, _: HeapBuf, result: Aggregate<'_, HeapShared>) {
        assert_eq!(values(result.payload.bytes()), full_signature(request.fan_in));
        self.tally.replayed += 1;
        self.dawdle();
    }
    fn rejected(&mut self, request: &Request, packet: HeapBuf, why: Rejection) {
        match why {
            Rejection::Conflict | Rejection::Quota | Rejection::Contention if request.rules.server() => {
                self.tally.spilled += 1;
                let piece = values(&packet.bytes()[usize::from(request.offset)..]);
                self.tally.pieces.push((request.key, piece));
            }
            Rejection::Conflict | Rejection::Contention => {
                self.tally.again += 1;
                self.again.push_back((*request, packet));
            }
            // One of them was inside already: the others are lost, and their ranks send again.
            Rejection::Duplicate if request.inside != 0 => {
                let fan_in = request.fan_in;
                for rank in (0..64).filter(|rank| request.inside & 1 << rank != 0) {
                    let parcel = Parcel::add(request.key, rank, fan_in, &signature(rank, fan_in))
                        .with(|r| (r.rules, r.priority, r.again) = (request.rules, request.priority, true));
                    self.again.push_back((parcel.request, parcel.packet(self.memory)));
                }
                self.tally.again += usize::from(request.count);
                self.tally.taken_back += usize::from(request.count) - 1;
            }
            Rejection::Duplicate => self.tally.duplicates += 1,
            other => panic!("{other:?}"),
        }
        self.dawdle();
    }
    fn handed_off(&mut self) {
        self.tally.handed_off += 1;
    }
    fn recycled(&mut self, _: HeapBuf) {}
    fn evicted(&mut self, key: Key, what: Evicted<HeapBuf>, cause: Cause) {
        self.tally.preempted += usize::from(cause == Cause::Preempted);
        match what {
            Evicted::Result => self.tally.displaced += 1,
            Evicted::Partial(partial) => {
                let (payload, trailer) = Trailer::split(partial.packet.bytes()).unwrap();
                assert_eq!(trailer.bitmap.unwrap().count(), partial.count);
                self.tally.pieces.push((key, values(payload)));
            }
            Evicted::Originals(originals) => {
                let pieces = originals.map(|(_, packet)| (key, values(packet.bytes())));
                self.tally.pieces.extend(pieces);
            }
            Evicted::GivenUp => panic!("no partial is old here"),
        }
        self.dawdle();
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
    policy: Policy,
}

impl Case {
    fn deal(&self, memory: &HeapPool) -> Vec<Work> {
        let mut hands: Vec<Work> = (0..self.threads).map(|_| Work::new()).collect();
        let mut random = Rng::with_seed(u64::from(self.psns));
        for psn in 0..self.psns {
            for rank in 0..self.fan_in {
                let parcel =
                    Parcel::add(Key::new(1, 1, psn), rank, self.fan_in, &signature(rank, self.fan_in))
                        .under(&self.policy)
                        .priority(u16::try_from(psn % 7).unwrap());
                for _ in 0..self.copies {
                    let hand = random.usize(..self.threads);
                    hands[hand].push_back((parcel.request, parcel.packet(memory)));
                }
            }
        }
        for hand in &mut hands {
            random.shuffle(hand.make_contiguous());
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
        let (tallies, mut sessions): (Vec<Tally>, Vec<_>) = thread::scope(|scope| {
            let users: Vec<_> = sessions
                .into_iter()
                .zip(hands)
                .enumerate()
                .map(|(n, (session, work))| {
                    let (to_complete, memory) = (&to_complete, &memory);
                    scope.spawn(move || work_off(session, work, n as u64, to_complete, memory))
                })
                .collect();
            users.into_iter().map(|user| user.join().unwrap()).unzip()
        });

        let mut all = tallies.into_iter().reduce(Tally::with).unwrap();
        assert_eq!(all.answered(), all.offered, "every packet is accounted for");
        if self.policy.server {
            all.pieces.extend(self.fetch(&mut sessions, &memory));
        }
        drop(sessions);
        assert_eq!(memory.live(), 0, "packets leaked");
        let mut sums = HashMap::new();
        for (key, sum) in &all.completed {
            assert!(sums.insert(*key, sum.clone()).is_none(), "{key:?} completed twice");
        }
        // What the server makes of its pieces.
        let complete: Vec<Key> = sums.keys().copied().collect();
        for (key, piece) in &all.pieces {
            let sum = sums.entry(*key).or_insert_with(|| vec![0; piece.len()]);
            sum.iter_mut().zip(piece).for_each(|(a, b)| *a += b);
        }
        assert!(
            complete.iter().all(|key| all.pieces.iter().all(|(piece, _)| piece != key)),
            "a piece too many"
        );
        assert!(sums.values().all(|sum| *sum == full_signature(self.fan_in)), "each contribution once");
        assert_eq!(sums.len(), self.psns as usize);
        let once = self.psns as usize * usize::from(self.fan_in);
        let entered = all.opened + all.added - all.taken_back + all.completed.len() + all.spilled;
        assert_eq!(entered, once, "each contribution entered once");
        assert_eq!(all.duplicates + all.replayed, once * (self.copies - 1), "each copy was recognised");
        all
    }

    /// The pool's remaining partials, as the server gets them.
    fn fetch<const WORDS: usize>(
        &self,
        sessions: &mut [Session<HeapBuf, WORDS>],
        memory: &HeapPool,
    ) -> Vec<(Key, Vec<i32>)> {
        let nothing = AtomicUsize::new(0);
        let mut server = Worker {
            tally: Tally::default(),
            again: Work::new(),
            random: Rng::with_seed(0),
            to_complete: &nothing,
            memory,
        };
        for psn in 0..self.psns {
            let parcel = Parcel::fetch(Key::new(1, 1, psn), self.fan_in);
            let packet = parcel.packet(memory);
            // The owner of its set gets it in the end.
            sessions[0].offer(&parcel.request, None, packet, &mut server);
            sessions.iter_mut().for_each(|session| _ = session.resume(&mut server));
        }
        assert_eq!(server.tally.answered(), 0);
        server.tally.pieces
    }
}

fn work_off<const WORDS: usize>(
    mut session: Session<HeapBuf, WORDS>,
    mut work: Work,
    seed: u64,
    to_complete: &AtomicUsize,
    memory: &HeapPool,
) -> (Tally, Session<HeapBuf, WORDS>) {
    let mut worker = Worker {
        tally: Tally::default(),
        again: Work::new(),
        random: Rng::with_seed(seed),
        to_complete,
        memory,
    };
    let mut closed = false;
    for _ in 0..TURNS {
        work.append(&mut worker.again);
        match work.pop_front() {
            Some((request, packet)) => {
                worker.tally.offered += 1;
                session.offer(&request, None, packet, &mut worker);
            }
            // From here on it offers only rejected packets that others handed to it: its own sets.
            None if !closed => {
                session.close();
                closed = true;
            }
            None if session.is_alone() => return (worker.tally, session),
            None => thread::yield_now(),
        }
        // Several offers make a turn, so that some meet on their way.
        if work.is_empty() || worker.random.usize(..8) == 0 {
            session.resume(&mut worker);
        }
    }
    panic!("{} PSNs are still open after {TURNS} turns", to_complete.load(Ordering::SeqCst));
}

#[test]
fn one_slot_for_everybody() {
    for threads in 2..=4 {
        let case =
            Case { threads, slots: 1, ways: 1, psns: 200, fan_in: 4, copies: 1, policy: Policy::default() };
        let tally = case.run::<1>();
        assert_eq!(tally.displaced, 199, "each result makes way for the next");
    }
}

#[test]
fn one_set_for_everybody() {
    Case { threads: 4, slots: 4, ways: 4, psns: 400, fan_in: 5, copies: 1, policy: Policy::default() }
        .run::<1>();
}

#[test]
fn psns_spread_over_the_pool() {
    for threads in 2..=4 {
        Case { threads, slots: 256, ways: 4, psns: 2000, fan_in: 4, copies: 1, policy: Policy::default() }
            .run::<1>();
    }
}

#[test]
fn copies_are_recognised_whoever_receives_them() {
    // A third of the sets at most, so that no result has to go and every copy meets what it is a copy of.
    let tally =
        Case { threads: 4, slots: 8192, ways: 8, psns: 300, fan_in: 6, copies: 3, policy: Policy::default() }
            .run::<1>();
    assert_eq!(tally.displaced, 0);
}

#[test]
fn a_thousand_ranks_meet_in_one_slot() {
    Case { threads: 4, slots: 4, ways: 4, psns: 4, fan_in: 1024, copies: 2, policy: Policy::default() }
        .run::<16>();
}

/// Contended slots, with a parameter server for those who lose.
fn served(policy: Policy) -> Tally {
    let policy = Policy { server: true, ..policy };
    Case { threads: 4, slots: 8, ways: 2, psns: 1000, fan_in: 5, copies: 1, policy }.run::<1>()
}

#[test]
fn under_preemption_each_contribution_is_in_one_result_or_one_piece() {
    let tally = served(Policy { conflict: ConflictPolicy::Preempt, ..Policy::default() });
    assert!(tally.preempted > 0 && tally.spilled > 0 && !tally.completed.is_empty());
}

#[test]
fn with_newcomers_that_always_win_each_contribution_is_in_one_result_or_one_piece() {
    let tally = served(Policy { conflict: ConflictPolicy::Always, ..Policy::default() });
    assert!(tally.preempted > 0 && !tally.completed.is_empty());
    assert_eq!(tally.spilled, 0, "but for contention, which four threads do not bring about");
}

#[test]
fn under_preemption_what_is_kept_by_rank_leaves_one_by_one() {
    let tally = served(Policy { conflict: ConflictPolicy::Preempt, order: Order::Rank, ..Policy::default() });
    assert!(tally.preempted > 0 && tally.spilled > 0 && !tally.completed.is_empty());
}

#[test]
fn a_quota_is_exceeded_by_fewer_than_there_are_threads() {
    // Each opens what it can; none completes anything.
    let memory = HeapPool::new();
    let (threads, quota) = (4, 20);
    let layout = PoolConfig { age_limit: Duration::MAX, ..config(1024, 4) };
    let sessions = Pool::<HeapBuf>::sessions(&layout, Kernels::detect(), threads).unwrap();
    let policy = Policy { quota, server: true, ..Policy::default() };
    let nothing = AtomicUsize::new(0);
    let opened: usize = thread::scope(|scope| {
        let users: Vec<_> = (0u32..)
            .zip(sessions)
            .map(|(n, session)| {
                let add = |psn: u32| Parcel::add(Key::new(1, 1, 4 * psn + n), 0, 2, &[1]).under(&policy);
                let work = (0..100).map(add).map(|parcel| (parcel.request, parcel.packet(&memory))).collect();
                let (nothing, memory) = (&nothing, &memory);
                scope.spawn(move || work_off(session, work, u64::from(n), nothing, memory).0.opened)
            })
            .collect();
        users.into_iter().map(|user| user.join().unwrap()).sum()
    });
    assert!((quota as usize..quota as usize + threads).contains(&opened), "{opened} of {quota}");
    assert_eq!(memory.live(), 0);
}
