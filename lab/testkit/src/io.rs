//! Packet I/O in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrayvec::ArrayVec;
use crossbeam_queue::ArrayQueue;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf};
use pascaline_pipelines::io::HEADER_ROOM;
use pascaline_pipelines::{BURST, Io, STAGE};

/// Room before a received frame, as device drivers leave it.
const HEADROOM: usize = 128;
/// Room for a received frame, and of an empty frame buffer.
pub const ROOM: usize = 2048;
/// Frames that wait in each direction of a port at the most.
const QUEUE: usize = 4096;
/// Packets that can arrive while others leave.
const MEANWHILE: usize = 64;
/// Frames that leave together where only a few are to leave.
const FEW: usize = 2;

/// A packet as a port would make it.
#[must_use]
pub fn received(pool: &HeapPool, frame: &[u8]) -> HeapBuf {
    let mut packet = pool.take(&[0x5a; HEADROOM], HEADROOM + ROOM.max(frame.len())).expect("a free packet");
    assert!(packet.set_len(HEADROOM + frame.len()) && packet.advance(HEADROOM));
    packet.bytes_mut().copy_from_slice(frame);
    packet
}

/// A clock that stands still until it is advanced. Clones show the same time.
#[derive(Debug, Clone, Default)]
pub struct Clock(Arc<AtomicU64>);

impl Clock {
    /// Moves the time on by nanoseconds.
    pub fn advance(&self, nanos: u64) {
        self.0.fetch_add(nanos, Ordering::Relaxed);
    }

    /// Nanoseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A port's queues. A clone is the other end of the same queues.
#[derive(Debug, Clone)]
pub struct MemoryPort {
    /// Frames to be received.
    pub rx: Arc<ArrayQueue<HeapBuf>>,
    /// Frames that were sent.
    pub tx: Arc<ArrayQueue<HeapBuf>>,
    /// Frames that this end still transmits.
    pub room: usize,
    /// Frames that only pass through and that this end still transmits, apart from `room`: it has a
    /// separate queue for them. `None`: they share the other one.
    pub passing_room: Option<usize>,
    /// The value of [`Io::multi_segment`].
    pub multi_segment: bool,
}

impl MemoryPort {
    /// A port where this many frames wait to be sent at the most.
    fn new(tx: usize) -> Self {
        let (rx, tx) = (Arc::new(ArrayQueue::new(QUEUE)), Arc::new(ArrayQueue::new(tx)));
        Self { rx, tx, room: usize::MAX, passing_room: None, multi_segment: true }
    }

    /// The frames that were sent and not yet taken.
    pub fn sent(&self) -> impl Iterator<Item = HeapBuf> {
        core::iter::from_fn(|| self.tx.pop())
    }
}

/// The ports of one lcore, in memory. The test keeps a clone as the network, possibly on another thread.
#[derive(Debug, Clone)]
pub struct MemoryIo {
    /// Queues and limits by port.
    pub ports: Vec<MemoryPort>,
    /// The pool of its packets.
    pub pool: HeapPool,
    /// Header buffers that are left.
    pub headers: usize,
    /// Frame buffers that are left.
    pub frames: usize,
    /// Frames that this end has transmitted.
    pub sent: u64,
    /// Frames that arrive while this end transmits a few frames of several, with their ports: one each time.
    pub meanwhile: Arc<ArrayQueue<(usize, HeapBuf)>>,
    /// The time that lcores see.
    pub clock: Clock,
    /// The nanoseconds that pass with each look at the clock.
    pub tick: u64,
}

impl MemoryIo {
    /// Ports without limits.
    #[must_use]
    pub fn new(ports: usize, pool: &HeapPool, clock: &Clock) -> Self {
        Self::narrow(ports, QUEUE, pool, clock)
    }

    /// Ports that hold at most `tx` frames that were sent and not yet taken.
    #[must_use]
    pub fn narrow(ports: usize, tx: usize, pool: &HeapPool, clock: &Clock) -> Self {
        Self {
            ports: (0..ports).map(|_| MemoryPort::new(tx)).collect(),
            pool: pool.clone(),
            headers: usize::MAX,
            frames: usize::MAX,
            sent: 0,
            meanwhile: Arc::new(ArrayQueue::new(MEANWHILE)),
            clock: clock.clone(),
            tick: 0,
        }
    }

    /// Puts a frame in front of a port.
    pub fn arrive(&self, port: usize, frame: &[u8]) {
        self.arrive_packet(port, received(&self.pool, frame));
    }

    /// Puts a packet in front of a port.
    pub fn arrive_packet(&self, port: usize, packet: HeapBuf) {
        self.ports[port].rx.push(packet).expect("room for every frame");
    }

    /// The frames that a port has sent since the last call.
    #[must_use]
    pub fn sent(&self, port: usize) -> Vec<Vec<u8>> {
        self.ports[port].sent().map(|frame| frame.to_vec()).collect()
    }
}

/// Sends as many frames as there is room for.
fn take(tx: &ArrayQueue<HeapBuf>, room: &mut usize, frames: &mut ArrayVec<HeapBuf, STAGE>) -> u64 {
    // There is no other producer, so a packet that has room now is taken.
    let taken = frames.len().min(*room).min(tx.capacity() - tx.len());
    for frame in frames.drain(..taken) {
        tx.push(frame).expect("room was left");
    }
    *room -= taken;
    taken as u64
}

impl Io for MemoryIo {
    type Buf = HeapBuf;

    fn receive(&mut self, port: usize, into: &mut ArrayVec<HeapBuf, BURST>) {
        while !into.is_full()
            && let Some(packet) = self.ports[port].rx.pop()
        {
            into.push(packet);
        }
    }

    fn transmit(&mut self, port: usize, frames: &mut ArrayVec<HeapBuf, STAGE>) {
        let MemoryPort { tx, room, .. } = &mut self.ports[port];
        self.sent += take(tx, room, frames);
    }

    fn transmit_some(&mut self, port: usize, frames: &mut ArrayVec<HeapBuf, STAGE>) {
        let mut few: ArrayVec<_, STAGE> = frames.drain(..FEW.min(frames.len())).collect();
        self.transmit(port, &mut few);
        few.extend(frames.drain(..));
        *frames = few;
        if let Some((port, packet)) = self.meanwhile.pop() {
            self.arrive_packet(port, packet);
        }
    }

    fn transmit_passing(&mut self, port: usize, frames: &mut ArrayVec<HeapBuf, STAGE>) {
        let MemoryPort { tx, room, passing_room, .. } = &mut self.ports[port];
        self.sent += take(tx, passing_room.as_mut().unwrap_or(room), frames);
    }

    fn header_buffers(&mut self, into: &mut ArrayVec<HeapBuf, BURST>) {
        while !into.is_full()
            && self.headers > 0
            // Stale bytes, so that unwritten bytes show.
            && let Some(mut buffer) = self.pool.take(&[0xa5; HEADER_ROOM], HEADER_ROOM)
        {
            self.headers -= 1;
            buffer.truncate(0);
            into.push(buffer);
        }
    }

    fn frame_buffer(&mut self) -> Option<HeapBuf> {
        let left = self.frames.checked_sub(1)?;
        let buffer = self.pool.take(&[], ROOM)?;
        self.frames = left;
        Some(buffer)
    }

    fn multi_segment(&self, port: usize) -> bool {
        self.ports[port].multi_segment
    }

    fn recycle(&mut self, spent: &mut ArrayVec<HeapBuf, BURST>) {
        spent.clear();
    }

    fn now(&self) -> u64 {
        self.clock.advance(self.tick);
        self.clock.now()
    }
}
