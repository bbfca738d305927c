//! The ports of one simulated lcore.

use core::sync::atomic::{AtomicU64, Ordering};
use std::collections::VecDeque;
use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_buffer::{HeapBuf, HeapPool, PacketBuf as _};
use pascaline_pipelines::io::HEADER_ROOM;
use pascaline_pipelines::{BURST, Io, STAGE};
use pascaline_seal::LONGER;

/// Bytes behind a frame, for the trailer that names the ranks inside.
pub(crate) const ROOM: usize = 32;

/// The appliance's clock.
#[derive(Debug, Clone, Default)]
pub(crate) struct Clock(Arc<AtomicU64>);

impl Clock {
    pub(crate) fn set(&self, now: u64) {
        self.0.store(now, Ordering::Relaxed);
    }
}

/// The adversary's decisions about a turn.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Mood {
    /// The ports take no frames.
    pub(crate) stalled: bool,
    /// There are no buffers.
    pub(crate) starved: bool,
    /// A defect: the ports keep a packet forever.
    pub(crate) leaks: bool,
}

/// An lcore's ports, in memory. They copy sent frames out at once, so that every live buffer is in the
/// appliance.
#[derive(Debug)]
pub(crate) struct MemoryIo {
    rx: Vec<VecDeque<HeapBuf>>,
    sent: Vec<Vec<u8>>,
    frames: HeapPool,
    headers: HeapPool,
    clock: Clock,
    multi_segment: bool,
    /// Bytes of a buffer for a whole frame.
    whole: usize,
    pub(crate) mood: Mood,
}

impl MemoryIo {
    pub(crate) fn new(
        ports: usize,
        multi_segment: bool,
        (frames, headers): (&HeapPool, &HeapPool),
        clock: &Clock,
    ) -> Self {
        Self {
            rx: (0..ports).map(|_| VecDeque::new()).collect(),
            sent: Vec::new(),
            frames: frames.clone(),
            headers: headers.clone(),
            clock: clock.clone(),
            multi_segment,
            whole: 512,
            mood: Mood::default(),
        }
    }

    /// With room for frames with this payload.
    pub(crate) fn with_room(self, payload: usize) -> Self {
        Self { whole: self.whole.max(HEADER_ROOM + payload + ROOM + LONGER), ..self }
    }

    /// Puts a frame in front of a port.
    pub(crate) fn arrive(&mut self, port: usize, bytes: &[u8], bad_checksum: bool) {
        let packet = self.frames.alloc(bytes, bytes.len() + ROOM);
        if let Some(rx) = self.rx.get_mut(port) {
            rx.push_back(if bad_checksum { packet.with_bad_checksum() } else { packet });
        }
    }

    /// Frames that have not been received.
    pub(crate) fn backlog(&self) -> usize {
        self.rx.iter().map(VecDeque::len).sum()
    }

    /// Takes what was sent since the last call.
    pub(crate) fn take_sent(&mut self) -> Vec<Vec<u8>> {
        core::mem::take(&mut self.sent)
    }
}

impl Io for MemoryIo {
    type Buf = HeapBuf;

    fn receive(&mut self, port: usize, into: &mut ArrayVec<HeapBuf, BURST>) {
        let Some(rx) = self.rx.get_mut(port) else { return };
        let count = rx.len().min(into.remaining_capacity());
        into.extend(rx.drain(..count));
    }

    fn transmit(&mut self, _: usize, frames: &mut ArrayVec<HeapBuf, STAGE>) {
        if !self.mood.stalled {
            self.sent.extend(frames.drain(..).map(|frame| frame.to_vec()));
        }
    }

    fn header_buffers(&mut self, into: &mut ArrayVec<HeapBuf, BURST>) {
        // Fewer than would fit, since each costs two allocations here, and the rest of a schedule is short.
        const FEW: usize = 8;
        while !self.mood.starved && into.len() < FEW && !into.is_full() {
            // Stale bytes, so that unwritten bytes show.
            let mut buffer = self.headers.alloc(&[0xa5; HEADER_ROOM], HEADER_ROOM);
            buffer.truncate(0);
            into.push(buffer);
        }
    }

    fn frame_buffer(&mut self) -> Option<HeapBuf> {
        (!self.mood.starved).then(|| self.frames.alloc(&[], self.whole))
    }

    fn multi_segment(&self, _: usize) -> bool {
        self.multi_segment
    }

    fn recycle(&mut self, spent: &mut ArrayVec<HeapBuf, BURST>) {
        if self.mood.leaks {
            spent.pop().into_iter().for_each(core::mem::forget);
        }
        spent.clear();
    }

    fn now(&self) -> u64 {
        self.clock.0.load(Ordering::Relaxed)
    }
}
