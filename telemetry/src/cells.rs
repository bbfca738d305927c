//! What lcores count of one job: a part of the memory for each lcore, which it alone writes and anyone reads.
//!
//! The control plane makes a job's counts together with the job, hands them to the lcores with the job table, and keeps
//! them from one generation of the job to the next. Counts are written one by one: those of different names need not belong
//! to the same moment.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::drops::DropReason;

macro_rules! events {
    ($($(#[doc = $doc:literal])+ $variant:ident => $name:literal,)+) => {
        /// What is counted of a job beside the contributions of its ranks.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum JobEvent {
            $($(#[doc = $doc])+ $variant,)+
        }

        impl JobEvent {
            /// All of them, in the order of their discriminants.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// What it is called, without the job.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)+ }
            }

            /// The metric's name without `pascaline_` and `_total`.
            #[must_use]
            pub const fn metric(self) -> &'static str {
                match self { $(Self::$variant => concat!("job_", $name),)+ }
            }

            /// What it counts, in one sentence.
            #[must_use]
            pub const fn help(self) -> &'static str {
                match self { $(Self::$variant => concat!($($doc),+),)+ }
            }
        }
    };
}

events! {
    /// Results of a job that were completed here.
    Results => "results",
    /// Bytes of the payloads of these results, each counted once, however many ranks it went to.
    ResultBytes => "result_bytes",
    /// Results of a job in which an integer saturated.
    Overflowed => "results_overflowed",
    /// Results of a job with an infinity or NaN, estimated: one in eight is looked at, and counts for eight.
    NonFinite => "results_nonfinite",
    /// Results of a job that were sent out without all ranks.
    Released => "results_released",
    /// Results of a job given again to a rank that asked or retransmitted.
    Replayed => "results_replayed",
    /// Results of a job that came from its parameter server, or from a rank that had kept them.
    Installed => "results_installed",
    /// Partials of a job that lost their slot to another PSN before their time.
    Preempted => "preemptions",
    /// Partials of a job sent to the parameter server.
    Evicted => "partials_evicted",
    /// Partials of a job that were given up; the ranks send again.
    GivenUp => "partials_given_up",
    /// Contributions of a job sent to the parameter server because they found no slot.
    Spilled => "contributions_spilled",
}

const EVENTS: usize = JobEvent::ALL.len();
const DROPS: usize = DropReason::ALL.len();
/// Ranks that share what the processor fetches at once.
const TOGETHER: usize = 4;

/// What one lcore has seen of a rank. Half a cache line: a packet touches one.
#[derive(Debug, Default)]
#[repr(align(32))]
struct RankCell {
    contributions: AtomicU64,
    bytes: AtomicU64,
    /// When its last contribution came, in nanoseconds of the lcores' clock.
    heard: AtomicU64,
    /// The PSN of its last contribution.
    psn: AtomicU32,
    /// How many of its contributions were retransmissions; it wraps, so that the cell stays as small as it is.
    again: AtomicU32,
}

const _: () = assert!(size_of::<RankCell>() == 32);

/// What one lcore has seen of the results that a rank completed. Half a cache line, too.
#[derive(Debug, Default)]
#[repr(align(32))]
struct LastCell {
    results: AtomicU64,
    /// Of the results' payloads.
    bytes: AtomicU64,
    /// Nanoseconds from the first to the last contribution of the results, summed.
    waited: AtomicU64,
}

/// The groups of ranks of one lcore.
type Groups<T> = [CachePadded<[T; TOGETHER]>];

/// The cells of a rank's contributions that one lcore writes, found once for many packets.
#[derive(Debug, Clone, Copy)]
pub struct LcoreRanks<'a>(&'a Groups<RankCell>);

impl LcoreRanks<'_> {
    /// Of no job: nothing is counted.
    pub const NONE: Self = Self(&[]);

    /// Notes a contribution that the lcore has received.
    #[inline(always)]
    pub fn heard(self, rank: u16, contribution: &Contribution) {
        let &Contribution { psn, bytes, again, now } = contribution;
        let rank = usize::from(rank);
        let Some(cell) = self.0.get(rank / TOGETHER).map(|group| &group[rank % TOGETHER]) else { return };
        bump(&cell.contributions, 1);
        bump(&cell.bytes, u64::from(bytes));
        cell.heard.store(now, Ordering::Relaxed);
        cell.psn.store(psn, Ordering::Relaxed);
        if again {
            cell.again.store(cell.again.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        }
    }
}

/// What one lcore counts of a job beside the ranks' contributions.
#[derive(Debug)]
struct LcoreCells {
    events: [AtomicU64; EVENTS],
    drops: [AtomicU64; DROPS],
}

/// A contribution, as far as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution {
    /// Its PSN.
    pub psn: u32,
    /// Bytes of its payload.
    pub bytes: u16,
    /// True if it has been sent before.
    pub again: bool,
    /// When it came, in nanoseconds of the lcores' clock.
    pub now: u64,
}

/// The counts of one job, by all lcores.
#[derive(Debug, Default)]
pub struct JobCells {
    ranks: u16,
    /// Groups of ranks of one lcore.
    stride: usize,
    cells: Box<Groups<RankCell>>,
    lasts: Box<Groups<LastCell>>,
    lcores: Box<[CachePadded<LcoreCells>]>,
}

impl JobCells {
    /// Counts of a job of so many ranks by so many lcores; without lcores, nothing is counted.
    #[must_use]
    pub fn new(lcores: usize, ranks: u16) -> Self {
        let stride = usize::from(ranks).div_ceil(TOGETHER);
        let of_lcore = |_| {
            CachePadded::new(LcoreCells {
                events: [const { AtomicU64::new(0) }; EVENTS],
                drops: [const { AtomicU64::new(0) }; DROPS],
            })
        };
        Self {
            ranks,
            stride,
            cells: (0..lcores * stride).map(|_| CachePadded::default()).collect(),
            lasts: (0..lcores * stride).map(|_| CachePadded::default()).collect(),
            lcores: (0..lcores).map(of_lcore).collect(),
        }
    }

    /// Where an lcore notes contributions. For that lcore only, as all of the following.
    #[must_use]
    #[inline]
    pub fn ranks_of(&self, lcore: usize) -> LcoreRanks<'_> {
        let first = lcore * self.stride;
        LcoreRanks(self.cells.get(first..first + self.stride).unwrap_or_default())
    }

    /// Notes a contribution that an lcore has received.
    #[inline]
    pub fn heard(&self, lcore: usize, rank: u16, contribution: &Contribution) {
        self.ranks_of(lcore).heard(rank, contribution);
    }

    /// Counts an event.
    #[inline]
    pub fn count(&self, lcore: usize, event: JobEvent, count: u64) {
        if let Some(cells) = self.lcores.get(lcore) {
            bump(&cells.events[event as usize], count);
        }
    }

    /// Notes a result of so many bytes, which a rank's contribution completed so many nanoseconds after the first.
    #[inline]
    pub fn completed(&self, lcore: usize, last: u16, bytes: usize, waited: u64) {
        let last = usize::from(last);
        let group = self.lasts.get(lcore * self.stride + last / TOGETHER);
        let Some(cell) = group.map(|group| &group[last % TOGETHER]) else { return };
        bump(&cell.results, 1);
        bump(&cell.bytes, bytes as u64);
        bump(&cell.waited, waited);
    }

    /// Counts a packet of the job that was dropped.
    pub fn dropped(&self, lcore: usize, reason: DropReason) {
        if let Some(cells) = self.lcores.get(lcore) {
            bump(&cells.drops[reason as usize], 1);
        }
    }

    /// All counts, lcores added up.
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
        }
        for groups in self.lasts.chunks_exact(self.stride.max(1)) {
            for (rank, cell) in reading.ranks.iter_mut().zip(groups.iter().flat_map(|group| group.iter())) {
                let results = cell.results.load(Ordering::Relaxed);
                rank.last += results;
                reading.waited_ns += cell.waited.load(Ordering::Relaxed);
                reading.events[JobEvent::Results as usize] += results;
                reading.events[JobEvent::ResultBytes as usize] += cell.bytes.load(Ordering::Relaxed);
            }
        }
        reading
    }

    fn read_ranks(&self) -> Vec<RankReading> {
        let mut ranks = vec![RankReading::default(); usize::from(self.ranks)];
        for groups in self.cells.chunks_exact(self.stride.max(1)) {
            for (sum, cell) in ranks.iter_mut().zip(groups.iter().flat_map(|group| group.iter())) {
                sum.contributions += cell.contributions.load(Ordering::Relaxed);
                sum.bytes += cell.bytes.load(Ordering::Relaxed);
                sum.again = sum.again.wrapping_add(cell.again.load(Ordering::Relaxed));
                let heard = cell.heard.load(Ordering::Relaxed);
                // The lcore that heard from it last knows where it is.
                if heard > sum.heard_ns {
                    sum.heard_ns = heard;
                    sum.psn = cell.psn.load(Ordering::Relaxed);
                }
            }
        }
        ranks
    }
}

/// A single writer needs no read-modify-write.
#[inline]
fn bump(cell: &AtomicU64, count: u64) {
    cell.store(cell.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
}

/// What has been seen of a rank.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RankReading {
    /// Contributions received, repeated ones included.
    pub contributions: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// When the last one came, in nanoseconds of the lcores' clock; 0 for never.
    pub heard_ns: u64,
    /// Its PSN.
    pub psn: u32,
    /// Contributions that had been sent before; it wraps.
    pub again: u32,
    /// Results that this rank's contribution completed: all others were there before.
    pub last: u64,
}

/// The counts of a job as they were at about one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CellsReading {
    events: [u64; EVENTS],
    drops: [u64; DROPS],
    /// Nanoseconds from the first to the last contribution of the results, summed.
    pub waited_ns: u64,
    /// By rank.
    pub ranks: Vec<RankReading>,
}

impl Default for CellsReading {
    fn default() -> Self {
        Self { events: [0; EVENTS], drops: [0; DROPS], waited_ns: 0, ranks: Vec::new() }
    }
}

impl CellsReading {
    /// How often something has happened, or how many bytes it was.
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

    /// Bytes of the payloads of these contributions.
    #[must_use]
    pub fn contribution_bytes(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.bytes).sum()
    }

    /// The rank that is ahead, as a PSN; `None` if nothing has come from any.
    #[must_use]
    pub fn front(&self) -> Option<u32> {
        let heard = self.ranks.iter().filter(|rank| rank.heard_ns > 0).map(|rank| rank.psn);
        heard.reduce(|front, psn| if front.wrapping_sub(psn) > 1 << 31 { psn } else { front })
    }

    /// How many PSNs a rank is behind the one that is ahead; all of them, if nothing has come from it.
    #[must_use]
    pub fn behind(&self, rank: &RankReading) -> u32 {
        match self.front() {
            Some(front) if rank.heard_ns > 0 => front.wrapping_sub(rank.psn),
            Some(front) => front.wrapping_add(1),
            None => 0,
        }
    }
}

#[cfg(test)]
mod tests;
