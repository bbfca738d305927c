//! Capturing the next packets of a job, without slowing lcores down.
//!
//! An lcore looks once per burst whether a capture is under way, which is one load. If so, it copies packets
//! of that job into frames that the control plane has laid ready, and passes them on by a bounded lock-free
//! queue; where no frame is ready, the packet is counted as missed. It never allocates, frees or waits.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_queue::ArrayQueue;
use pascaline_buffer::PacketBuf;
use pascaline_wire::frame::{self, Net};
use pascaline_wire::header::Header;
use pascaline_wire::switchml;

use crate::jobs::JobTable;
use crate::setup::Setup;

/// Bytes of a packet that are kept: a whole one at the usual MTU.
pub const SNAP: usize = 1536;
/// Frames that wait between lcores and control plane.
const FRAMES: usize = 512;
/// No job.
const NONE: u32 = u32::MAX;

/// A packet as it was received.
#[derive(Debug)]
pub struct CapturedFrame {
    /// When, in nanoseconds of the lcore's clock.
    pub at: u64,
    /// Its length.
    pub len: usize,
    kept: usize,
    bytes: [u8; SNAP],
}

impl CapturedFrame {
    /// As much of it as was kept.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.kept).unwrap_or_default()
    }
}

/// Where lcores leave copies of packets.
#[derive(Debug)]
pub struct Capture {
    /// Whose packets are wanted.
    job: AtomicU32,
    ready: ArrayQueue<Box<CapturedFrame>>,
    taken: ArrayQueue<Box<CapturedFrame>>,
    missed: AtomicU64,
}

impl Default for Capture {
    fn default() -> Self {
        Self {
            job: AtomicU32::new(NONE),
            ready: ArrayQueue::new(FRAMES),
            taken: ArrayQueue::new(FRAMES),
            missed: AtomicU64::new(0),
        }
    }
}

impl Capture {
    /// Begins to capture packets of a job. What was left over of an earlier capture is forgotten.
    pub fn begin(&self, job: u16) {
        while let Some(frame) = self.taken.pop() {
            self.give_back(frame);
        }
        // Laid ready once and kept from then on, so that an lcore that is late with one finds a place for it.
        let laid = self.ready.len() + self.taken.len();
        for _ in laid..FRAMES {
            self.give_back(Box::new(CapturedFrame { at: 0, len: 0, kept: 0, bytes: [0; SNAP] }));
        }
        self.missed.store(0, Ordering::Relaxed);
        self.job.store(u32::from(job), Ordering::Release);
    }

    /// Ends it. Packets of the burst that an lcore is at may still come.
    pub fn end(&self) {
        self.job.store(NONE, Ordering::Release);
    }

    /// The next packet.
    #[must_use]
    pub fn take(&self) -> Option<Box<CapturedFrame>> {
        self.taken.pop()
    }

    /// Lays a frame ready again.
    pub fn give_back(&self, frame: Box<CapturedFrame>) {
        // There are no more than fit, but for one that an lcore was late with: that goes.
        let _ = self.ready.push(frame);
    }

    /// Packets that there was no frame for.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// The job whose packets are wanted. For lcores, once per burst.
    #[inline]
    pub(crate) fn wanted(&self) -> Option<u16> {
        // Acquire: frames were laid ready before.
        u16::try_from(self.job.load(Ordering::Acquire)).ok()
    }

    /// Copies those packets of a burst that belong to a job. For lcores.
    #[cold]
    pub(crate) fn copy_burst<B: PacketBuf>(
        &self,
        job: u16,
        (setup, table): (&Setup, &JobTable),
        at: u64,
        packets: &[B],
    ) {
        for packet in packets {
            if job_of(setup, table, packet.bytes()) == Some(job) {
                self.copy(at, packet.bytes(), packet.total_len());
            }
        }
    }

    /// Copies a packet of `len` bytes, of which these are there.
    fn copy(&self, at: u64, bytes: &[u8], len: usize) {
        let Some(mut frame) = self.ready.pop() else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            return;
        };
        frame.kept = bytes.len().min(SNAP);
        (frame.at, frame.len) = (at, len);
        let kept = frame.kept;
        if let (Some(to), Some(from)) = (frame.bytes.get_mut(..kept), bytes.get(..kept)) {
            to.copy_from_slice(from);
        }
        // There is room for every frame. Were there none, an lcore must not free it: it goes back.
        if let Err(frame) = self.taken.push(frame) {
            self.give_back(frame);
        }
    }
}

/// The job that a frame is about, as far as it says so.
fn job_of(setup: &Setup, table: &JobTable, bytes: &[u8]) -> Option<u16> {
    if table.has_foreign()
        && let Some(packet) = switchml::Packet::parse(bytes)
        && let Some((job, _)) = table.foreign(packet.dst_port)
    {
        return Some(job.id);
    }
    let Ok(frame::Frame { net: Net::Ip(ip), .. }) = frame::Frame::parse(bytes) else { return None };
    let udp = ip.udp(bytes).ok().filter(|udp| setup.udp_ports().has(udp.dst_port))?;
    Header::parse(udp.body).ok().map(|(header, _)| header.job)
}

#[cfg(test)]
mod tests;
