//! A packet in DPDK's memory.

mod shared;

use core::fmt;
use core::mem::{self, ManuallyDrop};
use core::ptr::NonNull;
use core::slice;
use core::sync::atomic::Ordering;

use arrayvec::ArrayVec;
use pascaline_buffer::{PacketBuf, Scratch};
use pascaline_dpdk_sys::{self as sys, mbuf as field};

use crate::mempool::HEADROOM;

pub use shared::SharedMbuf;

/// A packet that exactly one holder owns. Dropping it gives it back to its pool.
///
/// Its first segment has this one holder and memory of its own, which makes writing sound. Behind it there may be
/// one read-only tail ([`append_shared`](PacketBuf::append_shared)).
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
    /// Invariants: it is the first segment of a packet of a `Mempool`; its reference count is 1; its buffer is its
    /// own (not indirect, not external); nobody else has the pointer; `data_off + data_len <= buf_len`.
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

    /// Segments: 1, or 2 with a tail.
    #[inline]
    #[must_use]
    pub fn segments(&self) -> u16 {
        // SAFETY: the mbuf is ours.
        unsafe { *field::nb_segs(self.as_raw()) }
    }

    /// Bytes that the first segment can take in all from its present start.
    #[inline]
    #[must_use]
    pub fn room(&self) -> usize {
        // SAFETY: the mbuf is ours.
        unsafe { usize::from(*field::buf_len(self.as_raw()) - *field::data_off(self.as_raw())) }
    }

    /// Replaces the contents of the first segment. False, and nothing done, where the memory does not suffice.
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
            // SAFETY: segments of a packet we own; those behind the first are read-only for everybody.
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
        // N packets are 8 N bytes of memory, so the count is far from 2^32.
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        // SAFETY: the first `count` places hold packets, which the array has just given up.
        unsafe { sys::psc_mbuf_free_burst(packets.as_mut_ptr().cast(), count) };
    }

    /// True if it has no tail, and so much room where its pool has its start.
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

/// True if flags of a received packet say that a checksum is wrong. Two bits each: unknown, bad, good, or "bad as written, but
/// fine" as virtual devices mark their own.
fn says_bad(flags: u64) -> bool {
    flags & sys::PSC_F_RX_IP_CKSUM_MASK == sys::PSC_F_RX_IP_CKSUM_BAD
        || flags & sys::PSC_F_RX_L4_CKSUM_MASK == sys::PSC_F_RX_L4_CKSUM_BAD
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

/// As [`compose`](PacketBuf::compose), one holder of the tail at a time.
#[cold]
fn compose_singly<T, const LEN: usize, const N: usize, const M: usize>(
    spare: &mut ArrayVec<Mbuf, N>,
    frames: &mut ArrayVec<Mbuf, M>,
    tail: &SharedMbuf,
    heads: &[T],
    mut write: impl FnMut(&T, &mut [u8; LEN]),
) -> usize {
    let count = heads.len().min(frames.remaining_capacity());
    for (done, head) in heads[..count].iter().enumerate() {
        let Some(mut packet) = Mbuf::renewed(spare, LEN) else { return done };
        let whole = packet.set_len(LEN);
        match packet.bytes_mut().first_chunk_mut() {
            Some(bytes) if whole => write(head, bytes),
            _ => return done,
        }
        packet.append_shared(tail.clone());
        frames.push(packet);
    }
    count
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

// SAFETY: by the invariants of the type, nobody else can reach the first segment or the private area behind the
// mbuf. Ownership moves with the pointer. Mbufs are aligned to 64.
unsafe impl PacketBuf for Mbuf {
    type Shared = SharedMbuf;

    #[inline]
    fn bytes(&self) -> &[u8] {
        // SAFETY: ours, and borrowed.
        unsafe { data(self.as_raw()) }
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: exclusively ours by the invariants, and exclusively borrowed; bounds as in `data`.
        unsafe {
            let mbuf = self.as_raw();
            let start = (*field::buf_addr(mbuf)).add(usize::from(*field::data_off(mbuf)));
            slice::from_raw_parts_mut(start, usize::from(*field::data_len(mbuf)))
        }
    }

    #[inline]
    fn truncate(&mut self, len: usize) {
        // SAFETY: the mbuf is ours.
        let has = unsafe { *field::data_len(self.as_raw()) };
        self.resize(u16::try_from(len).map_or(has, |len| len.min(has)));
    }

    #[inline]
    fn advance(&mut self, count: usize) -> bool {
        // SAFETY: the mbuf is ours.
        let has = unsafe { *field::data_len(self.as_raw()) };
        match u16::try_from(count) {
            Ok(count) if count <= has => {
                // SAFETY: the mbuf is ours, and the start moves no further than to the end of the data.
                unsafe { *field::data_off(self.as_raw()) += count };
                self.resize(has - count);
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn trim(&mut self, offset: usize, len: usize) -> bool {
        // SAFETY: the mbuf is ours.
        let has = unsafe { *field::data_len(self.as_raw()) };
        match (u16::try_from(offset), u16::try_from(len)) {
            (Ok(offset), Ok(len)) if usize::from(offset) + usize::from(len) <= usize::from(has) => {
                // SAFETY: the mbuf is ours, and the start moves no further than to the end of the data.
                unsafe { *field::data_off(self.as_raw()) += offset };
                self.resize(len);
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn retreat(&mut self, count: usize) -> bool {
        // SAFETY: the mbuf is ours.
        let (room, has) = unsafe { (*field::data_off(self.as_raw()), *field::data_len(self.as_raw())) };
        match u16::try_from(count) {
            // The buffer's length is 16 bits, and before and behind the start together are no more.
            Ok(count) if count <= room => {
                // SAFETY: the mbuf is ours, and the start moves no further than to the start of the buffer.
                unsafe { *field::data_off(self.as_raw()) -= count };
                self.resize(has + count);
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn set_len(&mut self, len: usize) -> bool {
        match u16::try_from(len) {
            Ok(new) if len <= self.room() => {
                self.resize(new);
                true
            }
            _ => false,
        }
    }

    #[inline]
    fn renew(&mut self, room: usize) -> bool {
        let serves = self.serves(room);
        if serves {
            let mbuf = self.as_raw();
            // SAFETY: the mbuf is ours, and the start lies in its buffer.
            unsafe {
                *field::data_off(mbuf) = HEADROOM;
                *field::ol_flags(mbuf) = 0;
                *field::data_len(mbuf) = 0;
                *field::pkt_len(mbuf) = 0;
            }
        }
        serves
    }

    #[inline]
    fn freeze(self) -> SharedMbuf {
        SharedMbuf::new(self)
    }

    #[inline(always)]
    fn thaw(shared: SharedMbuf) -> Option<Self> {
        shared.into_exclusive()
    }

    /// Appends `tail` by reference. A packet has one tail: a second one is a mistake of the caller, and is dropped.
    ///
    /// Whether the device sends such a packet as it is or the segments are copied together first is for the port to
    /// say: `Active::tx_multi_segment`.
    #[inline]
    fn append_shared(&mut self, tail: SharedMbuf) {
        debug_assert_eq!(self.segments(), 1, "a packet has at most one tail");
        if self.segments() != 1 {
            return;
        }
        let (mbuf, tail) = (self.as_raw(), tail.into_reference());
        // SAFETY: our own mbuf is written. The tail's length is read while we hold a reference on it, which the
        // chain takes over: DPDK frees a chain segment by segment, each by its own count, so that the tail survives
        // as long as somebody holds it. The tail itself is not written.
        unsafe {
            *field::next(mbuf) = tail.as_ptr();
            *field::nb_segs(mbuf) += *field::nb_segs(tail.as_ptr());
            *field::pkt_len(mbuf) += *field::pkt_len(tail.as_ptr());
        }
    }

    /// All fields in one go, and the holders of the tail counted at once: this is done for every result and member.
    #[inline(always)]
    fn compose<T, const LEN: usize, const N: usize, const M: usize>(
        spare: &mut ArrayVec<Self, N>,
        frames: &mut ArrayVec<Self, M>,
        tail: &SharedMbuf,
        heads: &[T],
        mut write: impl FnMut(&T, &mut [u8; LEN]),
    ) -> usize {
        let (have, held) = (spare.len(), frames.len());
        let count = heads.len().min(have).min(frames.remaining_capacity());
        if count == 0 {
            return 0;
        }
        let (Some(shared), Ok(len)) = (tail.reference_ahead(count), u16::try_from(LEN)) else {
            return compose_singly(spare, frames, tail, heads, write);
        };
        // SAFETY: we hold a count on the tail, which is not written.
        let (segments, total) = unsafe {
            (1 + *field::nb_segs(shared.as_ptr()), u32::from(len) + *field::pkt_len(shared.as_ptr()))
        };
        let mut done = 0;
        for head in &heads[..count] {
            // SAFETY: fewer than `count` are done, which is not more than there are.
            let packet = unsafe { &*spare.as_ptr().add(have - 1 - done) };
            if !packet.serves(LEN) {
                break;
            }
            let mbuf = packet.as_raw();
            // SAFETY: an mbuf of ours, of one segment with room for `LEN` bytes. The chain takes over one of the counts that were
            // made ahead: DPDK frees a chain segment by segment, each by its own count, so that the tail survives as long as
            // somebody holds it. The packet moves from one array to the other: what lies behind the lengths that are set below
            // is not looked at as packets, and `frames` has room for `count` more.
            unsafe {
                *field::data_off(mbuf) = HEADROOM;
                *field::ol_flags(mbuf) = 0;
                *field::next(mbuf) = shared.as_ptr();
                *field::nb_segs(mbuf) = segments;
                *field::pkt_len(mbuf) = total;
                *field::data_len(mbuf) = len;
                let start = (*field::buf_addr(mbuf)).add(usize::from(HEADROOM));
                write(head, &mut *start.cast());
                frames.as_mut_ptr().add(held + done).write(Self(packet.0));
            }
            done += 1;
        }
        // SAFETY: the last `done` packets of `spare` have been written behind those of `frames`.
        unsafe {
            spare.set_len(have - done);
            frames.set_len(held + done);
        }
        if done < count {
            // The next one does not serve.
            tail.uncount(count - done);
            return done + compose_singly(spare, frames, tail, &heads[done..], write);
        }
        done
    }

    #[inline]
    fn total_len(&self) -> usize {
        // SAFETY: the mbuf is ours. u32 fits.
        unsafe { *field::pkt_len(self.as_raw()) as usize }
    }

    #[inline]
    fn bad_checksum(&self) -> bool {
        const SAID: u64 = sys::PSC_F_RX_IP_CKSUM_MASK | sys::PSC_F_RX_L4_CKSUM_MASK;
        // SAFETY: the mbuf is ours.
        let flags = unsafe { *field::ol_flags(self.as_raw()) };
        flags & SAID != 0 && says_bad(flags)
    }

    #[inline]
    fn prefetch(&self) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: the mbuf is ours; prefetching has no effect that a program can observe, at whatever address.
        unsafe {
            use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            let start = (*field::buf_addr(self.as_raw())).add(usize::from(*field::data_off(self.as_raw())));
            _mm_prefetch::<_MM_HINT_T0>(start.cast::<i8>());
        }
    }

    #[inline]
    fn scratch_mut(&mut self) -> &mut Scratch {
        // SAFETY: exclusively ours; `Mempool` makes every private area large and aligned enough, and any bits are
        // a valid Scratch.
        unsafe { &mut *field::private(self.as_raw()).cast::<Scratch>() }
    }

    #[inline]
    fn into_raw(self) -> NonNull<()> {
        ManuallyDrop::new(self).0.cast()
    }

    #[inline]
    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.cast())
    }

    #[inline]
    unsafe fn raw_scratch(raw: NonNull<()>) -> *mut Scratch {
        // SAFETY: by contract this is one of our mbufs.
        unsafe { field::private(raw.cast().as_ptr()).cast() }
    }
}

const _: () = assert!(mem::size_of::<Mbuf>() == mem::size_of::<*mut sys::rte_mbuf>());
