//! What the interface says to mistakes: a status and a text, and the handle stays as good as it was.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::ptr;

use pascaline::pascaline_dtype::*;
use pascaline::pascaline_op::*;
use pascaline::pascaline_status::*;
use pascaline::*;

use crate::allreduce;
use crate::appliance::{Appliance, Handle};

const F32: c_int = PASCALINE_F32 as c_int;
const SUM: c_int = PASCALINE_SUM as c_int;

#[test]
fn urls_that_are_not_understood() {
    for (url, part) in [
        ("", "pascaline://"),
        ("http://10.0.0.1", "pascaline://"),
        ("pascaline://", "job is missing"),
        ("pascaline://10.0.0.1?job=1&rank=0", "ranks is missing"),
        ("pascaline://?job=1&rank=0&ranks=4", "address is missing"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&rank=1", "rank is there twice"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&colour=red", "keys are job"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&partial=maybe", "partial=maybe"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&threads=1", "threads is gone: one thread"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&timeout=soon", "timeout=soon"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&bind=here", "bind=here"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&wire=i32", "f16, bf16, mxfp8 or mxint8"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&wire=mx", "wire=mx"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&security=tls", "expected none, masked, mac or encrypt"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&security=masked", "takes key=FILE"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&security=mac", "security=mac takes key=FILE"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&security=encrypt&key=/no", "key file /no: "),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&key=k", "key goes with security=masked"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&security=masked&key=/no", "key file /no: "),
        ("pascaline://10.0.0.1?job=70000&rank=0&ranks=4", "job=70000"),
        ("pascaline://10.0.0.1?job=-1&rank=0&ranks=4", "job=-1"),
        ("pascaline://10.0.0.1?job=1&rank=4&ranks=4", "rank 4 of 4"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=0", "0 ranks"),
        ("pascaline://10.0.0.1?job=1&rank=0&ranks=4&payload=7", "payload of 7"),
        ("pascaline://10.0.0.1?job=1&rank&ranks=4", "no key=value"),
        ("pascaline://10.0.0.1:0?job=1&rank=0&ranks=4", "port is 0"),
        ("pascaline://10.0.0.1:http?job=1&rank=0&ranks=4", "port=http"),
        ("pascaline://[::1?job=1&rank=0&ranks=4", "]"),
        ("pascaline://[::1]16420?job=1&rank=0&ranks=4", ":port"),
        ("pascaline://::1?job=1&rank=0&ranks=4", "address is missing"),
    ] {
        let (mut handle, status) = Handle::init(url);
        assert_eq!(status, PASCALINE_ERR_URL, "{url}");
        assert!(handle.error().contains(part), "{url}: {}", handle.error());
        // SAFETY: a handle.
        unsafe {
            let mut tensor = [0.0_f32];
            let at = tensor.as_mut_ptr().cast();
            assert_eq!(pascaline_allreduce(handle.0, at, at, 1, F32, SUM), PASCALINE_ERR_STATE);
            let mut request = 0;
            let status = pascaline_iallreduce(handle.0, at, at, 1, F32, SUM, &mut request);
            assert_eq!((status, request), (PASCALINE_ERR_STATE, 0));
            assert_eq!(pascaline_finalize(&mut handle.0), PASCALINE_OK);
            assert_eq!(pascaline_finalize(&mut handle.0), PASCALINE_ERR_NULL);
        }
    }
}

#[test]
fn appliances_that_are_not_there() {
    let closed = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for (place, expected) in [
        (closed.to_string(), PASCALINE_ERR_UNREACHABLE),
        ("no.such.host.invalid".to_owned(), PASCALINE_ERR_RESOLVE),
    ] {
        let url = format!("pascaline://{place}?job=1&rank=0&ranks=4&timeout=200ms");
        let (mut handle, status) = Handle::init(&url);
        assert_eq!(status, expected, "{}", handle.error());
        assert!(handle.error().contains(&place), "{}", handle.error());
        // SAFETY: a handle.
        assert_eq!(unsafe { pascaline_finalize(&mut handle.0) }, PASCALINE_OK);
    }
}

#[test]
fn null_handles_and_places() {
    let none = ptr::null_mut();
    let url = c"pascaline://10.0.0.1?job=1&rank=0&ranks=4";
    let (mut handle, mut request, mut done, mut tensor) = (none, 0, 0, [0.0_f32; 4]);
    let at = tensor.as_mut_ptr().cast::<c_void>();
    // SAFETY: null, or places for what they are.
    unsafe {
        assert_eq!(pascaline_init(url.as_ptr(), ptr::null_mut()), PASCALINE_ERR_NULL);
        assert_eq!(pascaline_init(ptr::null(), &mut handle), PASCALINE_ERR_NULL);
        assert!(handle.is_null());
        assert_eq!(pascaline_finalize(ptr::null_mut()), PASCALINE_ERR_NULL);
        assert_eq!(pascaline_allreduce(none, at, at, 4, F32, SUM), PASCALINE_ERR_NULL);
        assert_eq!(pascaline_iallreduce(none, at, at, 4, F32, SUM, &mut request), PASCALINE_ERR_NULL);
        assert_eq!(pascaline_test(none, &mut request, &mut done), PASCALINE_ERR_NULL);
        assert_eq!(pascaline_wait(none, &mut request), PASCALINE_ERR_NULL);
        assert_eq!(pascaline_last_report(none, ptr::null_mut()), PASCALINE_ERR_NULL);
    }
    assert_eq!(Handle(none).error(), "a pointer or a handle is null");
    // SAFETY: not UTF-8, and ends with a 0.
    let status = unsafe { pascaline_init([0xff_u8, 0].as_ptr().cast::<c_char>(), &mut handle) };
    assert_eq!(status, PASCALINE_ERR_URL);
    // SAFETY: a handle.
    assert_eq!(unsafe { pascaline_finalize(&mut handle) }, PASCALINE_OK);
}

#[test]
fn arguments_that_cannot_be() {
    Appliance::start().ranks("", |_, handle| {
        let mut tensor = [1.0_f32; 64];
        let at = tensor.as_mut_ptr().cast::<c_void>();
        let (null, further) = (ptr::null_mut(), at.wrapping_byte_add(64));
        for (input, output, count, dtype, op, expected) in [
            (null, at, 64, F32, SUM, PASCALINE_ERR_NULL),
            (at, null, 64, F32, SUM, PASCALINE_ERR_NULL),
            (at, at, usize::MAX, F32, SUM, PASCALINE_ERR_COUNT),
            (at, at, usize::MAX / 4, F32, SUM, PASCALINE_ERR_COUNT),
            (at, at, usize::MAX / 8, PASCALINE_F64 as c_int, SUM, PASCALINE_ERR_COUNT),
            (at, at, 64, 0, SUM, PASCALINE_ERR_UNSUPPORTED),
            (at, at, 64, 99, SUM, PASCALINE_ERR_UNSUPPORTED),
            (at, at, 64, -1, SUM, PASCALINE_ERR_UNSUPPORTED),
            (at, at, 64, F32, 4, PASCALINE_ERR_UNSUPPORTED),
            (at, at, 64, F32, c_int::MIN, PASCALINE_ERR_UNSUPPORTED),
            (at, further, 32, F32, SUM, PASCALINE_ERR_ARGUMENT),
        ] {
            let mut request = 0;
            // SAFETY: nothing is read or written, since each is a mistake.
            let (now, later) = unsafe {
                let later = pascaline_iallreduce(handle.0, input, output, count, dtype, op, &mut request);
                (pascaline_allreduce(handle.0, input, output, count, dtype, op), later)
            };
            assert_eq!((now, later, request), (expected, expected, 0), "{}", handle.error());
            assert!(!handle.error().is_empty());
        }
        // SAFETY: places, or null.
        unsafe {
            let (mut request, mut done) = (77, 1);
            assert_eq!(pascaline_test(handle.0, &mut request, ptr::null_mut()), PASCALINE_ERR_NULL);
            assert_eq!(pascaline_test(handle.0, ptr::null_mut(), &mut done), PASCALINE_ERR_NULL);
            assert_eq!(pascaline_wait(handle.0, ptr::null_mut()), PASCALINE_ERR_NULL);
            assert_eq!(pascaline_test(handle.0, &mut request, &mut done), PASCALINE_ERR_REQUEST);
            let status = pascaline_iallreduce(handle.0, at, at, 64, F32, SUM, ptr::null_mut());
            assert_eq!(status, PASCALINE_ERR_NULL);
        }
        roots_and_parts_that_cannot_be(handle, at);
        // None of it has hurt.
        allreduce(handle, None, &mut tensor, PASCALINE_F32, PASCALINE_SUM);
        assert_eq!(tensor, [2.0; 64]);
    });
}

/// `at` has 64 elements.
fn roots_and_parts_that_cannot_be(handle: Handle, at: *mut c_void) {
    let (counts, null) = ([60_usize, 5], ptr::null_mut());
    // SAFETY: the tensor is as long as is said where it is read.
    unsafe {
        for root in [-1, 2, c_int::MAX] {
            assert_eq!(pascaline_reduce(handle.0, at, at, 64, F32, SUM, root), PASCALINE_ERR_ARGUMENT);
            assert_eq!(pascaline_broadcast(handle.0, at, 64, root), PASCALINE_ERR_ARGUMENT);
        }
        assert_eq!(pascaline_reduce(handle.0, null, at, 64, F32, SUM, 0), PASCALINE_ERR_NULL);
        assert_eq!(pascaline_broadcast(handle.0, null, 1, 0), PASCALINE_ERR_NULL);
        assert_eq!(pascaline_broadcast(handle.0, at, usize::MAX, 0), PASCALINE_ERR_COUNT);
        let status = pascaline_reduce_scatter(handle.0, at, 64, counts.as_ptr(), F32, SUM);
        assert_eq!(status, PASCALINE_ERR_ARGUMENT);
        assert_eq!(pascaline_allgather(handle.0, at, 64, counts.as_ptr(), F32), PASCALINE_ERR_ARGUMENT);
        assert_eq!(pascaline_allgather(handle.0, null, 64, ptr::null(), F32), PASCALINE_ERR_NULL);
        let (mut first, none) = (0, ptr::null_mut());
        assert_eq!(pascaline_part(handle.0, 64, ptr::null(), &mut first, none), PASCALINE_ERR_NULL);
        let (counts, mut length) = (counts.as_ptr(), 0);
        let status = pascaline_part(handle.0, 64, counts, &mut first, &mut length);
        assert_eq!(status, PASCALINE_ERR_ARGUMENT);
    }
}

#[test]
fn every_status_has_a_text_of_its_own() {
    // SAFETY: texts that live as long as the program.
    let text = |code| unsafe { CStr::from_ptr(pascaline_strerror(code)) }.to_str().unwrap();
    let mut texts: Vec<_> = (0..=PASCALINE_ERR_INTEGRITY as c_int).map(text).collect();
    texts.sort_unstable();
    texts.dedup();
    assert_eq!(texts.len(), PASCALINE_ERR_INTEGRITY as usize + 1);
    assert!([-1, 21, c_int::MAX].into_iter().all(|code| text(code) == "no status of this library"));
    // SAFETY: as above.
    assert_eq!(unsafe { CStr::from_ptr(pascaline_version()) }.to_str(), Ok(env!("CARGO_PKG_VERSION")));
}
