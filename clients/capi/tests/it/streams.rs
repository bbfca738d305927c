//! Several streams of operations on one job.

use core::ffi::{c_int, c_void};
use core::ptr;
use std::ffi::CString;
use std::sync::Barrier;

use pascaline::pascaline_dtype::*;
use pascaline::pascaline_op::*;
use pascaline::pascaline_status::*;
use pascaline::*;

use crate::appliance::{Appliance, Handle, RANKS};
use crate::{allreduce, begin};

/// Joins as many streams as there are places.
pub(crate) fn init(url: &str, places: &mut [*mut pascaline_handle]) -> pascaline_status {
    let url = CString::new(url).unwrap();
    // SAFETY: a string, and as many places as is said.
    unsafe { pascaline_streams_init(url.as_ptr(), places.len(), places.as_mut_ptr()) }
}

pub(crate) fn finalize(places: &mut [*mut pascaline_handle]) -> pascaline_status {
    // SAFETY: as many handles as is said, or null.
    unsafe { pascaline_streams_finalize(places.as_mut_ptr(), places.len()) }
}

/// Runs every rank on a thread of its own, with two streams.
fn on_every_rank(appliance: &Appliance, work: impl Fn(u16, [Handle; 2]) + Sync) {
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let (work, url) = (&work, appliance.url(rank, ""));
            scope.spawn(move || {
                let mut places = [ptr::null_mut(); 2];
                assert_eq!(init(&url, &mut places), PASCALINE_OK, "{}", Handle(places[0]).error());
                work(rank, places.map(Handle));
                assert_eq!((finalize(&mut places), places), (PASCALINE_OK, [ptr::null_mut(); 2]));
            });
        }
    });
}

fn wait(handle: Handle, request: &mut pascaline_request) {
    // SAFETY: a handle, and a place.
    assert_eq!(unsafe { pascaline_wait(handle.0, request) }, PASCALINE_OK, "{}", handle.error());
}

#[test]
fn an_urgent_operation_overtakes_one_that_waits() {
    let overtaken = Barrier::new(RANKS.into());
    on_every_rank(&Appliance::start(), |rank, [large, urgent]| {
        let mut tensor = vec![i32::from(rank) + 1; 50_000];
        // The last rank comes to the large one only after all have the small one's sum.
        let mut early = if rank == 0 { begin(large, &mut tensor) } else { 0 };
        let mut small = [i32::from(rank) + 1; 10];
        allreduce(urgent, None, &mut small, PASCALINE_I32, PASCALINE_SUM);
        assert_eq!(small, [3; 10]);
        let mut done = 7;
        // SAFETY: a handle, and places.
        let status = unsafe { pascaline_test(large.0, &mut early, &mut done) };
        assert_eq!((status, done), (PASCALINE_OK, c_int::from(rank != 0)));
        overtaken.wait();
        if rank != 0 {
            early = begin(large, &mut tensor);
        }
        wait(large, &mut early);
        assert!(tensor.iter().all(|&sum| sum == 3));
    });
}

#[test]
fn every_stream_may_have_a_thread_of_its_own() {
    on_every_rank(&Appliance::start(), |rank, streams| {
        std::thread::scope(|scope| {
            for (handle, number) in streams.into_iter().zip(1..) {
                scope.spawn(move || {
                    let Handle(_) = handle;
                    for _ in 0..20 {
                        let mut tensor = [f32::from(rank + 1) * number as f32; 3000];
                        allreduce(handle, None, &mut tensor, PASCALINE_F32, PASCALINE_SUM);
                        assert_eq!(tensor, [3.0 * number as f32; 3000]);
                    }
                });
            }
        });
    });
}

#[test]
fn layers_are_the_priority_of_what_is_called_from_then_on() {
    let appliance = Appliance::start();
    on_every_rank(&appliance, |_, [usual, urgent]| {
        // SAFETY: handles.
        unsafe {
            for (layer, layers) in [(1, 0), (0, 5), (-1, 5), (1, c_int::MIN), (6, 5)] {
                assert_eq!(pascaline_set_layer(urgent.0, layer, layers), PASCALINE_ERR_ARGUMENT);
                assert!(urgent.error().contains(&format!("layer {layer} of {layers}")));
            }
            assert_eq!(pascaline_set_layer(ptr::null_mut(), 1, 2), PASCALINE_ERR_NULL);
            assert_eq!(pascaline_set_layer(usual.0, 48, 48), PASCALINE_OK);
            assert_eq!(pascaline_set_layer(urgent.0, 1, 48), PASCALINE_OK);
        }
        let mut tensor = [1; 4];
        let mut request = begin(urgent, &mut tensor);
        allreduce(usual, None, &mut [1; 4], PASCALINE_I32, PASCALINE_SUM);
        wait(urgent, &mut request);
        assert_eq!(tensor, [2; 4]);
        // SAFETY: a handle.
        assert_eq!(unsafe { pascaline_set_layer(urgent.0, 0, 0) }, PASCALINE_OK);
    });
    // Nothing is known of an epoch before the first one: a second of it remains.
    assert_eq!((appliance.priorities(1), appliance.priorities(2)), (vec![16], vec![16 * 48]));
}

#[test]
fn finalize_completes_what_is_under_way_in_all_streams() {
    let mut tensors = [1, 2].map(|value| [(); 2].map(|()| vec![value; 9000]));
    let places: Vec<_> =
        tensors.iter_mut().map(|of| of.each_mut().map(|tensor| tensor.as_mut_ptr() as usize)).collect();
    on_every_rank(&Appliance::start(), |rank, streams| {
        // The ranks begin in different orders: streams know nothing of each other.
        let turn = usize::from(rank);
        for stream in [turn, 1 - turn] {
            // SAFETY: the vectors outlive the ranks, and only this one uses it meanwhile.
            let tensor = unsafe { core::slice::from_raw_parts_mut(places[turn][stream] as *mut i32, 9000) };
            assert_ne!(begin(streams[stream], tensor), 0);
        }
    });
    assert!(tensors.iter().flatten().flatten().all(|&sum| sum == 3));
}

#[test]
fn streams_may_be_finalized_one_by_one() {
    let appliance = Appliance::start();
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let url = appliance.url(rank, "");
            scope.spawn(move || {
                let mut places = [ptr::null_mut(); 2];
                assert_eq!(init(&url, &mut places), PASCALINE_OK);
                // SAFETY: a handle, for the first time.
                assert_eq!(unsafe { pascaline_finalize(&mut places[0]) }, PASCALINE_OK);
                assert!(places[0].is_null());
                // The same handle twice is as good as in a call.
                let mut twice = [places[1]; 2];
                assert_eq!(finalize(&mut twice), PASCALINE_ERR_BUSY);
                assert_eq!(twice, [places[1]; 2]);
                assert_eq!(finalize(&mut places), PASCALINE_OK);
                assert_eq!((finalize(&mut places), places), (PASCALINE_OK, [ptr::null_mut(); 2]));
            });
        }
    });
}

#[test]
fn streams_that_cannot_be() {
    let url = c"pascaline://10.0.0.1?job=65535&rank=0&ranks=4";
    let untouched = ptr::dangling_mut();
    let mut places = [untouched; 2];
    let at = places.as_mut_ptr();
    // SAFETY: null, or as many places as is said; counts that cannot be are not believed.
    unsafe {
        assert_eq!(pascaline_streams_init(url.as_ptr(), 2, ptr::null_mut()), PASCALINE_ERR_NULL);
        for count in [0, 65, 1 << 16 | 1, usize::MAX] {
            assert_eq!(pascaline_streams_init(url.as_ptr(), count, at), PASCALINE_ERR_COUNT);
        }
        assert_eq!(places, [untouched; 2]);
        assert_eq!(pascaline_streams_init(ptr::null(), 2, at), PASCALINE_ERR_NULL);
        assert_eq!(places, [ptr::null_mut(); 2]);
        assert_eq!(pascaline_streams_finalize(ptr::null_mut(), 2), PASCALINE_ERR_NULL);
        assert_eq!(pascaline_streams_finalize(at, usize::MAX), PASCALINE_ERR_COUNT);
        assert_eq!(pascaline_streams_finalize(at, 0), PASCALINE_OK);
    }
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let unused = format!("pascaline://{closed}?job=1&rank=0&ranks=4&timeout=200ms");
    for (url, expected, part) in [
        (url.to_str().unwrap(), PASCALINE_ERR_URL, "2 streams of job 65535"),
        ("pascaline://10.0.0.1?job=1", PASCALINE_ERR_URL, "rank is missing"),
        (&unused, PASCALINE_ERR_UNREACHABLE, &closed.to_string()),
    ] {
        assert_eq!(init(url, &mut places), expected);
        for handle in places.map(Handle) {
            assert!(handle.error().contains(part), "{url}: {}", handle.error());
            let (mut tensor, mut request) = ([0.0_f32], 0);
            let at = tensor.as_mut_ptr().cast::<c_void>();
            let (dtype, op) = (PASCALINE_F32 as c_int, PASCALINE_SUM as c_int);
            // SAFETY: a handle, a tensor of one element, and a place.
            let status = unsafe { pascaline_iallreduce(handle.0, at, at, 1, dtype, op, &mut request) };
            assert_eq!((status, request), (PASCALINE_ERR_STATE, 0));
        }
        assert_eq!((finalize(&mut places), places), (PASCALINE_OK, [ptr::null_mut(); 2]));
    }
}

/// The second stream's job is unknown: the first one is given up at once, and both handles say why.
#[test]
fn a_stream_that_cannot_join_ends_those_that_have() {
    let appliance = Appliance::start();
    std::thread::scope(|scope| {
        for rank in 0..RANKS {
            let url = appliance.url(rank, "&timeout=500ms&linger=1h").replace("job=1", "job=2");
            scope.spawn(move || {
                let mut places = [ptr::null_mut(); 2];
                assert_eq!(init(&url, &mut places), PASCALINE_ERR_UNREACHABLE);
                for handle in places.map(Handle) {
                    assert!(handle.error().contains("joining at"), "{}", handle.error());
                    // SAFETY: a handle.
                    assert_eq!(unsafe { pascaline_barrier(handle.0) }, PASCALINE_ERR_STATE);
                }
                assert_eq!(finalize(&mut places), PASCALINE_OK);
            });
        }
    });
}
