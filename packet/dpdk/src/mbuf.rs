//! A packet in DPDK's memory.

mod packet;
mod shared;

use core::fmt;
use core::mem;
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::Ordering;

use arrayvec::ArrayVec;
use pascaline_buffer::PacketBuf as _;
use pascaline_dpdk_sys::{self as sys, mbuf as field};

use crate::mempool::HEADROOM;

pub use shared::SharedMbuf;

/// A packet with exactly one owner. Dropping it gives it back to its pool.
///
/// Its first segment has this one holder and memory of its own, which makes writing sound. Behind it there
/// may be one read-only tail ([`append_shared`](pascaline_buffer::PacketBuf::append_shared)).
///
/// ```compile_fail,E0599
/// fn two(packet: pascaline_dpdk::Mbuf) -> (pascaline_dpdk::Mbuf, pascaline_dpdk::Mbuf) {
///     (packet.clone(), packet)
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<pascaline_dpdk::Mbuf>();
/// ```
///
/// ```compile_fail,E0382
/// use pascaline_buffer::PacketBuf;
/// fn written_while_shared(mut packet: pascaline_dpdk::Mbuf) {
///     let shared = packet.freeze();
///     packet.bytes_mut().fill(0);
/// }
/// ```
#[repr(transparent)]
pub struct Mbuf(
    /// Invariants: it is the first segment of a packet of a `Mempool`; its reference count is 1; its buffer
    /// is its own (not indirect, not external); nothing else has the pointer; `data_off + data_len <=
    /// buf_len`.
    NonNull<sys::rte_mbuf>,
);

// SAFETY: mbufs are not bound to threads: a pool takes them back on any. Not Sync: nothing needs it.
unsafe impl Send for Mbuf {}

impl Mbuf {
    /// # Safety
    /// `raw` fulfils the invariants of the type and the caller gives up the pointer.
    #[inline]
    pub(crate) const unsafe fn from_exclusive(raw: NonNull<sys::rte_mbuf>) -> Self {
        Self(raw)
    }

    #[inline]
    pub(crate) const fn as_raw(&self) -> *mut sys::rte_mbuf {
        self.0.as_ptr()
    }

    /// Marks a received packet as one whose checksum is wrong if it is, as a device does that verifies it.
    /// What comes from this machine's own kernel without one is not asked about.
    #[inline]
    pub fn verify(&mut self, is_wrong: impl FnOnce(&[u8]) -> bool) {
        // SAFETY: the mbuf is ours.
        let flags = unsafe { *field::ol_flags(self.as_raw()) };
        let unfinished = flags & sys::PSC_F_RX_L4_CKSUM_MASK == sys::PSC_F_RX_L4_CKSUM_MASK;
        if !unfinished && is_wrong(self.bytes()) {
            self.mark_checksum(sys::PSC_F_RX_L4_CKSUM_BAD);
        }
    }

    /// The same packet, whose checksum its sender has left unfinished: drivers set both bits for that.
    pub(crate) fn unfinished(mut self) -> Self {
        self.mark_checksum(sys::PSC_F_RX_L4_CKSUM_MASK);
        self
    }

    fn mark_checksum(&mut self, verdict: u64) {
        // SAFETY: the mbuf is ours.
        let flags = unsafe { &mut *field::ol_flags(self.as_raw()) };
        *flags = *flags & !sys::PSC_F_RX_L4_CKSUM_MASK | verdict;
    }

    /// Segments: 1, or 2 with a tail.
    #[inline]
    #[must_use]
    pub fn segments(&self) -> u16 {
        // SAFETY: the mbuf is ours.
        unsafe { *field::nb_segs(self.as_raw()) }
    }

    /// Bytes that fit into the first segment from its present start.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        // SAFETY: the mbuf is ours.
        unsafe { usize::from(*field::buf_len(self.as_raw()) - *field::data_off(self.as_raw())) }
    }

    /// Replaces the contents of the first segment. False, and nothing done, if they do not fit.
    #[must_use]
    pub fn write(&mut self, bytes: &[u8]) -> bool {
        let fits = self.set_len(bytes.len());
        if fits {
            self.bytes_mut().copy_from_slice(bytes);
        }
        fits
    }

    /// A copy of the whole packet, all segments one after the other. For tests and tools: it allocates.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.total_len());
        let mut segment = Some(self.0);
        while let Some(raw) = segment {
            // SAFETY: segments of a packet we own; those behind the first are read-only for all holders.
            unsafe {
                all.extend_from_slice(data(raw.as_ptr()));
                segment = NonNull::new(*field::next(raw.as_ptr()));
            }
        }
        all
    }

    /// Gives all packets back, in one call.
    pub fn free_bulk<const N: usize>(packets: &mut ArrayVec<Self, N>) {
        let count = packets.len();
        // SAFETY: shortening only; the packets are freed below instead of being dropped.
        unsafe { packets.set_len(0) };
        // N packets take 8 N bytes, so the count is far from 2^32.
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        // SAFETY: the first `count` places hold packets, which the array has just given up.
        unsafe { sys::psc_mbuf_free_burst(packets.as_mut_ptr().cast(), count) };
    }

    /// True if it has no tail, and `room` bytes from where its pool starts packets.
    #[inline(always)]
    fn serves(&self, room: usize) -> bool {
        // SAFETY: the mbuf is ours.
        let size = unsafe { usize::from(*field::buf_len(self.as_raw())) };
        size >= usize::from(HEADROOM) + room && self.segments() == 1
    }

    /// Sets the length of the first segment, which the caller has checked to fit.
    #[inline]
    fn resize(&mut self, len: u16) {
        // SAFETY: the mbuf is ours.
        unsafe {
            let data_len = field::data_len(self.as_raw());
            let pkt_len = field::pkt_len(self.as_raw());
            *pkt_len = *pkt_len - u32::from(*data_len) + u32::from(len);
            *data_len = len;
        }
    }
}

/// The data of one segment.
///
/// # Safety
/// The mbuf lives and its data are not written during `'a`.
#[inline]
unsafe fn data<'a>(mbuf: *mut sys::rte_mbuf) -> &'a [u8] {
    // SAFETY: by contract; data_off + data_len <= buf_len. Buffers are mapped, hence initialised, memory.
    unsafe {
        let start = (*field::buf_addr(mbuf)).add(usize::from(*field::data_off(mbuf)));
        slice::from_raw_parts(start, usize::from(*field::data_len(mbuf)))
    }
}

/// True if the mbuf may become an [`Mbuf`]: one holder, one segment, memory of its own.
///
/// # Safety
/// The mbuf lives.
#[inline]
pub(crate) unsafe fn is_exclusive(mbuf: *mut sys::rte_mbuf) -> bool {
    // SAFETY: by contract. Acquire: if a former holder has let go, its reads come before our writes.
    unsafe {
        (*field::refcnt(mbuf)).load(Ordering::Acquire) == 1
            && *field::nb_segs(mbuf) == 1
            && *field::ol_flags(mbuf) & sys::PSC_F_NOT_DIRECT == 0
    }
}

impl Drop for Mbuf {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: the only holder gives it up. Frees the reference on the tail, too.
        unsafe { sys::psc_mbuf_free(self.as_raw()) };
    }
}

impl fmt::Debug for Mbuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mbuf({} bytes, {} segments)", self.total_len(), self.segments())
    }
}

const _: () = assert!(mem::size_of::<Mbuf>() == mem::size_of::<*mut sys::rte_mbuf>());
