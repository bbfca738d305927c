//! Packets on the heap, for tests, benches and simulations instead of mbufs.

use core::fmt;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use crate::packet::{PacketBuf, Scratch, SharedBuf};

#[cfg(test)]
mod tests;

/// Counts the live packets of one origin, so that tests can prove that none leaks.
#[derive(Debug, Clone, Default)]
pub struct HeapPool {
    origin: Arc<Origin>,
}

#[derive(Debug, Default)]
struct Origin {
    live: AtomicUsize,
    /// Free packets of a pool that reuses its memory.
    spare: Option<Mutex<Vec<Arc<Inner>>>>,
}

impl HeapPool {
    /// A new origin with no live packets.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// An origin that reuses the memory of `count` packets with room for `capacity` bytes each: taking,
    /// freezing and dropping them never calls the allocator.
    #[must_use]
    pub fn reusing(count: usize, capacity: usize) -> Self {
        let spare = (0..count).map(|_| Arc::new(Inner::new(capacity))).collect();
        Self { origin: Arc::new(Origin { spare: Some(Mutex::new(spare)), ..Origin::default() }) }
    }

    /// Packets allocated and not yet given back; a shared packet counts once.
    #[must_use]
    pub fn live(&self) -> usize {
        self.origin.live.load(Ordering::SeqCst)
    }

    /// A packet holding a copy of `bytes`, with room for `capacity` bytes in all.
    #[must_use]
    pub fn alloc(&self, bytes: &[u8], capacity: usize) -> HeapBuf {
        let inner = Arc::new(Inner::new(capacity.max(bytes.len())));
        self.packet(inner, bytes)
    }

    /// Like [`alloc`](Self::alloc). None where a pool that reuses memory has no free packet with this room.
    #[must_use]
    pub fn take(&self, bytes: &[u8], capacity: usize) -> Option<HeapBuf> {
        let Some(spare) = &self.origin.spare else { return Some(self.alloc(bytes, capacity)) };
        let fits = |inner: &mut Arc<Inner>| inner.limit - inner.base >= capacity.max(bytes.len());
        let inner = spare.lock().ok()?.pop_if(fits)?;
        Some(self.packet(inner, bytes))
    }

    fn packet(&self, inner: Arc<Inner>, bytes: &[u8]) -> HeapBuf {
        self.origin.live.fetch_add(1, Ordering::SeqCst);
        let mut packet = HeapBuf { inner: ManuallyDrop::new(inner) };
        let inner = packet.inner_mut();
        (inner.start, inner.end, inner.bad_checksum) = (inner.base, inner.base + bytes.len(), false);
        inner.memory[inner.start..inner.end].copy_from_slice(bytes);
        inner.live = Some(Live(Arc::clone(&self.origin)));
        packet
    }
}

/// Packets start at cache lines, as mbufs do.
const ALIGN: usize = 64;

#[derive(Debug)]
struct Live(Arc<Origin>);

impl Drop for Live {
    fn drop(&mut self) {
        self.0.live.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Debug)]
#[repr(C)]
struct Inner {
    scratch: Scratch,
    memory: Box<[u8]>,
    /// The usable part of the memory begins here.
    base: usize,
    /// It ends here. Whether a packet fits must not depend on the memory's address, or the same seed would
    /// not give the same run.
    limit: usize,
    start: usize,
    end: usize,
    tail: Option<HeapShared>,
    bad_checksum: bool,
    /// None while the packet is free.
    live: Option<Live>,
}

// SAFETY: the only member that is not Send by itself is the scratch line's link, a plain value that is only
// followed by the packet's owner, under the contract of `PacketBuf`.
unsafe impl Send for Inner {}
// SAFETY: a shared `Inner` is only read, and nothing reads the link through a shared reference.
unsafe impl Sync for Inner {}

impl Inner {
    fn new(room: usize) -> Self {
        let memory = vec![0u8; room + ALIGN].into_boxed_slice();
        let base = memory.as_ptr().align_offset(ALIGN).min(ALIGN);
        Self {
            scratch: Scratch { link: core::ptr::null_mut(), words: [0; 7] },
            memory,
            base,
            limit: base + room,
            start: base,
            end: base,
            tail: None,
            bad_checksum: false,
            live: None,
        }
    }

    fn bytes(&self) -> &[u8] {
        &self.memory[self.start..self.end]
    }
}

/// Gives up one holder of a packet; the last one of a pool that reuses memory puts the packet back.
fn give_up(mut packet: Arc<Inner>) {
    let reused = packet.live.as_ref().is_some_and(|live| live.0.spare.is_some());
    if reused && let Some(inner) = Arc::get_mut(&mut packet) {
        inner.tail = None;
        if let Some(live) = inner.live.take()
            && let Some(Ok(mut spare)) = live.0.spare.as_ref().map(Mutex::lock)
        {
            spare.push(packet);
        }
    }
}

/// An exclusively owned packet on the heap.
///
/// The count of its `Arc` is one until [`PacketBuf::freeze`], so that freezing neither allocates nor copies.
pub struct HeapBuf {
    inner: ManuallyDrop<Arc<Inner>>,
}

impl HeapBuf {
    /// Marks the packet as one whose checksum the device found wrong.
    #[must_use]
    pub fn with_bad_checksum(mut self) -> Self {
        self.inner_mut().bad_checksum = true;
        self
    }

    /// The whole packet, all segments one after the other.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = self.bytes().to_vec();
        if let Some(tail) = self.tail() {
            all.extend_from_slice(tail.bytes());
        }
        all
    }

    /// The shared segment behind the first one.
    #[must_use]
    pub fn tail(&self) -> Option<&HeapShared> {
        self.inner.tail.as_ref()
    }

    #[inline]
    fn inner_mut(&mut self) -> &mut Inner {
        // SAFETY: this is the only `Arc` of its `Inner`, which `&mut self` borrows; no `Weak` is ever made.
        unsafe { &mut *Arc::as_ptr(&self.inner).cast_mut() }
    }

    fn into_inner(self) -> Arc<Inner> {
        let mut packet = ManuallyDrop::new(self);
        // SAFETY: the packet is not dropped, so that its `Arc` is taken once.
        unsafe { ManuallyDrop::take(&mut packet.inner) }
    }
}

impl Drop for HeapBuf {
    fn drop(&mut self) {
        // SAFETY: the packet is not used after its drop.
        give_up(unsafe { ManuallyDrop::take(&mut self.inner) });
    }
}

impl fmt::Debug for HeapBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeapBuf({} bytes)", self.total_len())
    }
}

// SAFETY: a packet has the only `Arc` to its memory; into_raw and from_raw are `Arc`'s own; a type with
// pointer-sized members is aligned to 8.
unsafe impl PacketBuf for HeapBuf {
    type Shared = HeapShared;

    #[inline]
    fn bytes(&self) -> &[u8] {
        self.inner.bytes()
    }

    #[inline]
    fn bytes_mut(&mut self) -> &mut [u8] {
        let inner = self.inner_mut();
        &mut inner.memory[inner.start..inner.end]
    }

    fn truncate(&mut self, len: usize) {
        let inner = self.inner_mut();
        inner.end = inner.end.min(inner.start + len);
    }

    fn advance(&mut self, count: usize) -> bool {
        let inner = self.inner_mut();
        let fits = count <= inner.end - inner.start;
        if fits {
            inner.start += count;
        }
        fits
    }

    fn retreat(&mut self, count: usize) -> bool {
        let inner = self.inner_mut();
        let fits = count <= inner.start - inner.base;
        if fits {
            inner.start -= count;
        }
        fits
    }

    fn set_len(&mut self, len: usize) -> bool {
        let inner = self.inner_mut();
        let fits = len <= inner.limit - inner.start;
        if fits {
            inner.end = inner.start + len;
        }
        fits
    }

    fn renew(&mut self, room: usize) -> bool {
        let inner = self.inner_mut();
        let fits = room <= inner.limit - inner.base && inner.tail.is_none();
        if fits {
            (inner.start, inner.end, inner.bad_checksum) = (inner.base, inner.base, false);
        }
        fits
    }

    fn freeze(self) -> HeapShared {
        HeapShared { inner: ManuallyDrop::new(self.into_inner()) }
    }

    fn append_shared(&mut self, tail: HeapShared) {
        self.inner_mut().tail = Some(tail);
    }

    fn total_len(&self) -> usize {
        self.bytes().len() + self.tail().map_or(0, |tail| tail.bytes().len())
    }

    fn bad_checksum(&self) -> bool {
        self.inner.bad_checksum
    }

    fn prefetch(&self) {}

    fn into_raw(self) -> NonNull<()> {
        let raw = Arc::into_raw(self.into_inner()).cast_mut();
        // SAFETY: the address of what an `Arc` holds is never null.
        unsafe { NonNull::new_unchecked(raw) }.cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        // SAFETY: by contract `raw` is from `into_raw`, and it has not been taken back since.
        Self { inner: ManuallyDrop::new(unsafe { Arc::from_raw(raw.cast::<Inner>().as_ptr()) }) }
    }

    unsafe fn raw_scratch(raw: NonNull<()>) -> *mut Scratch {
        // SAFETY: by contract `raw` points at a live `Inner`; this only computes a member's address.
        unsafe { &raw mut (*raw.cast::<Inner>().as_ptr()).scratch }
    }
}

/// A read-only packet on the heap.
pub struct HeapShared {
    inner: ManuallyDrop<Arc<Inner>>,
}

impl HeapShared {
    /// Holders at this moment.
    #[must_use]
    pub fn holders(&self) -> usize {
        Arc::strong_count(&self.inner)
    }
}

impl Clone for HeapShared {
    fn clone(&self) -> Self {
        Self { inner: self.inner.clone() }
    }
}

impl Drop for HeapShared {
    fn drop(&mut self) {
        // SAFETY: the packet is not used after its drop.
        give_up(unsafe { ManuallyDrop::take(&mut self.inner) });
    }
}

impl fmt::Debug for HeapShared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeapShared({} bytes)", self.bytes().len())
    }
}

impl SharedBuf for HeapShared {
    fn bytes(&self) -> &[u8] {
        self.inner.bytes()
    }
}
