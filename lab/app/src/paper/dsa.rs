//! DSA. Pool, parameter server and the workers' windows and recovery are the product's.

mod losses;

use super::figure::{Curves, Entry, Figure, Row, Scope, distribution, quantile};
use crate::experiments::policies::{Lossy, Measure, Mix, Run, SIDES, Setting, Side, run, watched};

type Made = anyhow::Result<Figure>;

/// The figures of this paper.
pub(super) const FIGURES: [Entry; 10] = [
    Entry::seeded("dsa-fig-1", "DSA: how long a slot is occupied", figure_1),
    Entry::seeded("dsa-fig-5", "DSA: time to the same accuracy, two jobs", figure_5),
    Entry::seeded("dsa-fig-6", "DSA: training speed of eight models, two jobs", figure_6),
    Entry::seeded("dsa-fig-7", "DSA: throughput of allreduces", figure_7),
    Entry::seeded("dsa-fig-8", "DSA: completion time by the number of jobs", figure_8),
    Entry::seeded("dsa-fig-9", "DSA: completion time by the number of workers", figure_9),
    Entry::seeded("dsa-fig-10", "DSA: use of the pool's memory", figure_10),
    Entry::seeded(
        "dsa-fig-11",
        "DSA: its priorities compared with always preempting and with a coin",
        figure_11,
    ),
    Entry::seeded("dsa-fig-12", "DSA: training speed when packets are lost", figure_12),
    Entry::seeded("dsa-losses", "DSA: which packets are lost, and what repairs the loss", losses::figure),
];

/// The systems, as places in [`SIDES`].
const NAMES: [&str; 5] = ["DSA", "ATP", "SwitchML", "always", "coin"];
const DSA: usize = 0;
const ATP: usize = 1;
const SWITCHML: usize = 2;

/// The paper's setting; in quick ones models are an eighth.
fn base(scope: &Scope) -> Setting {
    Setting { scale: if scope.quick { 8 } else { 1 }, ..Setting::paper(0) }
}

fn on(setting: Setting, side: usize) -> Setting {
    let Side { policy, results_at } = SIDES[side];
    Setting { policy, results_at, ..setting }
}

/// A number that the paper prints: of which side, over which, and why ours differs.
type Printed = (usize, usize, f64, &'static str);

/// One place on an axis.
struct Point {
    name: String,
    setting: Setting,
    printed: Vec<Printed>,
}

fn point(name: impl Into<String>, setting: Setting) -> Point {
    Point { name: name.into(), setting, printed: Vec::new() }
}

/// How many times better the first side is than the second, by seed: starts and stragglers are alike.
fn factors(measure: Measure, of: &[Run], over: &[Run]) -> Vec<f64> {
    let each = of.iter().zip(over).map(|(of, over)| match measure {
        Measure::Speedup => over.completion_ms / of.completion_ms,
        Measure::Utilisation => of.utilisation / over.utilisation,
    });
    each.collect()
}

/// Runs the sides at all points. Rows: the figures of each, if `whole`, and how much better the first is.
fn contest(
    scope: &Scope,
    figure: &mut Figure,
    sides: &[usize],
    measure: Measure,
    points: &[Point],
    whole: bool,
) -> anyhow::Result<()> {
    let seeds = figure.seeds;
    let all: Vec<Setting> = points
        .iter()
        .flat_map(|point| sides.iter().map(|&side| on(point.setting, side)))
        .flat_map(|setting| (0..seeds).map(move |seed| Setting { seed: seed + 1, ..setting }))
        .collect();
    let runs = scope.map(&all, |setting| Ok(run(setting)?))?;
    let per_side: Vec<&[Run]> = runs.chunks(usize::try_from(seeds)?).collect();
    for (point, runs) in points.iter().zip(per_side.chunks(sides.len())) {
        for (&side, runs) in sides.iter().zip(runs).filter(|_| whole) {
            let (unit, of): (_, fn(&Run) -> f64) = match measure {
                Measure::Speedup => ("ms", |run| run.completion_ms),
                Measure::Utilisation => ("of the line", |run| run.utilisation),
            };
            let values: Vec<f64> = runs.iter().map(of).collect();
            figure.rows.push(Row::of(point.name.as_str(), NAMES[side], &values, unit));
        }
        let mut pairs: Vec<(usize, usize)> = sides.iter().skip(1).map(|&over| (sides[0], over)).collect();
        pairs
            .extend(point.printed.iter().map(|&(of, over, ..)| (of, over)).filter(|(of, _)| *of != sides[0]));
        for (of, over) in pairs {
            let at = |side| sides.iter().position(|&other| other == side).unwrap_or(0);
            let values = factors(measure, runs[at(of)], runs[at(over)]);
            let name = format!("{} over {}", NAMES[of], NAMES[over]);
            let row = Row::of(point.name.as_str(), name, &values, "times");
            let printed = point.printed.iter().find(|printed| (printed.0, printed.1) == (of, over));
            figure
                .rows
                .push(row.printed(printed.map(|printed| printed.2), printed.map_or("", |printed| printed.3)));
        }
    }
    Ok(())
}

/// Parameters that the text does not state.
fn knobs(base: Setting) -> Vec<Point> {
    let narrow = |in_flight, spread| Setting { in_flight, spread, ..base };
    vec![
        point("knob: 128 packets in flight", narrow(128, 4096)),
        point("knob: 256 packets in flight", narrow(256, 4096)),
        point("knob: 1024 packets in flight", narrow(1024, 4096)),
        point("knob: 512 in order", narrow(512, 512)),
        point("knob: hosts in lock-step", Setting { poll_us: 0, ..base }),
        point("knob: hosts look each 10 µs", Setting { poll_us: 10, ..base }),
        point("knob: 4 ways", Setting { ways: 4, ..base }),
        point("knob: pool of 2 MB", Setting { memory: 2 << 20, ..base }),
        point("knob: pool of 1 MB", Setting { memory: 1 << 20, ..base }),
        point("knob: pool of 0.5 MB", Setting { memory: 1 << 19, ..base }),
        point("knob: pool of 0.25 MB", Setting { memory: 1 << 18, ..base }),
    ]
}

const SWITCHML_WHY: &str = "with the text's memory each job's region holds several windows and is never \
                            short, while sharing adds conflicts, each of which costs the stated timeout of 1 \
                            ms. Knob: memory per packet in flight, which the text does not state; with a \
                            pool smaller than the windows the factor exceeds the printed one";
const ATP_WHY: &str = "in both systems conflicts cost timeouts; which system has more of them depends on \
                       parameters that the text leaves open. Knobs: how often hosts poll (lock-step favours \
                       ATP, jitter favours DSA), packets in flight, and memory per packet in flight, with \
                       which the factor exceeds the printed one";

fn begun(scope: &Scope) -> Figure {
    Figure { seeds: scope.seeds(5, 1), ..Figure::default() }
}

/// Figures 8 and 9: the text prints the greatest factor.
fn sweep(scope: &Scope, counts: &[(u16, u16)], axis: &str, printed: &[Printed]) -> Made {
    let (mut figure, base) = (begun(scope), base(scope));
    let mixes: &[(Mix, &str)] =
        if scope.quick { &[(Mix::A, "A")] } else { &[(Mix::A, "A"), (Mix::Both, "A+B"), (Mix::B, "B")] };
    let mut points = Vec::new();
    for &(mix, model) in mixes {
        for &(jobs, ranks) in counts {
            let count = if axis == "jobs" { jobs } else { ranks };
            let mut at = point(format!("{model}, {count} {axis}"), Setting { mix, jobs, ranks, ..base });
            if mix == Mix::A && (jobs, ranks) == (8, 8) {
                at.printed.extend_from_slice(printed);
            }
            points.push(at);
        }
    }
    contest(scope, &mut figure, &[DSA, ATP, SWITCHML], Measure::Speedup, &points, true)?;
    contest(scope, &mut figure, &[DSA, ATP, SWITCHML], Measure::Speedup, &knobs(base), false)?;
    Ok(figure)
}

fn figure_8(scope: &Scope) -> Made {
    let printed = [(DSA, SWITCHML, 1.89, SWITCHML_WHY), (DSA, ATP, 1.35, ATP_WHY)];
    sweep(scope, &[(2, 8), (4, 8), (8, 8)], "jobs", &printed)
}

fn figure_9(scope: &Scope) -> Made {
    sweep(scope, &[(8, 2), (8, 4), (8, 8)], "workers", &[])
}

fn figure_10(scope: &Scope) -> Made {
    let (mut figure, base) = (begun(scope), base(scope));
    let mut points = Vec::new();
    for (mix, model, switchml, atp) in [(Mix::A, "A", 2.27, 1.45), (Mix::B, "B", 1.9, 1.28)] {
        let printed = vec![(DSA, SWITCHML, switchml, SWITCHML_WHY), (DSA, ATP, atp, ATP_WHY)];
        points.push(Point { name: format!("model {model}"), setting: Setting { mix, ..base }, printed });
    }
    contest(scope, &mut figure, &[DSA, ATP, SWITCHML], Measure::Utilisation, &points, true)?;
    contest(scope, &mut figure, &[DSA, ATP, SWITCHML], Measure::Utilisation, &knobs(base), false)?;
    Ok(figure)
}

const ORDER_WHY: &str = "1/T of the priority favours newcomers, as always preempting does, and a coin lies \
                         in between: the order changes with the seed and with parameters that the text \
                         leaves open. Knobs: hosts' jitter, packets in flight, memory; where memory is \
                         scarce all three are equal";

fn figure_11(scope: &Scope) -> Made {
    let (mut figure, base) = (begun(scope), base(scope));
    let sides = [DSA, ATP, 3, 4];
    let mut points = Vec::new();
    for (mix, model, dsa, straw) in [(Mix::A, "A", 1.35, 1.19), (Mix::Both, "A+B", 1.22, 1.05)] {
        let printed = vec![(DSA, ATP, dsa, ATP_WHY), (3, ATP, straw, ORDER_WHY), (4, ATP, straw, ORDER_WHY)];
        points.push(Point { name: format!("models {model}"), setting: Setting { mix, ..base }, printed });
    }
    contest(scope, &mut figure, &sides, Measure::Speedup, &points, true)?;
    contest(scope, &mut figure, &sides, Measure::Speedup, &knobs(base), false)?;
    Ok(figure)
}

/// Figure 1: the time for which a slot is in use, by how rarely hosts poll for received packets: this delays
/// one rank's packet behind another's in every window, not only in the first.
fn figure_1(scope: &Scope) -> Made {
    const WHY: &str = "a slot is taken until the last rank's packet arrives, so this measures how unevenly \
                       hosts send, which the text does not state. Knob: hosts that pause for milliseconds \
                       give the printed 3 to 20 ms; in the simulation's own setting it is a round trip";
    let mut figure = Figure { seeds: scope.seeds(2, 1), ..Figure::default() };
    let mut lines = Vec::new();
    for poll_us in [1, 100, 1000, 5000, 20_000] {
        let paper = poll_us == 1;
        let point = format!("{}hosts look each {poll_us} µs", if paper { "" } else { "knob: " });
        for (side, name) in [(ATP, "ATP"), (DSA, "DSA")] {
            let setting = Setting { poll_us, jobs: 4, scale: 8, ..on(base(scope), side) };
            let each = scope.each(figure.seeds, |seed| {
                Ok(watched(&Setting { seed: seed + 1, ..setting }, true)?.occupation)
            })?;
            let times = |each: &Vec<u64>| each.iter().map(|&time| time as f64 / 1e9).collect::<Vec<f64>>();
            let medians: Vec<f64> = each.iter().map(|each| quantile(&times(each), 0.5)).collect();
            let row = Row::of(point.as_str(), format!("{name}, median"), &medians, "ms");
            figure.rows.push(if paper && side == ATP { row.paper(3.0).because(WHY) } else { row });
            if side == ATP {
                let all = each.iter().flat_map(times).collect();
                lines.push((point.clone(), distribution(all)));
            }
        }
    }
    figure.curves = Some(Curves { x: "time a slot is taken, ms", y: "share of slots (ATP)", lines });
    Ok(figure)
}

/// A model of this many megabytes whose iteration computes `computes` times as long as it communicates at 100
/// Gbit/s, at most 16 MB of it: the rest would behave the same.
fn model(scope: &Scope, megabytes: f64, computes: f64) -> Mix {
    let partition = megabytes.min(if scope.quick { 2.0 } else { 16.0 }) * 1000.0 / 4.0;
    // Two layers, each once forth and once back: twice what a layer takes in an iteration.
    let communicates_us = partition * 4.0 * 1000.0 * 8.0 / 100_000.0;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small and positive")]
    let (kilobytes, layer_us) = (partition as u32, (communicates_us * computes / 2.0) as u32);
    Mix::Of { kilobytes: kilobytes.max(1), layer_us }
}

/// The testbed's pool; two jobs.
fn testbed(mix: Mix, ranks: u16) -> Setting {
    Setting { mix, jobs: 2, ranks, memory: 1 << 20, ..Setting::paper(0) }
}

const TESTBED_WHY: &str = "the testbed's windows, jitter and share of computing are not in the text. Knob: \
                           while two jobs' windows fit into the pool, conflicts decide, each at the cost of \
                           a timeout; once memory per packet in flight is scarce, DSA leads by the printed \
                           factor and more";

/// Figure 5: all systems make the same sums, so accuracy per iteration is the same, and the time to it is
/// that of an iteration.
fn figure_5(scope: &Scope) -> Made {
    let mut figure = begun(scope);
    let at = |megabytes, computes| testbed(model(scope, megabytes, computes), 4);
    let mut points = vec![
        Point {
            printed: vec![(DSA, ATP, 1.15, TESTBED_WHY)],
            ..point("VGG16, computes 0.5 ×", at(132.0, 0.5))
        },
        Point {
            printed: vec![(DSA, ATP, 1.01, TESTBED_WHY)],
            ..point("ResNet50, computes 4 ×", at(98.0, 4.0))
        },
    ];
    let computes: &[f64] = if scope.quick { &[1.0] } else { &[0.25, 1.0, 2.0, 8.0] };
    points.extend(
        computes.iter().map(|&computes| point(format!("knob: computes {computes} ×"), at(132.0, computes))),
    );
    let pools = [(1 << 18, "0.25"), (1 << 17, "0.125")];
    points.extend(pools.map(|(memory, megabytes)| {
        point(format!("knob: VGG16, pool of {megabytes} MB"), Setting { memory, ..at(132.0, 0.5) })
    }));
    contest(scope, &mut figure, &[DSA, ATP], Measure::Speedup, &points, true)?;
    Ok(figure)
}

/// Figure 6: the models' sizes are public; how long a V100 computes is not in the text.
fn figure_6(scope: &Scope) -> Made {
    let mut figure = begun(scope);
    let models: &[(&str, f64, f64)] = &[
        ("ResNet50", 98.0, 4.0),
        ("VGG16", 528.0, 0.5),
        ("DeepLight", 2319.0, 0.25),
        ("LSTM", 1627.0, 0.5),
        ("BERT", 1274.0, 1.0),
        ("VGG19", 548.0, 0.5),
        ("UGATIT", 511.0, 2.0),
        ("NCF", 679.0, 0.25),
    ];
    let mut points = Vec::new();
    for &(name, megabytes, computes) in models.iter().filter(|(name, ..)| !scope.quick || *name == "BERT") {
        let setting = testbed(model(scope, megabytes, computes), 5);
        let mut at = point(format!("{name}, computes {computes} ×"), setting);
        if name == "BERT" {
            at.printed = vec![(DSA, SWITCHML, 1.76, SWITCHML_WHY), (DSA, ATP, 1.33, TESTBED_WHY)];
        }
        points.push(at);
    }
    let bert = testbed(model(scope, 1274.0, 1.0), 5);
    points.extend([
        point("knob: BERT computes 0.25 ×", testbed(model(scope, 1274.0, 0.25), 5)),
        point("knob: BERT, pool of 0.25 MB", Setting { memory: 1 << 18, ..bert }),
        point("knob: BERT, pool of 0.125 MB", Setting { memory: 1 << 17, ..bert }),
        point("knob: BERT, hosts each 10 µs", Setting { poll_us: 10, ..bert }),
    ]);
    contest(scope, &mut figure, &[DSA, ATP, SWITCHML], Measure::Speedup, &points, true)?;
    Ok(figure)
}

/// Figure 7: tensors without computation, four workers to a job. Hosts are not shared between jobs here.
fn figure_7(scope: &Scope) -> Made {
    let mut figure = begun(scope);
    let at = |kilobytes: u32, jobs| Setting {
        mix: Mix::Of { kilobytes: kilobytes / 4, layer_us: 0 },
        jobs,
        ranks: 4,
        starts_us: 100,
        straggle_us: 100,
        memory: 1 << 20,
        ..Setting::paper(0)
    };
    let sizes: &[u32] = if scope.quick { &[1000, 4000] } else { &[256, 1000, 4000, 16_000] };
    let mut points: Vec<Point> =
        sizes.iter().map(|&size| point(format!("4 jobs, {size} kB"), at(size, 4))).collect();
    let jobs: &[u16] = if scope.quick { &[8] } else { &[1, 2, 8] };
    points.extend(jobs.iter().map(|&jobs| point(format!("{jobs} jobs, 4000 kB"), at(4000, jobs))));
    for at in points.iter_mut().filter(|point| point.name == "4 jobs, 4000 kB") {
        at.printed = vec![(DSA, SWITCHML, 1.33, SWITCHML_WHY), (DSA, ATP, 1.76, TESTBED_WHY)];
    }
    points.extend([
        point("knob: pool of 0.25 MB", Setting { memory: 1 << 18, ..at(4000, 4) }),
        point("knob: late by 0.5 ms", Setting { straggle_us: 500, ..at(4000, 4) }),
        point("knob: hosts each 10 µs", Setting { poll_us: 10, ..at(4000, 4) }),
        point("knob: 4 ways", Setting { ways: 4, ..at(4000, 4) }),
    ]);
    contest(scope, &mut figure, &[DSA, ATP, SWITCHML], Measure::Speedup, &points, true)?;
    Ok(figure)
}

/// Figure 12: the cost of a lost packet, at one worker of each job and at the servers.
fn figure_12(scope: &Scope) -> Made {
    let mut figure = begun(scope);
    let vgg = testbed(model(scope, 132.0, 0.5), 4);
    let rates: &[u32] = if scope.quick { &[100] } else { &[10, 100, 1000] };
    let mut lines = Vec::new();
    for (lossy, place, sides) in
        [(Lossy::OneWorker, "one worker", &[DSA, ATP, SWITCHML][..]), (Lossy::Server, "servers", &[DSA, ATP])]
    {
        for &side in sides {
            let time = |loss| {
                let setting = Setting { loss, lossy, ..on(vgg, side) };
                scope
                    .each(figure.seeds, |seed| Ok(run(&Setting { seed: seed + 1, ..setting })?.completion_ms))
            };
            let whole = time(0)?;
            let mut line = vec![(0.0, 1.0)];
            for &loss in rates {
                let speeds: Vec<f64> =
                    time(loss)?.iter().zip(&whole).map(|(lossy, whole)| whole / lossy).collect();
                let percent = f64::from(loss) / 10_000.0;
                let row = Row::of(
                    format!("{percent} % lost at {place}"),
                    NAMES[side],
                    &speeds,
                    "of the speed without",
                );
                line.push((percent, row.mean));
                figure.rows.push(row);
            }
            lines.push((format!("{}, {place}", NAMES[side]), line));
        }
    }
    figure.curves = Some(Curves { x: "packets lost, %", y: "speed, of that without loss", lines });
    Ok(figure)
}
