//! DPDK ports as the packet path sees them.

use std::thread;
use std::time::Duration;

use arrayvec::ArrayVec;
use pascaline_dpdk::kernel::Waiting;
use pascaline_dpdk::{Clock, Mbuf, Mempool, RxQueue, TxQueue};
use pascaline_pipelines::{BURST, Io, STAGE};

/// One lcore's queue pair of each port.
#[derive(Debug)]
pub struct Queues {
    /// Receives.
    pub rx: RxQueue,
    /// Sends.
    pub tx: TxQueue,
    /// True if frames of more than one segment may be sent.
    pub multi_segment: bool,
}

/// Packet I/O of one lcore over DPDK.
#[derive(Debug)]
pub struct DpdkIo {
    queues: Vec<Queues>,
    frames: Mempool,
    headers: Mempool,
    clock: Clock,
    /// If every port is an interface of the kernel's: a packet ends a nap.
    waiting: Option<Waiting>,
}

impl DpdkIo {
    /// Over these queues, by port; buffers come from these pools.
    #[must_use]
    pub fn new(queues: Vec<Queues>, frames: Mempool, headers: Mempool, clock: Clock) -> Self {
        let ready: Option<Vec<_>> = queues.iter().map(|queues| queues.rx.waits_for()).collect();
        let waiting = ready.map(Waiting::new);
        Self { queues, frames, headers, clock, waiting }
    }
}

impl Io for DpdkIo {
    type Buf = Mbuf;

    #[inline]
    fn receive(&mut self, port: usize, into: &mut ArrayVec<Mbuf, BURST>) {
        if let Some(queues) = self.queues.get_mut(port) {
            queues.rx.rx(into);
        }
    }

    #[inline]
    fn transmit(&mut self, port: usize, frames: &mut ArrayVec<Mbuf, STAGE>) {
        if let Some(queues) = self.queues.get_mut(port) {
            queues.tx.tx(frames);
        }
    }

    #[inline]
    fn header_buffers(&mut self, into: &mut ArrayVec<Mbuf, BURST>) {
        let room = into.remaining_capacity();
        if !self.headers.alloc_bulk(into, room)
            && let Some(last) = self.headers.alloc()
        {
            // Fewer are left than a whole refill: take what there is, one at a time.
            let _ = into.try_push(last);
        }
    }

    fn frame_buffer(&mut self) -> Option<Mbuf> {
        self.frames.alloc()
    }

    #[inline]
    fn multi_segment(&self, port: usize) -> bool {
        self.queues.get(port).is_some_and(|queues| queues.multi_segment)
    }

    #[inline]
    fn recycle(&mut self, spent: &mut ArrayVec<Mbuf, BURST>) {
        Mbuf::free_bulk(spent);
    }

    fn rest(&mut self, nap: Duration) {
        match &mut self.waiting {
            Some(waiting) => waiting.wait(nap),
            None => thread::sleep(nap),
        }
    }

    #[inline]
    fn now(&self) -> u64 {
        self.clock.now_ns()
    }
}
