//! The mbuf's fields by name: the one place that knows where they are.
//!
//! The offsets come from the C compiler (`psc_mbuf_layout` in `shim.h`), so they are those of the DPDK that
//! the program is linked against, whatever names bindgen gives to the anonymous members around them.

use core::sync::atomic::AtomicU16;

use crate::{
    PSC_MBUF_BUF_ADDR, PSC_MBUF_BUF_LEN, PSC_MBUF_DATA_LEN, PSC_MBUF_DATA_OFF, PSC_MBUF_NB_SEGS,
    PSC_MBUF_NEXT, PSC_MBUF_OL_FLAGS, PSC_MBUF_PKT_LEN, PSC_MBUF_POOL, PSC_MBUF_REFCNT, PSC_MBUF_SIZE,
    rte_mbuf, rte_mempool,
};

macro_rules! fields {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $offset:ident;)*) => {$(
        $(#[$doc])*
        ///
        /// # Safety
        /// `mbuf` points at an mbuf (which need not be initialised, as this only computes an address).
        #[inline(always)]
        #[must_use]
        pub const unsafe fn $name(mbuf: *mut rte_mbuf) -> *mut $type {
            // SAFETY: the offset is that of a field of this type inside the object that `mbuf` points at.
            unsafe { mbuf.byte_add($offset as usize).cast() }
        }
    )*};
}

fields! {
    /// Start of the segment's buffer.
    buf_addr: *mut u8 = PSC_MBUF_BUF_ADDR;
    /// Size of the segment's buffer.
    buf_len: u16 = PSC_MBUF_BUF_LEN;
    /// Where in the buffer the data begin.
    data_off: u16 = PSC_MBUF_DATA_OFF;
    /// Bytes of data in this segment.
    data_len: u16 = PSC_MBUF_DATA_LEN;
    /// Bytes of data in all segments; kept in the first one.
    pkt_len: u32 = PSC_MBUF_PKT_LEN;
    /// Segments of the packet; kept in the first one.
    nb_segs: u16 = PSC_MBUF_NB_SEGS;
    /// The following segment or null.
    next: *mut rte_mbuf = PSC_MBUF_NEXT;
    /// Verdicts of the device and properties of the buffer.
    ol_flags: u64 = PSC_MBUF_OL_FLAGS;
    /// Where the segment goes when it is freed.
    pool: *mut rte_mempool = PSC_MBUF_POOL;
    /// Holders of this segment. DPDK accesses it with C11 atomics on a plain `uint16_t`.
    refcnt: AtomicU16 = PSC_MBUF_REFCNT;
}

/// The private area, which follows the mbuf.
///
/// # Safety
/// `mbuf` points at an mbuf of a pool that was created with a private area.
#[inline(always)]
#[must_use]
pub const unsafe fn private(mbuf: *mut rte_mbuf) -> *mut u8 {
    // SAFETY: by contract memory of the same object follows the mbuf itself.
    unsafe { mbuf.byte_add(PSC_MBUF_SIZE as usize).cast() }
}
