//! What a pool says it takes is what it takes.
#![allow(unsafe_code, reason = "an allocator that counts")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use pascaline_aggregator::{Pool, PoolConfig, TENANTS};
use pascaline_buffer::HeapBuf;
use pascaline_buffer::combine::Kernels;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get() + layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        HELD.set(HELD.get() - layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(place, layout) }
    }

    // Not by the trait's own bodies, which would slow down every test of this program.
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        HELD.set(HELD.get() + layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, place: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        HELD.set(HELD.get() + size.cast_signed() - layout.size().cast_signed());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(place, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Two functions, the first of which there may not be.
const KERNEL: usize = 16;
/// A packet on its way between lcores, with its request, and whose it is.
const HANDED: usize = 64 + 1;
/// A counter for each job, and a kernel for each element code.
const FIXED: usize = (1 << 16) * 4 + 256 * KERNEL;

fn check<const WORDS: usize>(slot: usize) {
    for ways in [1, 2, 4, 8] {
        for lcores in [1, 3] {
            let config = PoolConfig { slots: 256, ways, ..PoolConfig::default() };
            let before = HELD.get();
            let sessions = Pool::<HeapBuf, WORDS>::sessions(&config, Kernels::scalar(), lcores).unwrap();
            let taken = (HELD.get() - before).cast_unsigned();
            let said = Pool::<HeapBuf, WORDS>::memory_bytes(&config, lcores);
            let rings = lcores * (lcores - 1);
            let shares = lcores * TENANTS * 4;
            assert_eq!(
                said,
                256 / ways * 64 + 256 * slot + FIXED + shares + rings * (1024 * HANDED + TENANTS * 4)
            );
            // The rest: the pool's own fields, the sessions, and the counters of the rings.
            let beside = taken - said;
            assert!(beside <= 256 + lcores * 128 + rings * 640, "{beside} bytes beside {said}");
            drop(sessions);
            assert_eq!(HELD.get(), before);
        }
    }
}

#[test]
fn a_set_head_and_a_narrow_slot_are_a_cache_line_each() {
    check::<1>(64);
}

#[test]
fn a_slot_for_1024_ranks_is_three() {
    check::<16>(192);
}

#[test]
fn a_layout_that_cannot_be_takes_nothing() {
    for (slots, ways) in [(0, 1), (256, 0)] {
        let config = PoolConfig { slots, ways, ..PoolConfig::default() };
        assert_eq!(Pool::<HeapBuf>::memory_bytes(&config, 1), 0);
    }
}
