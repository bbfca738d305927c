//! Figure 8: jobs and flows of others share a Clos network.

use pascaline_sim::fabric::Clos;
use pascaline_wire::CongestionControl::Fixed;

use super::{Curves, Figure, Made, PACKET, PANAMA, Row, Scheme, Scope, Setting, checked};
use crate::experiments::cluster::{Load, Outcome, draw};
use crate::paper::figure::quantile;

/// The paper's SwitchML*: the same trees, and a window that stays.
const SWITCHML: Scheme = Scheme::Trees(4, Fixed, 64);

const SCHEMES: [(&str, Option<Scheme>); 4] =
    [("ideal", None), ("ring", Some(Scheme::Ring)), ("SwitchML*", Some(SWITCHML)), ("PANAMA", Some(PANAMA))];

/// What a run shows: p99 of short flows in ms, Gbit/s of long ones, ms of each job's iterations.
struct Shown {
    short: f64,
    long: Option<f64>,
    jobs: Vec<Option<f64>>,
}

/// Flows of less than 40 MB are short; those that begin in the last quarter are not counted, so that others
/// may end.
fn shown(outcome: &Outcome, load: &Load, setting: &Setting) -> Shown {
    let limit = 40e6 / PACKET as f64 / load.scale;
    let counted = setting.flows.iter().zip(&outcome.flows);
    let counted = counted.filter(|(plain, _)| plain.begins < load.lasts * 3 / 4).map(|(_, flow)| *flow);
    let (short, long): (Vec<_>, Vec<_>) = counted.partition(|&(wanted, ..)| f64::from(wanted) < limit);
    let times: Vec<f64> = short.iter().map(|&(.., time)| time as f64 / 1e6).collect();
    let rates = long.iter().map(|&(_, arrived, time)| super::gbps(f64::from(arrived), time.max(1)));
    let rates: Vec<f64> = rates.collect();
    let mean =
        |values: &[f64]| (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64);
    let iterations = outcome.combining.iter().zip(&setting.jobs).map(|(each, job)| {
        let times: Vec<f64> = each.iter().map(|&time| (time + job.computes) as f64 / 1e6).collect();
        mean(&times)
    });
    Shown { short: quantile(&times, 0.99), long: mean(&rates), jobs: iterations.collect() }
}

/// How many times longer jobs take than under another scheme: the mean over those that both have.
fn longer(jobs: &Shown, than: &Shown) -> f64 {
    let pairs = jobs.jobs.iter().zip(&than.jobs);
    let ratios: Vec<f64> = pairs.filter_map(|(one, other)| Some((*one)? / (*other)?)).collect();
    ratios.iter().sum::<f64>() / ratios.len().max(1) as f64
}

/// All schemes under one load.
fn shared(load: &Load) -> anyhow::Result<Vec<Shown>> {
    let (jobs, flows) = draw(load);
    let each = SCHEMES.iter().map(|&(_, scheme)| {
        let empty = Setting::idle(load.clos, scheme.unwrap_or(PANAMA), load.lasts);
        let empty = Setting { jitter: 10_000, seed: load.seed, ..empty };
        let show = |setting: Setting| Ok(shown(&checked(&setting)?, load, &setting));
        if scheme.is_some() {
            return show(Setting { jobs: jobs.clone(), flows: flows.clone(), ..empty });
        }
        // Ideal: flows alone, and each job alone.
        let alone = show(Setting { flows: flows.clone(), ..empty.clone() })?;
        let each = jobs.iter().map(|job| {
            let shown: anyhow::Result<Shown> = show(Setting { jobs: vec![job.clone()], ..empty.clone() });
            Ok(shown?.jobs.into_iter().next().flatten())
        });
        Ok(Shown { jobs: each.collect::<anyhow::Result<_>>()?, ..alone })
    });
    each.collect()
}

const WHY: &str = "which models and how many jobs there are, the window of SwitchML* and how flows divide \
                   between Websearch and Datamining are not in the text. Knobs: computation and load";

pub(super) fn figure(scope: &Scope) -> Made {
    let mut figure = Figure { seeds: scope.seeds(2, 1), ..Figure::default() };
    let (scale, lasts) = if scope.quick { (100.0, 20_000_000) } else { (20.0, 100_000_000) };
    let clos = Clos::square(8);
    let base = Load { clos, flows: 0.2, jobs: 0.6, scale, computes: 1.0, lasts, seed: 0 };
    // Flows bring 20 % of load, jobs the rest.
    let mut points = vec![("load 40 %".to_owned(), Load { jobs: 0.2, ..base })];
    points.push(("load 80 %".to_owned(), base));
    let seeds = figure.seeds;
    let all: Vec<Load> = points
        .iter()
        .flat_map(|&(_, load)| (0..seeds).map(move |seed| Load { seed: seed + 1, ..load }))
        .collect();
    let made = scope.map(&all, shared)?;
    let mut lines: Vec<(String, Vec<(f64, f64)>)> =
        SCHEMES.iter().map(|(name, _)| ((*name).to_owned(), Vec::new())).collect();
    for ((name, load), runs) in points.iter().zip(made.chunks(usize::try_from(seeds)?)) {
        rows(&mut figure, name, runs);
        for (number, (_, line)) in lines.iter_mut().enumerate() {
            let mean = runs.iter().map(|run| run[number].short).sum::<f64>() / runs.len() as f64;
            line.push((100.0 * (load.flows + load.jobs), mean));
        }
    }
    figure.curves = Some(Curves { x: "load, %", y: "p99 of short flows, ms", lines });
    Ok(figure)
}

type Ratio = fn(&Shown, &Shown) -> Option<f64>;

fn rows(figure: &mut Figure, point: &str, runs: &[Vec<Shown>]) {
    let full = point == "load 80 %";
    for (number, (name, _)) in SCHEMES.iter().enumerate() {
        let short: Vec<f64> = runs.iter().map(|run| run[number].short).collect();
        figure.rows.push(Row::of(point, format!("{name}, p99 short"), &short, "ms"));
    }
    let (ring, switchml, panama) = (1, 2, 3);
    let ratios: [(&str, usize, usize, f64, Ratio); 5] = [
        ("short flows, over ring", ring, panama, 4.5, |of, than| Some(of.short / than.short)),
        ("short, over SwitchML*", switchml, panama, 3.5, |of, than| Some(of.short / than.short)),
        ("long flows, over ring", ring, panama, 1.33, |of, than| Some(than.long? / of.long?)),
        ("jobs, over ring", ring, panama, 1.34, |of, than| Some(longer(of, than))),
        ("jobs, SwitchML* over", panama, switchml, 1.05, |of, than| Some(longer(of, than))),
    ];
    for (name, of, than, printed, ratio) in ratios {
        let values: Vec<f64> = runs.iter().filter_map(|run| ratio(&run[of], &run[than])).collect();
        if !values.is_empty() {
            let row = Row::of(point, name, &values, "times");
            figure.rows.push(row.printed(full.then_some(printed), WHY));
        }
    }
}
