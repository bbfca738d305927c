//! What an lcore counts for each job: why it is aggregated here, or not.
//!
//! Each lcore has a cell for each of [`SLOTS`] jobs, and one more that all further jobs share. It alone writes them, with
//! plain loads and stores; anybody may read them at any time. Values of one cell that belong together may be a packet apart.

use core::sync::atomic::{AtomicU64, Ordering};

/// Jobs with a cell of their own.
pub const SLOTS: u16 = 1024;
/// The cell of all other jobs.
pub const OTHERS: u16 = SLOTS;
/// Ranks that a cell names as late: the latest ones seen.
pub const LATE: usize = 4;
/// For how long a late rank is remembered after it was last seen to be missing, in nanoseconds: longer than a sweep through
/// the pool takes.
pub const LATE_FOR_NS: u64 = 2_000_000_000;

macro_rules! job_counters {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal,)+) => {
        /// What is counted for each job.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum JobCounter {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl JobCounter {
            /// All of them, in the order of their discriminants.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its name.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }
        }
    };
}

job_counters! {
    /// Results made here.
    Results => "results",
    /// Contributions in them.
    Aggregated => "contributions_aggregated",
    /// Bytes of the payloads of the contributions in them.
    AggregatedBytes => "aggregated_bytes",
    /// Results given again to a rank that asked or sent again.
    Replayed => "results_replayed",
    /// Contributions that found all slots of their set taken.
    Collisions => "collisions",
    /// Contributions for which the job held as many slots as it may.
    OverQuota => "over_quota",
    /// Contributions that met another lcore too often.
    Contended => "contended",
    /// Contributions to a PSN whose place in a region belongs to later ones already.
    Stale => "stale",
    /// Contributions sent to the parameter server because they found no slot.
    Spilled => "contributions_spilled",
    /// Bytes of their payloads.
    SpilledBytes => "spilled_bytes",
    /// Partials that lost their slot to another PSN before their time.
    Preempted => "preemptions",
    /// Contributions that were sent to the parameter server in, or instead of, a partial.
    Evicted => "contributions_evicted",
    /// Bytes of their payloads.
    EvictedBytes => "evicted_bytes",
    /// Partials that were given up.
    GivenUp => "partials_given_up",
    /// Contributions whose senders wanted them past the pool, to the parameter server.
    Bypassed => "contributions_bypassed",
    /// Bytes of their payloads.
    BypassedBytes => "bypassed_bytes",
    /// Results made by the parameter server.
    ServerResults => "server_results",
    /// Packets for the parameter server that it had no room for.
    ServerFull => "server_full",
    /// Contributions that were in already.
    Duplicates => "duplicates",
    /// Packets of another generation.
    WrongEpoch => "wrong_epoch",
    /// Packets of ranks that are no members.
    NotMember => "not_member",
    /// Packets that did not come from the address of their rank, or of ranks that the job does not have.
    Spoofed => "rank_spoofed",
    /// Packets while the job was suspended.
    Halted => "halted",
    /// Packets whose fan-in, length or element is not that of the others.
    Mismatched => "mismatched",
}

const COUNTERS: usize = JobCounter::ALL.len();

/// A rank for which others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// The rank.
    pub rank: u16,
    /// When the oldest PSN that lacks it was begun, in nanoseconds of the lcore's clock.
    pub since: u64,
    /// When it was last seen to be missing there, by the same clock.
    pub seen: u64,
}

impl Late {
    /// For how long others are known to have waited for it, in nanoseconds.
    #[must_use]
    pub const fn waited(&self) -> u64 {
        self.seen.saturating_sub(self.since)
    }
}

#[derive(Debug, Default)]
struct LateCell {
    /// The rank plus 1; 0 for none.
    rank: AtomicU64,
    since: AtomicU64,
    seen: AtomicU64,
}

#[derive(Debug)]
struct Cell {
    counts: [AtomicU64; COUNTERS],
    late: [LateCell; LATE],
}

impl Default for Cell {
    fn default() -> Self {
        Self {
            counts: [const { AtomicU64::new(0) }; COUNTERS],
            late: core::array::from_fn(|_| LateCell::default()),
        }
    }
}

impl Cell {
    /// A single writer needs no read-modify-write.
    #[inline]
    fn add(&self, counter: JobCounter, count: u64) {
        let value = &self.counts[counter as usize];
        value.store(value.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }
}

/// What one lcore has counted for each job.
#[derive(Debug)]
pub struct JobCounters(Box<[Cell]>);

impl Default for JobCounters {
    fn default() -> Self {
        Self((0..=SLOTS).map(|_| Cell::default()).collect())
    }
}

impl JobCounters {
    /// The cell of a slot; what has none is counted with all others.
    #[inline]
    fn cell(&self, slot: u16) -> Option<&Cell> {
        self.0.get(usize::from(slot.min(OTHERS)))
    }

    /// Adds to a counter of the job in a slot. To be called by the owning lcore only: a second writer would lose counts.
    #[inline]
    pub fn add(&self, slot: u16, counter: JobCounter, count: u64) {
        if let Some(cell) = self.cell(slot) {
            cell.add(counter, count);
        }
    }

    /// Counts a result that was made here, of so many contributions with so many bytes together. To be called by the owning
    /// lcore only.
    #[inline]
    pub fn made(&self, slot: u16, contributions: u64, bytes: u64) {
        if let Some(cell) = self.cell(slot) {
            cell.add(JobCounter::Results, 1);
            cell.add(JobCounter::Aggregated, contributions);
            cell.add(JobCounter::AggregatedBytes, bytes);
        }
    }

    /// Notes that a rank is missing at `now` in a PSN that was begun at `since`. To be called by the owning lcore only.
    pub fn late(&self, slot: u16, rank: u16, since: u64, now: u64) {
        let Some(cell) = self.cell(slot) else { return };
        let known = cell.late.iter().find(|late| late.rank.load(Ordering::Relaxed) == u64::from(rank) + 1);
        let oldest = || cell.late.iter().min_by_key(|late| late.seen.load(Ordering::Relaxed));
        let Some(late) = known.or_else(oldest) else { return };
        let before = late.since.load(Ordering::Relaxed);
        let outdated = now.saturating_sub(late.seen.load(Ordering::Relaxed)) > LATE_FOR_NS;
        // Another PSN that lacks it, too, and was begun later, says nothing new.
        if known.is_none() || outdated || since <= before {
            late.since.store(since, Ordering::Relaxed);
            late.seen.store(now, Ordering::Relaxed);
            late.rank.store(u64::from(rank) + 1, Ordering::Relaxed);
        }
    }

    /// What has been counted for the job in a slot.
    #[must_use]
    pub fn read(&self, slot: u16) -> JobReading {
        let counts =
            self.cell(slot).map(|cell| cell.counts.each_ref().map(|value| value.load(Ordering::Relaxed)));
        JobReading(counts.unwrap_or([0; COUNTERS]))
    }

    /// The ranks of the job in a slot that others wait for at `now`, by the lcore's clock.
    #[must_use]
    pub fn who_is_late(&self, slot: u16, now: u64) -> Vec<Late> {
        let late = |late: &LateCell| {
            let rank = late.rank.load(Ordering::Relaxed).checked_sub(1)?;
            let (since, seen) = (late.since.load(Ordering::Relaxed), late.seen.load(Ordering::Relaxed));
            let recent = now.saturating_sub(seen) <= LATE_FOR_NS;
            recent.then_some(Late { rank: u16::try_from(rank).ok()?, since, seen })
        };
        self.cell(slot).map(|cell| cell.late.iter().filter_map(late).collect()).unwrap_or_default()
    }
}

/// Counters of a job as they were at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JobReading([u64; COUNTERS]);

impl Default for JobReading {
    fn default() -> Self {
        Self([0; COUNTERS])
    }
}

impl JobReading {
    /// The value of a counter.
    #[must_use]
    pub fn get(&self, counter: JobCounter) -> u64 {
        self.0[counter as usize]
    }

    /// Adds another lcore's.
    pub fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.0.iter_mut().zip(&other.0) {
            *mine = mine.wrapping_add(*theirs);
        }
    }

    /// What has been counted since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self(core::array::from_fn(|at| self.0[at].saturating_sub(earlier.0[at])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn each_job_has_its_cell_and_all_others_share_one() {
        let jobs = JobCounters::default();
        jobs.add(0, JobCounter::Results, 2);
        jobs.add(0, JobCounter::Results, 3);
        jobs.add(SLOTS - 1, JobCounter::Collisions, 7);
        jobs.add(OTHERS, JobCounter::Results, 1);
        jobs.add(u16::MAX, JobCounter::Results, 1);
        assert_eq!(jobs.read(0).get(JobCounter::Results), 5);
        assert_eq!(jobs.read(SLOTS - 1).get(JobCounter::Collisions), 7);
        assert_eq!(jobs.read(1), JobReading::default());
        let mut sum = jobs.read(OTHERS);
        sum.merge(&jobs.read(0));
        assert_eq!(sum.get(JobCounter::Results), 7);
        assert_eq!(sum.since(&jobs.read(0)).get(JobCounter::Results), 2);
    }

    #[test]
    fn a_late_rank_is_named_with_the_oldest_psn_that_lacks_it() {
        let jobs = JobCounters::default();
        jobs.late(3, 5, 100 * MS, 200 * MS);
        jobs.late(3, 5, 150 * MS, 300 * MS);
        let at = |now| jobs.who_is_late(3, now);
        assert_eq!(at(300 * MS), [Late { rank: 5, since: 100 * MS, seen: 200 * MS }]);
        jobs.late(3, 5, 100 * MS, 400 * MS);
        assert_eq!(at(2_400 * MS), [Late { rank: 5, since: 100 * MS, seen: 400 * MS }]);
        assert_eq!(at(2_401 * MS), [], "it has not been missing for a while");
        // Late again, in another PSN.
        jobs.late(3, 5, 3_000 * MS, 3_100 * MS);
        assert_eq!(at(3_100 * MS), [Late { rank: 5, since: 3_000 * MS, seen: 3_100 * MS }]);
        assert_eq!(jobs.who_is_late(4, 3_100 * MS), []);
    }

    #[test]
    fn of_many_late_ranks_the_last_seen_are_named() {
        let jobs = JobCounters::default();
        for rank in 0..6 {
            jobs.late(0, rank, 0, u64::from(rank) + 1);
        }
        let mut ranks: Vec<u16> = jobs.who_is_late(0, 10).iter().map(|late| late.rank).collect();
        ranks.sort_unstable();
        assert_eq!(ranks, [2, 3, 4, 5]);
    }

    #[test]
    fn names_are_unique() {
        let names: std::collections::BTreeSet<&str> =
            JobCounter::ALL.iter().map(|counter| counter.name()).collect();
        assert_eq!(names.len(), COUNTERS);
    }
}
