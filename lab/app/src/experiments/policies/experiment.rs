//! The comparison: every policy in every setting, several runs each.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;
use std::sync::Mutex;

use super::paper::{FACTS, Fact, SIDES, Sweep};
use super::setting::{Mix, Policy, ResultsAt, Setting};
use super::{Run, Violation, run};

/// Payloads: the papers', and 1 KiB.
const PAYLOADS: [u16; 2] = [256, 1024];

/// Ways: the papers', and those of an associative pool.
const WAYS: [usize; 2] = [1, 4];

/// Memory of a scarce pool: a job's share is less than its open PSNs need.
const SCARCE: usize = 1 << 20;

/// Mean polling intervals of hosts in microseconds: in lock-step, and with the jitter of a busy host.
const JITTERS: [u32; 2] = [0, 10];

/// The comparison.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Experiment {
    /// The first of `runs` seeds.
    pub(crate) seed: u64,
    /// Runs of each cell, with different seeds.
    pub(crate) runs: u32,
    /// [`Setting::scale`] of all cells.
    pub(crate) scale: u32,
    /// [`Setting::poll_us`] of all cells that do not vary it.
    pub(crate) poll_us: u32,
    /// [`Setting::loss`] of all cells.
    pub(crate) loss: u32,
}

/// The purpose of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Part {
    /// The papers' pool, which the ranking is about.
    Main,
    /// A pool too small for all windows.
    Scarce,
    /// Hosts that poll more or less often.
    HostJitter,
    /// Fewer jobs (DSA, Figure 8), or fewer workers (Figure 9).
    Sweep,
}

impl Part {
    /// The name in reports.
    #[must_use]
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Main => "main",
            Self::Scarce => "scarce",
            Self::HostJitter => "host_jitter",
            Self::Sweep => "sweep",
        }
    }
}

/// The least, the median and the greatest of several runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    /// The least.
    pub(crate) min: f64,
    /// The median.
    pub(crate) median: f64,
    /// The greatest.
    pub(crate) max: f64,
}

/// One cell: a setting, and the medians of its runs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Row {
    /// Its purpose.
    pub(crate) part: Part,
    /// The setting, with the first run's seed.
    pub(crate) setting: Setting,
    /// Runs.
    pub(crate) runs: u32,
    /// [`Run::completion_ms`]
    pub(crate) completion_ms: Spread,
    /// Its median divided by that of the best choice in the same contest.
    pub(crate) relative: f64,
    /// [`Run::utilisation`]
    pub(crate) utilisation: f64,
    /// [`Run::ps_packets`]
    pub(crate) ps_packets: f64,
    /// [`Run::preemptions`]
    pub(crate) preemptions: f64,
    /// [`Run::pool_completions`]
    pub(crate) pool_completions: f64,
    /// [`Run::ps_completions`]
    pub(crate) ps_completions: f64,
    /// [`Run::refused`]
    pub(crate) refused: f64,
    /// [`Run::retransmissions`]
    pub(crate) retransmissions: f64,
    /// [`Run::verified`], of all runs together.
    pub(crate) verified: u64,
}

/// A choice of policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Choice {
    /// The policy.
    pub(crate) policy: Policy,
    /// The place where aggregates become results.
    pub(crate) results_at: ResultsAt,
    /// Slots of a set.
    pub(crate) ways: usize,
}

/// A choice's rank in all contests of a part.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Best {
    /// The choice.
    pub(crate) choice: Choice,
    /// Completion time divided by the shortest of its contest: the geometric mean over all contests.
    pub(crate) mean: f64,
    /// The same in its worst contest.
    pub(crate) worst: f64,
}

/// The outcome of the experiment.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    /// All cells.
    pub(crate) rows: Vec<Row>,
    /// All choices with the papers' pool, best first.
    pub(crate) ranking: Vec<Best>,
    /// The same with a scarce pool.
    pub(crate) scarce: Vec<Best>,
    /// DSA's factors, each with the one seen here for each number of ways.
    pub(crate) facts: Vec<(Fact, [Option<f64>; WAYS.len()])>,
}

impl Setting {
    /// The choice.
    #[must_use]
    pub(crate) const fn choice(&self) -> Choice {
        Choice { policy: self.policy, results_at: self.results_at, ways: self.ways }
    }

    /// The contest: the common part of all its choices.
    #[must_use]
    pub(crate) const fn contest(&self) -> Self {
        Self { policy: Policy::Dsa, results_at: ResultsAt::Appliance, ways: 1, ..*self }
    }
}

impl Choice {
    /// All of them.
    pub(crate) fn all() -> impl Iterator<Item = Self> {
        let places = [ResultsAt::Appliance, ResultsAt::Server];
        Policy::ALL.into_iter().flat_map(move |policy| {
            let places = places.into_iter().filter(move |&at| policy.server() || at == ResultsAt::Appliance);
            places.flat_map(move |results_at| WAYS.map(|ways| Self { policy, results_at, ways }))
        })
    }

    const fn of(self, contest: &Setting) -> Setting {
        let Self { policy, results_at, ways } = self;
        Setting { policy, results_at, ways, ..*contest }
    }
}

impl Experiment {
    /// The paper's setting within this experiment.
    const fn paper(&self) -> Setting {
        let Self { seed, scale, poll_us, loss, .. } = *self;
        Setting { scale, poll_us, loss, ..Setting::paper(seed) }
    }

    /// All cells.
    fn cells(&self) -> Vec<(Part, Setting)> {
        let paper = self.paper();
        let mut cells = Vec::new();
        for payload in PAYLOADS {
            for mix in [Mix::A, Mix::Both, Mix::B] {
                let contest = Setting { payload, mix, ..paper };
                cells.extend(Choice::all().map(|choice| (Part::Main, choice.of(&contest))));
            }
        }
        let scarce = Setting { payload: 1024, memory: SCARCE, ..paper };
        cells.extend(Choice::all().map(|choice| (Part::Scarce, choice.of(&scarce))));
        let sides = SIDES.map(|side| Choice { policy: side.policy, results_at: side.results_at, ways: 1 });
        for poll_us in JITTERS.into_iter().filter(|&poll_us| poll_us != self.poll_us) {
            let contest = Setting { poll_us, ..paper };
            cells.extend(sides.map(|choice| (Part::HostJitter, choice.of(&contest))));
        }
        for sweep in [Sweep::Jobs, Sweep::Workers] {
            for &(jobs, ranks) in sweep.points() {
                let contest = Setting { jobs, ranks, ..paper };
                for side in SIDES.iter().filter(|side| FACTS.iter().any(|fact| fact.needs(sweep, **side))) {
                    let choice = Choice { policy: side.policy, results_at: side.results_at, ways: 1 };
                    let cell = choice.of(&contest);
                    if !cells.iter().any(|&(_, there)| there == cell) {
                        cells.push((Part::Sweep, cell));
                    }
                }
            }
        }
        cells
    }

    /// Runs everything, one thread per core. The outcome does not depend on the threads. After each run it
    /// reports how many are done, and of how many.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub(crate) fn compare(&self, progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Comparison, Violation> {
        let cells = self.cells();
        let each = self.runs.max(1);
        let settings = cells.iter().flat_map(|&(_, setting)| {
            (0..u64::from(each)).map(move |run| Setting { seed: setting.seed.wrapping_add(run), ..setting })
        });
        let runs = all(&settings.collect::<Vec<_>>(), progress)?;
        let mut rows: Vec<Row> = cells
            .iter()
            .zip(runs.chunks(each as usize))
            .map(|(&(part, setting), runs)| row(part, &setting, runs))
            .collect();
        relate(&mut rows);
        let paper = self.paper();
        let facts = FACTS.iter().map(|fact| (*fact, WAYS.map(|ways| fact.seen(&paper, ways, &rows))));
        let facts = facts.collect();
        Ok(Comparison { ranking: rank(&rows, Part::Main), scarce: rank(&rows, Part::Scarce), facts, rows })
    }
}

/// Runs in any order; starts none after a violation.
fn all(settings: &[Setting], progress: &(dyn Fn(usize, usize) + Sync)) -> Result<Vec<Run>, Violation> {
    let (next, finished) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let done = Mutex::new(Vec::with_capacity(settings.len()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(settings.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some(setting) = settings.get(number) else { break };
                    let outcome = run(setting);
                    if outcome.is_err() {
                        next.store(settings.len(), Ordering::Relaxed);
                    }
                    if let Ok(mut done) = done.lock() {
                        done.push((number, outcome));
                    }
                    progress(finished.fetch_add(1, Ordering::Relaxed) + 1, settings.len());
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_unstable_by_key(|&(number, _)| number);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// The least, the median and the greatest.
fn spread(runs: &[Run], of: fn(&Run) -> f64) -> Spread {
    let mut all: Vec<f64> = runs.iter().map(of).collect();
    all.sort_by(f64::total_cmp);
    let at = |index: usize| all.get(index).copied().unwrap_or(f64::NAN);
    let last = all.len().saturating_sub(1);
    Spread { min: at(0), median: f64::midpoint(at(last / 2), at(last.div_ceil(2))), max: at(last) }
}

fn row(part: Part, setting: &Setting, runs: &[Run]) -> Row {
    let median = |of| spread(runs, of).median;
    Row {
        part,
        setting: *setting,
        runs: u32::try_from(runs.len()).unwrap_or(u32::MAX),
        completion_ms: spread(runs, |run| run.completion_ms),
        relative: 1.0,
        utilisation: median(|run| run.utilisation),
        ps_packets: median(|run| run.ps_packets as f64),
        preemptions: median(|run| run.preemptions as f64),
        pool_completions: median(|run| run.pool_completions as f64),
        ps_completions: median(|run| run.ps_completions as f64),
        refused: median(|run| run.refused as f64),
        retransmissions: median(|run| run.retransmissions as f64),
        verified: runs.iter().map(|run| run.verified).sum(),
    }
}

/// Divides each row by the best choice of its contest.
fn relate(rows: &mut [Row]) {
    let mut least: HashMap<Setting, f64> = HashMap::new();
    for row in rows.iter() {
        let least = least.entry(row.setting.contest()).or_insert(f64::INFINITY);
        *least = least.min(row.completion_ms.median);
    }
    for row in rows {
        let least = least.get(&row.setting.contest()).copied().unwrap_or(f64::NAN);
        row.relative = row.completion_ms.median / least;
    }
}

/// Ranks the choices by how close they come to the best of each contest.
fn rank(rows: &[Row], part: Part) -> Vec<Best> {
    let best = |choice| {
        let of = |row: &&Row| row.part == part && row.setting.choice() == choice;
        let ratios: Vec<f64> = rows.iter().filter(of).map(|row| row.relative).collect();
        let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
        Best { choice, mean: mean.exp(), worst: ratios.into_iter().fold(0.0, f64::max) }
    };
    let mut ranking: Vec<Best> = Choice::all().map(best).collect();
    ranking.sort_by(|a, b| a.mean.total_cmp(&b.mean));
    ranking
}
