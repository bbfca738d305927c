//! Sets that are postponed because more is left with their owner than one turn may work off, on real threads: each
//! step waits for the one before, so that it comes to that every time.
#![cfg(not(loom))]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on stops")]

mod common;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use common::{Parcel, config};
use pascaline_aggregator::{
    Aggregate, Cause, Contribution, Displaced, Key, Pool, Refusal, Reminded, Request, Session, Sink,
};
use pascaline_buffer::combine::Kernels;
use pascaline_buffer::{HeapBuf, HeapPool, HeapShared};

const KEY: Key = Key::new(1, 1, 1);
const OTHERS: usize = 2;
/// Packets that each of the others leaves with the owner at a time, and how often.
const LOT: usize = 200;
const LOTS: usize = 2;

/// How far the lcores have got.
#[derive(Default)]
struct Progress {
    /// Lots that the others may leave.
    lots: AtomicUsize,
    /// Packets that they have left.
    left: AtomicUsize,
}

fn wait_until(number: &AtomicUsize, least: usize) {
    while number.load(Ordering::SeqCst) < least {
        thread::yield_now();
    }
}

/// Counts events. That of the owner has the others leave a lot at each of its first events.
struct Counter<'a> {
    progress: &'a Progress,
    is_owner: bool,
    answered: usize,
}

impl Counter<'_> {
    fn event(&mut self) {
        self.answered += 1;
        if self.is_owner && self.answered <= LOTS {
            self.progress.lots.store(self.answered, Ordering::SeqCst);
            wait_until(&self.progress.left, self.answered * LOT * OTHERS);
        }
    }
}

impl Sink<HeapBuf> for Counter<'_> {
    fn opened(&mut self, _: &Contribution) {
        self.event();
    }
    fn added(&mut self, _: &Contribution) {
        self.event();
    }
    fn completed(&mut self, _: &Contribution, _: bool, _: Aggregate<'_, HeapShared>) {
        self.event();
    }
    fn replayed(&mut self, _: &Request, _: HeapBuf, _: Aggregate<'_, HeapShared>) {
        self.event();
    }
    fn installed(&mut self, _: &Request, _: Aggregate<'_, HeapShared>) {
        self.event();
    }
    fn passed_on(&mut self, _: &Request, _: Aggregate<'_, HeapShared>) {
        self.event();
    }
    fn reminded(&mut self, _: &Request, _: HeapBuf, _: Reminded<'_, HeapShared, 1>) {
        self.event();
    }
    fn refused(&mut self, _: &Request, _: HeapBuf, _: Refusal) {
        self.event();
    }
    fn handed_off(&mut self) {
        self.progress.left.fetch_add(1, Ordering::SeqCst);
    }
    fn spent(&mut self, _: HeapBuf) {}
    fn released(&mut self, _: Aggregate<'_, HeapShared>) {}
    fn fetched(&mut self, _: &Request, _: HeapBuf, _: Option<Aggregate<'_, HeapShared>>) {
        self.event();
    }
    fn obeyed(&mut self, _: &Request, _: HeapBuf) {
        self.event();
    }
    fn displaced(&mut self, _: Key, _: Displaced<HeapBuf>, _: Cause) {}
}

/// Has the owner postpone its set, then do `last` with its session. Gives what it has answered in the end.
fn postpone(last: impl FnOnce(Session<HeapBuf>, &mut Counter<'_>)) -> usize {
    let memory = HeapPool::new();
    let mut sessions = Pool::sessions(&config(1, 1), Kernels::detect(), 1 + OTHERS).unwrap();
    let mut owner = sessions.pop().unwrap();
    let progress = Progress::default();
    let counter = |is_owner| Counter { progress: &progress, is_owner, answered: 0 };
    let answered = thread::scope(|scope| {
        for mut session in sessions {
            let (memory, progress, mut sink) = (&memory, &progress, counter(false));
            scope.spawn(move || {
                for lot in 1..=LOTS {
                    wait_until(&progress.lots, lot);
                    for _ in 0..LOT {
                        let parcel = Parcel::remind(KEY, 0, 2);
                        session.offer(&parcel.request, parcel.packet(memory), &mut sink);
                    }
                }
                assert_eq!(sink.answered, 0, "all is left with the owner");
                assert!(!session.has_parked());
            });
        }
        let mut sink = counter(true);
        let parcel = Parcel::add(KEY, 0, 2, &[1]);
        owner.offer(&parcel.request, parcel.packet(&memory), &mut sink);
        assert!(owner.has_parked());
        assert_eq!(sink.answered, 1 + LOT * OTHERS, "its own packet and the first lot");
        last(owner, &mut sink);
        sink.answered
    });
    assert_eq!(memory.live(), 0, "packets leaked");
    answered
}

#[test]
fn resuming_answers_what_waits() {
    let answered = postpone(|mut owner, sink| {
        owner.resume(sink);
        assert!(!owner.has_parked());
    });
    assert_eq!(answered, 1 + LOTS * LOT * OTHERS);
}

#[test]
fn a_session_that_ends_frees_what_waits() {
    let answered = postpone(|owner, _| drop(owner));
    assert_eq!(answered, 1 + LOT * OTHERS);
}
