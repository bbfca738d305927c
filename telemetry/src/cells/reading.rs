//! The counts of a job, summed over lcores.

use core::sync::atomic::{AtomicU64, Ordering};

use super::{DROPS, EVENTS, JobCells, JobEvent, LATE_FOR_NS, Late, LateCell, Moment};
use crate::drops::DropReason;

impl JobCells {
    /// All counts, summed over lcores.
    #[must_use]
    pub fn read(&self) -> CellsReading {
        let mut reading = CellsReading { ranks: self.read_ranks(), ..CellsReading::default() };
        for cells in &self.lcores {
            for (sum, event) in reading.events.iter_mut().zip(&cells.events) {
                *sum += event.load(Ordering::Relaxed);
            }
            for (sum, drops) in reading.drops.iter_mut().zip(&cells.drops) {
                *sum += drops.load(Ordering::Relaxed);
            }
            reading.model_ns = reading.model_ns.max(cells.model.load(Ordering::Relaxed));
        }
        let sum = |events: &mut [u64; EVENTS], event: JobEvent, cell: &AtomicU64| {
            events[event as usize] += cell.load(Ordering::Relaxed);
        };
        for lasts in self.by_rank.lasts.chunks_exact(self.by_rank.stride.max(1) as usize) {
            for (rank, cell) in reading.ranks.iter_mut().zip(lasts) {
                let results = cell.results.load(Ordering::Relaxed);
                rank.last += results;
                reading.waited_ns += cell.waited.load(Ordering::Relaxed);
                reading.events[JobEvent::Results as usize] += results;
                sum(&mut reading.events, JobEvent::ResultBytes, &cell.bytes);
                sum(&mut reading.events, JobEvent::Aggregated, &cell.aggregated);
                sum(&mut reading.events, JobEvent::AggregatedBytes, &cell.aggregated_bytes);
            }
        }
        reading
    }

    /// The ranks that others wait for at `now`, on the lcores' clock, longest wait first; each with the
    /// oldest PSN that lacks it.
    #[must_use]
    pub fn late_ranks(&self, now: u64) -> Vec<Late> {
        let late = |late: &LateCell| {
            let rank = late.rank.load(Ordering::Relaxed).checked_sub(1)?;
            let (since, seen) = (late.since.load(Ordering::Relaxed), late.seen.load(Ordering::Relaxed));
            let recent = now.saturating_sub(seen) <= LATE_FOR_NS;
            recent.then_some(Late { rank: u16::try_from(rank).ok()?, since, seen })
        };
        let mut all: Vec<Late> =
            self.lcores.iter().flat_map(|cells| cells.late.iter().filter_map(late)).collect();
        all.sort_by_key(|late| (late.rank, core::cmp::Reverse(late.waited())));
        all.dedup_by_key(|late| late.rank);
        all.sort_by_key(|late| core::cmp::Reverse(late.waited()));
        all
    }

    fn read_ranks(&self) -> Vec<RankReading> {
        let mut ranks = vec![RankReading::default(); usize::from(self.ranks())];
        let stride = self.by_rank.stride.max(1) as usize;
        for (cells, again) in self.by_rank.cells.chunks_exact(stride).zip(self.again.chunks_exact(stride)) {
            for ((sum, cell), again) in ranks.iter_mut().zip(cells).zip(again) {
                sum.contributions += cell.contributions.load(Ordering::Relaxed);
                sum.again = sum.again.wrapping_add(again.load(Ordering::Relaxed));
                let last = cell.last.load(Ordering::Relaxed);
                #[expect(clippy::cast_possible_truncation, reason = "the lower half")]
                let (psn, heard) = (last as u32, Moment::nanoseconds(last));
                // The lcore that heard last from it has its PSN; of several at about the same time, the one
                // that is ahead.
                let ahead = psn.wrapping_sub(sum.psn) < 1 << 31;
                if heard > sum.heard_ns || heard == sum.heard_ns && ahead {
                    sum.heard_ns = heard;
                    sum.psn = psn;
                }
            }
        }
        ranks
    }
}

/// A rank's counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RankReading {
    /// Contributions received, repeated ones included.
    pub contributions: u64,
    /// Time of the last one, in nanoseconds of the lcores' clock, to 17 ms; 0 for never.
    pub heard_ns: u64,
    /// Its PSN.
    pub psn: u32,
    /// Retransmitted contributions; it wraps.
    pub again: u32,
    /// Results that this rank completed, being last.
    pub last: u64,
}

/// The counts of a job as they were at about one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellsReading {
    pub(super) events: [u64; EVENTS],
    pub(super) drops: [u64; DROPS],
    /// Nanoseconds from the first to the last contribution of the results, summed.
    pub waited_ns: u64,
    /// Generation time of the newest update that an asynchronous job's server answered, in nanoseconds since
    /// 1970; 0 for none. The time since then is the job's Age-of-Model (Olaf, section 3), as seen by the
    /// appliance.
    pub model_ns: u64,
    /// By rank.
    pub ranks: Vec<RankReading>,
}

impl Default for CellsReading {
    fn default() -> Self {
        Self { events: [0; EVENTS], drops: [0; DROPS], waited_ns: 0, model_ns: 0, ranks: Vec::new() }
    }
}

impl CellsReading {
    /// The count of an event, or of its bytes.
    #[must_use]
    pub const fn get(&self, event: JobEvent) -> u64 {
        self.events[event as usize]
    }

    /// Packets of the job dropped for a reason.
    #[must_use]
    pub const fn dropped(&self, reason: DropReason) -> u64 {
        self.drops[reason as usize]
    }

    /// Contributions received from all ranks.
    #[must_use]
    pub fn contributions(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.contributions).sum()
    }

    /// Bytes of these contributions' payloads, if their fate is known: without those in flight or dropped.
    #[must_use]
    pub fn contribution_bytes(&self) -> u64 {
        use JobEvent::{AggregatedBytes, BypassedBytes, EvictedBytes, SpilledBytes, UpdateBytes};
        let bytes = [AggregatedBytes, SpilledBytes, EvictedBytes, BypassedBytes, UpdateBytes];
        bytes.into_iter().map(|event| self.get(event)).sum()
    }

    /// Mean payload of a contribution in bytes, as far as known.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "a mean")]
    pub fn mean_payload(&self) -> f64 {
        let (bytes, count) = match self.get(JobEvent::Aggregated) {
            0 => (self.contribution_bytes(), self.contributions()),
            aggregated => (self.get(JobEvent::AggregatedBytes), aggregated),
        };
        if count > 0 { bytes as f64 / count as f64 } else { 0.0 }
    }

    /// An asynchronous job's Age-of-Model in seconds, at a time in seconds since 1970; `None` before its
    /// server's first answer.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "doubles have microseconds here")]
    pub fn model_age(&self, unix_seconds: f64) -> Option<f64> {
        (self.model_ns > 0).then(|| (unix_seconds - self.model_ns as f64 / 1e9).max(0.0))
    }

    /// The PSN of the rank that is ahead; `None` if no rank has sent.
    #[must_use]
    pub fn front(&self) -> Option<u32> {
        let heard = self.ranks.iter().filter(|rank| rank.heard_ns > 0).map(|rank| rank.psn);
        heard.reduce(|front, psn| if front.wrapping_sub(psn) > 1 << 31 { psn } else { front })
    }

    /// PSNs that a rank is behind the first one; all of them, if it has not sent.
    #[must_use]
    pub fn behind(&self, rank: &RankReading) -> u32 {
        match self.front() {
            Some(front) if rank.heard_ns > 0 => front.wrapping_sub(rank.psn),
            Some(front) => front.wrapping_add(1),
            None => 0,
        }
    }
}
