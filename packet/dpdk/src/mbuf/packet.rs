//! The packet path's operations on a packet.

use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::slice;

use arrayvec::ArrayVec;
use pascaline_buffer::prefetch::prefetch;
use pascaline_buffer::{PacketBuf, Scratch};
use pascaline_dpdk_sys::{self as sys, mbuf as field};

use super::{Mbuf, SharedMbuf, data};
use crate::mempool::HEADROOM;

// SAFETY: by the invariants of the type, nothing else can reach the first segment or the private area behind
// the mbuf. Ownership moves with the pointer. Mbufs are aligned to 64.
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

    /// Appends `tail` by reference. A packet has one tail; a second one is the caller's mistake and is
    /// dropped.
    ///
    /// `Active::tx_multi_segment` says whether the device sends such a packet as it is, or the segments are
    /// first copied together.
    #[inline]
    fn append_shared(&mut self, tail: SharedMbuf) {
        debug_assert_eq!(self.segments(), 1, "a packet has at most one tail");
        if self.segments() != 1 {
            return;
        }
        let (mbuf, tail) = (self.as_raw(), tail.into_reference());
        // SAFETY: our own mbuf is written. The tail's length is read while we hold a reference on it, which
        // the chain takes over: DPDK frees a chain segment by segment, each by its own count, so that the
        // tail survives as long as it is held. The tail itself is not written.
        unsafe {
            *field::next(mbuf) = tail.as_ptr();
            *field::nb_segs(mbuf) += *field::nb_segs(tail.as_ptr());
            *field::pkt_len(mbuf) += *field::pkt_len(tail.as_ptr());
        }
    }

    /// Sets all fields at once and counts the tail's holders at once: this runs for every result and member.
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
            // SAFETY: fewer than `count` are done, and there are at least `count`.
            let packet = unsafe { &*spare.as_ptr().add(have - 1 - done) };
            if !packet.serves(LEN) {
                break;
            }
            let mbuf = packet.as_raw();
            // SAFETY: an mbuf of ours, of one segment with room for `LEN` bytes. The chain takes over one of
            // the counts that were made ahead: DPDK frees a chain segment by segment, each by its own count,
            // so that the tail survives as long as it is held. The packet moves from one array to the other:
            // the places behind the lengths that are set below are not used as packets, and `frames` has room
            // for `count` more.
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
            // The next packet does not fit.
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
        flags & SAID != 0 && has_bad_checksum(flags)
    }

    #[inline]
    fn prefetch(&self) {
        // SAFETY: the mbuf is ours, and its data lies in its buffer.
        prefetch(unsafe {
            (*field::buf_addr(self.as_raw())).add(usize::from(*field::data_off(self.as_raw())))
        });
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
        // SAFETY: by contract this is one of our mbufs; `Mempool` makes every private area large and aligned
        // enough.
        unsafe { field::private(raw.cast().as_ptr()).cast() }
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

/// True if a received packet's flags say that a checksum is wrong. Two bits each: unknown, bad, good, or "bad
/// as written, but fine", as virtual devices mark their own.
fn has_bad_checksum(flags: u64) -> bool {
    flags & sys::PSC_F_RX_IP_CKSUM_MASK == sys::PSC_F_RX_IP_CKSUM_BAD
        || flags & sys::PSC_F_RX_L4_CKSUM_MASK == sys::PSC_F_RX_L4_CKSUM_BAD
}
