//! A rank that starts anew: what the others have begun before they knew of it, and what comes next.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::sync::Barrier;

use pascaline::pascaline_dtype::*;
use pascaline::pascaline_op::*;
use pascaline::pascaline_status::*;
use pascaline::*;

use crate::appliance::{Appliance, Handle};
use crate::streams::{finalize, init};
use crate::{allreduce, begin};

/// Joins as many streams.
fn member(appliance: &Appliance, rank: u16, streams: usize) -> Vec<*mut pascaline_handle> {
    let mut places = vec![ptr::null_mut(); streams];
    let status = init(&appliance.url(rank, "&linger=10ms"), &mut places);
    assert_eq!(status, PASCALINE_OK, "{}", Handle(places[0]).error());
    places
}

fn sum(place: &*mut pascaline_handle) {
    let mut tensor = [1; 10];
    allreduce(Handle(*place), None, &mut tensor, PASCALINE_I32, PASCALINE_SUM);
    assert_eq!(tensor, [2; 10]);
}

/// The second rank works, goes when the first one is `ready`, and starts anew.
fn second_rank(appliance: &Appliance, streams: usize, ready: &Barrier) {
    for last in [false, true] {
        let mut places = member(appliance, 1, streams);
        places.iter().for_each(sum);
        if !last {
            ready.wait();
        }
        assert_eq!(finalize(&mut places), PASCALINE_OK);
    }
}

/// The other rank's next operation is the first one of its generation. Nothing that was begun here before the
/// end was reported may be taken for its counterpart.
#[test]
fn nothing_begins_until_the_end_of_a_generation_is_reported() {
    let (appliance, ready) = (Appliance::start(), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| second_rank(&appliance, 1, &ready));
        let mut places = member(&appliance, 0, 1);
        places.iter().for_each(sum);
        let handle = Handle(places[0]);
        let mut tensors = [[5; 10]; 3];
        let mut requests = tensors.each_mut().map(|tensor| begin(handle, tensor));
        ready.wait();
        let (mut tensor, mut none) = ([5; 10], 0);
        let at = tensor.as_mut_ptr().cast::<c_void>();
        let (dtype, op) = (PASCALINE_I32 as c_int, PASCALINE_SUM as c_int);
        for request in &mut requests {
            // SAFETY: a handle, tensors as long as is said, and places for requests.
            unsafe {
                // It waits until the others have failed, and does not begin then.
                let status = pascaline_allreduce(handle.0, at, at, 10, dtype, op);
                assert_eq!(status, PASCALINE_ERR_GENERATION, "{}", handle.error());
                let status = pascaline_iallreduce(handle.0, at, at, 10, dtype, op, &mut none);
                assert_eq!((status, none), (PASCALINE_ERR_GENERATION, 0), "{}", handle.error());
                assert!(handle.error().contains("is to be waited for"), "{}", handle.error());
                assert_eq!(pascaline_wait(handle.0, request), PASCALINE_ERR_GENERATION);
            }
        }
        places.iter().for_each(sum);
        assert_eq!(finalize(&mut places), PASCALINE_OK);
    });
}

#[test]
fn every_stream_tells_the_end_of_its_own_generation() {
    let appliance = Appliance::start();
    std::thread::scope(|scope| {
        scope.spawn(|| second_rank(&appliance, 2, &Barrier::new(1)));
        let mut places = member(&appliance, 0, 2);
        places.iter().for_each(sum);
        for &stream in &places {
            // SAFETY: a handle.
            let status = unsafe { pascaline_barrier(stream) };
            assert_eq!(status, PASCALINE_ERR_GENERATION, "{}", Handle(stream).error());
        }
        places.iter().for_each(sum);
        assert_eq!(finalize(&mut places), PASCALINE_OK);
    });
}
