//! Packets on the heap: what tests, benches and simulations use in the place of mbufs.

use core::fmt;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

use crate::packet::{PacketBuf, Scratch, SharedBuf};

/// Counts the live packets of one origin, so that tests can prove that none leaks.
#[derive(Debug, Clone, Default)]
pub struct HeapPool {
    live: Arc<AtomicUsize>,
}

impl HeapPool {
    /// A new origin with no live packets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Packets allocated and not yet given back; a shared packet counts once.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }

    /// A packet holding a copy of `bytes`, with room for `capacity` bytes in all.
    #[must_use]
    pub fn alloc(&self, bytes: &[u8], capacity: usize) -> HeapBuf {
        let room = capacity.max(bytes.len());
        let mut memory = vec![0u8; room + ALIGN].into_boxed_slice();
        let base = base(&memory);
        memory[base..base + bytes.len()].copy_from_slice(bytes);
        self.live.fetch_add(1, Ordering::SeqCst);
        HeapBuf {
            inner: Box::new(Inner {
                scratch: Scratch { link: core::ptr::null_mut(), words: [0; 7] },
                memory,
                base,
                limit: base + room,
                start: base,
                end: base + bytes.len(),
                tail: None,
                bad_checksum: false,
                live: Live(self.live.clone()),
            }),
        }
    }
}

/// Packets start at cache lines, as mbufs do.
const ALIGN: usize = 64;

/// Where data begin in this memory.
fn base(memory: &[u8]) -> usize {
    memory.as_ptr().align_offset(ALIGN).min(ALIGN)
}

struct Live(Arc<AtomicUsize>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[repr(C)]
struct Inner {
    scratch: Scratch,
    memory: Box<[u8]>,
    /// Of the memory, what may be used: from here to the limit, and not what is left over because of where the memory happens to lie. What fits
    /// must not depend on that, or the same seed would not do the same.
    base: usize,
    limit: usize,
    start: usize,
    end: usize,
    tail: Option<HeapShared>,
    bad_checksum: bool,
    live: Live,
}

// SAFETY: the only member that is not Send by itself is the scratch line's link, a plain value that is only
// followed by whoever owns the packet, under the contract of `PacketBuf`.
unsafe impl Send for Inner {}
// SAFETY: a shared `Inner` is only read, and nothing reads the link through a shared reference.
unsafe impl Sync for Inner {}

/// An exclusively owned packet on the heap.
pub struct HeapBuf {
    inner: Box<Inner>,
}

impl HeapBuf {
    /// Marks the packet as one whose checksum the device found wrong.
    #[must_use]
    pub fn with_bad_checksum(mut self) -> Self {
        self.inner.bad_checksum = true;
        self
    }

    /// The whole packet, all segments one after the other.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = self.bytes().to_vec();
        if let Some(tail) = &self.inner.tail {
            all.extend_from_slice(tail.bytes());
        }
        all
    }
}

impl fmt::Debug for HeapBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeapBuf({} bytes)", self.total_len())
    }
}

// SAFETY: the box is the only path to its memory; into_raw/from_raw are Box's own; a box of a type with
// pointer-sized members is aligned to 8.
unsafe impl PacketBuf for HeapBuf {
    type Shared = HeapShared;

    #[inline]
    fn bytes(&self) -> &[u8] {
        &self.inner.memory[self.inner.start..self.inner.end]
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        let inner = &mut *self.inner;
        &mut inner.memory[inner.start..inner.end]
    }

    fn truncate(&mut self, len: usize) {
        let inner = &mut *self.inner;
        inner.end = inner.end.min(inner.start + len);
    }

    fn advance(&mut self, count: usize) -> bool {
        let fits = count <= self.inner.end - self.inner.start;
        if fits {
            self.inner.start += count;
        }
        fits
    }

    fn retreat(&mut self, count: usize) -> bool {
        let fits = count <= self.inner.start - self.inner.base;
        if fits {
            self.inner.start -= count;
        }
        fits
    }

    fn set_len(&mut self, len: usize) -> bool {
        let inner = &mut *self.inner;
        let fits = len <= inner.limit - inner.start;
        if fits {
            inner.end = inner.start + len;
        }
        fits
    }

    fn renew(&mut self, room: usize) -> bool {
        let inner = &mut *self.inner;
        let fits = room <= inner.limit - inner.base && inner.tail.is_none();
        if fits {
            (inner.start, inner.end, inner.bad_checksum) = (inner.base, inner.base, false);
        }
        fits
    }

    fn freeze(self) -> HeapShared {
        HeapShared { inner: Arc::from(self.inner) }
    }

    fn append_shared(&mut self, tail: HeapShared) {
        self.inner.tail = Some(tail);
    }

    fn total_len(&self) -> usize {
        self.bytes().len() + self.inner.tail.as_ref().map_or(0, |tail| tail.bytes().len())
    }

    fn bad_checksum(&self) -> bool {
        self.inner.bad_checksum
    }

    fn prefetch(&self) {}

    fn scratch_mut(&mut self) -> &mut Scratch {
        &mut self.inner.scratch
    }

    fn into_raw(self) -> NonNull<()> {
        NonNull::from(Box::leak(self.inner)).cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: by contract `raw` is a leaked box of `Inner` that nobody else has taken back.
        Self { inner: unsafe { Box::from_raw(raw.cast::<Inner>().as_ptr()) } }
    }

    unsafe fn raw_scratch(raw: NonNull<()>) -> *mut Scratch {
        // SAFETY: by contract `raw` points at a live `Inner`; this only computes a member's address.
        unsafe { &raw mut (*raw.cast::<Inner>().as_ptr()).scratch }
    }
}

/// A read-only packet on the heap.
#[derive(Clone)]
pub struct HeapShared {
    inner: Arc<Inner>,
}

impl HeapShared {
    /// Holders at this moment.
    #[must_use]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.inner)
    }
}

impl fmt::Debug for HeapShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeapShared({} bytes)", self.bytes().len())
    }
}

impl SharedBuf for HeapShared {
    fn bytes(&self) -> &[u8] {
        &self.inner.memory[self.inner.start..self.inner.end]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrayvec::ArrayVec;

    #[test]
    fn a_packet_is_counted_until_its_last_holder_goes() {
        let pool = HeapPool::new();
        let packet = pool.alloc(b"payload", 64);
        let shared = packet.freeze();
        let second = shared.clone();
        drop(shared);
        assert_eq!(pool.live(), 1);
        assert_eq!(second.bytes(), b"payload");
        drop(second);
        assert_eq!(pool.live(), 0);
    }

    #[test]
    fn raw_round_trip_keeps_the_packet() {
        let pool = HeapPool::new();
        let raw = pool.alloc(b"abc", 3).into_raw();
        assert_eq!(pool.live(), 1);
        // SAFETY: `raw` comes from into_raw one line above.
        let packet = unsafe { HeapBuf::from_raw(raw) };
        assert_eq!(packet.bytes(), b"abc");
        drop(packet);
        assert_eq!(pool.live(), 0);
    }

    #[test]
    fn trimming_refuses_what_is_not_there() {
        let pool = HeapPool::new();
        let mut packet = pool.alloc(&[1, 2, 3, 4], 8);
        assert!(!packet.advance(5));
        assert!(packet.advance(1));
        packet.truncate(2);
        assert_eq!(packet.bytes(), &[2, 3]);
        assert!(!packet.set_len(1 << 20));
        assert!(packet.retreat(1));
        assert_eq!(packet.bytes(), &[1, 2, 3]);
        assert!(!packet.retreat(1 << 20));
        assert_eq!(packet.bytes(), &[1, 2, 3]);
        assert!(!packet.trim(2, 2) && !packet.trim(4, 0) && !packet.trim(1, usize::MAX));
        assert_eq!(packet.bytes(), &[1, 2, 3]);
        assert!(packet.trim(1, 1));
        assert_eq!(packet.bytes(), &[2]);
    }

    #[test]
    fn a_renewed_packet_is_as_if_fresh() {
        let pool = HeapPool::new();
        let mut packet = pool.alloc(&[1, 2, 3, 4], 1024).with_bad_checksum();
        let start = packet.bytes().as_ptr();
        assert!(packet.trim(1, 2));
        assert!(!packet.renew(2048));
        assert_eq!((packet.bytes(), packet.bad_checksum()), (&[2, 3][..], true));
        assert!(packet.renew(1024));
        assert_eq!((packet.bytes(), packet.bad_checksum()), (&[][..], false));
        assert!(packet.set_len(1024));
        assert_eq!(packet.bytes().as_ptr(), start);
        packet.append_shared(pool.alloc(b"tail", 4).freeze());
        assert!(!packet.renew(1024));
        // Those that do not serve are freed, and no more of them than have to be.
        let mut spare = ArrayVec::<HeapBuf, 4>::new();
        spare.extend([pool.alloc(b"left", 1024), pool.alloc(b"long", 1024), pool.alloc(b"short", 5), packet]);
        let found = HeapBuf::renewed(&mut spare, 1024).unwrap();
        assert_eq!((found.bytes(), spare.len(), pool.live()), (&[][..], 1, 2));
        assert!(HeapBuf::renewed(&mut spare, 2048).is_none());
        assert_eq!((spare.len(), pool.live()), (0, 1));
    }

    /// Whatever is left over where it lies.
    #[test]
    fn what_fits_does_not_depend_on_where_it_lies() {
        let pool = HeapPool::new();
        let mut kept = Vec::new();
        for size in 0..200 {
            let mut packet = pool.alloc(&[7; 100], 100 + size % 3);
            assert!(!packet.retreat(1) && !packet.set_len(101 + size % 3) && !packet.renew(101 + size % 3));
            assert!(
                packet.set_len(100 + size % 3)
                    && packet.advance(9)
                    && packet.retreat(9)
                    && !packet.retreat(1)
            );
            assert!(packet.renew(100 + size % 3));
            // So that the next one lies elsewhere.
            kept.push((packet, vec![0_u8; size]));
        }
        assert_eq!(pool.live(), kept.len());
    }

    #[test]
    fn a_tail_is_shared_not_copied() {
        let pool = HeapPool::new();
        let tail = pool.alloc(b"tail", 4).freeze();
        let mut head = pool.alloc(b"head", 4);
        head.append_shared(tail.clone());
        assert_eq!(tail.holders(), 2);
        assert_eq!(head.to_vec(), b"headtail");
        assert_eq!(head.total_len(), 8);
    }
}
