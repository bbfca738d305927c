//! An update in the queue.

use core::ops::Range;

use pascaline_wire::Element;

/// An update; its packet travels beside it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// Its cluster, an index into the queue's table (Olaf's Cluster_ID).
    pub cluster: u32,
    /// Its sender (Olaf's Worker_ID); of a combined update, the sender of the oldest one inside.
    pub worker: u16,
    /// If the sender is an appliance: the worker behind it, as a number from 1 that the sender assigns; 0 for
    /// its own, [`Update::ANYBODY`] if that is not known.
    pub origin: u16,
    /// The worker's number of it; of a combined update, of that worker's newest one inside.
    pub psn: u32,
    /// The generation of the cluster's job. Updates of different generations are never combined.
    pub epoch: u16,
    /// Updates that it stands for: 1 from a worker, more if combined on the way.
    pub count: u16,
    /// Its reward; of a combined update the mean, weighted by counts.
    pub reward: f32,
    /// When it (or the newest one inside) was generated, in nanoseconds of a clock that senders and queue
    /// share.
    pub generated_ns: u64,
    /// Type and operation of the payload.
    pub element: Element,
    /// Start of the payload in the packet, in bytes.
    pub offset: u16,
    /// Length of the payload in bytes.
    pub len: u16,
    /// True if an element of the payload has saturated.
    pub overflow: bool,
}

impl Update {
    /// An unknown `origin`.
    pub const ANYBODY: u16 = u16::MAX;

    /// A worker's own, of `len` bytes that are sums of binary32 and lie at the start of its packet, with a
    /// reward of 0.
    #[must_use]
    pub const fn new(cluster: u32, worker: u16, generated_ns: u64, len: u16) -> Self {
        Self {
            cluster,
            worker,
            origin: 0,
            psn: 0,
            epoch: 0,
            count: 1,
            reward: 0.0,
            generated_ns,
            element: Element::F32_SUM,
            offset: 0,
            len,
            overflow: false,
        }
    }

    /// Where the payload lies in the packet.
    #[must_use]
    #[inline]
    pub const fn payload(&self) -> Range<usize> {
        self.offset as usize..self.offset as usize + self.len as usize
    }

    /// True if it is of one known worker: not combined, here or further down.
    #[inline]
    pub(crate) const fn is_single(&self) -> bool {
        self.count == 1 && self.origin != Self::ANYBODY
    }

    /// True if both are single ones of one worker.
    #[inline]
    pub(crate) const fn is_of_the_same(&self, other: &Self) -> bool {
        self.worker == other.worker && self.origin == other.origin
    }
}

/// An update that departs.
#[derive(Debug)]
pub struct Departure<B> {
    /// The update, with everything that was combined with it.
    pub update: Update,
    /// Its packet, cut off behind the payload. The headers are those of the first update in this packet: the
    /// caller writes the changed fields.
    pub packet: B,
    /// Updates that were combined with it here.
    pub aggregations: u32,
}
