//! The interface as C sees it, over loopback sockets, with the appliance of the worker's tests. This file has
//! the ordinary calls.
//!
//! - [`bad_input`]: each mistake gets a status and a text, and the handle stays usable
//! - [`generation`]: a rank starts anew while the others have operations in progress
//! - [`header`]: `include/pascaline.h` belongs to the source
//! - [`masked`]: sums that the appliance cannot read
//! - [`narrow`]: elements of 8 bits
//! - [`streams`]: several streams of operations on one job
#![allow(unsafe_code, reason = "calls what C calls")]
#![allow(clippy::expect_used, clippy::panic, clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../../../worker/tests/it/adversary.rs"]
#[allow(dead_code, reason = "shared with the worker's tests")]
mod adversary;
#[path = "../../../worker/tests/it/aggregator.rs"]
#[allow(dead_code, reason = "shared with the worker's tests")]
mod aggregator;
mod appliance;
mod bad_input;
mod generation;
mod header;
#[path = "../../../worker/tests/it/job.rs"]
#[allow(dead_code, reason = "shared with the worker's tests")]
mod job;
mod masked;
mod narrow;
mod streams;

use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::Barrier;

use pascaline::pascaline_dtype::*;
use pascaline::pascaline_op::*;
use pascaline::pascaline_status::*;
use pascaline::*;
use pascaline_worker::{Element, bf16, f16};

use appliance::{Appliance, Handle, RANKS};

/// An allreduce of a whole slice.
fn allreduce<T>(
    handle: Handle,
    input: Option<&[T]>,
    output: &mut [T],
    dtype: pascaline_dtype,
    op: pascaline_op,
) {
    let (count, output) = (output.len(), output.as_mut_ptr());
    let input = input.map_or(output.cast_const(), <[T]>::as_ptr);
    let (dtype, op) = (dtype as c_int, op as c_int);
    let status = loop {
        // SAFETY: the slices are as long as is said.
        match unsafe { pascaline_allreduce(handle.0, input.cast(), output.cast(), count, dtype, op) } {
            // Of the test with two threads, each finds the other in a call now and then.
            PASCALINE_ERR_BUSY => std::thread::yield_now(),
            status => break status,
        }
    };
    assert_eq!(status, PASCALINE_OK, "{}", handle.error());
}

fn every_operation<T: Element + PartialEq + core::fmt::Debug>(
    rank: u16,
    handle: Handle,
    dtype: pascaline_dtype,
) {
    let mine = T::nearest([1.0, 5.0][usize::from(rank)]);
    for (op, expected) in
        [(PASCALINE_SUM, 6.0), (PASCALINE_MIN, 1.0), (PASCALINE_MAX, 5.0), (PASCALINE_MEAN, 3.0)]
    {
        if (dtype, op) == (PASCALINE_U32, PASCALINE_MEAN) {
            continue;
        }
        let input = vec![mine; 1000];
        let mut output = vec![T::nearest(0.0); 1000];
        allreduce(handle, Some(&input), &mut output, dtype, op);
        assert!(output.iter().all(|&value| value == T::nearest(expected)), "{dtype:?} {op:?} {output:?}");
        assert!(input.iter().all(|&value| value == mine));
        let mut in_place = input;
        allreduce(handle, None, &mut in_place, dtype, op);
        assert_eq!(in_place, output);
    }
}

#[test]
fn every_type_and_operation() {
    Appliance::start().ranks("", |rank, handle| {
        every_operation::<f32>(rank, handle, PASCALINE_F32);
        every_operation::<i32>(rank, handle, PASCALINE_I32);
        every_operation::<u32>(rank, handle, PASCALINE_U32);
        every_operation::<f16>(rank, handle, PASCALINE_F16);
        every_operation::<bf16>(rank, handle, PASCALINE_BF16);
        every_operation::<f64>(rank, handle, PASCALINE_F64);
        allreduce(handle, None, &mut [0.0_f32; 0], PASCALINE_F32, PASCALINE_SUM);

        let mut saturated = [i32::MAX - 1; 2];
        allreduce(handle, None, &mut saturated, PASCALINE_I32, PASCALINE_SUM);
        let mut report = pascaline_report::default();
        // SAFETY: a handle, and a place.
        assert_eq!(unsafe { pascaline_last_report(handle.0, &mut report) }, PASCALINE_OK);
        assert_eq!((saturated, report.bytes, report.packets, report.overflows), ([i32::MAX; 2], 8, 1, 1));
        assert_eq!((report.missing_ranks, handle.error()), (0, String::new()));

        // Signed integers that are to wrap are given as unsigned ones.
        let mut wrapped = [i32::MAX - 1; 2];
        allreduce(handle, None, &mut wrapped, PASCALINE_U32, PASCALINE_SUM);
        // SAFETY: as above.
        assert_eq!(unsafe { pascaline_last_report(handle.0, &mut report) }, PASCALINE_OK);
        assert_eq!((wrapped, report.overflows), ([-4; 2], 0));
        let (at, mean) = (wrapped.as_mut_ptr().cast(), PASCALINE_MEAN as c_int);
        // SAFETY: a handle, and a tensor of that length.
        let refused = unsafe { pascaline_allreduce(handle.0, at, at, 2, PASCALINE_U32 as c_int, mean) };
        assert_eq!((refused, wrapped), (PASCALINE_ERR_UNSUPPORTED, [-4; 2]));
        assert!(handle.error().contains("sums of u32 wrap"), "{}", handle.error());
    });
}

/// Begins an allreduce of a whole buffer in place.
fn begin(handle: Handle, tensor: &mut [i32]) -> pascaline_request {
    let (count, at) = (tensor.len(), tensor.as_mut_ptr().cast::<c_void>());
    let (dtype, op, mut request) = (PASCALINE_I32 as c_int, PASCALINE_SUM as c_int, 0);
    // SAFETY: callers keep the tensor until the request is done.
    let status = unsafe { pascaline_iallreduce(handle.0, at, at, count, dtype, op, &mut request) };
    assert_eq!(status, PASCALINE_OK, "{}", handle.error());
    request
}

#[test]
fn operations_that_run_meanwhile_are_done_in_order() {
    Appliance::start().ranks("", |rank, handle| {
        let mut tensors: Vec<Vec<i32>> = (1..=4).map(|i| vec![i * i32::from(rank + 1); 3000]).collect();
        let mut requests: Vec<_> = tensors.iter_mut().map(|tensor| begin(handle, tensor)).collect();
        // One that blocks comes behind them.
        let mut last = [7; 4];
        allreduce(handle, None, &mut last, PASCALINE_I32, PASCALINE_SUM);
        assert_eq!(last, [14; 4]);
        let mut done = 0;
        // SAFETY: a handle, and places.
        assert_eq!(unsafe { pascaline_test(handle.0, &mut requests[3], &mut done) }, PASCALINE_OK);
        assert_eq!((done, requests[3]), (1, 0));
        for request in &mut requests {
            let before = *request;
            // SAFETY: as above.
            assert_eq!(unsafe { pascaline_wait(handle.0, request) }, PASCALINE_OK);
            assert_eq!(*request, 0);
            let mut again = before;
            // SAFETY: as above.
            let status = unsafe { pascaline_wait(handle.0, &mut again) };
            assert_eq!(status, if before == 0 { PASCALINE_OK } else { PASCALINE_ERR_REQUEST });
        }
        assert!(tensors.iter().zip(1..).all(|(tensor, i)| tensor.iter().all(|&sum| sum == 3 * i)));
    });
}

#[test]
fn what_is_begun_does_not_wait_for_what_runs() {
    let begun = Barrier::new(RANKS.into());
    Appliance::start().ranks("", |rank, handle| {
        let mut tensors = [vec![1; 3000], vec![2; 3000]];
        if rank == 1 {
            // Until then nothing of the other rank's can end.
            begun.wait();
        }
        let mut requests = tensors.each_mut().map(|tensor| begin(handle, tensor));
        if rank == 0 {
            begun.wait();
        }
        for request in &mut requests {
            // SAFETY: a handle, and a place.
            assert_eq!(unsafe { pascaline_wait(handle.0, request) }, PASCALINE_OK, "{}", handle.error());
        }
        assert_eq!(tensors, [vec![2; 3000], vec![4; 3000]]);
    });
}

#[test]
fn the_other_collectives() {
    Appliance::start().ranks("", |rank, handle| {
        let (root, mine) = (1, rank + 1);
        let (dtype, op) = (PASCALINE_F32 as c_int, PASCALINE_SUM as c_int);
        let ok = |status| assert_eq!(status, PASCALINE_OK, "{}", handle.error());
        let (input, mut output) = ([f32::from(mine); 700], [0.0_f32; 700]);
        let at = if rank == 1 { output.as_mut_ptr().cast() } else { ptr::null_mut() };
        // SAFETY: the arrays are as long as is said, here and below.
        ok(unsafe { pascaline_reduce(handle.0, input.as_ptr().cast(), at, 700, dtype, op, root) });
        assert_eq!((input, output), ([f32::from(mine); 700], [if rank == 1 { 3.0 } else { 0.0 }; 700]));

        // No whole number of integers.
        let mut text = if rank == 1 { *b"in place of it" } else { [0; 14] };
        // SAFETY: as above.
        ok(unsafe { pascaline_broadcast(handle.0, text.as_mut_ptr().cast(), 14, root) });
        assert_eq!(&text, b"in place of it");
        // The root's may be read-only memory.
        static GIVEN: [u8; 3001] = [7; 3001];
        let mut taken = [0; 3001];
        let at = if rank == 1 { GIVEN.as_ptr().cast_mut() } else { taken.as_mut_ptr() };
        // SAFETY: as above.
        ok(unsafe { pascaline_broadcast(handle.0, at.cast(), 3001, root) });
        assert!(rank == 1 || taken == GIVEN);
        // SAFETY: a handle.
        ok(unsafe { pascaline_barrier(handle.0) });

        let counts = [500_usize, 200];
        for (counts, expected) in [(ptr::null(), [0..350, 350..700]), (counts.as_ptr(), [0..500, 500..700])] {
            let (mut first, mut length) = (0, 0);
            // SAFETY: places, and as many counts as ranks.
            ok(unsafe { pascaline_part(handle.0, 700, counts, &mut first, &mut length) });
            let part = expected[usize::from(rank)].clone();
            assert_eq!(first..first + length, part);
            let mut tensor = input;
            // SAFETY: as above.
            ok(unsafe {
                pascaline_reduce_scatter(handle.0, tensor.as_mut_ptr().cast(), 700, counts, dtype, op)
            });
            let right =
                |(at, sum): (usize, &f32)| *sum == if part.contains(&at) { 3.0 } else { f32::from(mine) };
            assert!(tensor.iter().enumerate().all(right));
            let mut tensor = input;
            // SAFETY: as above.
            ok(unsafe { pascaline_allgather(handle.0, tensor.as_mut_ptr().cast(), 700, counts, dtype) });
            let right =
                |(at, value): (usize, &f32)| *value == if expected[0].contains(&at) { 1.0 } else { 2.0 };
            assert!(tensor.iter().enumerate().all(right));
        }
    });
}

#[test]
fn finalize_completes_what_is_under_way() {
    let mut tensors = [vec![1; 10_000], vec![2; 10_000]];
    let places: Vec<_> =
        tensors.iter_mut().map(|tensor| (tensor.as_mut_ptr() as usize, tensor.len())).collect();
    Appliance::start().ranks("", |rank, handle| {
        let (at, count) = places[usize::from(rank)];
        // SAFETY: the vector outlives the ranks, and only this one uses it meanwhile.
        let tensor = unsafe { core::slice::from_raw_parts_mut(at as *mut i32, count) };
        assert_ne!(begin(handle, tensor), 0);
    });
    assert!(tensors.iter().flatten().all(|&sum| sum == 3));
}

#[test]
fn a_second_thread_is_told_that_the_handle_is_busy() {
    let seen = Barrier::new(RANKS.into());
    Appliance::start().ranks("", |rank, handle| {
        let mut tensor = [1.0_f32; 100];
        if rank == 0 {
            std::thread::scope(|scope| {
                // It waits for the other rank, which waits until it has been seen to.
                let waiting = scope.spawn(move || {
                    let Handle(_) = handle;
                    allreduce(handle, None, &mut tensor, PASCALINE_F32, PASCALINE_SUM);
                });
                let mut report = pascaline_report::default();
                // SAFETY: a handle, and a place.
                while unsafe { pascaline_last_report(handle.0, &mut report) } != PASCALINE_ERR_BUSY {
                    assert!(!waiting.is_finished());
                    std::thread::yield_now();
                }
                seen.wait();
            });
        } else {
            seen.wait();
            allreduce(handle, None, &mut tensor, PASCALINE_F32, PASCALINE_SUM);
        }
    });
}

#[test]
fn who_waits_for_nobody_is_told_at_the_deadline() {
    Appliance::start().ranks("&timeout=300ms&linger=10ms", |rank, handle| {
        if rank == 1 {
            return;
        }
        let mut tensor = [1.0_f32; 8];
        let (at, count) = (tensor.as_mut_ptr().cast::<c_void>(), tensor.len());
        let again = || {
            // SAFETY: the tensor is as long as is said.
            unsafe {
                pascaline_allreduce(handle.0, at, at, count, PASCALINE_F32 as c_int, PASCALINE_SUM as c_int)
            }
        };
        let status = again();
        assert!(matches!(status, PASCALINE_ERR_TIMEOUT | PASCALINE_ERR_RANKS_LOST), "{status:?}");
        assert!(!handle.error().is_empty());
        assert_eq!(again(), PASCALINE_ERR_STATE, "{}", handle.error());
        let mut request = begin(handle, &mut [1; 0]);
        // SAFETY: a handle, and a place.
        assert_eq!(unsafe { pascaline_wait(handle.0, &mut request) }, PASCALINE_ERR_STATE);
        assert_eq!(ptr::null_mut::<u8>() as usize as u64, request);
    });
}
