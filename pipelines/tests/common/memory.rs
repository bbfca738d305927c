//! Ports in memory.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf};
use pascaline_pipelines::io::HEADER_ROOM;
use pascaline_pipelines::{BURST, Io, STAGE};

/// Room before a received frame and behind its start, as device drivers leave it.
const HEADROOM: usize = 128;
const ROOM: usize = 2048;

/// A packet as a port would make it.
pub(crate) fn received(pool: &HeapPool, frame: &[u8]) -> HeapBuf {
    let mut packet = pool.alloc(&[&[0x5a; HEADROOM], frame].concat(), HEADROOM + ROOM);
    assert!(packet.advance(HEADROOM));
    packet
}

/// A clock that stands still until it is told to go on.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(crate) fn advance(&self, nanos: u64) {
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }

    pub(crate) fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[derive(Debug)]
pub(crate) struct MemoryPort {
    /// Frames to be received.
    pub(crate) rx: VecDeque<HeapBuf>,
    /// Frames that were sent.
    pub(crate) tx: Vec<HeapBuf>,
    /// Frames that the port still takes.
    pub(crate) room: usize,
    pub(crate) multi_segment: bool,
}

#[derive(Debug)]
pub(crate) struct MemoryIo {
    pub(crate) ports: Vec<MemoryPort>,
    pub(crate) pool: HeapPool,
    /// Header buffers and frame buffers that are left.
    pub(crate) headers: usize,
    pub(crate) frames: usize,
    /// Frames sent since the beginning.
    pub(crate) sent: u64,
    pub(crate) clock: Clock,
}

impl MemoryIo {
    pub(crate) fn new(ports: usize, pool: &HeapPool, clock: &Clock) -> Self {
        let port =
            |_| MemoryPort { rx: VecDeque::new(), tx: Vec::new(), room: usize::MAX, multi_segment: true };
        Self {
            ports: (0..ports).map(port).collect(),
            pool: pool.clone(),
            headers: usize::MAX,
            frames: usize::MAX,
            sent: 0,
            clock: clock.clone(),
        }
    }

    /// Puts a frame in front of a port.
    pub(crate) fn arrive(&mut self, port: usize, frame: &[u8]) {
        self.ports[port].rx.push_back(received(&self.pool, frame));
    }

    /// What a port has sent since the last call.
    pub(crate) fn sent(&mut self, port: usize) -> Vec<Vec<u8>> {
        self.ports[port].tx.drain(..).map(|frame| frame.to_vec()).collect()
    }
}

impl Io for MemoryIo {
    type Buf = HeapBuf;

    fn receive(&mut self, port: usize, into: &mut ArrayVec<HeapBuf, BURST>) {
        let rx = &mut self.ports[port].rx;
        while !into.is_full()
            && let Some(packet) = rx.pop_front()
        {
            into.push(packet);
        }
    }

    fn transmit(&mut self, port: usize, frames: &mut ArrayVec<HeapBuf, STAGE>) {
        let port = &mut self.ports[port];
        let taken = port.room.min(frames.len());
        port.room -= taken;
        self.sent += taken as u64;
        port.tx.extend(frames.drain(..taken));
    }

    fn header_buffers(&mut self, into: &mut ArrayVec<HeapBuf, BURST>) {
        while !into.is_full() && self.headers > 0 {
            self.headers -= 1;
            // Stale bytes, so that whatever is not written shows.
            let mut buffer = self.pool.alloc(&[0xa5; HEADER_ROOM], HEADER_ROOM);
            buffer.truncate(0);
            into.push(buffer);
        }
    }

    fn frame_buffer(&mut self) -> Option<HeapBuf> {
        self.frames = self.frames.checked_sub(1)?;
        Some(self.pool.alloc(&[], 2048))
    }

    fn multi_segment(&self, port: usize) -> bool {
        self.ports[port].multi_segment
    }

    fn recycle(&mut self, spent: &mut ArrayVec<HeapBuf, BURST>) {
        spent.clear();
    }

    fn now(&self) -> u64 {
        self.clock.now()
    }
}
