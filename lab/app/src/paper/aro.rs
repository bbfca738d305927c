//! ARO, Figures 7 to 11. Port maps, which the paper does not state, are both tried.

use std::time::Duration;

use pascaline_planner::model::{Instance, PortMap};
use pascaline_planner::{Options, Plan, PlanError, Setting, Solver, plan};

use super::figure::{Entry, Figure, Row, Scope};

/// The figures of this paper.
pub(super) const FIGURES: [Entry; 8] = [
    Entry::seeded("aro-fig-7a", "ARO, one job, one task: throughput of each method", default_setting),
    Entry::seeded("aro-fig-7b", "The same by the part of switches that add", by_adding),
    Entry::seeded("aro-fig-7c", "The same by the number of workers", by_workers),
    Entry::seeded("aro-fig-8", "The same by the number of pipelines", by_pipelines),
    Entry::seeded("aro-fig-9", "One job with one to four tasks: smallest rate and total", tasks),
    Entry::seeded("aro-fig-10", "One to four jobs with two tasks each: smallest job and total", jobs),
    Entry::seeded("aro-fig-11", "Large networks: throughput and the time to plan", large),
    Entry::seeded("aro-table-1", "The time that plans take (section IV.C)", times),
];

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
/// The time limit of one plan of several tasks: a plan that is not proven by then has a gap.
const LIMIT: Duration = Duration::from_secs(3);

type Made = anyhow::Result<Figure>;

fn made(instance: &Instance, solver: Solver, seed: u64) -> Result<Plan, PlanError> {
    plan(instance, &Options { solver, seed, time_limit: LIMIT })
}

/// Every method's throughput at one point.
fn point(scope: &Scope, setting: Setting, at: &str, figure: &mut Figure) -> anyhow::Result<()> {
    for (solver, name) in METHODS {
        let rates =
            scope.each(figure.seeds, |seed| Ok(made(&setting.instance(seed), solver, seed)?.objective))?;
        figure.rows.push(Row::of(at, name, &rates, "Gbit/s"));
    }
    Ok(())
}

/// Without rows, for the paper's 30 seeds.
fn empty(scope: &Scope) -> Figure {
    Figure { seeds: scope.seeds(30, 3), ..Figure::default() }
}

/// Figure 7a.
fn default_setting(scope: &Scope) -> Made {
    let mut figure = empty(scope);
    for (map, at) in MAPS {
        point(scope, Setting { map, ..Setting::default() }, &format!("port map {at}"), &mut figure)?;
    }
    for row in &mut figure.rows {
        let (paper, reason) = match row.name.as_str() {
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
        row.paper = paper;
        row.reason = reason.into();
    }
    Ok(figure)
}

/// Figure 7b.
fn by_adding(scope: &Scope) -> Made {
    let mut figure = empty(scope);
    let parts: &[u32] = if scope.quick { &[10, 70] } else { &[10, 20, 30, 40, 50, 60, 70] };
    for &part in parts {
        let setting = Setting { adding: f64::from(part) / 100.0, ..Setting::default() };
        point(scope, setting, &format!("{part} % of switches add"), &mut figure)?;
    }
    Ok(figure)
}

/// Figure 7c.
fn by_workers(scope: &Scope) -> Made {
    let mut figure = empty(scope);
    let workers: &[usize] = if scope.quick { &[100, 400] } else { &[100, 200, 300, 400] };
    for &workers in workers {
        point(scope, Setting { workers, ..Setting::default() }, &format!("{workers} workers"), &mut figure)?;
    }
    Ok(figure)
}

/// Figure 8.
fn by_pipelines(scope: &Scope) -> Made {
    let mut figure = empty(scope);
    for pipelines in [1, 2, 4, 8] {
        let setting = Setting { pipelines, ..Setting::default() };
        point(scope, setting, &format!("{pipelines} pipelines"), &mut figure)?;
    }
    Ok(figure)
}

/// Smallest and total rate of jobs, for the exact way and the baselines.
fn overlaid(scope: &Scope, setting: Setting, at: &str, figure: &mut Figure) -> anyhow::Result<()> {
    for (solver, name) in METHODS.into_iter().filter(|(solver, _)| *solver != Solver::Spread) {
        let each = scope.each(figure.seeds, |seed| {
            let instance = setting.instance(seed);
            let made = made(&instance, solver, seed)?;
            // Of one job its smallest task, of several the smallest job.
            let mut jobs = vec![0.0; instance.jobs.len()];
            instance.tasks.iter().zip(&made.tasks).for_each(|(task, planned)| jobs[task.job] += planned.rate);
            let total: f64 = jobs.iter().sum();
            let rates: Vec<f64> =
                if jobs.len() > 1 { jobs } else { made.tasks.iter().map(|task| task.rate).collect() };
            Ok([rates.into_iter().fold(f64::INFINITY, f64::min), total, made.gap() * 100.0])
        })?;
        let of = |part: usize| each.iter().map(|each| each[part]).collect::<Vec<f64>>();
        figure.rows.push(Row::of(at, format!("{name} min"), &of(0), "Gbit/s"));
        figure.rows.push(Row::of(at, format!("{name} total"), &of(1), "Gbit/s"));
        if solver == Solver::Auto {
            figure.rows.push(Row::of(at, "exact gap", &of(2), "%"));
        }
    }
    Ok(())
}

/// Figure 9.
fn tasks(scope: &Scope) -> Made {
    let mut figure = empty(scope);
    for tasks in 1..=4 {
        let setting = Setting { workers: 100, tasks, ..Setting::default() };
        overlaid(scope, setting, &format!("1 job, {tasks} tasks"), &mut figure)?;
    }
    Ok(figure)
}

/// Figure 10.
fn jobs(scope: &Scope) -> Made {
    let mut figure = empty(scope);
    for jobs in 1..=4 {
        let setting = Setting { workers: 100, jobs, tasks: 2, ..Setting::default() };
        overlaid(scope, setting, &format!("{jobs} jobs, 2 tasks each"), &mut figure)?;
    }
    Ok(figure)
}

/// Smallest rate, seconds and gap of each plan.
fn timed(scope: &Scope, seeds: u64, setting: Setting, solver: Solver) -> anyhow::Result<[Vec<f64>; 3]> {
    let each = scope.each(seeds, |seed| {
        let made = made(&setting.instance(seed), solver, seed)?;
        let rate = made.tasks.iter().map(|task| task.rate).fold(f64::INFINITY, f64::min);
        Ok([rate, made.seconds, made.gap() * 100.0])
    })?;
    Ok([0, 1, 2].map(|part| each.iter().map(|each| each[part]).collect()))
}

/// Section IV.C: 48 λ switches, five jobs of 100 λ workers.
fn large_setting(size: usize) -> Setting {
    Setting { side: 24 * size, workers: 100 * size, jobs: 5, ..Setting::default() }
}

/// Figure 11.
fn large(scope: &Scope) -> Made {
    let mut figure = empty(scope);
    let sizes: &[usize] = if scope.quick { &[5] } else { &[3, 4, 5] };
    for &size in sizes {
        for (solver, name) in
            [(Solver::Auto, "exact"), (Solver::AroAcc, "ARO-ACC"), (Solver::AggTree, "AggTree")]
        {
            let [rates, times, gaps] = timed(scope, figure.seeds, large_setting(size), solver)?;
            let at = format!("{} switches", 48 * size);
            let times: Vec<f64> = times.into_iter().map(|time| time * 1e3).collect();
            figure.rows.push(Row::of(at.as_str(), format!("{name} min"), &rates, "Gbit/s"));
            figure.rows.push(Row::of(at.as_str(), format!("{name} time"), &times, "ms"));
            if solver == Solver::Auto {
                figure.rows.push(Row::of(at, "exact gap", &gaps, "%"));
            }
        }
    }
    Ok(figure)
}

/// The times of section IV.C: of 30 scenarios, and what SRO and APP save.
fn times(scope: &Scope) -> Made {
    const WHY: &str = "the paper gives a quadratic program to Gurobi. With u = 1/r it is linear, and where \
                       all links are equal a search over whole numbers of flows needs no program: see the \
                       rows below";
    let mut figure = empty(scope);
    let (mut full, default) = (0.0, Setting::default());
    for (solver, name) in [(Solver::Aro, "ARO (QSR)"), (Solver::AroAcc, "ARO-ACC")] {
        let [_, times, _] = timed(scope, figure.seeds, default, solver)?;
        let least = times.iter().copied().fold(f64::INFINITY, f64::min);
        let most = times.iter().copied().fold(0.0, f64::max);
        let rows = [(format!("{name} fastest"), least, 61.0), (format!("{name} slowest"), most, 256.0)];
        for (of, time, paper) in rows {
            let row = Row::of("24 + 24 switches", of, &[time], "s");
            // The paper's numbers are those of ARO with QSR.
            figure.rows.push(if name == "ARO-ACC" { row } else { row.paper(paper).because(WHY) });
        }
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        if full == 0.0 {
            full = mean;
        } else {
            let saved = Row::of("24 + 24 switches", "SRO and APP save", &[100.0 * (1.0 - mean / full)], "%");
            figure.rows.push(saved.paper(90.0).because(
                "ARO's own exact search needs milliseconds here, of which reading the instance and the \
                 replay are a part: nothing is left to be saved",
            ));
        }
    }
    for (solver, name) in [(Solver::Milp, "linear program (HiGHS)"), (Solver::Fast, "whole flows")] {
        let [_, times, _] = timed(scope, figure.seeds, default, solver)?;
        figure.rows.push(Row::of("knob: program", name, &times, "s"));
    }
    for size in if scope.quick { vec![3] } else { vec![3, 4, 5] } {
        let [_, times, _] = timed(scope, figure.seeds, large_setting(size), Solver::Auto)?;
        figure.rows.push(Row::of(format!("{} switches, 5 jobs", 48 * size), "exact", &times, "s"));
    }
    Ok(figure)
}
