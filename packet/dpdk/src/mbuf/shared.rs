//! Read-only packets, counted in the mbuf itself.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU16, Ordering};

use pascaline_buffer::SharedBuf;
use pascaline_dpdk_sys::{self as sys, mbuf as field};

use super::{Mbuf, data};

/// One of several holders of a packet that none of them writes.
///
/// The count is the mbuf's own: a device may take a holder as the tail of a packet, and its driver gives it
/// back on any lcore.
///
/// **At the end of the counter.** It has 16 bits. `clone` of a packet with [`MAX_HOLDERS`](Self::MAX_HOLDERS)
/// holders copies it into a fresh packet of its pool. Where that is impossible (pool empty, several segments)
/// the process aborts, as `std::sync::Arc` does: 32768 holders are a leak, not a load.
pub struct SharedMbuf(
    /// Invariants: first segment of a packet of a `Mempool`, of which we hold one count on each segment, and
    /// which is not written as long as we do.
    NonNull<sys::rte_mbuf>,
);

// SAFETY: the count is atomic, and the last holder may free on any thread. Not Sync: nothing needs it.
unsafe impl Send for SharedMbuf {}

impl SharedMbuf {
    /// Half the counter's range; the other half is for threads that pass the limit at the same moment.
    pub const MAX_HOLDERS: u16 = 1 << 15;

    #[inline]
    pub(super) fn new(packet: Mbuf) -> Self {
        Self(ManuallyDrop::new(packet).0)
    }

    /// Passes the count on to the caller.
    #[inline]
    pub(super) fn into_reference(self) -> NonNull<sys::rte_mbuf> {
        ManuallyDrop::new(self).0
    }

    /// The packet, if this is its only holder and it has one segment; otherwise this holder is dropped.
    #[inline(always)]
    pub(super) fn into_exclusive(self) -> Option<Mbuf> {
        // Acquire: former holders' reads come before the next owner's writes.
        if self.is_single() && self.count().load(Ordering::Acquire) == 1 {
            // SAFETY: the first and only segment of a packet that was an `Mbuf` before it was frozen, or a
            // copy of one, with memory of its own; the one count is ours, and no other can be made of it,
            // since we give up the pointer.
            return Some(unsafe { Mbuf::from_exclusive(self.into_reference()) });
        }
        None
    }

    /// Holders at this moment.
    #[must_use]
    pub fn holders(&self) -> u16 {
        self.count().load(Ordering::Relaxed)
    }

    #[inline]
    fn count(&self) -> &AtomicU16 {
        // SAFETY: the mbuf lives as long as self; DPDK accesses the field atomically, too.
        unsafe { &*field::refcnt(self.0.as_ptr()) }
    }

    /// True if it has one segment, as nearly always; otherwise it had a tail when it was frozen.
    #[inline]
    fn is_single(&self) -> bool {
        // SAFETY: the mbuf lives and is not written. Not by the pointer to the next one: it is in another
        // cache line.
        unsafe { *field::nb_segs(self.0.as_ptr()) == 1 }
    }

    #[cold]
    fn copy(&self) -> Self {
        // SAFETY: packet and pool live; the packet is only read. All of its bytes are copied.
        let copy = unsafe {
            let mbuf = self.0.as_ptr();
            sys::rte_pktmbuf_copy(mbuf, *field::pool(mbuf), 0, u32::MAX)
        };
        match NonNull::new(copy).map(Self) {
            // Otherwise `bytes` of the copy would differ from the original's.
            Some(copy) if self.is_single() && copy.is_single() => copy,
            _ => std::process::abort(),
        }
    }

    /// Counts one more holder of `segment`; false, and nothing done, at the limit.
    ///
    /// # Safety
    /// We hold a count on `segment`.
    #[inline]
    unsafe fn count_up(segment: NonNull<sys::rte_mbuf>) -> bool {
        // SAFETY: the mbuf lives by our count.
        let count = unsafe { &*field::refcnt(segment.as_ptr()) };
        // Relaxed, as for Arc: a holder makes the new one, and passing that on synchronises.
        let counted = count.fetch_add(1, Ordering::Relaxed) < Self::MAX_HOLDERS;
        if !counted {
            count.fetch_sub(1, Ordering::Relaxed);
        }
        counted
    }

    /// Counts `more` holders at once, for the caller to make from the pointer: half the cost of counting one
    /// by one when a result goes to many members. Returns `None` and changes nothing if they might exceed the
    /// limit, or if there are several segments, each with its own count.
    #[inline]
    pub(super) fn reference_ahead(&self, more: usize) -> Option<NonNull<sys::rte_mbuf>> {
        self.count_ahead(more).then_some(self.0)
    }

    /// Takes back counts that are not needed.
    #[cold]
    pub(super) fn uncount(&self, ahead: usize) {
        // Never the last: `self` still holds one. The number fitted when it was counted.
        self.count().fetch_sub(u16::try_from(ahead).unwrap_or(0), Ordering::Release);
    }

    #[inline]
    fn count_ahead(&self, more: usize) -> bool {
        let Some(more) = u16::try_from(more).ok().filter(|&more| more < Self::MAX_HOLDERS) else {
            return false;
        };
        if !self.is_single() {
            return false;
        }
        // The only holder, as of a new result: no other holder can count, and a store costs a tenth of an
        // atomic addition. The store ends the release sequences of former holders' drops, whose reads must
        // still come before the packet is freed. Acquire puts them before this store, and so before the drop
        // of every holder that is made here.
        if self.count().load(Ordering::Acquire) == 1 {
            self.count().store(1 + more, Ordering::Relaxed);
            return true;
        }
        // Below the limit before, and less than the limit more: no overflow. Relaxed, as in `count_up`.
        let fits = self.count().fetch_add(more, Ordering::Relaxed) < Self::MAX_HOLDERS;
        if !fits {
            self.count().fetch_sub(more, Ordering::Relaxed);
        }
        fits
    }

    /// As [`clone`](Clone::clone), where there are more segments than one: each has a count of its own.
    #[cold]
    fn clone_chain(&self) -> Self {
        let mut segment = Some(self.0);
        while let Some(raw) = segment {
            // SAFETY: we hold a count on each segment. A limit reached half way ends in `copy`, which does
            // not return for a chain, so that the counts already made need no undoing.
            unsafe {
                if !Self::count_up(raw) {
                    return self.copy();
                }
                segment = NonNull::new(*field::next(raw.as_ptr()));
            }
        }
        Self(self.0)
    }
}

impl Clone for SharedMbuf {
    #[inline]
    fn clone(&self) -> Self {
        if !self.is_single() {
            return self.clone_chain();
        }
        // SAFETY: we hold a count.
        if unsafe { Self::count_up(self.0) } { Self(self.0) } else { self.copy() }
    }
}

impl Drop for SharedMbuf {
    #[inline]
    fn drop(&mut self) {
        // A copy that is not the last goes without a call. Release: our reads come before the last holder's
        // free.
        if self.is_single() {
            let mut holders = self.count().load(Ordering::Relaxed);
            while holders > 1 {
                let fewer = holders - 1;
                match self.count().compare_exchange_weak(holders, fewer, Ordering::Release, Ordering::Relaxed)
                {
                    Ok(_) => return,
                    Err(now) => holders = now,
                }
            }
            // The last holder. Acquire: other holders' reads come before the next owner's writes.
            core::sync::atomic::fence(Ordering::Acquire);
        }
        // SAFETY: our count on each segment is given up; the last holder frees, and restores the state that a
        // pool expects.
        unsafe { sys::psc_mbuf_free(self.0.as_ptr()) };
    }
}

impl SharedBuf for SharedMbuf {
    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: a frozen packet is not written while there are holders.
        unsafe { data(self.0.as_ptr()) }
    }

    #[inline]
    fn descriptor(&self) -> *const u8 {
        self.0.as_ptr().cast_const().cast()
    }
}

impl fmt::Debug for SharedMbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedMbuf({} bytes, {} holders)", self.bytes().len(), self.holders())
    }
}
