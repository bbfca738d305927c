//! What the queue knows of an update beside its packet.

use core::ops::Range;

use pascaline_wire::Element;

/// An update's business with the queue; the packet travels beside it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Update {
    /// Whose experience it is, as an index into the queue's clusters (Olaf's Cluster_ID).
    pub cluster: u32,
    /// Who sent it (Olaf's Worker_ID). Of a combined update: who sent the one that has waited longest.
    pub worker: u16,
    /// The worker's own number of it; of a combined update: of the newest of that worker's inside.
    pub psn: u32,
    /// The generation of the cluster's job. One of another generation is never combined with it.
    pub epoch: u8,
    /// Updates that it stands for: 1 from a worker, more if they have been combined on the way.
    pub count: u16,
    /// The reward that it was computed from; of a combined update the mean, each update weighted by its
    /// count.
    pub reward: f32,
    /// When it was generated, in nanoseconds of a clock that senders and queue share; the newest one's, if
    /// combined.
    pub generated_ns: u64,
    /// What the payload is made of.
    pub element: Element,
    /// Where the payload begins in the packet, in bytes.
    pub offset: u16,
    /// Length of the payload in bytes.
    pub len: u16,
    /// True if an element of the payload has saturated.
    pub overflow: bool,
}

impl Update {
    /// Where the payload lies in the packet.
    #[must_use]
    #[inline]
    pub const fn payload(&self) -> Range<usize> {
        self.offset as usize..self.offset as usize + self.len as usize
    }

    /// True if it is one worker's, with nothing of another inside.
    #[inline]
    pub(crate) const fn is_single(&self) -> bool {
        self.count == 1
    }
}

/// An update that leaves.
#[derive(Debug)]
pub struct Departure<B> {
    /// What it has become.
    pub update: Update,
    /// Its packet, cut off behind the payload. What stands before the payload is as it came with the first
    /// update in this packet: the caller writes what has changed.
    pub packet: B,
    /// Updates that have been combined with it here: 0 if it leaves as it came.
    pub aggregations: u32,
}
