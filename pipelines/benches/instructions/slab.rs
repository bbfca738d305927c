//! Packets and ports that take few instructions themselves, and always the same ones: blocks made beforehand,
//! taken from a list and given back to it. The table in docs/instructions.md counts them in.
#![allow(unsafe_code, reason = "a packet buffer is handed from thread to thread as a raw pointer")]

use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrayvec::ArrayVec;
use pascaline_buffer::{PacketBuf, Scratch, SharedBuf};
use pascaline_pipelines::{BURST, Io, STAGE};
use pascaline_testkit::Clock;

const ROOM: usize = 2048;

struct Block {
    scratch: Scratch,
    slab: &'static Slab,
    holders: AtomicUsize,
    start: usize,
    end: usize,
    tail: Option<SlabShared>,
    data: [u8; ROOM],
}

/// The blocks that are free. Lives as long as the test.
pub(crate) struct Slab {
    free: Mutex<Vec<NonNull<Block>>>,
}

// SAFETY: a block on the list belongs to the list, which is locked.
unsafe impl Sync for Slab {}
// SAFETY: as above.
unsafe impl Send for Slab {}

impl Slab {
    pub(crate) fn new(blocks: usize) -> &'static Self {
        let slab: &'static Self = Box::leak(Box::new(Self { free: Mutex::new(Vec::with_capacity(blocks)) }));
        for _ in 0..blocks {
            let scratch = Scratch { link: std::ptr::null_mut(), words: [0; 7] };
            let holders = AtomicUsize::new(0);
            let block = Block { scratch, slab, holders, start: 0, end: 0, tail: None, data: [0; ROOM] };
            slab.free.lock().unwrap().push(NonNull::from(Box::leak(Box::new(block))));
        }
        slab
    }

    pub(crate) fn take(&self, bytes: &[u8]) -> Option<SlabBuf> {
        let mut block = self.free.lock().unwrap().pop()?;
        // SAFETY: the block has just left the list, so nobody else has it.
        let inner = unsafe { block.as_mut() };
        (inner.start, inner.end) = (0, bytes.len());
        inner.data[..bytes.len()].copy_from_slice(bytes);
        Some(SlabBuf(block))
    }
}

fn give_back(mut block: NonNull<Block>) {
    // SAFETY: called by the last holder.
    let inner = unsafe { block.as_mut() };
    inner.tail = None;
    let slab = inner.slab;
    slab.free.lock().unwrap().push(block);
}

pub(crate) struct SlabBuf(NonNull<Block>);

// SAFETY: the one holder of a block may take it along to another thread.
unsafe impl Send for SlabBuf {}

impl SlabBuf {
    fn inner(&self) -> &Block {
        // SAFETY: the block is this packet's alone.
        unsafe { self.0.as_ref() }
    }

    fn inner_mut(&mut self) -> &mut Block {
        // SAFETY: as above.
        unsafe { self.0.as_mut() }
    }

    /// The shared payload behind the first segment.
    pub(crate) fn tail(&self) -> Option<&SlabShared> {
        self.inner().tail.as_ref()
    }
}

impl Drop for SlabBuf {
    fn drop(&mut self) {
        give_back(self.0);
    }
}

// SAFETY: a block has one holder until it is frozen; `into_raw` only gives up the pointer; blocks are aligned
// to 8.
unsafe impl PacketBuf for SlabBuf {
    type Shared = SlabShared;

    fn bytes(&self) -> &[u8] {
        let inner = self.inner();
        &inner.data[inner.start..inner.end]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        let inner = self.inner_mut();
        &mut inner.data[inner.start..inner.end]
    }

    fn truncate(&mut self, len: usize) {
        let inner = self.inner_mut();
        inner.end = inner.end.min(inner.start + len);
    }

    fn advance(&mut self, count: usize) -> bool {
        let inner = self.inner_mut();
        let fits = count <= inner.end - inner.start;
        inner.start += if fits { count } else { 0 };
        fits
    }

    fn retreat(&mut self, count: usize) -> bool {
        let inner = self.inner_mut();
        let fits = count <= inner.start;
        inner.start -= if fits { count } else { 0 };
        fits
    }

    fn set_len(&mut self, len: usize) -> bool {
        let inner = self.inner_mut();
        let fits = inner.start + len <= ROOM;
        if fits {
            inner.end = inner.start + len;
        }
        fits
    }

    fn renew(&mut self, room: usize) -> bool {
        let inner = self.inner_mut();
        let fits = room <= ROOM && inner.tail.is_none();
        if fits {
            (inner.start, inner.end) = (0, 0);
        }
        fits
    }

    fn freeze(self) -> SlabShared {
        self.inner().holders.store(1, Ordering::SeqCst);
        SlabShared(self.into_raw().cast())
    }

    fn append_shared(&mut self, tail: SlabShared) {
        self.inner_mut().tail = Some(tail);
    }

    fn total_len(&self) -> usize {
        self.bytes().len() + self.tail().map_or(0, |tail| tail.bytes().len())
    }

    fn prefetch(&self) {}

    fn into_raw(self) -> NonNull<()> {
        let block = self.0;
        std::mem::forget(self);
        block.cast()
    }

    unsafe fn from_raw(raw: NonNull<()>) -> Self {
        Self(raw.cast())
    }

    unsafe fn raw_scratch(raw: NonNull<()>) -> *mut Scratch {
        // SAFETY: by contract `raw` points at a live block; this only computes a member's address.
        unsafe { &raw mut (*raw.cast::<Block>().as_ptr()).scratch }
    }
}

pub(crate) struct SlabShared(NonNull<Block>);

// SAFETY: a frozen block is only read; its holders are counted atomically.
unsafe impl Send for SlabShared {}

impl SlabShared {
    fn inner(&self) -> &Block {
        // SAFETY: the block is not given back while it has holders.
        unsafe { self.0.as_ref() }
    }
}

impl Clone for SlabShared {
    fn clone(&self) -> Self {
        self.inner().holders.fetch_add(1, Ordering::SeqCst);
        Self(self.0)
    }
}

impl Drop for SlabShared {
    fn drop(&mut self) {
        if self.inner().holders.fetch_sub(1, Ordering::SeqCst) == 1 {
            give_back(self.0);
        }
    }
}

impl SharedBuf for SlabShared {
    fn bytes(&self) -> &[u8] {
        let inner = self.inner();
        &inner.data[inner.start..inner.end]
    }
}

/// Ports over a slab: nothing here allocates once the queues have their size.
pub(crate) struct SlabIo {
    pub(crate) slab: &'static Slab,
    pub(crate) rx: VecDeque<SlabBuf>,
    pub(crate) tx: Vec<SlabBuf>,
    pub(crate) multi_segment: bool,
    pub(crate) clock: Clock,
}

impl SlabIo {
    pub(crate) fn new(slab: &'static Slab, clock: &Clock) -> Self {
        let (rx, tx) = (VecDeque::with_capacity(1024), Vec::with_capacity(4096));
        Self { slab, rx, tx, multi_segment: true, clock: clock.clone() }
    }
}

impl Io for SlabIo {
    type Buf = SlabBuf;

    fn receive(&mut self, _: usize, into: &mut ArrayVec<SlabBuf, BURST>) {
        while !into.is_full()
            && let Some(packet) = self.rx.pop_front()
        {
            into.push(packet);
        }
    }

    fn transmit(&mut self, _: usize, frames: &mut ArrayVec<SlabBuf, STAGE>) {
        let room = self.tx.capacity() - self.tx.len();
        let taken = room.min(frames.len());
        self.tx.extend(frames.drain(..taken));
    }

    fn header_buffers(&mut self, into: &mut ArrayVec<SlabBuf, BURST>) {
        while !into.is_full()
            && let Some(buffer) = self.slab.take(&[])
        {
            into.push(buffer);
        }
    }

    fn frame_buffer(&mut self) -> Option<SlabBuf> {
        self.slab.take(&[])
    }

    fn multi_segment(&self, _: usize) -> bool {
        self.multi_segment
    }

    fn recycle(&mut self, spent: &mut ArrayVec<SlabBuf, BURST>) {
        spent.clear();
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }
}
