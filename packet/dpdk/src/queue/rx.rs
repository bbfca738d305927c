//! Receiving.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;
use std::os::fd::RawFd;
use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_dpdk_sys::{self as sys, mbuf as field};

use super::MAX_BURST;
use super::hook::Hook;
use crate::kernel::Reader;
use crate::mbuf::{Mbuf, is_exclusive};
use crate::mempool::Mempool;
use crate::port::{Gate, Running, pass};

/// One receive queue of a started port.
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<pascaline_dpdk::RxQueue>();
/// ```
///
/// ```compile_fail,E0599
/// fn two(queue: pascaline_dpdk::RxQueue) -> (pascaline_dpdk::RxQueue, pascaline_dpdk::RxQueue) {
///     (queue.clone(), queue)
/// }
/// ```
pub struct RxQueue {
    port_id: u16,
    queue_id: u16,
    copied: u64,
    pool: Mempool,
    /// None of DPDK's queues: an interface of the kernel's.
    kernel: Option<Box<Reader>>,
    /// Keeps this queue's lcore out while the device is opened anew.
    gate: Option<Arc<Gate>>,
    /// Before `running`: removed while the port is open.
    hook: Option<Hook>,
    running: Arc<Running>,
    /// Send, but not Sync.
    _single: PhantomData<Cell<()>>,
}

impl RxQueue {
    pub(crate) fn new(running: Arc<Running>, queue_id: u16, pool: Mempool) -> Self {
        let port_id = running.port_id();
        let (kernel, gate, hook, _single) = (None, running.gate(), None, PhantomData);
        Self { port_id, queue_id, copied: 0, pool, kernel, gate, hook, running, _single }
    }

    /// The same, but of an interface of the kernel's.
    pub(crate) fn over(self, reader: Reader) -> Self {
        Self { kernel: Some(Box::new(reader)), ..self }
    }

    /// The descriptor to wait for, if it is an interface of the kernel's.
    #[must_use]
    pub fn waits_for(&self) -> Option<RawFd> {
        self.kernel.as_ref().map(|reader| reader.fd())
    }

    /// Appends received packets to `out`, while there is room and at most [`MAX_BURST`]. Returns their
    /// number.
    ///
    /// Every packet has one owner and one segment, with its VLAN tag in place. If a driver delivers
    /// otherwise, each such packet costs a copy; see [`copied`](Self::copied). A packet that cannot be copied
    /// is lost, and counts in [`Stats::rx_no_buffer`](crate::port::Stats::rx_no_buffer).
    #[inline]
    pub fn rx<const N: usize>(&mut self, out: &mut ArrayVec<Mbuf, N>) -> usize {
        if let Some(reader) = &mut self.kernel {
            return reader.rx(out);
        }
        let held = out.len();
        let room = out.remaining_capacity().min(MAX_BURST);
        let mut odd = 0;
        // SAFETY: `out` has `held` packets.
        let first = unsafe { out.as_mut_ptr().add(held).cast::<*mut sys::rte_mbuf>() };
        // SAFETY: the port is started as long as `running` lives, and not being reopened, by the gate; the
        // queue is exclusively borrowed, so that no other thread is in it. `out` has room for `room` packets
        // behind its last, and an Mbuf is a pointer to an mbuf.
        let got = pass(self.gate.as_deref(), || unsafe {
            #[allow(clippy::cast_possible_truncation, reason = "at most MAX_BURST")]
            let room = room as u16;
            sys::psc_rx_burst(self.port_id, self.queue_id, first, room, &raw mut odd)
        });
        let got = usize::from(got).min(room);
        let kept = if odd == 0 {
            got
        } else {
            // SAFETY: the driver has written `got` pointers there, whose mbufs are ours now.
            self.regularise(unsafe { core::slice::from_raw_parts_mut(first, got) })
        };
        // SAFETY: `kept` packets that fulfil the invariants of Mbuf follow the `held` ones: the shim reported
        // nothing odd, or they were put right.
        unsafe { out.set_len(held + kept) };
        kept
    }

    /// Discards received packets unread, at most [`MAX_BURST`], including those that [`rx`](Self::rx) would
    /// copy. Returns their number.
    pub fn discard(&mut self) -> usize {
        if let Some(reader) = &mut self.kernel {
            return reader.rx(&mut ArrayVec::<Mbuf, MAX_BURST>::new());
        }
        let mut burst = [core::ptr::null_mut::<sys::rte_mbuf>(); MAX_BURST];
        let mut odd = 0;
        // SAFETY: as in `rx`: the port is started and the queue exclusively borrowed; there is room for
        // MAX_BURST packets. Those received are ours, in any form, and are given up.
        pass(self.gate.as_deref(), || unsafe {
            #[allow(clippy::cast_possible_truncation, reason = "far fewer")]
            let room = MAX_BURST as u16;
            let got = sys::psc_rx_burst(self.port_id, self.queue_id, burst.as_mut_ptr(), room, &raw mut odd);
            sys::rte_pktmbuf_free_bulk(burst.as_mut_ptr(), u32::from(got));
            usize::from(got)
        })
    }

    /// Packets that were copied, since a driver delivered them shared or in several segments.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.queue_id
    }

    /// Lets `hook` see and change every burst before [`rx`](Self::rx) returns it; replaces an earlier hook.
    ///
    /// For benches and tests: with it, `net_null` delivers packets of any contents. The hook may change,
    /// lengthen and exchange packets, but not change their number. It does not see a burst with shared
    /// packets, as `net_ring` can deliver. A panic in it aborts the process, since it would have to pass
    /// through C. False if DPDK has no memory for it or was built without hooks.
    #[must_use]
    pub fn set_hook<F>(&mut self, hook: F) -> bool
    where
        F: FnMut(&mut [Mbuf]) + Send + 'static,
    {
        self.clear_hook();
        if self.kernel.is_some() || self.gate.is_some() {
            return false;
        }
        self.hook = Hook::install(self.port_id, self.queue_id, Box::new(hook));
        self.hook.is_some()
    }

    /// Removes the hook.
    pub fn clear_hook(&mut self) {
        // The queue is exclusively borrowed, so that the hook is not running.
        self.hook = None;
    }

    /// Puts the packets of a burst right and closes the gaps. Returns the number that is left.
    #[cold]
    fn regularise(&mut self, burst: &mut [*mut sys::rte_mbuf]) -> usize {
        let mut kept = 0;
        for index in 0..burst.len() {
            if let Some(mbuf) = self.regular(burst[index]) {
                burst[kept] = mbuf;
                kept += 1;
            }
        }
        kept
    }

    fn regular(&mut self, received: *mut sys::rte_mbuf) -> Option<*mut sys::rte_mbuf> {
        // SAFETY: a received mbuf, which is ours.
        let whole = if unsafe { is_exclusive(received) } { Some(received) } else { self.copy(received) };
        // SAFETY: ours, and exclusive by now. `psc_vlan_insert` puts the tag before the data, into the
        // headroom.
        let tagged = whole.filter(|&mbuf| unsafe {
            let stripped = *field::ol_flags(mbuf) & sys::PSC_F_RX_VLAN_STRIPPED != 0;
            let done = !stripped || sys::psc_vlan_insert(mbuf) == 0;
            if !done {
                sys::psc_mbuf_free(mbuf);
            }
            done
        });
        if tagged.is_none() {
            self.running.lost().received.fetch_add(1, Relaxed);
        }
        tagged
    }

    /// Copies the packet into one fresh buffer and frees the packet.
    fn copy(&mut self, received: *mut sys::rte_mbuf) -> Option<*mut sys::rte_mbuf> {
        // SAFETY: a received packet is ours; it is only read, and then freed. A copy that fits one buffer of
        // the pool has one segment, which is fresh and therefore exclusive.
        let copy = unsafe {
            let fits = *field::pkt_len(received) <= u32::from(self.pool.room());
            let copy = if fits {
                sys::rte_pktmbuf_copy(received, self.pool.as_raw(), 0, u32::MAX)
            } else {
                core::ptr::null_mut()
            };
            sys::psc_mbuf_free(received);
            copy
        };
        self.copied += u64::from(!copy.is_null());
        (!copy.is_null()).then_some(copy)
    }
}

impl fmt::Debug for RxQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RxQueue({} of {:?}, hook: {})", self.queue_id, self.running, self.hook.is_some())
    }
}
