//! Elements in 8 bits: as they are, and as what `float` travels as.

use core::ffi::c_int;
use core::ptr;

use pascaline::pascaline_dtype::*;
use pascaline::pascaline_op::*;
use pascaline::pascaline_status::*;
use pascaline::*;
use pascaline_worker::{MxFp8, MxInt8};

use crate::allreduce;
use crate::appliance::{Appliance, Handle, RANKS};

const F32: c_int = PASCALINE_F32 as c_int;
const SUM: c_int = PASCALINE_SUM as c_int;
/// Of `float` elements as they are, in packets of 1,024 bytes.
const PACKETS: u64 = 16;
const ELEMENTS: usize = 4096;

fn set_wire(handle: Handle, dtype: pascaline_dtype) -> pascaline_status {
    // SAFETY: a handle.
    unsafe { pascaline_set_wire(handle.0, dtype as c_int) }
}

/// Packets that the latest operation took up.
fn packets(handle: Handle) -> u64 {
    let mut report = pascaline_report::default();
    // SAFETY: a handle, and a place.
    assert_eq!(unsafe { pascaline_last_report(handle.0, &mut report) }, PASCALINE_OK);
    report.packets
}

fn mine(rank: u16) -> [f32; ELEMENTS] {
    [[1.0, 5.0][usize::from(rank)]; ELEMENTS]
}

#[test]
fn blocks_are_elements() {
    Appliance::start().ranks("", |rank, handle| {
        let mut blocks = [MxInt8::of(&[f32::from(rank) - 0.25; 32]); 40];
        allreduce(handle, None, &mut blocks, PASCALINE_MXINT8, PASCALINE_SUM);
        assert_eq!(blocks, [MxInt8::of(&[0.5; 32]); 40]);
        let mut blocks = [MxFp8::of(&[f32::from(rank) - 0.25; 32]); 40];
        allreduce(handle, None, &mut blocks, PASCALINE_MXFP8, PASCALINE_MEAN);
        assert_eq!(blocks, [MxFp8::of(&[0.25; 32]); 40]);
        let (at, dtype) = (blocks.as_mut_ptr().cast(), PASCALINE_MXFP8 as c_int);
        // SAFETY: as many blocks as is said.
        let status = unsafe { pascaline_allreduce(handle.0, at, at, 40, dtype, PASCALINE_MAX as c_int) };
        assert_eq!(status, PASCALINE_ERR_UNSUPPORTED);
        assert!(handle.error().contains("added, not compared"), "{}", handle.error());
    });
}

#[test]
fn floats_travel_as_something_smaller() {
    // A payload holds 512 elements of 16 bits, or 31 blocks of 32.
    let wires = [(PASCALINE_F16, 8), (PASCALINE_BF16, 8), (PASCALINE_MXFP8, 5), (PASCALINE_MXINT8, 5)];
    Appliance::start().ranks("", |rank, handle| {
        for (dtype, expected) in wires {
            assert_eq!(set_wire(handle, dtype), PASCALINE_OK);
            let input = mine(rank);
            let mut output = [0.0; ELEMENTS];
            for (op, result) in [(PASCALINE_SUM, 6.0), (PASCALINE_MEAN, 3.0)] {
                allreduce(handle, Some(&input), &mut output, PASCALINE_F32, op);
                assert_eq!((output, packets(handle)), ([result; ELEMENTS], expected), "{dtype:?} {op:?}");
            }
            others_than_allreduce(rank, handle, expected);
            what_is_not_added_is_not_rounded(rank, handle);
            // Part of a block.
            let mut few = [1.0 + f32::EPSILON; 5];
            allreduce(handle, None, &mut few, PASCALINE_F32, PASCALINE_SUM);
            assert_eq!(few, [2.0; 5]);
        }
        assert_eq!(set_wire(handle, PASCALINE_F32), PASCALINE_OK);
        let mut exact = [1.0 + f32::EPSILON; ELEMENTS];
        allreduce(handle, None, &mut exact, PASCALINE_F32, PASCALINE_SUM);
        assert_eq!((exact, packets(handle)), ([2.0 + 2.0 * f32::EPSILON; ELEMENTS], PACKETS));
    });
}

fn others_than_allreduce(rank: u16, handle: Handle, expected: u64) {
    let ok = |status, packets_needed| {
        assert_eq!((status, packets(handle)), (PASCALINE_OK, packets_needed), "{}", handle.error());
    };
    let (input, mut output, mut request) = (mine(rank), mine(rank), 0);
    let at = output.as_mut_ptr().cast();
    // SAFETY: the arrays are as long as is said, here and below, and stay until the request is done.
    let status = unsafe {
        let status = pascaline_iallreduce(handle.0, at, at, ELEMENTS, F32, SUM, &mut request);
        assert_eq!(status, PASCALINE_OK);
        pascaline_wait(handle.0, &mut request)
    };
    ok(status, expected);
    assert_eq!(output, [6.0; ELEMENTS]);
    let mut output = [0.0_f32; ELEMENTS];
    let at = if rank == 1 { output.as_mut_ptr().cast() } else { ptr::null_mut() };
    // These two compare in a packet of their own what the ranks call.
    let expected = expected + 1;
    // SAFETY: as above.
    let status = unsafe { pascaline_reduce(handle.0, input.as_ptr().cast(), at, ELEMENTS, F32, SUM, 1) };
    ok(status, expected);
    assert_eq!((input, output), (mine(rank), [if rank == 1 { 6.0 } else { 0.0 }; ELEMENTS]));
    let mut tensor = mine(rank);
    let at = tensor.as_mut_ptr().cast();
    // SAFETY: as above.
    let status = unsafe { pascaline_reduce_scatter(handle.0, at, ELEMENTS, ptr::null(), F32, SUM) };
    ok(status, expected);
    let part = usize::from(rank) * ELEMENTS / 2..(usize::from(rank) + 1) * ELEMENTS / 2;
    assert!(tensor[part].iter().all(|&sum| sum == 6.0));
}

fn what_is_not_added_is_not_rounded(rank: u16, handle: Handle) {
    let input = mine(rank).map(|value| value + value * f32::EPSILON);
    let mut output = [0.0; ELEMENTS];
    allreduce(handle, Some(&input), &mut output, PASCALINE_F32, PASCALINE_MIN);
    assert_eq!((output, packets(handle)), ([1.0 + f32::EPSILON; ELEMENTS], PACKETS));
    let mut tensor = input;
    // SAFETY: as many elements as is said.
    let status =
        unsafe { pascaline_allgather(handle.0, tensor.as_mut_ptr().cast(), ELEMENTS, ptr::null(), F32) };
    assert_eq!((status, packets(handle)), (PASCALINE_OK, PACKETS + 1));
    assert!(tensor[..ELEMENTS / 2].iter().all(|&value| value == 1.0 + f32::EPSILON));
    let mut integers = [i32::MAX / 4; ELEMENTS];
    allreduce(handle, None, &mut integers, PASCALINE_I32, PASCALINE_SUM);
    assert_eq!((integers, packets(handle)), ([i32::MAX / 4 * i32::from(RANKS); ELEMENTS], PACKETS));
}

#[test]
fn a_url_says_what_floats_travel_as() {
    Appliance::start().ranks("&wire=mxint8", |rank, handle| {
        let mut tensor = mine(rank);
        allreduce(handle, None, &mut tensor, PASCALINE_F32, PASCALINE_SUM);
        assert_eq!((tensor, packets(handle)), ([6.0; ELEMENTS], 5));
    });
}

#[test]
fn what_floats_cannot_travel_as() {
    // SAFETY: null.
    assert_eq!(unsafe { pascaline_set_wire(ptr::null_mut(), F32) }, PASCALINE_ERR_NULL);
    Appliance::start().ranks("", |rank, handle| {
        assert_eq!(set_wire(handle, PASCALINE_MXFP8), PASCALINE_OK);
        for code in [PASCALINE_I32 as c_int, PASCALINE_U32 as c_int, PASCALINE_F64 as c_int, 0, 9, -1] {
            // SAFETY: a handle.
            assert_eq!(unsafe { pascaline_set_wire(handle.0, code) }, PASCALINE_ERR_UNSUPPORTED);
        }
        let mut tensor = mine(rank);
        let (at, counts) = (tensor.as_mut_ptr(), [48_usize; 2]);
        // SAFETY: the tensor is longer than is said.
        unsafe {
            let odd = at.cast::<u8>().wrapping_add(1).cast();
            assert_eq!(pascaline_allreduce(handle.0, odd, odd, 64, F32, SUM), PASCALINE_ERR_ARGUMENT);
            let status = pascaline_reduce_scatter(handle.0, at.cast(), 96, counts.as_ptr(), F32, SUM);
            assert_eq!(status, PASCALINE_ERR_UNSUPPORTED, "{}", handle.error());
        }
        // None of it has hurt, nor changed what was said before.
        allreduce(handle, None, &mut tensor, PASCALINE_F32, PASCALINE_SUM);
        assert_eq!((tensor, packets(handle)), ([6.0; ELEMENTS], 5));
    });
}
