//! Once a queue is made, nothing allocates or frees.
#![allow(unsafe_code, reason = "a global allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pascaline_queue::{Combine, Config, Discipline, EnqueueOutcome, Update};
use pascaline_wire::{DType, Element, Op};

use crate::common::{NOW, Rig, update};

struct Counting;

thread_local! {
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(place, layout) }
    }

    // Not by the trait's own bodies, which would slow down every test of this program.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.set(CALLS.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn after_construction_nothing_allocates() {
    for (discipline, combine) in [
        (Discipline::Olaf, Combine::Sum),
        (Discipline::Olaf, Combine::Mean),
        (Discipline::Fifo, Combine::Sum),
    ] {
        let config = Config {
            discipline,
            combine,
            segments: 5,
            clusters: 7,
            reward_threshold: 1.0,
            ..Config::default()
        };
        let mut rig = Rig::new(config);
        // One step at a time in which something else is offered: of two workers, two types, three rewards,
        // and wrong ones.
        let steps: Vec<_> = (0u16..2000)
            .map(|step| {
                let dtype = if step % 7 < 3 { DType::F16 } else { DType::F32 };
                let update = Update {
                    reward: f32::from(step % 5),
                    count: step % 4,
                    element: Element { dtype, op: Op::Sum },
                    ..update(u32::from(step % 8), step % 2)
                };
                (update, rig.packet(&[0; 8]))
            })
            .collect();
        let mut recycled = Vec::with_capacity(2 * steps.len());
        let mut outcomes = std::collections::HashSet::with_capacity(64);
        let before = CALLS.get();
        for (step, (update, packet)) in (0u64..).zip(steps) {
            let enqueued = rig.queue.enqueue(NOW + step * 1_000_000, update, packet);
            outcomes.insert(enqueued.outcome);
            recycled.extend(enqueued.recycled);
            if step % 3 == 0 {
                let _ = rig.queue.lock();
            }
            if step % 4 == 0 {
                recycled.extend(rig.queue.dequeue().map(|departure| departure.packet));
            }
        }
        // One call is the vector of steps, which has been consumed.
        assert_eq!(CALLS.get() - before, 1, "{discipline:?} {combine:?}");
        if discipline == Discipline::Olaf {
            for outcome in [
                EnqueueOutcome::Appended,
                EnqueueOutcome::Aggregated,
                EnqueueOutcome::Replaced,
                EnqueueOutcome::Full,
            ] {
                assert!(outcomes.contains(&outcome), "{outcome:?} was never reached");
            }
        }
    }
}
