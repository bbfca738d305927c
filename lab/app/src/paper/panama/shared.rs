//! Figure 8: jobs and flows of others share a Clos network: flow by flow with the paper's 1,024 servers and
//! sizes, and packet by packet with 64 servers and small ones, next to the flow-level model of the same.

use pascaline_sim::fabric::Clos;
use pascaline_wire::CongestionControl::{Fixed, Panama};

use super::{Curves, Figure, Made, PACKET, PANAMA, Row, Scheme, Scope, Setting, checked};
use crate::experiments::cluster::{Load, Outcome, draw, fluid};
use crate::paper::figure::quantile;

/// The paper's SwitchML*: the same trees, and a window that stays.
const SWITCHML: Scheme = Scheme::Trees(4, Fixed, 64);

/// Name, scheme, and a tree's weight against a flow, if there are only flows: as in Figure 10 for four trees,
/// and for windows that leave a flow almost nothing.
type Way = (&'static str, Option<Scheme>, f64);
const WAYS: [Way; 4] = [
    ("ideal", None, 1.0),
    ("ring", Some(Scheme::Ring), 1.0),
    ("SwitchML*", Some(SWITCHML), 60.0),
    ("PANAMA", Some(PANAMA), 0.5),
];

/// Nanoseconds for which rates stay, for flows and models of the paper's size: a hundredth of the time of the
/// largest short flow alone.
const STEP: f64 = 300_000.0;

/// The way in which a point is made.
#[derive(Debug, Clone, Copy)]
enum How {
    /// Packet by packet: the queue length from which queues mark, the most that a worker has in flight on
    /// each of PANAMA's trees, and the rings of a job that has no trees.
    Packets(u64, u16, usize),
    /// Flow by flow, with the weight of PANAMA's trees multiplied by this.
    Flows(f64),
}

/// The results of a run: p99 of short flows in ms, Gbit/s of long ones, ms of each job's iterations.
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
fn shared(load: &Load, how: How) -> anyhow::Result<Vec<Shown>> {
    let (jobs, flows) = draw(load);
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "microseconds")]
    let step = (STEP / load.scale) as u64;
    let each = WAYS.iter().map(|&(_, scheme, weight)| {
        let scheme_here = match (scheme, how) {
            (Some(PANAMA), How::Packets(_, most, _)) => Scheme::Trees(4, Panama, most),
            _ => scheme.unwrap_or(PANAMA),
        };
        let empty = Setting::idle(load.clos, scheme_here, load.lasts);
        let (marks_from, rings) = match how {
            How::Packets(marks, _, rings) => (marks, rings),
            How::Flows(_) => (empty.marks_from, 1),
        };
        let empty = Setting { jitter: 10_000, seed: load.seed, marks_from, rings, ..empty };
        let show = |setting: Setting| -> anyhow::Result<Shown> {
            let outcome = match how {
                How::Packets(..) => checked(&setting)?,
                How::Flows(times) if scheme == Some(PANAMA) => fluid::run(&setting, weight * times, step),
                How::Flows(_) => fluid::run(&setting, weight, step),
            };
            Ok(shown(&outcome, load, &setting))
        };
        if scheme.is_some() {
            return show(Setting { jobs: jobs.clone(), flows: flows.clone(), ..empty });
        }
        // Ideal: flows alone, and each job alone.
        let alone = show(Setting { flows: flows.clone(), ..empty.clone() })?;
        let each = jobs.iter().map(|job| {
            Ok(show(Setting { jobs: vec![job.clone()], ..empty.clone() })?.jobs.into_iter().next().flatten())
        });
        Ok(Shown { jobs: each.collect::<anyhow::Result<_>>()?, ..alone })
    });
    each.collect()
}

const WHY: &str = "the models' shares, the number of jobs, their places, SwitchML*'s window and the division \
                   of flows between Websearch and Datamining are not in the text, and this model has no \
                   queues. Knobs: weight of PANAMA's trees, computation, load; with 64 servers packet by \
                   packet: the jobs' load, packets in flight per tree, rings per job, and Websearch alone. \
                   Together they exceed the printed 4.5; none does alone";

/// The points: 1,024 servers, flow by flow, and 64 servers, both ways.
fn points(quick: bool) -> Vec<(String, Load, How)> {
    let (clos, lasts) =
        if quick { (Clos::square(8), 400_000_000) } else { (Clos::square(32), 2_000_000_000) };
    // Flows bring 20 % of load, jobs the rest.
    let full =
        Load { clos, flows: 0.2, jobs: 0.6, scale: 1.0, computes: 1.0, websearch: 0.5, lasts, seed: 0 };
    let full = Load { scale: if quick { 10.0 } else { 1.0 }, ..full };
    let flows = How::Flows(1.0);
    let mut points = vec![
        ("load 40 %".to_owned(), Load { jobs: 0.2, ..full }, flows),
        ("load 60 %".to_owned(), Load { jobs: 0.4, ..full }, flows),
        (FULL.to_owned(), full, flows),
    ];
    let small = Load {
        clos: Clos::square(8),
        scale: if quick { 100.0 } else { 20.0 },
        lasts: if quick { 20_000_000 } else { 100_000_000 },
        ..full
    };
    if !quick {
        points.push(("knob: trees' weight × 0.5".into(), full, How::Flows(0.5)));
        points.push(("knob: trees' weight × 2".into(), full, How::Flows(2.0)));
        points.push(("knob: computes 0.5 ×".into(), Load { computes: 0.5, ..full }, flows));
        points.push(("knob: load 100 %".into(), Load { jobs: 0.8, ..full }, flows));
    }
    let packets = How::Packets(85, 256, 1);
    points.push(("64 servers, packets".into(), small, packets));
    points.push(("64 servers, flows".into(), small, flows));
    let (twice, four) = (Load { jobs: 2.0 * small.jobs, ..small }, How::Packets(85, 4, 1));
    let knobs = [
        ("marks from 340 packets on", small, How::Packets(340, 256, 1)),
        ("Websearch alone", Load { websearch: 1.0, ..small }, packets),
        ("jobs bring twice as much", twice, packets),
        ("4 packets in flight on a tree", small, four),
        ("both", twice, four),
        ("4 rings to a job", small, How::Packets(85, 256, 4)),
        ("both, 4 rings to a job", twice, How::Packets(85, 4, 4)),
        ("both, 4 rings, Websearch alone", Load { websearch: 1.0, ..twice }, How::Packets(85, 4, 4)),
    ];
    points.extend(knobs.map(|(name, load, how)| (format!("knob: 64 servers, {name}"), load, how)));
    points
}

/// The point for which the text has numbers.
const FULL: &str = "load 80 %";

pub(super) fn figure(scope: &Scope) -> Made {
    let mut figure = Figure { seeds: scope.seeds(2, 1), ..Figure::default() };
    let points = points(scope.quick);
    let seeds = figure.seeds;
    let all: Vec<(Load, How)> = points
        .iter()
        .flat_map(|&(_, load, how)| (0..seeds).map(move |seed| (Load { seed: seed + 1, ..load }, how)))
        .collect();
    let made = scope.map(&all, |(load, how)| shared(load, *how))?;
    let mut lines: Vec<(String, Vec<(f64, f64)>)> =
        WAYS.iter().map(|(name, ..)| ((*name).to_owned(), Vec::new())).collect();
    for ((name, load, _), runs) in points.iter().zip(made.chunks(usize::try_from(seeds)?)) {
        rows(&mut figure, name, runs);
        if name.starts_with("load") {
            for (number, (_, line)) in lines.iter_mut().enumerate() {
                let mean = runs.iter().map(|run| run[number].short).sum::<f64>() / runs.len() as f64;
                line.push((100.0 * (load.flows + load.jobs), mean));
            }
        }
    }
    figure.curves = Some(Curves { x: "load, %", y: "p99 of short flows, ms", lines });
    Ok(figure)
}

type Ratio = fn(&Shown, &Shown) -> Option<f64>;

fn rows(figure: &mut Figure, point: &str, runs: &[Vec<Shown>]) {
    let full = point == FULL;
    for (number, (name, ..)) in WAYS.iter().enumerate() {
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
