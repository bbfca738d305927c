//! Which job and rank a wait for the last contribution belongs to.
//!
//! Lcores count each job's results and how long these waited in all, but note no single wait: that would be a
//! store for each result. So an exemplar is the mean of what a job completed from one scrape to the next.

use std::collections::BTreeMap;
use std::time::SystemTime;

use pascaline_telemetry::{Exemplar, JOB_ID, JobEvent};

use crate::observe::snapshot::JobInput;

/// A job at the last scrape: its results, their waits in nanoseconds, and the results that each rank
/// completed.
#[derive(Debug, Default)]
struct Seen {
    results: u64,
    waited_ns: u64,
    last: Vec<u64>,
}

/// What was there at the last scrape, and what has been found at it.
#[derive(Debug, Default)]
pub(super) struct Waits {
    seen: BTreeMap<u16, Seen>,
    found: Vec<Exemplar>,
}

impl Waits {
    /// The exemplars of the last look.
    pub(super) fn found(&self) -> &[Exemplar] {
        &self.found
    }

    /// Looks at the jobs once more: those with the most new results come first.
    pub(super) fn look(&mut self, jobs: &[&JobInput]) {
        let at = SystemTime::now();
        let mut found: Vec<(u64, Exemplar)> = Vec::new();
        let mut now = BTreeMap::new();
        for job in jobs {
            let last = job.reading.ranks.iter().map(|rank| rank.last).collect();
            let results = job.reading.get(JobEvent::Results);
            let is = Seen { results, waited_ns: job.reading.waited_ns, last };
            let was = self.seen.remove(&job.status.id).unwrap_or_default();
            found.extend(exemplar(job.status.id, &was, &is, at));
            now.insert(job.status.id, is);
        }
        found.sort_by_key(|(results, _)| core::cmp::Reverse(*results));
        self.found = found.into_iter().map(|(_, exemplar)| exemplar).collect();
        self.seen = now;
    }
}

/// The new results of a job, and their mean wait with the rank that was the last most often.
fn exemplar(job: u16, was: &Seen, is: &Seen, at: SystemTime) -> Option<(u64, Exemplar)> {
    let results = is.results.checked_sub(was.results).filter(|new| *new > 0)?;
    let waited = is.waited_ns.checked_sub(was.waited_ns)?;
    let new = |rank: &usize| is.last[*rank].saturating_sub(was.last.get(*rank).copied().unwrap_or(0));
    let rank = (0..is.last.len()).max_by_key(new)?;
    #[expect(clippy::cast_precision_loss, reason = "a mean for people")]
    let value = waited as f64 / results as f64 / 1e9;
    let labels = vec![(JOB_ID, job.to_string()), ("rank", rank.to_string())];
    Some((results, Exemplar { metric: "contribution_spread_seconds", labels, value, at }))
}
