//! Chooses the jobs that have series of their own.
//!
//! A thousand jobs must not make a thousand times the series. So the busiest jobs get one of a fixed number
//! of places; all others are summed under one name.
//!
//! A job that has sent anything gets a free place; of several that wait, the one that sent most since the
//! last look. It keeps the place while it exists and is not silent for [`SILENCE`], so that series are
//! stable. Counters never fall: the counts of a job without a place stay with the others, and so do those of
//! former jobs.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::cells::{CellsReading, JobEvent};

/// A job that is silent for this long gives its place to one that waits.
pub const SILENCE: Duration = Duration::from_secs(300);

/// A job's exported counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JobTotals {
    /// Contributions received.
    pub contributions: u64,
    /// Bytes of their payloads.
    pub bytes: u64,
    /// Packets dropped, for reasons that concern the job.
    pub dropped: u64,
    /// Nanoseconds from the first to the last contribution of the results, summed.
    pub waited_ns: u64,
    /// By [`JobEvent`].
    pub events: Vec<u64>,
}

impl Default for JobTotals {
    fn default() -> Self {
        Self { contributions: 0, bytes: 0, dropped: 0, waited_ns: 0, events: vec![0; JobEvent::ALL.len()] }
    }
}

impl JobTotals {
    /// Those of a job.
    #[must_use]
    pub fn of(reading: &CellsReading) -> Self {
        Self {
            contributions: reading.contributions(),
            bytes: reading.contribution_bytes(),
            dropped: crate::DropReason::ALL.iter().map(|&reason| reading.dropped(reason)).sum(),
            waited_ns: reading.waited_ns,
            events: JobEvent::ALL.iter().map(|&event| reading.get(event)).collect(),
        }
    }

    fn zip(&mut self, other: &Self, with: impl Fn(u64, u64) -> u64) {
        self.contributions = with(self.contributions, other.contributions);
        self.bytes = with(self.bytes, other.bytes);
        self.dropped = with(self.dropped, other.dropped);
        self.waited_ns = with(self.waited_ns, other.waited_ns);
        for (mine, theirs) in self.events.iter_mut().zip(&other.events) {
            *mine = with(*mine, *theirs);
        }
    }

    /// A sum may wrap for a while after an amount was taken from it in advance.
    fn add(&mut self, other: &Self) {
        self.zip(other, u64::wrapping_add);
    }

    fn less(&self, other: &Self) -> Self {
        let mut less = self.clone();
        less.zip(other, u64::saturating_sub);
        less
    }
}

/// A job that was seen at the last look.
#[derive(Debug, Clone, Default)]
struct Seen {
    totals: JobTotals,
    /// As at the look before: this much is in the common sum.
    former: JobTotals,
    /// When it last sent.
    heard: Duration,
    /// Its counts when it got its place; none without one.
    base: Option<JobTotals>,
}

/// The places, and their jobs.
#[derive(Debug)]
pub struct Listing {
    places: usize,
    seen: BTreeMap<u16, Seen>,
    /// Counts that stay under the common name: of former jobs, and of others before they got a place.
    settled: JobTotals,
}

/// The exported counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listed {
    /// Jobs with a place, and their counts since they got it.
    pub jobs: Vec<(u16, JobTotals)>,
    /// The counts of all others.
    pub others: JobTotals,
}

impl Listing {
    /// With this many places.
    #[must_use]
    pub fn new(places: usize) -> Self {
        Self { places, seen: BTreeMap::new(), settled: JobTotals::default() }
    }

    /// Looks at all jobs. Times are monotonic, from any origin.
    pub fn look(&mut self, now: Duration, jobs: impl IntoIterator<Item = (u16, JobTotals)>) -> Listed {
        let mut waiting = Vec::new();
        let mut present = BTreeMap::new();
        for (id, totals) in jobs {
            let mut seen = self.seen.remove(&id).unwrap_or_default();
            if totals.contributions < seen.totals.contributions {
                // Another job of the same number.
                self.settle(core::mem::take(&mut seen));
            }
            let fresh = totals.contributions - seen.totals.contributions;
            if fresh > 0 {
                seen.heard = now;
            }
            if seen.base.is_none() && fresh > 0 {
                waiting.push((fresh, id));
            }
            seen.former = core::mem::replace(&mut seen.totals, totals);
            present.insert(id, seen);
        }
        for (_, gone) in core::mem::take(&mut self.seen) {
            self.settle(gone);
        }
        self.seen = present;
        self.assign(now, waiting);
        self.listed()
    }

    /// A job is gone: its counts under the common name stay there.
    fn settle(&mut self, gone: Seen) {
        // Its own series end; the common name must not grow by them.
        self.settled.add(gone.base.as_ref().unwrap_or(&gone.totals));
    }

    fn assign(&mut self, now: Duration, mut waiting: Vec<(u64, u16)>) {
        waiting.sort_by_key(|&(fresh, id)| (core::cmp::Reverse(fresh), id));
        for (_, id) in waiting {
            if self.seen.values().filter(|seen| seen.base.is_some()).count() >= self.places {
                let listed = self.seen.iter_mut().filter(|(_, seen)| seen.base.is_some());
                let quietest = listed.min_by_key(|(_, seen)| seen.heard).map(|(_, seen)| seen);
                let Some(quietest) = quietest.filter(|seen| now.saturating_sub(seen.heard) >= SILENCE) else {
                    return;
                };
                // Its series end like those of a former job; from now on it is one of the others.
                let base = quietest.base.take().unwrap_or_default();
                let said = quietest.totals.less(&base);
                let mut settled = core::mem::take(&mut self.settled);
                // The others' sum would gain this job's series; subtract them in advance.
                settled.zip(&said, u64::wrapping_sub);
                self.settled = settled;
            }
            if let Some(seen) = self.seen.get_mut(&id) {
                seen.base = Some(seen.former.clone());
            }
        }
    }

    fn listed(&self) -> Listed {
        let mut listed = Listed { jobs: Vec::new(), others: self.settled.clone() };
        for (&id, seen) in &self.seen {
            match &seen.base {
                Some(base) => {
                    listed.jobs.push((id, seen.totals.less(base)));
                    listed.others.add(base);
                }
                None => listed.others.add(&seen.totals),
            }
        }
        listed
    }
}

#[cfg(test)]
mod tests;
