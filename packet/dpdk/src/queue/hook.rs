//! A function that sees received bursts first.

use core::ffi::c_void;
use core::slice;

use pascaline_dpdk_sys as sys;

use crate::mbuf::{Mbuf, is_exclusive};

type Closure = Box<dyn FnMut(&mut [Mbuf]) + Send>;

/// An installed hook. Dropping it removes it; no thread may be inside the queue then.
pub(super) struct Hook {
    port_id: u16,
    queue_id: u16,
    callback: *const sys::rte_eth_rxtx_callback,
    closure: *mut Closure,
}

// SAFETY: the closure is Send, and is called by the thread that polls the queue, to which the hook belongs.
// The callback is only touched when the hook is dropped.
unsafe impl Send for Hook {}

impl Hook {
    pub(super) fn install(port_id: u16, queue_id: u16, closure: Closure) -> Option<Self> {
        let closure = Box::into_raw(Box::new(closure));
        // SAFETY: the port is open; `closure` stays valid until the callback has been removed.
        let callback = unsafe { sys::rte_eth_add_rx_callback(port_id, queue_id, Some(call), closure.cast()) };
        if callback.is_null() {
            // SAFETY: not installed, so still ours.
            drop(unsafe { Box::from_raw(closure) });
            return None;
        }
        Some(Self { port_id, queue_id, callback, closure })
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        // SAFETY: the port is open and the callback is installed on it. As no thread is in the queue, it is
        // out of use once it has been removed, and freeing it is up to us. The closure is that of `install`.
        unsafe {
            sys::rte_eth_remove_rx_callback(self.port_id, self.queue_id, self.callback);
            sys::rte_free(self.callback.cast_mut().cast());
            drop(Box::from_raw(self.closure));
        }
    }
}

/// Shows the closure every burst whose packets can be Mbufs.
unsafe extern "C" fn call(
    _port: u16,
    _queue: u16,
    packets: *mut *mut sys::rte_mbuf,
    count: u16,
    _room: u16,
    closure: *mut c_void,
) -> u16 {
    if count == 0 {
        return 0;
    }
    // SAFETY: DPDK passes what `install` gave it, in the thread that polls the queue, one call at a time.
    let closure = unsafe { &mut *closure.cast::<Closure>() };
    // SAFETY: an array of `count` received packets.
    let burst = unsafe { slice::from_raw_parts_mut(packets, usize::from(count)) };
    // SAFETY: received mbufs live.
    if burst.iter().all(|&packet| unsafe { is_exclusive(packet) }) {
        // SAFETY: an Mbuf is a pointer to an mbuf, and these fulfil its invariants. The closure can exchange
        // them for other Mbufs, but not change their number; they are not dropped here.
        closure(unsafe { slice::from_raw_parts_mut(packets.cast::<Mbuf>(), burst.len()) });
    }
    count
}
