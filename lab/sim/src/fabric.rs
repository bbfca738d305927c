//! A fabric packet by packet, in virtual time: links with queues that mark, a wheel of timers, flows under
//! DCTCP, and folded Clos networks. Who sends what is the experiment's.
//!
//! A frame costs one event per link: a link knows when it will be free, so a frame that waits in its queue
//! needs no further event. Queues do not overflow (Ethernet's PAUSE, as in PANAMA, section 4.2): a frame that
//! meets a long one waits. Memory follows frames in flight. The same calls give the same order of events.

mod clos;
mod dctcp;
#[cfg(test)]
mod tests;

pub use clos::Clos;
pub use dctcp::{Cuts, Dctcp};

use crate::wheel::Wheel;

/// An experiment's frame: anything that a link can mark.
pub trait Frame {
    /// It has met congestion.
    fn mark(&mut self);
}

/// One direction of a link.
#[derive(Debug, Clone, Copy)]
pub struct Link {
    /// Picoseconds that a byte takes.
    pub byte_ps: u64,
    /// Nanoseconds from one end to the other.
    pub delay: u64,
    /// Bytes in its queue from which on frames are marked.
    pub marks_from: u64,
    /// When all frames sent so far will have left, in picoseconds.
    free: u64,
}

impl Link {
    /// An idle link.
    #[must_use]
    pub const fn new(gbps: u64, delay: u64, marks_from: u64) -> Self {
        Self { byte_ps: 8000 / gbps, delay, marks_from, free: 0 }
    }
}

/// Links, and the frames in flight. Times are nanoseconds.
#[derive(Debug)]
pub struct Fabric<F> {
    wheel: Wheel<F>,
    links: Vec<Link>,
    events: u64,
    marked: u64,
    most: usize,
}

impl<F: Frame> Fabric<F> {
    /// Without frames in flight.
    #[must_use]
    pub fn new(links: Vec<Link>) -> Self {
        Self { wheel: Wheel::default(), links, events: 0, marked: 0, most: 0 }
    }

    /// Now.
    #[must_use]
    pub const fn now(&self) -> u64 {
        self.wheel.now()
    }

    /// Events so far, and frames that were marked.
    #[must_use]
    pub const fn counts(&self) -> (u64, u64) {
        (self.events, self.marked)
    }

    /// The greatest number of frames in flight at once.
    #[must_use]
    pub const fn most(&self) -> usize {
        self.most
    }

    /// Bytes of memory for frames in flight.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.wheel.capacity() * size_of::<(u64, F)>()
    }

    /// Sends a frame of this many bytes over a link. It comes out of [`next`](Self::next) at the other end. A
    /// link that does not exist loses it.
    pub fn send(&mut self, link: usize, bytes: u64, frame: F) {
        self.send_to_busy(link, bytes, 0, frame);
    }

    /// The same to a host that takes the frame up `late` nanoseconds later.
    pub fn send_to_busy(&mut self, link: usize, bytes: u64, late: u64, mut frame: F) {
        let now = self.now() * 1000;
        let Some(link) = self.links.get_mut(link) else { return };
        let waits = link.free.saturating_sub(now);
        if waits >= link.marks_from * link.byte_ps {
            frame.mark();
            self.marked += 1;
        }
        link.free = link.free.max(now) + bytes * link.byte_ps;
        self.wheel.push(link.free.div_ceil(1000) + link.delay + late, frame);
    }

    /// Schedules a frame without a link, `delay` nanoseconds from now.
    pub fn after(&mut self, delay: u64, frame: F) {
        self.wheel.push(self.now() + delay, frame);
    }

    /// The next frame to arrive, whose time is then the present one. At equal times the first sent is first.
    #[expect(clippy::should_implement_trait, reason = "an agenda that grows while it is read")]
    pub fn next(&mut self) -> Option<F> {
        self.most = self.most.max(self.wheel.len());
        let (_, frame) = self.wheel.pop()?;
        self.events += 1;
        Some(frame)
    }
}
