//! The whole comparison: every policy in every setting, averaged over several runs.

use core::sync::atomic::{AtomicUsize, Ordering};
use std::collections::HashMap;
use std::sync::Mutex;

use super::paper::{FACTS, Fact};
use super::setting::{Mix, Policy, ResultsAt, Setting};
use super::{Run, Violation, run};

/// Memory of the pool where it is scarce: a job's share is less than what it must have under way.
const SCARCE: usize = 512 << 10;

/// The comparison.
#[derive(Debug, Clone, Copy)]
pub struct Experiment {
    /// What all that is left to chance follows from.
    pub seed: u64,
    /// An eighth of the tensors and times of computation, and one run of each cell: to see that it works.
    pub quick: bool,
}

/// One cell: a setting's means over its runs, which differ in their seed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Row {
    /// The setting, with the first run's seed.
    pub setting: Setting,
    /// Runs.
    pub runs: u32,
    /// [`Run::completion_ms`]
    pub completion_ms: f64,
    /// The same divided by DSA's in the same setting with the same ways and results made at the same place.
    pub relative_to_dsa: f64,
    /// [`Run::utilisation`]
    pub utilisation: f64,
    /// [`Run::ps_packets`]
    pub ps_packets: f64,
    /// [`Run::preemptions`]
    pub preemptions: f64,
    /// [`Run::ps_completions`]
    pub ps_completions: f64,
    /// [`Run::retransmissions`]
    pub retransmissions: f64,
    /// [`Run::verified`], of all runs together.
    pub verified: u64,
}

/// The choice that is best over all settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Best {
    /// Who wins what.
    pub policy: Policy,
    /// Where results are made.
    pub results_at: ResultsAt,
    /// Slots of a set.
    pub ways: usize,
    /// Completion time over the shortest in the same setting: the geometric mean over all settings.
    pub mean: f64,
    /// The same in the setting where that is greatest.
    pub worst: f64,
}

/// What the experiment has shown.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// All cells.
    pub rows: Vec<Row>,
    /// All choices, the best first.
    pub ranking: Vec<Best>,
    /// What DSA's figures say, each with what was seen here.
    pub facts: Vec<(Fact, Option<f64>)>,
}

/// What makes two cells the same but for the choice: memory, payload, rate and mix.
type Contest = (usize, u16, u32, Mix);

const fn contest(setting: &Setting) -> Contest {
    (setting.memory, setting.payload, setting.gbps, setting.mix)
}

impl Experiment {
    /// All settings, and how many runs of each: more where they are short.
    fn settings(&self) -> Vec<(Setting, u32)> {
        let paper = Setting { scale: if self.quick { 8 } else { 1 }, ..Setting::paper(self.seed) };
        let contests = [
            (Setting { ..paper }, 1),
            (Setting { payload: 1024, ..paper }, 2),
            (Setting { gbps: 10, ..paper }, 2),
            (Setting { payload: 1024, gbps: 10, ..paper }, 4),
            (Setting { payload: 1024, memory: SCARCE, ..paper }, 2),
        ];
        let mut all = Vec::new();
        for (contest, runs) in contests {
            for ways in [1, 4] {
                for policy in Policy::ALL {
                    for results_at in [ResultsAt::Appliance, ResultsAt::Server] {
                        if policy.server() || results_at == ResultsAt::Appliance {
                            all.push((Setting { ways, policy, results_at, ..contest }, runs));
                        }
                    }
                }
            }
        }
        // What else the figures speak of.
        for fact in &FACTS {
            for side in [fact.of, fact.over] {
                let setting = Setting { mix: fact.mix, ..side.setting(&paper) };
                if !all.iter().any(|&(there, _)| there == setting) {
                    all.push((setting, 1));
                }
            }
        }
        all.into_iter().map(|(setting, runs)| (setting, if self.quick { 1 } else { runs })).collect()
    }

    /// Runs all of it, on as many threads as there are cores. The same seed gives the same, however many these are.
    ///
    /// # Errors
    /// The first [`Violation`].
    pub fn compare(&self) -> Result<Comparison, Violation> {
        let settings = self.settings();
        let runs: Vec<(usize, Setting)> = settings
            .iter()
            .enumerate()
            .flat_map(|(cell, &(setting, runs))| {
                (0..u64::from(runs))
                    .map(move |run| (cell, Setting { seed: setting.seed.wrapping_add(run), ..setting }))
            })
            .collect();
        let reports = all(&runs)?;
        let mut rows: Vec<Row> = settings
            .iter()
            .enumerate()
            .map(|(cell, (setting, _))| {
                let of_cell = runs.iter().zip(&reports).filter(|((at, _), _)| *at == cell);
                mean(setting, &of_cell.map(|(_, report)| *report).collect::<Vec<_>>())
            })
            .collect();
        relate(&mut rows);
        let facts = FACTS.iter().map(|fact| (*fact, fact.seen(&rows))).collect();
        Ok(Comparison { ranking: rank(&rows), rows, facts })
    }
}

/// Runs, in any order.
fn all(runs: &[(usize, Setting)]) -> Result<Vec<Run>, Violation> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::with_capacity(runs.len()));
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(runs.len());
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let Some((_, setting)) = runs.get(number) else { break };
                    let report = run(setting);
                    if let Ok(mut done) = done.lock() {
                        done.push((number, report));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().unwrap_or_default();
    done.sort_unstable_by_key(|&(number, _)| number);
    done.into_iter().map(|(_, report)| report).collect()
}

fn mean(setting: &Setting, reports: &[Run]) -> Row {
    let of = |figure: fn(&Run) -> f64| reports.iter().map(figure).sum::<f64>() / reports.len().max(1) as f64;
    Row {
        setting: *setting,
        runs: u32::try_from(reports.len()).unwrap_or(u32::MAX),
        completion_ms: of(|run| run.completion_ms),
        relative_to_dsa: 1.0,
        utilisation: of(|run| run.utilisation),
        ps_packets: of(|run| run.ps_packets as f64),
        preemptions: of(|run| run.preemptions as f64),
        ps_completions: of(|run| run.ps_completions as f64),
        retransmissions: of(|run| run.retransmissions as f64),
        verified: reports.iter().map(|run| run.verified).sum(),
    }
}

/// Puts DSA's completion times beside the others'.
fn relate(rows: &mut [Row]) {
    let of = |row: &Row| (contest(&row.setting), row.setting.ways, row.setting.results_at);
    let dsa: HashMap<_, _> = rows
        .iter()
        .filter(|row| row.setting.policy == Policy::Dsa)
        .map(|row| (of(row), row.completion_ms))
        .collect();
    for row in rows {
        row.relative_to_dsa = dsa.get(&of(row)).map_or(f64::NAN, |dsa| row.completion_ms / dsa);
    }
}

/// The choices by how close they come to the best one of each setting.
fn rank(rows: &[Row]) -> Vec<Best> {
    let mut least: HashMap<Contest, f64> = HashMap::new();
    for row in rows {
        let least = least.entry(contest(&row.setting)).or_insert(f64::INFINITY);
        *least = least.min(row.completion_ms);
    }
    let mut ranking = Vec::new();
    for policy in Policy::ALL {
        for results_at in [ResultsAt::Appliance, ResultsAt::Server] {
            for ways in [1, 4] {
                let choice = (policy, results_at, ways);
                let ratios: Vec<f64> = rows
                    .iter()
                    .filter(|row| (row.setting.policy, row.setting.results_at, row.setting.ways) == choice)
                    .filter(|row| row.setting.mix == Mix::A)
                    .filter_map(|row| Some(row.completion_ms / least.get(&contest(&row.setting))?))
                    .collect();
                if !ratios.is_empty() {
                    let mean = ratios.iter().map(|ratio| ratio.ln()).sum::<f64>() / ratios.len() as f64;
                    let worst = ratios.iter().copied().fold(0.0, f64::max);
                    ranking.push(Best { policy, results_at, ways, mean: mean.exp(), worst });
                }
            }
        }
    }
    ranking.sort_by(|a, b| a.mean.total_cmp(&b.mean));
    ranking
}
