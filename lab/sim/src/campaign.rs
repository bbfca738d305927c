//! Many schedules on several threads, and the sum of their outcomes.

use core::fmt;
use core::sync::atomic::{AtomicU64, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::faults::{Faults, Reached};
use crate::plan::Cell;
use crate::random::mix;
use crate::sabotage::Sabotage;
use crate::trace::Words;
use crate::violation::Violation;
use crate::world;

/// Violations that are described; all are counted.
const DESCRIBED: usize = 8;
/// Violations after which the campaign stops: broken schedules are slow, since everything waits for its
/// deadline.
const ENOUGH: u64 = 100;
/// Schedules that a thread takes at a time.
const CHUNK: u64 = 16;

/// The appliances of a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// This many levels: 1, or a tree of up to 3 with one job.
    Levels(usize),
    /// One with a backup.
    Backup,
    /// One, and packets are sealed in all jobs for which that is possible.
    Sealed,
    /// This many trees, of one appliance each, for one job.
    Trees(usize),
    /// Those of the cell that the seed chooses ([`Cell::all`]).
    Cells,
    /// Those of the cell with this number.
    Cell(usize),
}

/// The schedules to run.
#[derive(Debug, Clone, Copy)]
pub struct Campaign {
    /// The appliances.
    pub shape: Shape,
    /// The first schedule's seed; each further schedule has the next number.
    pub seed: u64,
    /// The number of schedules.
    pub runs: u64,
    /// The number of threads.
    pub threads: usize,
    /// A defect to be built in.
    pub sabotage: Sabotage,
}

/// A schedule that violated an invariant.
#[derive(Debug, Clone)]
pub struct Finding {
    /// Its seed.
    pub seed: u64,
    /// The violation.
    pub violation: Violation,
    /// The plan, and the last events.
    pub trace: Vec<String>,
}

/// The sum of all schedules' outcomes.
#[derive(Debug, Clone, Default)]
pub struct Report {
    /// Schedules run.
    pub schedules: u64,
    /// The faults injected.
    pub faults: Faults,
    /// The states reached.
    pub reached: Reached,
    /// Allreduces that a worker finished with the right sum.
    pub finished: u64,
    /// Allreduces that ended with a typed error, as they may after a kill or a restart.
    pub failed: u64,
    /// Events in all.
    pub events: u64,
    /// A digest of every event of every schedule, independent of the schedules' order.
    pub digest: u64,
    /// Schedules that violated an invariant.
    pub violations: u64,
    /// The first of them, as they were found.
    pub findings: Vec<Finding>,
    /// Schedules of each cell, where the campaign was over these.
    pub cells: Vec<u64>,
    /// Time it took.
    pub elapsed: Duration,
}

impl Shape {
    /// The number of a seed's cell, if the schedules are of cells.
    #[must_use]
    pub fn cell_of(self, seed: u64) -> Option<usize> {
        match self {
            Self::Levels(_) | Self::Backup | Self::Sealed | Self::Trees(_) => None,
            Self::Cells => usize::try_from(seed % Cell::all().len() as u64).ok(),
            Self::Cell(number) => Some(number),
        }
    }
}

impl Report {
    /// Adds other schedules to these. Times are not added.
    pub fn merge(&mut self, other: Self) {
        self.schedules += other.schedules;
        self.faults.merge(&other.faults);
        self.reached.merge(&other.reached);
        self.finished += other.finished;
        self.failed += other.failed;
        self.events += other.events;
        self.digest = self.digest.wrapping_add(other.digest);
        self.violations += other.violations;
        self.cells.resize(self.cells.len().max(other.cells.len()), 0);
        self.cells.iter_mut().zip(other.cells).for_each(|(ours, theirs)| *ours += theirs);
        let room = DESCRIBED.saturating_sub(self.findings.len());
        self.findings.extend(other.findings.into_iter().take(room));
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} schedules; {} faults injected: {}; reached: {}; \
             allreduces finished {}, failed as expected {}; violations {}",
            self.schedules,
            self.faults.total(),
            self.faults,
            self.reached,
            self.finished,
            self.failed,
            self.violations
        )
    }
}

/// Runs one schedule. `verbose` receives every event, whether or not something is wrong.
#[must_use]
pub fn schedule(seed: u64, sabotage: Sabotage, verbose: Option<&mut dyn FnMut(&str)>) -> Report {
    shaped_schedule(Shape::Levels(1), seed, sabotage, verbose)
}

/// The same with other appliances.
#[must_use]
pub fn shaped_schedule(
    shape: Shape,
    seed: u64,
    sabotage: Sabotage,
    verbose: Option<&mut dyn FnMut(&str)>,
) -> Report {
    let words = if verbose.is_some() { Words::All } else { Words::None };
    let caught = |words| catch_unwind(AssertUnwindSafe(|| world::run(shape, seed, sabotage, words)));
    let outcome = match caught(words) {
        Ok(outcome) => outcome,
        Err(panic) => return finding(seed, Violation::Panic { message: message(&*panic) }, Vec::new()),
    };
    if let Some(print) = verbose {
        outcome.lines.iter().for_each(|line| print(line));
    }
    let mut report = Report {
        schedules: 1,
        faults: outcome.faults,
        reached: outcome.reached,
        finished: outcome.finished,
        failed: outcome.failed,
        events: outcome.events,
        digest: mix(outcome.hash ^ seed),
        ..Report::default()
    };
    if shape.cell_of(seed).is_some() {
        let count = |number| u64::from(outcome.cell == Some(number));
        report.cells = (0..Cell::all().len()).map(count).collect();
    }
    if let Some(violation) = outcome.violation {
        let again = caught(Words::Tail).map(|outcome| outcome.lines).unwrap_or_default();
        report.merge(Report { schedules: 0, ..finding(seed, violation, again) });
    }
    report
}

fn finding(seed: u64, violation: Violation, trace: Vec<String>) -> Report {
    let findings = vec![Finding { seed, violation, trace }];
    Report { schedules: 1, violations: 1, findings, ..Report::default() }
}

fn message(panic: &(dyn core::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "without a message".to_owned())
}

impl Campaign {
    /// Runs all schedules, or fewer if very many of them violate invariants.
    ///
    /// Any thread calls `progress` now and then, with the schedules done and the violations found since its
    /// last call.
    #[must_use]
    pub fn run(&self, progress: &(dyn Fn(u64, u64) + Sync)) -> Report {
        let began = Instant::now();
        let next = AtomicU64::new(0);
        let total = Mutex::new(Report::default());
        std::thread::scope(|scope| {
            for _ in 0..self.threads.max(1) {
                scope.spawn(|| self.work(&next, &total, progress));
            }
        });
        let mut report = total.into_inner().unwrap_or_else(PoisonError::into_inner);
        report.findings.sort_by_key(|finding| finding.seed);
        report.elapsed = began.elapsed();
        report
    }

    fn work(&self, next: &AtomicU64, total: &Mutex<Report>, progress: &(dyn Fn(u64, u64) + Sync)) {
        loop {
            let from = next.fetch_add(CHUNK, Ordering::Relaxed);
            if from >= self.runs {
                return;
            }
            let mut report = Report::default();
            for number in from..self.runs.min(from + CHUNK) {
                report.merge(shaped_schedule(
                    self.shape,
                    self.seed.wrapping_add(number),
                    self.sabotage,
                    None,
                ));
            }
            progress(report.schedules, report.violations);
            let mut total = total.lock().unwrap_or_else(PoisonError::into_inner);
            total.merge(report);
            if total.violations >= ENOUGH {
                next.store(self.runs, Ordering::Relaxed);
            }
        }
    }
}
