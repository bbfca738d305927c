//! papers/001: Figures 7 to 11. Port maps, which the paper does not state, are both tried.

use std::time::Duration;

use pascaline_planner::model::{Instance, PortMap};
use pascaline_planner::{Options, Plan, PlanError, Setting, Solver, plan};

use super::Row;

const MAPS: [(PortMap, &str); 2] = [(PortMap::Block, "block"), (PortMap::RoundRobin, "round robin")];
const METHODS: [(Solver, &str); 8] = [
    (Solver::Auto, "exact"),
    (Solver::Aro, "ARO"),
    (Solver::AroAcc, "ARO-ACC"),
    (Solver::AggTree, "AggTree"),
    (Solver::Random, "RANDOM"),
    (Solver::Grid, "GRID"),
    (Solver::Spread, "spread"),
    (Solver::RoundRobin, "round-robin"),
];
/// What one plan of several tasks may take: what is not proven then has a gap.
const LIMIT: Duration = Duration::from_secs(3);

type Rows = Result<Vec<Row>, PlanError>;

fn made(instance: &Instance, solver: Solver, seed: u64) -> Result<Plan, PlanError> {
    plan(instance, &Options { solver, seed, time_limit: LIMIT })
}

/// Every method's throughput at one point.
fn point(setting: Setting, at: &str, seeds: u64, rows: &mut Vec<Row>) -> Result<(), PlanError> {
    for (solver, name) in METHODS {
        let rates = (0..seeds).map(|seed| Ok(made(&setting.instance(seed), solver, seed)?.objective));
        let rates = rates.collect::<Result<Vec<f64>, PlanError>>()?;
        rows.push(Row::of(at.to_owned(), name.to_owned(), &rates, "Gbit/s"));
    }
    Ok(())
}

/// Figure 7a.
pub(super) fn default_setting(seeds: u64) -> Rows {
    let mut rows = Vec::new();
    for (map, at) in MAPS {
        point(Setting { map, ..Setting::default() }, &format!("port map {at}"), seeds, &mut rows)?;
    }
    for row in &mut rows {
        (row.paper, row.reason) = match row.name.as_str() {
            "ARO" => (Some(26.33), ""),
            "ARO-ACC" => (Some(26.33 * (1.0 - 0.064)), ""),
            "AggTree" => (Some(8.76), ""),
            "RANDOM" => (Some(7.92), ""),
            "GRID" => (
                Some(1.75),
                "the text does not determine GRID: 1.75 takes 57 flows on a link, and if each flow is added \
                 up once, the parameter server's link has those of local workers, of leaves and of spines",
            ),
            _ => (None, ""),
        };
    }
    Ok(rows)
}

/// Figure 7b.
pub(super) fn by_adding(seeds: u64, quick: bool) -> Rows {
    let mut rows = Vec::new();
    let parts: &[u32] = if quick { &[10, 70] } else { &[10, 20, 30, 40, 50, 60, 70] };
    for &part in parts {
        let setting = Setting { adding: f64::from(part) / 100.0, ..Setting::default() };
        point(setting, &format!("{part} % of switches add"), seeds, &mut rows)?;
    }
    Ok(rows)
}

/// Figure 7c.
pub(super) fn by_workers(seeds: u64, quick: bool) -> Rows {
    let mut rows = Vec::new();
    let workers: &[usize] = if quick { &[100, 400] } else { &[100, 200, 300, 400] };
    for &workers in workers {
        point(Setting { workers, ..Setting::default() }, &format!("{workers} workers"), seeds, &mut rows)?;
    }
    Ok(rows)
}

/// Figure 8.
pub(super) fn by_pipelines(seeds: u64) -> Rows {
    let mut rows = Vec::new();
    for pipelines in [1, 2, 4, 8] {
        point(
            Setting { pipelines, ..Setting::default() },
            &format!("{pipelines} pipelines"),
            seeds,
            &mut rows,
        )?;
    }
    Ok(rows)
}

/// Smallest and total rate of jobs, for the exact way and the baselines.
fn overlaid(setting: Setting, at: &str, seeds: u64, rows: &mut Vec<Row>) -> Result<(), PlanError> {
    for (solver, name) in METHODS.into_iter().filter(|(solver, _)| *solver != Solver::Spread) {
        let (mut smallest, mut totals, mut gaps) = (Vec::new(), Vec::new(), Vec::new());
        for seed in 0..seeds {
            let instance = setting.instance(seed);
            let made = made(&instance, solver, seed)?;
            // Of one job its smallest task, of several the smallest job.
            let mut jobs = vec![0.0; instance.jobs.len()];
            instance.tasks.iter().zip(&made.tasks).for_each(|(task, planned)| jobs[task.job] += planned.rate);
            let each: Vec<f64> =
                if jobs.len() > 1 { jobs.clone() } else { made.tasks.iter().map(|task| task.rate).collect() };
            smallest.push(each.iter().copied().fold(f64::INFINITY, f64::min));
            totals.push(jobs.iter().sum());
            gaps.push(made.gap() * 100.0);
        }
        rows.push(Row::of(at.to_owned(), format!("{name} min"), &smallest, "Gbit/s"));
        rows.push(Row::of(at.to_owned(), format!("{name} total"), &totals, "Gbit/s"));
        if solver == Solver::Auto {
            rows.push(Row::of(at.to_owned(), "exact gap".to_owned(), &gaps, "%"));
        }
    }
    Ok(())
}

/// Figure 9.
pub(super) fn tasks(seeds: u64) -> Rows {
    let mut rows = Vec::new();
    for tasks in 1..=4 {
        let setting = Setting { workers: 100, tasks, ..Setting::default() };
        overlaid(setting, &format!("1 job, {tasks} tasks"), seeds, &mut rows)?;
    }
    Ok(rows)
}

/// Figure 10.
pub(super) fn jobs(seeds: u64) -> Rows {
    let mut rows = Vec::new();
    for jobs in 1..=4 {
        let setting = Setting { workers: 100, jobs, tasks: 2, ..Setting::default() };
        overlaid(setting, &format!("{jobs} jobs, 2 tasks each"), seeds, &mut rows)?;
    }
    Ok(rows)
}

/// Figure 11 and the times of section IV.C: 48 λ switches, five jobs of 100 λ workers.
pub(super) fn large(seeds: u64, quick: bool) -> Rows {
    let mut rows = Vec::new();
    let sizes: &[usize] = if quick { &[5] } else { &[3, 4, 5] };
    for &size in sizes {
        let setting = Setting { side: 24 * size, workers: 100 * size, jobs: 5, ..Setting::default() };
        for (solver, name) in
            [(Solver::Auto, "exact"), (Solver::AroAcc, "ARO-ACC"), (Solver::AggTree, "AggTree")]
        {
            let (mut rates, mut times, mut gaps) = (Vec::new(), Vec::new(), Vec::new());
            for seed in 0..seeds {
                let made = made(&setting.instance(seed), solver, seed)?;
                rates.push(made.tasks.iter().map(|task| task.rate).fold(f64::INFINITY, f64::min));
                times.push(made.seconds * 1e3);
                gaps.push(made.gap() * 100.0);
            }
            let at = format!("{} switches", 48 * size);
            rows.push(Row::of(at.clone(), format!("{name} min"), &rates, "Gbit/s"));
            rows.push(Row::of(at.clone(), format!("{name} time"), &times, "ms"));
            if solver == Solver::Auto {
                rows.push(Row::of(at, "exact gap".to_owned(), &gaps, "%"));
            }
        }
    }
    Ok(rows)
}
