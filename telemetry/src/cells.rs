//! Counts of one job. Each lcore has a part of the memory, which only it writes and all threads may read.
//!
//! The control plane makes a job's counts with the job, gives them to the lcores in the job table, and keeps
//! them from one generation to the next. Counts are written one by one, so a reading may mix moments.

mod events;
mod reading;

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

use crossbeam_utils::CachePadded;

pub use events::JobEvent;
pub use reading::{CellsReading, RankReading};

use crate::counters::bump;
use crate::drops::DropReason;

const EVENTS: usize = JobEvent::ALL.len();
const DROPS: usize = DropReason::ALL.len();
/// Cells between those of two lcores, so that neither writes lines that the processor prefetches for the
/// other.
const APART: u32 = 8;
/// Late ranks that an lcore remembers: the latest ones seen.
pub const LATE: usize = 4;
/// How long a late rank is remembered after it was last seen missing, in nanoseconds: longer than a sweep
/// through the pool.
pub const LATE_FOR_NS: u64 = 2_000_000_000;

/// One lcore's counts of a rank, limited to two stores per packet.
///
/// Only that lcore writes it ([`LcoreRanks::heard`]), so a count is a load and a store. Others read it at
/// any time: the threads that show it ([`JobCells::read`]), the control plane
/// ([`JobCells::contributions_of`]) and other lcores ([`JobCells::heard_ns`]).
#[derive(Debug, Default)]
#[repr(align(16))]
pub struct RankCell {
    contributions: AtomicU64,
    /// Its last contribution: the PSN below, the [`Moment`] above; 0 for none. One word, so that both are of
    /// the same packet.
    last: AtomicU64,
}

const _: () = assert!(size_of::<RankCell>() == 16);

/// A time to 17 ms; all packets of a burst share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment(u64);

impl Moment {
    /// A step in nanoseconds, as a power of two; 32 bits of steps last two years.
    const STEP: u32 = 24;

    /// This time, in nanoseconds of the lcores' clock.
    #[must_use]
    #[inline]
    pub const fn at(now: u64) -> Self {
        // Never 0.
        Self(((now >> Self::STEP) + 1) << 32)
    }

    /// The time in a cell, in nanoseconds; 0 for none.
    const fn nanoseconds(last: u64) -> u64 {
        match last >> 32 {
            0 => 0,
            steps => ((steps - 1) << Self::STEP) + 1,
        }
    }
}

/// One lcore's counts of the results that a rank completed. A cache line.
#[derive(Debug, Default)]
#[repr(align(64))]
pub struct LastCell {
    results: AtomicU64,
    /// Of the results' payloads.
    bytes: AtomicU64,
    /// Contributions in the results.
    aggregated: AtomicU64,
    /// Of these contributions' payloads.
    aggregated_bytes: AtomicU64,
    /// Nanoseconds from the first to the last contribution of the results, summed.
    waited: AtomicU64,
}

/// The cells of a job's ranks for one lcore, found once for many packets.
#[derive(Debug, Clone, Copy)]
pub struct LcoreRanks<'a> {
    cells: &'a [RankCell],
}

impl<'a> LcoreRanks<'a> {
    /// Those of no job: they count nothing.
    pub const NONE: Self = Self { cells: &[] };

    /// The cell of a rank, to prefetch it.
    #[must_use]
    #[inline]
    pub fn cell(self, rank: u16) -> Option<&'a RankCell> {
        self.cells.get(usize::from(rank))
    }

    /// Notes a received contribution. Returns false and notes nothing if the job has no such rank.
    #[inline(always)]
    pub fn heard(self, rank: u16, psn: u32, moment: Moment) -> bool {
        let Some(cell) = self.cells.get(usize::from(rank)) else { return false };
        bump(&cell.contributions, 1);
        cell.last.store(moment.0 | u64::from(psn), Ordering::Relaxed);
        true
    }
}

/// A rank for which others wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Late {
    /// The rank.
    pub rank: u16,
    /// When the oldest PSN that lacks it was begun, in nanoseconds of the lcores' clock.
    pub since: u64,
    /// When it was last found missing there, by the same clock.
    pub seen: u64,
}

impl Late {
    /// How long others have waited for it so far, in nanoseconds.
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

/// One lcore's counts of a job, without its ranks' contributions.
#[derive(Debug)]
struct LcoreCells {
    events: [AtomicU64; EVENTS],
    drops: [AtomicU64; DROPS],
    late: [LateCell; LATE],
    /// Generation time of the newest answered update, in nanoseconds since 1970.
    model: AtomicU64,
}

/// A result made here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Made {
    /// Contributions inside.
    pub contributions: u16,
    /// Bytes of its payload.
    pub bytes: usize,
}

impl Made {
    const fn contribution_bytes(self) -> u64 {
        self.contributions as u64 * self.bytes as u64
    }
}

/// Counts of nearly every packet: of each rank, by all lcores. They lie next to the lcores' state of the job,
/// so that a count needs no detour through [`JobCells`].
#[derive(Debug, Clone, Default)]
pub struct RankCells {
    cells: Arc<[RankCell]>,
    lasts: Arc<[LastCell]>,
    /// Cells from the first rank's of one lcore to that of the next.
    stride: u32,
    ranks: u16,
}

impl RankCells {
    /// The cells in which an lcore notes contributions. For that lcore only, as all of the following.
    #[must_use]
    #[inline]
    pub fn of(&self, lcore: usize) -> LcoreRanks<'_> {
        let first = lcore * self.stride as usize;
        LcoreRanks { cells: self.cells.get(first..first + usize::from(self.ranks)).unwrap_or_default() }
    }

    /// The cell for results that this rank completed.
    #[must_use]
    #[inline]
    pub fn last(&self, lcore: usize, rank: u16) -> Option<&LastCell> {
        let cell = self.lasts.get(lcore * self.stride as usize + usize::from(rank));
        cell.filter(|_| rank < self.ranks)
    }

    /// Notes a result that this rank completed, `waited` nanoseconds after its first contribution.
    #[inline]
    pub fn completed(&self, lcore: usize, last: u16, made: Made, waited: u64) {
        let Some(cell) = self.last(lcore, last) else { return };
        bump(&cell.results, 1);
        bump(&cell.bytes, made.bytes as u64);
        bump(&cell.aggregated, u64::from(made.contributions));
        bump(&cell.aggregated_bytes, made.contribution_bytes());
        bump(&cell.waited, waited);
    }
}

/// The counts of one job, by all lcores.
#[derive(Debug, Default)]
pub struct JobCells {
    by_rank: RankCells,
    /// Retransmitted contributions; each count wraps.
    again: Box<[AtomicU32]>,
    /// What each rank's requests have used of its limit; it lasts as long as the counts.
    asked: Box<[AtomicU64]>,
    lcores: Box<[CachePadded<LcoreCells>]>,
}

impl JobCells {
    /// Counts of a job with `ranks` ranks by `lcores` lcores; without lcores nothing is counted.
    #[must_use]
    pub fn new(lcores: usize, ranks: u16) -> Self {
        let stride = usize::from(ranks) + APART as usize;
        let of_lcore = |_| {
            CachePadded::new(LcoreCells {
                events: [const { AtomicU64::new(0) }; EVENTS],
                drops: [const { AtomicU64::new(0) }; DROPS],
                late: core::array::from_fn(|_| LateCell::default()),
                model: AtomicU64::new(0),
            })
        };
        let by_rank = RankCells {
            cells: (0..lcores * stride).map(|_| RankCell::default()).collect(),
            lasts: (0..lcores * stride).map(|_| LastCell::default()).collect(),
            stride: u32::from(ranks) + APART,
            ranks,
        };
        Self {
            by_rank,
            again: (0..lcores * stride).map(|_| AtomicU32::new(0)).collect(),
            asked: (0..lcores * stride).map(|_| AtomicU64::new(0)).collect(),
            lcores: (0..lcores).map(of_lcore).collect(),
        }
    }

    /// Ranks that are counted.
    #[must_use]
    pub const fn ranks(&self) -> u16 {
        self.by_rank.ranks
    }

    /// The counts of each rank.
    #[must_use]
    pub const fn by_rank(&self) -> &RankCells {
        &self.by_rank
    }

    /// The cells in which an lcore notes contributions. For that lcore only, as all of the following.
    #[must_use]
    #[inline]
    pub fn ranks_of(&self, lcore: usize) -> LcoreRanks<'_> {
        self.by_rank.of(lcore)
    }

    /// Notes a contribution that its rank had sent before.
    pub fn again(&self, lcore: usize, rank: u16) {
        let again = self.again.get(lcore * self.by_rank.stride as usize + usize::from(rank));
        let Some(again) = again.filter(|_| rank < self.ranks()) else { return };
        again.store(again.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// Where an lcore notes what a rank's requests have used of its limit; 0 when new.
    #[must_use]
    pub fn asked(&self, lcore: usize, rank: u16) -> Option<&AtomicU64> {
        let asked = self.asked.get(lcore * self.by_rank.stride as usize + usize::from(rank));
        asked.filter(|_| rank < self.ranks())
    }

    /// When a rank's last contribution came to any lcore, in nanoseconds of their clock; 0 for never.
    #[must_use]
    pub fn heard_ns(&self, rank: u16) -> u64 {
        let last = |cell: &RankCell| Moment::nanoseconds(cell.last.load(Ordering::Relaxed));
        self.of_rank(rank).map(last).max().unwrap_or(0)
    }

    /// Contributions received from a rank, repeated ones included; `None` where none are counted.
    #[must_use]
    pub fn contributions_of(&self, rank: u16) -> Option<u64> {
        self.of_rank(rank)
            .map(|cell| cell.contributions.load(Ordering::Relaxed))
            .reduce(|sum, count| sum + count)
    }

    /// The cells of a rank, one of each lcore.
    fn of_rank(&self, rank: u16) -> impl Iterator<Item = &RankCell> {
        let ranks = self.by_rank.cells.chunks_exact(self.by_rank.stride.max(1) as usize);
        ranks.filter_map(move |cells| cells.get(usize::from(rank)))
    }

    /// Counts an event.
    #[inline]
    pub fn count(&self, lcore: usize, event: JobEvent, count: u64) {
        if let Some(cells) = self.lcores.get(lcore) {
            bump(&cells.events[event as usize], count);
        }
    }

    /// Notes a result that this rank completed, `waited` nanoseconds after its first contribution.
    #[inline]
    pub fn completed(&self, lcore: usize, last: u16, made: Made, waited: u64) {
        self.by_rank.completed(lcore, last, made, waited);
    }

    /// Notes a result that was sent without all ranks.
    pub fn released(&self, lcore: usize, made: Made) {
        self.count(lcore, JobEvent::Results, 1);
        self.count(lcore, JobEvent::ResultBytes, made.bytes as u64);
        self.count(lcore, JobEvent::Aggregated, u64::from(made.contributions));
        self.count(lcore, JobEvent::AggregatedBytes, made.contribution_bytes());
        self.count(lcore, JobEvent::Released, 1);
    }

    /// Notes that an asynchronous job's server answered an update generated at this time, in nanoseconds
    /// since 1970.
    pub fn answered(&self, lcore: usize, generated_ns: u64) {
        self.count(lcore, JobEvent::Answers, 1);
        if let Some(cells) = self.lcores.get(lcore)
            && generated_ns > cells.model.load(Ordering::Relaxed)
        {
            cells.model.store(generated_ns, Ordering::Relaxed);
        }
    }

    /// Notes that a rank is missing at `now` in a PSN begun at `since`, both on the lcores' clock.
    pub fn late(&self, lcore: usize, rank: u16, since: u64, now: u64) {
        let Some(cells) = self.lcores.get(lcore) else { return };
        let known = cells.late.iter().find(|late| late.rank.load(Ordering::Relaxed) == u64::from(rank) + 1);
        let oldest = || cells.late.iter().min_by_key(|late| late.seen.load(Ordering::Relaxed));
        let Some(late) = known.or_else(oldest) else { return };
        let before = late.since.load(Ordering::Relaxed);
        let outdated = now.saturating_sub(late.seen.load(Ordering::Relaxed)) > LATE_FOR_NS;
        // A later PSN that also lacks it adds no information.
        if known.is_none() || outdated || since <= before {
            late.since.store(since, Ordering::Relaxed);
            late.seen.store(now, Ordering::Relaxed);
            late.rank.store(u64::from(rank) + 1, Ordering::Relaxed);
        }
    }

    /// Counts a packet of the job that was dropped.
    pub fn dropped(&self, lcore: usize, reason: DropReason) {
        if let Some(cells) = self.lcores.get(lcore) {
            bump(&cells.drops[reason as usize], 1);
        }
    }
}

#[cfg(test)]
mod tests;
