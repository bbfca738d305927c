//! libpascaline: a rank of a job for programs in C, and in whatever can call C.
//!
//! The header `include/pascaline.h` is made from this file and [`status`](pascaline_status) by cbindgen; a
//! test compares. docs/clients.md is the user's page.
//!
//! **Threads.** There is no global state. A handle belongs to one thread at a time: a second one that calls
//! meanwhile gets [`PASCALINE_ERR_BUSY`](pascaline_status::PASCALINE_ERR_BUSY). Different handles are
//! independent. Each has its own thread, which runs operations without a waiting caller, and answers other
//! ranks during pauses. A call that blocks runs in the calling thread.
//!
//! **Panics** never cross the border: they become `PASCALINE_ERR_INTERNAL`.
#![allow(unsafe_code, reason = "C passes pointers")]

mod collectives;
mod handle;
mod status;
mod streams;
mod tensor;
mod url;

use core::ffi::{CStr, c_char, c_int};
use core::panic::AssertUnwindSafe;
use core::ptr;
use std::panic::catch_unwind;

use pascaline_worker::Report;

pub use collectives::*;
use handle::c_string;
pub use handle::pascaline_handle;
pub use status::pascaline_status;
use status::{Fault, pascaline_status as Status};
pub use streams::*;

/// The type of a buffer's elements.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the names of the header")]
pub enum pascaline_dtype {
    /// float
    PASCALINE_F32 = 1,
    /// int32_t; sums saturate, which `pascaline_last_report` tells
    PASCALINE_I32 = 2,
    /// IEEE 754 binary16, 2 bytes
    PASCALINE_F16 = 3,
    /// bfloat16, 2 bytes
    PASCALINE_BF16 = 4,
    /// double
    PASCALINE_F64 = 5,
    /// 32 numbers of OCP MXFP8 (E4M3) behind their scale, 33 bytes; only added
    PASCALINE_MXFP8 = 6,
    /// 32 numbers of OCP MXINT8 behind their scale, 33 bytes; only added
    PASCALINE_MXINT8 = 7,
    /// uint32_t; sums wrap, as do those of int32_t given as this; no mean
    PASCALINE_U32 = 8,
}

/// What an operation makes of the elements of all ranks.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(non_camel_case_types, reason = "the names of the header")]
pub enum pascaline_op {
    /// Their sum.
    PASCALINE_SUM = 0,
    /// The least of them.
    PASCALINE_MIN = 1,
    /// The greatest of them.
    PASCALINE_MAX = 2,
    /// Their sum divided by the number of ranks.
    PASCALINE_MEAN = 3,
}

/// An operation that runs meanwhile. 0 is none.
#[allow(non_camel_case_types, reason = "the name of the header")]
pub type pascaline_request = u64;

/// What the latest operation was like.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
#[allow(non_camel_case_types, reason = "the name of the header")]
pub struct pascaline_report {
    /// Length of the tensor in bytes.
    pub bytes: u64,
    /// Packets that it took up.
    pub packets: u64,
    /// From its start to the last result, in nanoseconds.
    pub elapsed_ns: u64,
    /// From a packet to its result, in nanoseconds, smoothed; 0 if it is not known.
    pub round_trip_ns: u64,
    /// Packets sent again.
    pub retransmissions: u64,
    /// Packets of int32_t in which a sum has saturated.
    pub overflows: u64,
    /// Ranks that the result lacks: only with `partial=1` in the URL.
    pub missing_ranks: u64,
}

/// Joins a job, and waits until all of its ranks have.
///
/// The URL is `pascaline://appliance:16420?job=1&rank=0&ranks=4`: a name, an IPv4 address, or an IPv6 address
/// in brackets; the port may be left out. Further keys: `payload`, `in_flight`, `congestion`, `spread`,
/// `udp_ports`, `dscp`, `bind`, `timeout` (`500ms`, `30`: of joining and of each operation), `join_timeout`,
/// `linger`, `silence`, `partial=1` (take results that lack ranks), `wire` (as `pascaline_set_wire`: `f32`,
/// `f16`, `bf16`, `mxfp8`, `mxint8`), `security` with `key` (a file): `masked` (the appliance cannot read
/// what it adds), `mac` (packets prove their sender) or `encrypt` (and no host on the path can read them).
/// See docs/clients.md.
///
/// Unless it returns PASCALINE_ERR_NULL or PASCALINE_ERR_INTERNAL, `*handle` is then a handle:
/// after an error, one that `pascaline_last_error` and `pascaline_finalize` take.
///
/// # Safety
/// `url` must be null or a string that ends with a 0, and `handle` null or a place for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_init(
    url: *const c_char,
    handle: *mut *mut pascaline_handle,
) -> pascaline_status {
    if handle.is_null() {
        return Status::PASCALINE_ERR_NULL;
    }
    // SAFETY: not null, and a place for a pointer by this function's contract.
    unsafe { handle.write(ptr::null_mut()) };
    if url.is_null() {
        return Status::PASCALINE_ERR_NULL;
    }
    // SAFETY: not null, and ends with a 0 by this function's contract.
    let url = unsafe { CStr::from_ptr(url) };
    let joined = catch_unwind(|| {
        let text = url.to_str().map_err(|error| Fault::new(Status::PASCALINE_ERR_URL, error));
        pascaline_handle::join(text.and_then(|url| url::config(url, 1)))
    });
    let Ok((joined, status)) = joined else { return Status::PASCALINE_ERR_INTERNAL };
    // SAFETY: as above.
    unsafe { handle.write(Box::into_raw(Box::new(joined))) };
    status
}

/// Completes the operations in flight, leaves the job and frees the handle; `*handle` is null afterwards.
/// Helps ranks that still need results, for a while (`linger`). A program that ends without it is to the
/// others like one that has crashed.
///
/// # Safety
/// `handle` must be null or point to a handle or to null. No other thread may use the handle from now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_finalize(handle: *mut *mut pascaline_handle) -> pascaline_status {
    if handle.is_null() {
        return Status::PASCALINE_ERR_NULL;
    }
    // SAFETY: not null, and points to a pointer by this function's contract.
    let place = unsafe { &mut *handle };
    let closed = with(*place, pascaline_handle::close);
    if matches!(closed, Status::PASCALINE_OK | Status::PASCALINE_ERR_INTERNAL) && !place.is_null() {
        // SAFETY: made by `pascaline_init` from a box; no call is in it any more, and none may follow.
        drop(unsafe { Box::from_raw(core::mem::replace(place, ptr::null_mut())) });
    }
    closed
}

/// Whether an operation has ended: `*done` is then 1, `*request` 0, and its status is returned. The request 0
/// has ended.
///
/// # Safety
/// `handle` must be null or a handle, `request` and `done` null or places for what they are.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_test(
    handle: *mut pascaline_handle,
    request: *mut pascaline_request,
    done: *mut c_int,
) -> pascaline_status {
    with(handle, |handle, call| {
        let (request, done) = (required(request, "request")?, required(done, "done")?);
        // SAFETY: not null, and places by this function's contract.
        let (request, done) = unsafe { (&mut *request, &mut *done) };
        *done = 0;
        let ended = finish(handle, call, request, false);
        *done = c_int::from(*request == 0);
        ended
    })
}

/// Waits until an operation has ended, and returns its status; `*request` is then 0. The request 0 has ended.
///
/// # Safety
/// `handle` must be null or a handle, `request` null or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_wait(
    handle: *mut pascaline_handle,
    request: *mut pascaline_request,
) -> pascaline_status {
    with(handle, |handle, call| {
        // SAFETY: not null, and a place by this function's contract.
        let request = unsafe { &mut *required(request, "request")? };
        finish(handle, call, request, true)
    })
}

/// What the latest operation of the handle was like that ended well.
///
/// # Safety
/// `handle` must be null or a handle, `report` null or a place for one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_last_report(
    handle: *mut pascaline_handle,
    report: *mut pascaline_report,
) -> pascaline_status {
    with(handle, |_, call| {
        let place = required(report, "report")?;
        // SAFETY: not null, and a place by this function's contract.
        unsafe { place.write((&call.report).into()) };
        Ok(())
    })
}

/// The text of the handle's latest error: which rank, which reason, what to do. Empty if there was
/// none. Good until the next call on the handle.
///
/// # Safety
/// `handle` must be null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_last_error(handle: *const pascaline_handle) -> *const c_char {
    // SAFETY: null or a handle by this function's contract.
    let text = match unsafe { handle.as_ref() }.map(pascaline_handle::enter) {
        None => status::text(Status::PASCALINE_ERR_NULL as c_int),
        Some(Err(status)) => status::text(status as c_int),
        Some(Ok(call)) => return call.error.as_ptr(),
    };
    text.as_ptr()
}

/// The text of a status, of any number.
#[unsafe(no_mangle)]
pub extern "C" fn pascaline_strerror(status: c_int) -> *const c_char {
    status::text(status).as_ptr()
}

/// The library's version, as in "0.1.0".
#[unsafe(no_mangle)]
pub extern "C" fn pascaline_version() -> *const c_char {
    const VERSION: &CStr =
        match CStr::from_bytes_with_nul(concat!(env!("CARGO_PKG_VERSION"), "\0").as_bytes()) {
            Ok(version) => version,
            Err(_) => c"",
        };
    VERSION.as_ptr()
}

/// A call on a handle: null, busy, and panics are dealt with, and errors noted.
fn with(
    handle: *mut pascaline_handle,
    act: impl FnOnce(&pascaline_handle, &mut handle::Call) -> Result<(), Fault>,
) -> Status {
    // SAFETY: null or a handle by the contract of every caller.
    let Some(handle) = (unsafe { handle.as_ref() }) else { return Status::PASCALINE_ERR_NULL };
    let mut call = match handle.enter() {
        Ok(call) => call,
        Err(status) => return status,
    };
    let acted = catch_unwind(AssertUnwindSafe(|| act(handle, &mut call)));
    match acted.unwrap_or_else(|panic| Err(Fault::panicked(&*panic))) {
        Ok(()) => Status::PASCALINE_OK,
        Err(fault) => {
            call.error = c_string(fault.text);
            fault.status
        }
    }
}

fn required<T>(pointer: *mut T, name: &str) -> Result<*mut T, Fault> {
    let null = || Fault::new(Status::PASCALINE_ERR_NULL, format_args!("{name} is null"));
    if pointer.is_null() { Err(null()) } else { Ok(pointer) }
}

fn finish(
    handle: &pascaline_handle,
    call: &mut handle::Call,
    request: &mut pascaline_request,
    wait: bool,
) -> Result<(), Fault> {
    if *request == 0 {
        return Ok(());
    }
    let outcome = handle.outcome(*request, wait);
    if !matches!(outcome, Ok(None)) {
        *request = 0;
    }
    call.report = outcome?.unwrap_or(call.report);
    Ok(())
}

impl From<&Report> for pascaline_report {
    fn from(report: &Report) -> Self {
        let ns = |time: core::time::Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Self {
            bytes: report.bytes as u64,
            packets: report.packets.into(),
            elapsed_ns: ns(report.elapsed),
            round_trip_ns: report.round_trip.map_or(0, ns),
            retransmissions: report.counters.retransmissions,
            overflows: report.counters.overflows,
            missing_ranks: report.partial.map_or(0, |partial| partial.missing.len().into()),
        }
    }
}
