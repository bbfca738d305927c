//! What is going to happen, and when.

use core::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that is going to happen.
#[derive(Debug)]
pub(crate) enum What {
    /// A frame from a worker reaches the appliance's port.
    Up { worker: usize, bytes: Vec<u8>, bad_checksum: bool },
    /// A frame from the appliance reaches a worker's host.
    Down { worker: usize, bytes: Vec<u8> },
    /// A frame from one appliance reaches another one's port.
    Across { node: usize, bytes: Vec<u8> },
    /// An lcore takes its turn.
    Turn { node: usize, lcore: usize },
    /// A control plane takes its turn.
    Control { node: usize },
    /// The parameter server takes its turn.
    Serve,
    /// A worker that was stopped goes on.
    Resume { worker: usize },
    /// A worker's timer is due.
    Wake { worker: usize },
    /// A worker ends its pause.
    Begin { worker: usize, stage: u64 },
    /// A worker must have left this stage by now.
    Audit { worker: usize, stage: u64 },
    /// A host of the asynchronous job has something to do.
    Cluster { host: usize },
    /// The parameter server of its own has something to do.
    Outside,
    /// One of the plan's upsets.
    Upset { number: usize },
    /// An appliance is back.
    ApplianceBack { node: usize },
    /// The parameter server is back.
    ServerBack,
    /// The parameter server of its own is back.
    OutsideBack,
    /// A worker is back.
    WorkerBack { worker: usize },
}

#[derive(Debug)]
struct Entry {
    at: u64,
    serial: u64,
    what: What,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The heap gives the greatest first: the earliest, and among equals the one that was scheduled first.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.serial).cmp(&(self.at, self.serial))
    }
}

/// Events in the order of their times.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    serial: u64,
}

impl Queue {
    pub(crate) fn push(&mut self, at: u64, what: What) {
        self.serial += 1;
        self.heap.push(Entry { at, serial: self.serial, what });
    }

    pub(crate) fn pop(&mut self) -> Option<(u64, What)> {
        self.heap.pop().map(|entry| (entry.at, entry.what))
    }
}
