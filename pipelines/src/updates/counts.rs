//! What a queue's owner counts, for anybody to read.

use core::sync::atomic::{AtomicU64, Ordering};

use pascaline_queue::{Counters, EnqueueOutcome, UpdateRejection};
use pascaline_wire::trailer::QueueState;

/// What became of an update: counted once when it comes, and where it went into the queue, once more when it
/// leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It waits at the tail.
    Appended,
    /// It was combined with the waiting one of its cluster.
    Aggregated,
    /// It took the place of an older one of its worker.
    Replaced,
    /// It took the place of one of another generation.
    Renewed,
    /// It took the place of one with a lower reward.
    Preferred,
    /// Dropped: a newer one of its worker waited already.
    Outdated,
    /// Dropped: its reward was too low.
    LowReward,
    /// Dropped: no segment was free.
    Full,
    /// Dropped: something is wrong with it.
    Rejected(UpdateRejection),
    /// It has left for the server.
    Departed,
    /// Dropped when it was to leave: its generation was over.
    Stale,
    /// Dropped when it was to leave: its packet had no room for the headers.
    Unsent,
}

const REJECTIONS: usize = UpdateRejection::ALL.len();
const FATES: usize = 11 + REJECTIONS;

impl Fate {
    pub(super) const fn of(outcome: EnqueueOutcome) -> Self {
        match outcome {
            EnqueueOutcome::Appended => Self::Appended,
            EnqueueOutcome::Aggregated => Self::Aggregated,
            EnqueueOutcome::Replaced => Self::Replaced,
            EnqueueOutcome::Renewed => Self::Renewed,
            EnqueueOutcome::Preferred => Self::Preferred,
            EnqueueOutcome::Outdated => Self::Outdated,
            EnqueueOutcome::LowReward => Self::LowReward,
            EnqueueOutcome::Full => Self::Full,
            EnqueueOutcome::Rejected(rejection) => Self::Rejected(rejection),
        }
    }

    const fn index(self) -> usize {
        match self {
            Self::Appended => 0,
            Self::Aggregated => 1,
            Self::Replaced => 2,
            Self::Renewed => 3,
            Self::Preferred => 4,
            Self::Outdated => 5,
            Self::LowReward => 6,
            Self::Full => 7,
            Self::Departed => 8,
            Self::Stale => 9,
            Self::Unsent => 10,
            Self::Rejected(rejection) => 11 + rejection as usize,
        }
    }
}

/// Upper bounds of the classes in which departures are counted, by how many updates were combined with each
/// here. The last class has no bound.
pub const AGGREGATIONS: [u32; 12] = [0, 1, 2, 3, 4, 5, 8, 12, 16, 24, 32, 64];
const CLASSES: usize = AGGREGATIONS.len() + 1;
/// Contributions that came, departed, and were given up in each of five ways.
const CONTRIBUTIONS: usize = 7;

/// What has been counted since the last publication.
#[derive(Debug, Default)]
pub(super) struct FateCounts {
    fates: [u64; FATES],
    classes: [u64; CLASSES],
    aggregations: u64,
    any: bool,
}

impl FateCounts {
    #[inline]
    pub(super) fn add(&mut self, fate: Fate) {
        self.fates[fate.index()] += 1;
        self.any = true;
    }

    /// One has left that so many others had been combined with.
    pub(super) fn depart(&mut self, aggregations: u32) {
        self.add(Fate::Departed);
        self.classes[AGGREGATIONS.partition_point(|&bound| bound < aggregations)] += 1;
        self.aggregations += u64::from(aggregations);
    }
}

/// The counts of a port's queue. Its owner writes them; only `handoff_full` is written by others.
#[derive(Debug)]
pub struct QueueCounts {
    fates: [AtomicU64; FATES],
    classes: [AtomicU64; CLASSES],
    aggregations: AtomicU64,
    contributions: [AtomicU64; CONTRIBUTIONS],
    handoff_full: AtomicU64,
    clusters: AtomicU64,
    waiting: AtomicU64,
    capacity: u16,
}

impl QueueCounts {
    pub(super) fn new(capacity: u16) -> Self {
        Self {
            fates: [const { AtomicU64::new(0) }; FATES],
            classes: [const { AtomicU64::new(0) }; CLASSES],
            aggregations: AtomicU64::new(0),
            contributions: [const { AtomicU64::new(0) }; CONTRIBUTIONS],
            handoff_full: AtomicU64::new(0),
            clusters: AtomicU64::new(0),
            waiting: AtomicU64::new(0),
            capacity,
        }
    }

    pub(super) fn handoff_full(&self) {
        self.handoff_full.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn publish(&self, tally: &mut FateCounts, queue: &Counters, state: QueueState) {
        self.clusters.store(u64::from(state.clusters), Ordering::Relaxed);
        self.waiting.store(u64::from(state.waiting), Ordering::Relaxed);
        if !tally.any {
            return;
        }
        let FateCounts { fates, classes, aggregations, .. } = core::mem::take(tally);
        for (published, count) in self.fates.iter().zip(fates).chain(self.classes.iter().zip(classes)) {
            if count > 0 {
                bump(published, count);
            }
        }
        bump(&self.aggregations, aggregations);
        for (published, count) in self.contributions.iter().zip(contributions(queue)) {
            published.store(count, Ordering::Relaxed);
        }
    }

    /// The counts now; each by itself.
    #[must_use]
    pub fn read(&self) -> QueueReading {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        QueueReading {
            fates: core::array::from_fn(|at| load(&self.fates[at])),
            classes: core::array::from_fn(|at| load(&self.classes[at])),
            aggregations: load(&self.aggregations),
            contributions: core::array::from_fn(|at| load(&self.contributions[at])),
            handoff_full: load(&self.handoff_full),
            clusters: load(&self.clusters),
            waiting: load(&self.waiting),
            capacity: self.capacity,
        }
    }
}

/// A single writer needs no read-modify-write.
fn bump(published: &AtomicU64, count: u64) {
    published.store(published.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

fn contributions(queue: &Counters) -> [u64; CONTRIBUTIONS] {
    let Counters { accepted, departed, full, low_reward, displaced, superseded, lapsed, .. } = queue;
    [accepted, departed, full, low_reward, displaced, superseded, lapsed].map(|tally| tally.contributions)
}

/// What a queue had counted at one time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueReading {
    fates: [u64; FATES],
    classes: [u64; CLASSES],
    aggregations: u64,
    contributions: [u64; CONTRIBUTIONS],
    /// Updates dropped because the inbox of the queue's owner was full.
    pub handoff_full: u64,
    /// Clusters that have sent something lately.
    pub clusters: u64,
    /// Updates that wait.
    pub waiting: u64,
    /// Updates that can wait.
    pub capacity: u16,
}

impl QueueReading {
    /// Updates of this fate.
    #[must_use]
    pub const fn get(&self, fate: Fate) -> u64 {
        self.fates[fate.index()]
    }

    /// Updates that have come to the queue, or to the inbox of its owner when that was full.
    #[must_use]
    pub fn received(&self) -> u64 {
        let leaving = [Fate::Departed, Fate::Stale, Fate::Unsent].map(|fate| self.get(fate));
        self.fates.iter().sum::<u64>() - leaving.iter().sum::<u64>() + self.handoff_full
    }

    /// Departures by [`AGGREGATIONS`] and one class beyond; they do not include each other.
    #[must_use]
    pub const fn classes(&self) -> &[u64] {
        &self.classes
    }

    /// Updates that had been combined with others when those departed.
    #[must_use]
    pub const fn aggregations(&self) -> u64 {
        self.aggregations
    }

    /// What the updates stood for that came to the queue and were not rejected, by what has become of it.
    /// Each is the sum of the updates' counts; the first is that of all others and of what waits.
    #[must_use]
    pub fn contributions(&self) -> [(&'static str, u64); CONTRIBUTIONS] {
        let names = ["accepted", "departed", "full", "low_reward", "displaced", "superseded", "lapsed"];
        core::array::from_fn(|at| (names[at], self.contributions[at]))
    }
}

#[cfg(test)]
mod tests;
