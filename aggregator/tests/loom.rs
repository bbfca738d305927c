//! Ownership and hand-off under every interleaving, and every order of memory accesses that the orderings allow.
//!
//! Links, payloads and what the owner writes are loom cells, so that an access without a happens-before is found and
//! not only one that happens to give a wrong value.
#![cfg(loom)]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on stops")]
#![allow(unsafe_code, reason = "the protocol under test hands raw packets around")]

use core::ptr::{self, NonNull};

use loom::cell::UnsafeCell;
use loom::sync::Arc;
use loom::thread;
use pascaline_aggregator::handoff::{Left, Linked, Owner};

struct Packet {
    link: UnsafeCell<*mut ()>,
    payload: UnsafeCell<u32>,
}

fn read<T, R>(cell: &UnsafeCell<T>, with: impl FnOnce(&T) -> R) -> R {
    // SAFETY: loom fails the test before an access that meets a writing one.
    cell.with(|value| with(unsafe { &*value }))
}

fn write<T, R>(cell: &UnsafeCell<T>, with: impl FnOnce(&mut T) -> R) -> R {
    // SAFETY: loom fails the test before an access that meets another.
    cell.with_mut(|value| with(unsafe { &mut *value }))
}

struct Links;

// SAFETY: the link lies in the packet and is touched by nobody else.
unsafe impl Linked for Links {
    unsafe fn set_link(packet: NonNull<()>, next: *mut ()) {
        // SAFETY: the caller holds the packet.
        write(&unsafe { packet.cast::<Packet>().as_ref() }.link, |link| *link = next);
    }

    unsafe fn link(packet: NonNull<()>) -> *mut () {
        // SAFETY: the caller holds the packet.
        read(&unsafe { packet.cast::<Packet>().as_ref() }.link, |link| *link)
    }
}

/// A set whose content is the list of payloads that were worked off.
struct Set {
    owner: Owner,
    content: UnsafeCell<Vec<u32>>,
}

// SAFETY: the content is touched by the owner only, which is what the tests prove.
unsafe impl Sync for Set {}
// SAFETY: as above.
unsafe impl Send for Set {}

impl Set {
    fn new() -> Arc<Self> {
        Arc::new(Self { owner: Owner::new(), content: UnsafeCell::new(Vec::new()) })
    }

    /// What the owner does with a packet.
    fn work_off(&self, packet: NonNull<()>) {
        // SAFETY: the packet was made by `packet` and is held by the caller.
        let packet = unsafe { Box::from_raw(packet.cast::<Packet>().as_ptr()) };
        let payload = read(&packet.payload, |payload| *payload);
        write(&self.content, |content| content.push(payload));
    }

    fn release(&self) {
        while let Some(mut chain) = self.owner.leave::<Links>() {
            while let Some(packet) = chain.pop::<Links>() {
                self.work_off(packet);
            }
        }
    }

    /// The same steps as `Session::offer`.
    fn offer(&self, payload: u32) {
        let packet = packet(payload);
        if !self.owner.enter() {
            // SAFETY: the packet is this thread's.
            match unsafe { self.owner.leave_with_owner::<Links>(packet) } {
                Left::HandedOff => return,
                Left::Entered => {}
                Left::Contention => panic!("a few threads cannot lose that often"),
            }
        }
        self.work_off(packet);
        self.release();
    }

    /// The same steps as `Session::sweep`.
    fn visit(&self, mark: u32) {
        if self.owner.enter() {
            write(&self.content, |content| content.push(mark));
            self.release();
        }
    }

    /// After all threads have ended: the set is free, and this was worked off.
    fn close(&self) -> Vec<u32> {
        assert!(self.owner.enter(), "somebody still owns the set");
        assert!(self.owner.leave::<Links>().is_none(), "a packet was left behind");
        read(&self.content, Vec::clone)
    }
}

fn packet(payload: u32) -> NonNull<()> {
    let packet = Packet { link: UnsafeCell::new(ptr::null_mut()), payload: UnsafeCell::new(0) };
    write(&packet.payload, |place| *place = payload);
    NonNull::from(Box::leak(Box::new(packet))).cast()
}

fn sorted(mut payloads: Vec<u32>) -> Vec<u32> {
    payloads.sort_unstable();
    payloads
}

#[test]
fn claim_against_hand_off() {
    loom::model(|| {
        let set = Set::new();
        let other = {
            let set = set.clone();
            thread::spawn(move || set.offer(1))
        };
        set.offer(2);
        other.join().unwrap();
        assert_eq!(sorted(set.close()), [1, 2]);
    });
}

#[test]
fn hand_off_against_leave() {
    loom::model(|| {
        let set = Set::new();
        assert!(set.owner.enter());
        let other = {
            let set = set.clone();
            thread::spawn(move || set.offer(1))
        };
        set.work_off(packet(2));
        set.release();
        other.join().unwrap();
        assert_eq!(set.close(), [2, 1], "the owner was first");
    });
}

#[test]
fn owners_follow_each_other() {
    loom::model(|| {
        let set = Set::new();
        let other = {
            let set = set.clone();
            thread::spawn(move || {
                set.offer(1);
                set.offer(2);
            })
        };
        set.offer(3);
        set.offer(4);
        other.join().unwrap();
        let content = set.close();
        let place = |payload| content.iter().position(|&p| p == payload).unwrap();
        assert!(
            place(1) < place(2) && place(3) < place(4),
            "each thread's packets in its order: {content:?}"
        );
        assert_eq!(sorted(content), [1, 2, 3, 4]);
    });
}

#[test]
fn two_pushers_and_an_owner() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(|| {
        let set = Set::new();
        assert!(set.owner.enter());
        let others: Vec<_> = [1, 2]
            .into_iter()
            .map(|payload| {
                let set = set.clone();
                thread::spawn(move || set.offer(payload))
            })
            .collect();
        set.work_off(packet(3));
        set.release();
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(sorted(set.close()), [1, 2, 3]);
    });
}

#[test]
fn one_pusher_of_two_and_another_of_one() {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(2);
    model.check(|| {
        let set = Set::new();
        let others: Vec<_> = [vec![1, 2], vec![3]]
            .into_iter()
            .map(|payloads| {
                let set = set.clone();
                thread::spawn(move || payloads.into_iter().for_each(|payload| set.offer(payload)))
            })
            .collect();
        set.offer(4);
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(sorted(set.close()), [1, 2, 3, 4]);
    });
}

#[test]
fn an_owner_that_postpones_finds_what_was_left_meanwhile() {
    loom::model(|| {
        let set = Set::new();
        assert!(set.owner.enter());
        let other = {
            let set = set.clone();
            thread::spawn(move || {
                set.offer(1);
                set.offer(2);
            })
        };
        // One turn takes what is there and keeps the set only if there is more; the next one takes that.
        if let Some(mut chain) = set.owner.leave::<Links>() {
            while let Some(packet) = chain.pop::<Links>() {
                set.work_off(packet);
            }
            if !set.owner.let_go() {
                set.release();
            }
        }
        other.join().unwrap();
        assert_eq!(set.close(), [1, 2]);
    });
}

#[test]
fn a_visitor_never_meets_an_owner() {
    loom::model(|| {
        let set = Set::new();
        let other = {
            let set = set.clone();
            thread::spawn(move || {
                set.visit(100);
                set.visit(100);
            })
        };
        set.offer(1);
        set.offer(2);
        other.join().unwrap();
        let content = set.close();
        assert_eq!(content.iter().copied().filter(|&p| p < 100).collect::<Vec<_>>(), [1, 2]);
    });
}
