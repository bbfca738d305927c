//! Many runs of one job in a row, each judged by itself.

use core::time::Duration;

use super::World;
use crate::oracle::Generations;
use crate::plan::MILLI;
use crate::trace::Words;
use crate::violation::Violation;
use crate::wheel::nanos;
use crate::worker::{Ending, Phase, Worker};

/// A worker that was killed keeps its rank for up to 1.5 s, one that was killed while joining for 3 s. All
/// ranks have to be there for this time.
const ENOUGH: u64 = 5_000 * MILLI;

/// The outcome of many runs.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    /// Runs, from their first rank's start to their last one's end.
    pub runs: u64,
    /// Of those, the ones whose ranks were all there together, for long enough.
    pub met: u64,
    /// The runs that completed: each rank has finished all allreduces, and has left.
    pub completed: u64,
    /// The first violation.
    pub violation: Option<Violation>,
    /// The last events, if there was a violation.
    pub trace: Vec<String>,
}

/// Runs one job again and again at one appliance, without faults or other jobs.
#[must_use]
pub fn runs(seed: u64, runs: u64) -> Runs {
    let (outcome, came) = super::run_again_and_again(seed, runs, Words::None);
    let Some(violation) = outcome.violation else { return came };
    let trace = super::run_again_and_again(seed, runs, Words::Tail).0.lines;
    Runs { violation: Some(violation), trace, ..came }
}

impl World<'_> {
    /// A rank's process starts, if there is none.
    pub(super) fn launch(&mut self, number: usize, patience: Duration) -> Result<(), Violation> {
        let now = self.now;
        let Some(worker) = self.workers.get_mut(number).filter(|worker| worker.is_away()) else {
            return Ok(());
        };
        worker.patience = Some(patience);
        worker.end(Phase::Away, now);
        self.start_worker(number)
    }

    /// A run is over: ranks that are still alive are killed.
    pub(super) fn curtain(&mut self) -> Result<(), Violation> {
        self.runs.runs += 1;
        let completed = self.workers.iter().all(|worker| matches!(worker.phase, Phase::Over(Ending::Left)));
        let met = completed || self.have_met();
        self.runs.completed += u64::from(completed);
        self.runs.met += u64::from(met);
        if met && !completed {
            let ends = self.workers.iter().map(|worker| match worker.phase {
                Phase::Over(ending) => format!("{ending:?}"),
                _ => "at work".to_owned(),
            });
            return Err(Violation::NotCompleted { run: self.runs.runs, ends: ends.collect() });
        }
        for number in 0..self.workers.len() {
            self.kill(number, true);
        }
        // Numbers of generations come again, with other workers.
        self.generations = Generations::default();
        self.results.clear();
        self.jobs.iter_mut().for_each(|job| *job = super::JobStory::default());
        Ok(())
    }

    /// Whether all ranks of a run were there together, each with enough patience left.
    fn have_met(&self) -> bool {
        let Some(all) = self.workers.iter().map(|worker| worker.started).max() else { return false };
        let stays = |worker: &Worker| {
            let patient = worker.started + worker.patience.map_or(0, nanos);
            let until = match worker.phase {
                Phase::Over(Ending::Killed) => worker.killed.unwrap_or(0).min(patient),
                // A rank that had all results before the last one came did not need that one.
                Phase::Over(Ending::Left) => worker.finished,
                _ => patient,
            };
            until > all + ENOUGH
        };
        self.workers.iter().all(stays)
    }
}
