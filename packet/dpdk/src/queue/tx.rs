//! Sending.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;
use core::sync::atomic::Ordering::Relaxed;
use std::sync::Arc;

use arrayvec::ArrayVec;
use pascaline_dpdk_sys as sys;

use crate::kernel::Writer;
use crate::mbuf::Mbuf;
use crate::port::{Gate, Running, pass};

/// Frames that one `tx_some` offers to a device of DPDK's.
const SOME: usize = 8;

/// One transmit queue of a started port.
///
/// ```compile_fail,E0277
/// fn shared_between_threads<T: Sync>() {}
/// shared_between_threads::<pascaline_dpdk::TxQueue>();
/// ```
///
/// ```compile_fail,E0382
/// use arrayvec::ArrayVec;
/// use pascaline_dpdk::{Mbuf, TxQueue};
///
/// fn used_after_sending(queue: &mut TxQueue, packet: Mbuf) {
///     let mut frames = ArrayVec::<Mbuf, 1>::new();
///     frames.push(packet);
///     queue.tx(&mut frames);
///     drop(packet);
/// }
/// ```
pub struct TxQueue {
    port_id: u16,
    queue_id: u16,
    /// The device takes packets of several segments.
    multi_segment: bool,
    copied: u64,
    /// None of DPDK's queues: an interface of the kernel's.
    kernel: Option<Box<Writer>>,
    /// Keeps this queue's lcore out while the device is opened anew.
    gate: Option<Arc<Gate>>,
    running: Arc<Running>,
    /// Send, but not Sync.
    _single: PhantomData<Cell<()>>,
}

impl TxQueue {
    pub(crate) fn new(running: Arc<Running>, queue_id: u16, multi_segment: bool) -> Self {
        let port_id = running.port_id();
        let (kernel, gate, _single) = (None, running.gate(), PhantomData);
        Self { port_id, queue_id, multi_segment, copied: 0, kernel, gate, running, _single }
    }

    /// The same, but of an interface of the kernel's.
    pub(crate) fn over(self, writer: Writer) -> Self {
        Self { kernel: Some(Box::new(writer)), ..self }
    }

    /// Offers `frames` to the device, from the front. Returns the number that it took; the others stay in
    /// `frames`.
    ///
    /// The device owns the packets that it took. It returns them to their pools when they are sent, which
    /// most drivers do during a later call. There is no retry: the caller deals with a full ring.
    #[inline]
    pub fn tx<const N: usize>(&mut self, frames: &mut ArrayVec<Mbuf, N>) -> usize {
        if let Some(writer) = &mut self.kernel {
            return writer.tx(frames);
        }
        if !self.multi_segment {
            self.join_segments(frames);
        }
        self.offer(frames, frames.len())
    }

    /// The same for a few of them: those that the kernel takes in one piece if the port is an interface of
    /// the kernel's, otherwise a handful.
    pub fn tx_some<const N: usize>(&mut self, frames: &mut ArrayVec<Mbuf, N>) -> usize {
        if let Some(writer) = &mut self.kernel {
            return writer.tx_some(frames);
        }
        if !self.multi_segment {
            self.join_segments(frames);
        }
        self.offer(frames, frames.len().min(SOME))
    }

    /// Offers the first `most` of the frames.
    #[inline]
    fn offer<const N: usize>(&self, frames: &mut ArrayVec<Mbuf, N>, most: usize) -> usize {
        let offered = frames.len();
        let count = u16::try_from(offered.min(most)).unwrap_or(u16::MAX);
        // SAFETY: the port is started as long as `running` lives, and not being reopened, by the gate; the
        // queue is exclusively borrowed, so that no other thread is in it. An Mbuf is a pointer to an mbuf,
        // and `frames` holds at least `count`.
        let taken = pass(self.gate.as_deref(), || unsafe {
            sys::psc_tx_burst(self.port_id, self.queue_id, frames.as_mut_ptr().cast(), count)
        });
        let taken = usize::from(taken.min(count));
        // SAFETY: the first `taken` packets belong to the device and are forgotten; the others are moved to
        // the front, bit by bit. Nothing can unwind while they are in two places.
        unsafe {
            let start = frames.as_mut_ptr();
            frames.set_len(0);
            core::ptr::copy(start.add(taken), start, offered - taken);
            frames.set_len(offered - taken);
        }
        taken
    }

    /// Packets whose segments were copied together, since the device does not send them otherwise.
    #[must_use]
    pub fn copied(&self) -> u64 {
        self.copied
    }

    /// Its number.
    #[must_use]
    pub fn id(&self) -> u16 {
        self.queue_id
    }

    /// For devices without `Caps::tx_multi_segment`: several of these drivers would send only the first
    /// segment and report success. A packet without room for the others is lost.
    fn join_segments<const N: usize>(&mut self, frames: &mut ArrayVec<Mbuf, N>) {
        frames.retain(|frame| {
            if frame.segments() == 1 {
                return true;
            }
            // SAFETY: the packet is ours. Its first segment is written, which is exclusive; one count on the
            // tail is let go. It is left unchanged if the first segment has too little room.
            let joined = unsafe { sys::psc_mbuf_linearize(frame.as_raw()) } == 0;
            self.copied += u64::from(joined);
            if !joined {
                self.running.lost().sent.fetch_add(1, Relaxed);
            }
            joined
        });
    }
}

impl fmt::Debug for TxQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TxQueue({} of {:?})", self.queue_id, self.running)
    }
}
