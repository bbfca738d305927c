//! Hand-off between lcores, in every interleaving and every order that the memory orderings allow.
//!
//! Ring places and packets are loom cells. Loom thus finds every access without a happens-before, not only
//! one that gives a wrong value. A set has one owner, so lcores share nothing but the rings: packets must
//! arrive once, in order and whole, and no lcore waits. Much more of whole sessions: `tests/shuttle`.
#![cfg(loom)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on stops")]
#![allow(unsafe_code, reason = "loom's cells hand out raw pointers")]

#[allow(dead_code, unused_imports, reason = "other programs use the rest")]
#[path = "it/common/mod.rs"]
mod common;

use common::{Event, Parcel, Recorder, full_signature, signature, sum_of};
use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use pascaline_aggregator::handoff::{Receiver, Sender, ring};
use pascaline_aggregator::{Key, Pool, Session};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool};

/// A packet whose contents loom watches.
struct Packet(Arc<UnsafeCell<u32>>);

impl Packet {
    fn new(payload: u32) -> Self {
        Self(Arc::new(UnsafeCell::new(payload)))
    }

    /// What the owner does: it writes to the packet, as the pool does to an accumulator.
    fn take_in(&self) -> u32 {
        // SAFETY: loom fails the test if another thread touches it without having passed it on.
        self.0.with_mut(|payload| unsafe {
            *payload += 100;
            *payload - 100
        })
    }
}

// SAFETY: a packet is passed on, never shared, as these tests prove.
unsafe impl Send for Packet {}

/// Offers packets until the ring is full, and publishes after each group of this many.
fn send(sender: &mut Sender<Packet>, payloads: impl IntoIterator<Item = u32>, burst: usize) -> Vec<u32> {
    let mut rejected = Vec::new();
    for (n, payload) in payloads.into_iter().enumerate() {
        if let Err(packet) = sender.push(Packet::new(payload)) {
            // It is still the sender's.
            rejected.push(packet.take_in());
        }
        if (n + 1) % burst == 0 {
            sender.publish();
        }
    }
    sender.publish();
    rejected
}

/// One turn: takes what has arrived, up to a budget.
fn receive(receiver: &mut Receiver<Packet>, budget: usize) -> Vec<u32> {
    let there = receiver.available().min(budget);
    let seen: Vec<_> = (0..there).map(|n| receiver.peek(n, Packet::take_in).unwrap()).collect();
    let taken: Vec<_> = (0..there).map(|_| receiver.pop().unwrap().take_in() - 100).collect();
    assert_eq!(seen, taken, "what was looked at ahead is what comes out");
    receiver.acknowledge();
    taken
}

/// All that comes after the sender has gone.
fn rest(receiver: &mut Receiver<Packet>) -> Vec<u32> {
    let mut all = Vec::new();
    while receiver.available() > 0 {
        all.extend(receive(receiver, 2));
    }
    assert!(receiver.is_finished());
    all
}

#[test]
fn packets_arrive_once_whole_and_in_order() {
    loom::model(|| {
        let (mut sender, mut receiver) = ring(4);
        let other = thread::spawn(move || assert!(send(&mut sender, [1, 2, 3], 1).is_empty()));
        let mut got = receive(&mut receiver, 2);
        got.extend(receive(&mut receiver, 2));
        other.join().unwrap();
        got.extend(rest(&mut receiver));
        assert_eq!(got, [1, 2, 3]);
    });
}

#[test]
fn a_burst_becomes_known_at_once() {
    loom::model(|| {
        let (mut sender, mut receiver) = ring(4);
        let other = thread::spawn(move || send(&mut sender, [1, 2], 2));
        let got = receive(&mut receiver, 2);
        assert!(got.is_empty() || got == [1, 2], "{got:?}");
        other.join().unwrap();
    });
}

#[test]
fn a_full_ring_refuses_and_loses_nothing() {
    loom::model(|| {
        let (mut sender, mut receiver) = ring(2);
        let other = thread::spawn(move || send(&mut sender, [1, 2, 3, 4], 1));
        let mut got = receive(&mut receiver, 2);
        let rejected = other.join().unwrap();
        got.extend(rest(&mut receiver));
        assert!(got.is_sorted() && rejected.is_sorted());
        let mut all = [got, rejected].concat();
        all.sort_unstable();
        assert_eq!(all, [1, 2, 3, 4]);
    });
}

#[test]
fn a_place_is_used_again_only_after_it_has_been_read() {
    loom::model(|| {
        let (mut sender, mut receiver) = ring(1);
        let other = thread::spawn(move || send(&mut sender, [1, 2, 3], 1));
        let mut got = receive(&mut receiver, 1);
        got.extend(receive(&mut receiver, 1));
        let rejected = other.join().unwrap();
        got.extend(rest(&mut receiver));
        assert_eq!(got.len() + rejected.len(), 3);
    });
}

#[test]
fn finished_means_that_nothing_is_left() {
    loom::model(|| {
        let (mut sender, mut receiver) = ring(2);
        let other = thread::spawn(move || {
            send(&mut sender, [1], 1);
            sender.push(Packet::new(2)).map_err(|_| ()).unwrap();
            sender.close();
        });
        let mut got = Vec::new();
        // As an lcore does in the end: a fixed number of looks, no waiting.
        for _ in 0..2 {
            if receiver.is_finished() {
                assert_eq!(got, [1, 2]);
            }
            got.extend(receive(&mut receiver, 2));
        }
        other.join().unwrap();
        got.extend(rest(&mut receiver));
        assert_eq!(got, [1, 2]);
    });
}

/// Counts what has not been dropped.
struct Counted(Arc<loom::sync::atomic::AtomicUsize>);

impl Counted {
    fn new(live: &Arc<loom::sync::atomic::AtomicUsize>) -> Self {
        live.fetch_add(1, loom::sync::atomic::Ordering::Relaxed);
        Self(Arc::clone(live))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, loom::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn whichever_end_goes_first_no_packet_is_lost_or_freed_twice() {
    loom::model(|| {
        let live = Arc::new(loom::sync::atomic::AtomicUsize::new(0));
        let (mut sender, mut receiver) = ring(2);
        let other = {
            let live = Arc::clone(&live);
            thread::spawn(move || {
                for _ in 0..2 {
                    _ = sender.push(Counted::new(&live));
                }
            })
        };
        if receiver.available() > 0 {
            drop(receiver.pop());
        }
        drop(receiver);
        other.join().unwrap();
        assert_eq!(live.load(loom::sync::atomic::Ordering::Relaxed), 0);
    });
}

#[test]
fn two_lcores_leave_packets_with_a_third() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let ways: Vec<_> = (0..2).map(|_| ring(2)).collect();
        let (senders, mut receivers): (Vec<_>, Vec<_>) = ways.into_iter().unzip();
        let others: Vec<_> = senders
            .into_iter()
            .zip([[1, 2], [11, 12]])
            .map(|(mut sender, payloads)| thread::spawn(move || send(&mut sender, payloads, 1)))
            .collect();
        let mut got: Vec<_> = receivers.iter_mut().flat_map(|receiver| receive(receiver, 2)).collect();
        for other in others {
            assert!(other.join().unwrap().is_empty());
        }
        got.extend(receivers.iter_mut().flat_map(rest));
        let of = |tens: u32| got.iter().copied().filter(|n| n / 10 == tens).collect::<Vec<_>>();
        assert_eq!((of(0), of(1)), (vec![1, 2], vec![11, 12]));
    });
}

#[test]
fn two_lcores_leave_packets_with_each_other() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let ((mut to_other, mut from_one), (mut to_one, mut from_other)) = (ring(2), ring(2));
        let other = thread::spawn(move || {
            send(&mut to_one, [1, 2], 2);
            let got = receive(&mut from_one, 2);
            to_one.close();
            (got, from_one)
        });
        send(&mut to_other, [11, 12], 2);
        let mut got = receive(&mut from_other, 2);
        to_other.close();
        let (mut there, mut from_one) = other.join().unwrap();
        got.extend(rest(&mut from_other));
        there.extend(rest(&mut from_one));
        assert_eq!((got, there), (vec![1, 2], vec![11, 12]));
    });
}

#[test]
fn a_packet_is_changed_only_until_it_is_published() {
    loom::model(|| {
        let (mut sender, mut receiver) = ring(2);
        let other = thread::spawn(move || {
            _ = sender.push(Packet::new(1));
            for _ in 0..2 {
                // The second time it may be out already.
                if let Some(packet) = sender.unpublished(0) {
                    packet.take_in();
                }
                sender.publish();
            }
        });
        let mut got = receive(&mut receiver, 1);
        other.join().unwrap();
        got.extend(rest(&mut receiver));
        assert_eq!(got, [101]);
    });
}

/// A session of one of two lcores, with what its sink hears.
struct Lcore {
    session: Session<HeapBuf>,
    told: Recorder,
    memory: HeapPool,
}

impl Lcore {
    /// The contribution of one of three ranks to a PSN: there is one of each lcore's sets.
    fn offer(&mut self, psn: u32, rank: u16) {
        let parcel = Parcel::add(Key::new(1, 1, psn), rank, 3, &signature(rank, 3));
        let packet = parcel.packet(&self.memory);
        self.session.offer(&parcel.request, None, packet, &mut self.told);
    }

    /// A turn as the last ones are: what comes from one that has gone has come before.
    fn last_turn(&mut self) {
        let (alone, heard) = (self.session.is_alone(), self.told.events.len());
        self.session.resume(&mut self.told);
        assert!(!alone || self.told.events.len() == heard, "nothing comes from one that has gone");
    }

    /// Two contributions come for the other one's PSN, which may be combined, and one for its own.
    fn run(mut self, own: u32, other: u32) -> Self {
        self.offer(other, 0);
        self.offer(own, 2);
        self.session.resume(&mut self.told);
        self.offer(other, 1);
        self.session.close();
        self.last_turn();
        self.last_turn();
        self
    }

    /// Handles the rest, and checks that its PSN has one result.
    fn check(mut self) {
        while !self.session.is_alone() {
            self.last_turn();
        }
        let completed = |event: &&Event| matches!(event, Event::Completed { .. });
        let results: Vec<_> = self.told.events.iter().filter(completed).map(sum_of).collect();
        assert_eq!(results.len(), 1, "{:?}", self.told.events);
        assert_eq!(results[0].values, full_signature(3));
    }
}

#[test]
fn whole_sessions_make_one_result_of_what_comes_to_both() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let memory = HeapPool::new();
        let sessions = Pool::sessions(&common::config(2, 1), Kernels::scalar(), 2).unwrap();
        let mut lcores = sessions.into_iter().map(|session| Lcore {
            session,
            told: Recorder::default(),
            memory: memory.clone(),
        });
        let (one, other) = (lcores.next().unwrap(), lcores.next().unwrap());
        let other = thread::spawn(move || other.run(1, 2));
        let one = one.run(2, 1);
        let other = other.join().unwrap();
        one.check();
        other.check();
        assert_eq!(memory.live(), 0, "packets leaked");
    });
}

/// The models can fail. Each runs in a process of its own, since what unwinds meets the fault again.
#[cfg(feature = "sabotage")]
mod sabotages {
    use std::env;
    use std::process::Command;

    use pascaline_aggregator::Sabotage;

    use super::{
        a_packet_is_changed_only_until_it_is_published, whole_sessions_make_one_result_of_what_comes_to_both,
    };

    /// Set in that process.
    const MARK: &str = "PASCALINE_SABOTAGED";
    /// Loom's words for an access without a happens-before.
    const RACE: &str = "Causality violation";

    fn is_found(test: &str, fault: Sabotage, model: fn(), words: &str) {
        if env::var_os(MARK).is_some() {
            return fault.during(model);
        }
        let mut again = Command::new(env::current_exe().unwrap());
        let test = format!("sabotages::{test}");
        let done = again.args(["--exact", &test, "--nocapture"]).env(MARK, "").output().unwrap();
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(!done.status.success() && said.contains(words), "{said}");
    }

    #[test]
    fn an_item_that_is_seen_too_early_is_found() {
        let test = "an_item_that_is_seen_too_early_is_found";
        is_found(test, Sabotage::Unordered, a_packet_is_changed_only_until_it_is_published, RACE);
    }

    #[test]
    fn a_hand_off_that_is_seen_too_early_is_found() {
        let test = "a_hand_off_that_is_seen_too_early_is_found";
        is_found(test, Sabotage::Unordered, whole_sessions_make_one_result_of_what_comes_to_both, RACE);
    }

    #[test]
    fn a_hand_off_that_is_combined_too_late_is_found() {
        let test = "a_hand_off_that_is_combined_too_late_is_found";
        is_found(test, Sabotage::CombinedLate, whole_sessions_make_one_result_of_what_comes_to_both, RACE);
    }

    #[test]
    fn a_ring_that_is_closed_too_early_is_found() {
        let test = "a_ring_that_is_closed_too_early_is_found";
        is_found(
            test,
            Sabotage::ClosedEarly,
            whole_sessions_make_one_result_of_what_comes_to_both,
            "nothing comes from one that has gone",
        );
    }
}
