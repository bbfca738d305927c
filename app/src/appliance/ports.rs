//! DPDK ports as the packet path sees them.

use std::thread;
use std::time::Duration;

use arrayvec::ArrayVec;
use pascaline_dpdk::kernel::Waiting;
use pascaline_dpdk::{Clock, Mbuf, Mempool, RxQueue, TxQueue};
use pascaline_pipelines::{BURST, Io, STAGE};
use pascaline_wire::Mac;

use super::verify::verify;

/// One lcore's queue pair of each port.
#[derive(Debug)]
pub struct Queues {
    /// Receives.
    pub rx: RxQueue,
    /// Receives what the device brings to the queue that goes with `passing`, where it has queues in pairs.
    pub beside: Option<RxQueue>,
    /// Sends.
    pub tx: TxQueue,
    /// Sends what passes through, if that has a queue of its own.
    pub passing: Option<TxQueue>,
    /// True if frames of more than one segment may be sent.
    pub multi_segment: bool,
    /// The port's address, if UDP checksums are verified in software.
    pub verifies: Option<Mac>,
}

impl Queues {
    /// One queue pair, for everything.
    #[must_use]
    pub const fn pair(rx: RxQueue, tx: TxQueue, multi_segment: bool) -> Self {
        Self { rx, beside: None, tx, passing: None, multi_segment, verifies: None }
    }
}

/// Deals a port's queues to the lcores: one pair each, and one more each for what passes, if there are more.
pub(super) fn deal(
    to: &mut [Vec<Queues>],
    rx: impl IntoIterator<Item = RxQueue>,
    tx: impl IntoIterator<Item = TxQueue>,
    (multi_segment, verifies): (bool, Option<Mac>),
) {
    let (mut rx, mut tx) = (rx.into_iter(), tx.into_iter());
    for lcore in to.iter_mut() {
        if let (Some(rx), Some(tx)) = (rx.next(), tx.next()) {
            lcore.push(Queues { verifies, ..Queues::pair(rx, tx, multi_segment) });
        }
    }
    for queues in to.iter_mut().filter_map(|lcore| lcore.last_mut()) {
        (queues.beside, queues.passing) = (rx.next(), tx.next());
    }
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
            let held = into.len();
            queues.rx.rx(into);
            if let Some(beside) = &mut queues.beside {
                beside.rx(into);
                // The other one comes first next time: neither waits for ever while the other one is full.
                core::mem::swap(&mut queues.rx, beside);
            }
            if let Some(own) = queues.verifies {
                verify(own, into.get_mut(held..).unwrap_or_default());
            }
        }
    }

    #[inline]
    fn transmit(&mut self, port: usize, frames: &mut ArrayVec<Mbuf, STAGE>) {
        if let Some(queues) = self.queues.get_mut(port) {
            queues.tx.tx(frames);
        }
    }

    fn transmit_some(&mut self, port: usize, frames: &mut ArrayVec<Mbuf, STAGE>) {
        if let Some(queues) = self.queues.get_mut(port) {
            queues.tx.tx_some(frames);
        }
    }

    fn transmit_passing(&mut self, port: usize, frames: &mut ArrayVec<Mbuf, STAGE>) {
        if let Some(queues) = self.queues.get_mut(port) {
            queues.passing.as_mut().unwrap_or(&mut queues.tx).tx(frames);
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
