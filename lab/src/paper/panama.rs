//! papers/004, section 7. Switches add with the product's pool, workers keep its windows.

use pascaline_sim::fabric::Clos;
use pascaline_wire::CongestionControl::{Fixed, Panama};

use super::figure::{Curves, Entry, Figure, Row, Scope, quantile};
use crate::experiments::cluster::{Job, Load, Outcome, PACKET, Plain, Scheme, Setting, draw, run};

type Made = anyhow::Result<Figure>;

/// What can be made.
pub(super) const FIGURES: [Entry; 3] = [
    Entry { name: "panama-fig-8", about: "PANAMA: flows and jobs that share a Clos network", make: figure_8 },
    Entry { name: "panama-fig-9", about: "PANAMA: four trees beside one, and a ring", make: figure_9 },
    Entry { name: "panama-fig-10", about: "PANAMA: a flow and a job on one link", make: figure_10 },
];

/// PANAMA: four trees, and the window of its Figure 5.
const PANAMA: Scheme = Scheme::Trees(4, Panama, 256);
/// The paper's SwitchML*: the same trees, and a window that stays.
const SWITCHML: Scheme = Scheme::Trees(4, Fixed, 64);

/// An idle cluster: 10 Gbit/s, marks from 85 packets on.
fn cluster(clos: Clos, scheme: Scheme, lasts: u64) -> Setting {
    let (jobs, flows) = (Vec::new(), Vec::new());
    Setting { clos, scheme, jobs, flows, gbps: 10, marks_from: 85, delay: 500, host: 0, lasts, samples: 0 }
}

fn checked(setting: &Setting) -> anyhow::Result<Outcome> {
    let outcome = run(setting)?;
    anyhow::ensure!(outcome.wrong == 0, "{} sums lacked a worker or had one twice", outcome.wrong);
    Ok(outcome)
}

/// How much smaller flows and models are than the paper's, so that a run of milliseconds has many.
const SIZES: f64 = 10.0;
const MODELS: f64 = 1000.0;

/// What Figure 8 shows of a run: p99 of short flows in µs, Gbit/s of long ones, µs of each job's iterations.
struct Shown {
    short: f64,
    long: f64,
    jobs: Vec<Option<f64>>,
    events: f64,
}

fn shown(outcome: &Outcome) -> Shown {
    let short = 40e6 / PACKET as f64 / SIZES;
    let is_short = |wanted: u32| f64::from(wanted) < short;
    let times: Vec<f64> = outcome
        .flows
        .iter()
        .filter(|&&(wanted, arrived, _)| is_short(wanted) && arrived == wanted)
        .map(|&(.., time)| time as f64 / 1e3)
        .collect();
    let rates: Vec<f64> = outcome
        .flows
        .iter()
        .filter(|&&(wanted, _, time)| !is_short(wanted) && time > 100_000)
        .map(|&(_, arrived, time)| f64::from(arrived) * PACKET as f64 * 8.0 / time as f64)
        .collect();
    let mean = |each: &Vec<u64>| {
        (!each.is_empty()).then(|| each.iter().sum::<u64>() as f64 / each.len() as f64 / 1e3)
    };
    Shown {
        short: quantile(&times, 0.99),
        long: rates.iter().sum::<f64>() / rates.len().max(1) as f64,
        jobs: outcome.iterations.iter().map(mean).collect(),
        events: outcome.events as f64,
    }
}

/// How many times longer jobs take than under another scheme: the mean over those that both have.
fn longer(jobs: &Shown, than: &Shown) -> f64 {
    let pairs = jobs.jobs.iter().zip(&than.jobs);
    let ratios: Vec<f64> = pairs.filter_map(|(one, other)| Some((*one)? / (*other)?)).collect();
    ratios.iter().sum::<f64>() / ratios.len().max(1) as f64
}

const SCHEMES: [(&str, Option<Scheme>); 4] =
    [("ideal", None), ("ring", Some(Scheme::Ring)), ("SwitchML*", Some(SWITCHML)), ("PANAMA", Some(PANAMA))];

/// All schemes under one load.
fn shared(load: &Load) -> anyhow::Result<Vec<Shown>> {
    let (jobs, flows) = draw(load);
    let each = SCHEMES.iter().map(|&(_, scheme)| {
        let empty = cluster(load.clos, scheme.unwrap_or(PANAMA), load.lasts);
        // Ideal: flows alone, and jobs alone.
        let Some(_) = scheme else {
            let alone = shown(&checked(&Setting { flows: flows.clone(), ..empty.clone() })?);
            let each = jobs.iter().map(|job| {
                let jobs = vec![job.clone()];
                Ok(shown(&checked(&Setting { jobs, ..empty.clone() })?).jobs.into_iter().next().flatten())
            });
            return Ok(Shown { jobs: each.collect::<anyhow::Result<_>>()?, ..alone });
        };
        Ok(shown(&checked(&Setting { jobs: jobs.clone(), flows: flows.clone(), ..empty })?))
    });
    each.collect()
}

const SHARED_WHY: &str = "how long GPUs compute, which models and how many jobs there are, the windows of \
                          SwitchML* and how flows divide between Websearch and Datamining are not in the \
                          text. Knobs: computation and load move the ratio";

fn figure_8(scope: &Scope) -> Made {
    let mut figure = Figure { seeds: scope.seeds(2, 1), ..Figure::default() };
    let (clos, lasts) =
        if scope.quick { (Clos::square(8), 8_000_000) } else { (Clos::square(32), 10_000_000) };
    let base =
        Load { clos, flows: 0.2, jobs: 0.6, models: MODELS, sizes: SIZES, computes: 1.0, lasts, seed: 0 };
    // Flows bring 20 % of load, jobs the rest.
    let mut points = vec![("load 40 %".to_owned(), Load { jobs: 0.2, ..base })];
    if !scope.quick {
        points.push(("load 60 %".to_owned(), Load { jobs: 0.4, ..base }));
    }
    points.push(("load 80 %".to_owned(), base));
    let knob = Load { clos: Clos::square(8), lasts: 8_000_000, ..base };
    points.push(("knob: 64 servers, computes 0.5 ×".to_owned(), Load { computes: 0.5, ..knob }));
    points.push(("knob: 64 servers, computes 2 ×".to_owned(), Load { computes: 2.0, ..knob }));
    if !scope.quick {
        points.push(("knob: 64 servers, load 100 %".to_owned(), Load { jobs: 0.8, ..knob }));
    }
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
        if !name.starts_with("knob") {
            for (number, (_, line)) in lines.iter_mut().enumerate() {
                let mean = runs.iter().map(|run| run[number].short).sum::<f64>() / runs.len() as f64;
                line.push((100.0 * (load.flows + load.jobs), mean));
            }
        }
    }
    figure.curves = Some(Curves { x: "load, %", y: "p99 of short flows, µs", lines });
    Ok(figure)
}

fn rows(figure: &mut Figure, point: &str, runs: &[Vec<Shown>]) {
    let full = point == "load 80 %";
    let whole = !point.starts_with("knob");
    for (number, (name, _)) in SCHEMES.iter().enumerate().filter(|_| whole) {
        let of = |of: fn(&Shown) -> f64| runs.iter().map(|run| of(&run[number])).collect::<Vec<f64>>();
        figure.rows.push(Row::of(point, format!("{name}, p99 short"), &of(|shown| shown.short), "µs"));
        figure.rows.push(Row::of(point, format!("{name}, long"), &of(|shown| shown.long), "Gbit/s"));
        figure.rows.push(Row::of(point, format!("{name}, events"), &of(|shown| shown.events), "events"));
    }
    let (ring, switchml, panama) = (1, 2, 3);
    type Ratio = fn(&Shown, &Shown) -> f64;
    let ratios: [(&str, usize, usize, f64, Ratio); 5] = [
        ("short flows, over ring", ring, panama, 4.5, |of, than| of.short / than.short),
        ("short, over SwitchML*", switchml, panama, 3.5, |of, than| of.short / than.short),
        ("long flows, over ring", ring, panama, 1.33, |of, than| than.long / of.long),
        ("jobs, over ring", ring, panama, 1.34, longer),
        ("jobs, SwitchML* over", panama, switchml, 1.05, longer),
    ];
    for (name, of, than, printed, ratio) in ratios {
        let values: Vec<f64> = runs.iter().map(|run| ratio(&run[of], &run[than])).collect();
        let row = Row::of(point, name, &values, "times");
        figure.rows.push(row.printed(full.then_some(printed), SHARED_WHY));
    }
}

/// Figure 9: eight workers below four leaves, and others that send long flows through the same spines.
fn figure_9(scope: &Scope) -> Made {
    let mut figure = Figure { seeds: 1, ..Figure::default() };
    let clos = Clos::square(4);
    let schemes = [
        ("PANAMA", PANAMA),
        ("Agg1", Scheme::Spine(0, Panama, 256)),
        ("Agg2", Scheme::Spine(1, Panama, 256)),
        ("Agg3", Scheme::Spine(2, Panama, 256)),
        ("Agg4", Scheme::Spine(3, Panama, 256)),
        ("ring", Scheme::Ring),
    ];
    let counts: &[usize] = if scope.quick { &[0, 8] } else { &[0, 2, 4, 6, 8] };
    let mut all = Vec::new();
    for (_, scheme) in schemes {
        for &count in counts {
            // Two workers below each leaf; the others send to the next leaf, for as long as the run.
            let workers = (0..4).flat_map(|leaf| [4 * leaf, 4 * leaf + 1]).collect();
            let job = Job { workers, packets: 2000, computes: 50_000, begins: 500_000 };
            let flow = |number: usize| {
                let (leaf, place) = (number % 4, 2 + number / 4);
                let to = 4 * ((leaf + 1) % 4) + place;
                Plain { from: 4 * leaf + place, to, packets: u32::MAX, begins: 1 }
            };
            let flows = (0..count).map(flow).collect();
            all.push(Setting { jobs: vec![job], flows, ..cluster(clos, scheme, 60_000_000) });
        }
    }
    let made = scope.map(&all, checked)?;
    let mut lines = Vec::new();
    for ((name, _), runs) in schemes.iter().zip(made.chunks(counts.len())) {
        let mut line = Vec::new();
        for (&count, run) in counts.iter().zip(runs) {
            let times: Vec<f64> = run.combining[0].iter().map(|&time| time as f64 / 1e6).collect();
            let row = Row::of(format!("{count} long flows"), *name, &times, "ms");
            line.push((count as f64, row.mean));
            figure.rows.push(row);
        }
        lines.push(((*name).to_owned(), line));
    }
    figure.curves = Some(Curves { x: "long flows", y: "aggregation latency, ms", lines });
    Ok(figure)
}

/// Figure 10: the flow begins; a quarter later the job does, whose first worker shares the flow's link.
fn figure_10(scope: &Scope) -> Made {
    let mut figure = Figure { seeds: 1, ..Figure::default() };
    let lasts = if scope.quick { 40_000_000 } else { 400_000_000 };
    let samples = lasts / 40;
    let schemes = [
        ("PANAMA", Scheme::Trees(1, Panama, 256)),
        ("without control", Scheme::Trees(1, Fixed, 256)),
        ("knob: window of 32", Scheme::Trees(1, Fixed, 32)),
        ("knob: window of 128", Scheme::Trees(1, Fixed, 128)),
    ];
    let all = schemes.map(|(_, scheme)| {
        let job = Job { workers: vec![0, 1, 4], packets: u32::MAX / 8, computes: 1, begins: lasts / 4 };
        let flows = vec![Plain { from: 0, to: 8, packets: u32::MAX, begins: 1 }];
        Setting { jobs: vec![job], flows, samples, ..cluster(Clos::square(4), scheme, lasts) }
    });
    let made = scope.map(&all, checked)?;
    let mut lines = Vec::new();
    for ((name, _), run) in schemes.iter().zip(&made) {
        let rate = |packets: u64| packets as f64 * PACKET as f64 * 8.0 / samples as f64;
        for (which, what) in ["flow", "job"].into_iter().enumerate() {
            let rates = run.samples.iter().map(|sample| rate(sample[which]));
            let times = (0u32..).map(|at| f64::from(at) * samples as f64 / 1e6);
            let points: Vec<(f64, f64)> = times.zip(rates).take(40).collect();
            let late: Vec<f64> = points.iter().skip(20).map(|point| point.1).collect();
            let row = Row::of(*name, format!("{what}, both there"), &late, "Gbit/s");
            // Figure 10a: equal shares of 10 Gbit/s.
            figure.rows.push(if *name == "PANAMA" { row.paper(5.0) } else { row });
            if !name.starts_with("knob") {
                lines.push((format!("{name}: {what}"), points));
            }
        }
    }
    figure.curves = Some(Curves { x: "time, ms", y: "Gbit/s", lines });
    Ok(figure)
}
