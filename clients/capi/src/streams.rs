//! Several streams of operations on one job: an urgent one overtakes. Each is a handle of its own.

use core::ffi::{CStr, c_char, c_int};
use core::panic::AssertUnwindSafe;
use core::{mem, ptr, slice};
use std::panic::catch_unwind;
use std::time::Instant;

use pascaline_worker::{Hints, JoinError, MAX_STREAMS};

use crate::handle::pascaline_handle;
use crate::status::{Fault, pascaline_status};
use crate::url::Told;
use crate::{url, with};

use pascaline_status as Status;

/// Joins `count` streams of a job, 1 to 64, and waits until all ranks have. Each is a handle of its own, with
/// every call of this header, and may be used by another thread: what is begun in one does not wait for what
/// runs in another, so that a small operation overtakes a large one. Within a stream the order is that of
/// the calls, which must be the same at all ranks.
///
/// The URL is that of `pascaline_init`, and all ranks name as many streams. The appliance must have a job
/// for each: stream s of job j is job j + s; with t trees, it has the numbers from j + s * t on.
///
/// Unless it returns PASCALINE_ERR_NULL, PASCALINE_ERR_COUNT or PASCALINE_ERR_INTERNAL, all of
/// `handles` are then handles. After an error none has joined, and `pascaline_last_error` of each says why.
/// `pascaline_streams_finalize` is for all of them, `pascaline_finalize` for a single one.
///
/// # Safety
/// `url` must be null or a string that ends with a 0, and `handles` null or have places for `count` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_streams_init(
    url: *const c_char,
    count: usize,
    handles: *mut *mut pascaline_handle,
) -> pascaline_status {
    if handles.is_null() {
        return Status::PASCALINE_ERR_NULL;
    }
    let Some(streams) = u16::try_from(count).ok().filter(|streams| (1..=MAX_STREAMS).contains(streams))
    else {
        return Status::PASCALINE_ERR_COUNT;
    };
    // SAFETY: not null, and `count` places by this function's contract, few enough for a slice.
    unsafe { handles.write_bytes(0, count) };
    if url.is_null() {
        return Status::PASCALINE_ERR_NULL;
    }
    // SAFETY: not null, and ends with a 0 by this function's contract.
    let url = unsafe { CStr::from_ptr(url) };
    let joined = catch_unwind(|| {
        let text = url.to_str().map_err(|error| Fault::new(Status::PASCALINE_ERR_URL, error));
        join(text.and_then(|url| url::config(url, streams)), streams)
    });
    let Ok((joined, status)) = joined else { return Status::PASCALINE_ERR_INTERNAL };
    for (stream, handle) in joined.into_iter().enumerate() {
        // SAFETY: there are as many as places.
        unsafe { handles.add(stream).write(Box::into_raw(Box::new(handle))) };
    }
    status
}

/// Completes the operations in flight in all streams, leaves their jobs and frees the handles, which are null
/// afterwards. All leave at the same time: one after the other, ranks that do so in different orders would
/// wait for each other. Of `handles` those that are null are passed over. If another thread is in a call on
/// one of them, nothing happens.
///
/// # Safety
/// `handles` must be null or have `count` pointers, each null or a handle. No other thread may use them from
/// now on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_streams_finalize(
    handles: *mut *mut pascaline_handle,
    count: usize,
) -> pascaline_status {
    if handles.is_null() {
        return Status::PASCALINE_ERR_NULL;
    }
    if count > MAX_STREAMS.into() {
        return Status::PASCALINE_ERR_COUNT;
    }
    // SAFETY: not null, and `count` pointers by this function's contract.
    let places = unsafe { slice::from_raw_parts_mut(handles, count) };
    // SAFETY: null or handles by this function's contract.
    let closed = catch_unwind(AssertUnwindSafe(|| unsafe { close(places) }));
    let closed = closed.unwrap_or(Status::PASCALINE_ERR_INTERNAL);
    if matches!(closed, Status::PASCALINE_OK | Status::PASCALINE_ERR_INTERNAL) {
        for place in places.iter_mut().filter(|place| !place.is_null()) {
            // SAFETY: made from a box, and in the list once, since it was entered once; no call is in it.
            drop(unsafe { Box::from_raw(mem::replace(place, ptr::null_mut())) });
        }
    }
    closed
}

/// Which layer of a model the operations belong to that are called from now on, of `layers`, counted from 1
/// for the layer next to the input, whose gradient is computed last and needed first; 0 and 0, the default,
/// if unknown. Where operations contend for the appliance's memory, those of lower layers go first.
///
/// # Safety
/// `handle` must be null or a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pascaline_set_layer(
    handle: *mut pascaline_handle,
    layer: c_int,
    layers: c_int,
) -> pascaline_status {
    with(handle, |_, call| {
        let text = format_args!("layer {layer} of {layers}: 1 to the number of layers, or 0 of 0");
        let wrong = || Fault::new(Status::PASCALINE_ERR_ARGUMENT, text);
        let (Ok(layer), Ok(layers)) = (u32::try_from(layer), u32::try_from(layers)) else {
            return Err(wrong());
        };
        if layer > layers || (layer == 0) != (layers == 0) {
            return Err(wrong());
        }
        call.manner.hints = Hints { layer, layers, remaining: None };
        Ok(())
    })
}

/// As many handles as streams: members, or those that tell why they are none. One deadline is for all.
fn join(told: Result<Told, Fault>, streams: u16) -> (Vec<pascaline_handle>, Status) {
    let begun = Instant::now();
    let place = told.as_ref().map_or((0, 0), |told| (told.config.rank, told.config.ranks));
    let mut members = Vec::new();
    let joined = told.and_then(|Told { config, wire, key }| {
        for mut config in config.of_streams(streams).map_err(JoinError::from)? {
            config.join_deadline = config.join_deadline.saturating_sub(begun.elapsed());
            members.push(pascaline_handle::member(Told { config, wire, key: key.clone() })?);
        }
        Ok(())
    });
    let Err(fault) = joined else { return (members, Status::PASCALINE_OK) };
    members.into_iter().for_each(pascaline_handle::give_up);
    ((0..streams).map(|_| pascaline_handle::no_member(place, &fault)).collect(), fault.status)
}

/// Leaves with all that are not null, unless one is in a call.
///
/// # Safety
/// Each must be null or a handle.
unsafe fn close(places: &[*mut pascaline_handle]) -> Status {
    let mut entered = Vec::new();
    for &place in places {
        // SAFETY: this function's contract.
        let Some(handle) = (unsafe { place.as_ref() }) else { continue };
        match handle.enter() {
            Ok(call) => entered.push((handle, call)),
            Err(status) => return status,
        }
    }
    entered.iter().for_each(|(handle, _)| handle.begin_to_close());
    // All of them, whatever one has met.
    let ended: Vec<_> = entered.iter_mut().map(|(handle, call)| handle.close(call)).collect();
    ended.into_iter().find_map(Result::err).map_or(Status::PASCALINE_OK, |fault| fault.status)
}
