//! iSwitch: gradients of four models over a parameter server, a ring, and a switch that adds.

mod asynchronous;

use pascaline_sim::fabric::Clos;
use pascaline_wire::CongestionControl::Fixed;

use super::figure::{Curves, Entry, Figure, Row, Scope};
use crate::experiments::cluster::{Job, PACKET, Scheme, Setting, run};

type Made = anyhow::Result<Figure>;

/// The figures of this paper.
pub(super) const FIGURES: [Entry; 4] = [
    Entry::one_run("iswitch-fig-12", "iSwitch: time of a synchronous iteration", figure_12),
    Entry::one_run("iswitch-table-3", "iSwitch: speedups of synchronous training", table_3),
    Entry::seeded(
        "iswitch-table-5",
        "iSwitch: asynchronous training, intervals and speedups",
        asynchronous::table_5,
    ),
    Entry::one_run("iswitch-fig-15", "iSwitch: 4 to 12 workers in racks of three", figure_15),
];

/// A model: bytes (Table 1), iterations and hours over a parameter server, a ring and iSwitch (Table 4), and
/// the speedups of Table 3.
struct Model {
    name: &'static str,
    bytes: f64,
    iterations: f64,
    hours: [f64; 3],
    speedups: [f64; 2],
}

const MODELS: [Model; 4] = [
    Model {
        name: "DQN",
        bytes: 6.41e6,
        iterations: 1.4e6,
        hours: [31.72, 16.08, 8.66],
        speedups: [1.97, 3.66],
    },
    Model { name: "A2C", bytes: 3.31e6, iterations: 2e5, hours: [2.87, 1.78, 1.12], speedups: [1.62, 2.55] },
    Model { name: "PPO", bytes: 40.02e3, iterations: 8e4, hours: [0.39, 0.42, 0.22], speedups: [0.91, 1.72] },
    Model {
        name: "DDPG",
        bytes: 157.52e3,
        iterations: 7.5e5,
        hours: [8.07, 9.01, 4.4],
        speedups: [0.9, 1.83],
    },
];

const WAYS: [(&str, Scheme); 3] =
    [("PS", Scheme::Server), ("ring", Scheme::Ring), ("iSwitch", Scheme::Trees(1, Fixed, 256))];

/// Messages that a worker has to wait for, one after the other.
const fn steps(way: usize, workers: usize) -> f64 {
    match way {
        0 => 2.0,
        1 => 2.0 * (workers as f64 - 1.0),
        _ => 0.0,
    }
}

/// Milliseconds to combine a model's gradients, three workers to a rack if they are more than four.
fn combining(bytes: f64, way: usize, workers: usize) -> anyhow::Result<f64> {
    let rack = if workers > 4 { 3 } else { 4 };
    let clos = Clos { leaves: workers.div_ceil(rack), servers: rack + 1, spines: 1 };
    let mut places: Vec<usize> = (0..workers).map(|at| at / rack * (rack + 1) + at % rack).collect();
    if way == 0 {
        places.push(rack);
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "thousands")]
    let packets = (bytes / PACKET as f64).ceil() as u32;
    let job = Job { workers: places, packets, computes: 1000, begins: 0, spine: 0 };
    let empty = Setting::idle(clos, WAYS[way].1, u64::MAX);
    let setting = Setting { jobs: vec![job], delay: 1000, host: 5000, iterations: 2, ..empty };
    let outcome = run(&setting)?;
    anyhow::ensure!(outcome.wrong == 0 && outcome.combining[0].len() > 1, "an iteration did not end");
    Ok(outcome.combining[0][1] as f64 / 1e6)
}

impl Model {
    /// The paper's iteration, in milliseconds.
    fn printed(&self, way: usize) -> f64 {
        (self.hours[way] * 3.6e8 / self.iterations).round() / 100.0
    }

    /// Milliseconds to combine, each way.
    fn combining(&self) -> anyhow::Result<[f64; 3]> {
        Ok([combining(self.bytes, 0, 4)?, combining(self.bytes, 1, 4)?, combining(self.bytes, 2, 4)?])
    }

    /// An iteration without combining: iSwitch's printed time, less what combining takes here.
    fn local(&self, combining: &[f64; 3]) -> f64 {
        self.printed(2) - combining[2]
    }
}

const STEPS: &str = "links explain only a small part: 40 KB cross one in 0.03 ms, and the printed iterations \
                     differ by 8 ms. Knob: the time of hosts' software for each message that a worker waits \
                     for, which the text does not state; \"needs\" is the time that gives the printed \
                     number, more for larger messages and for the server, which adds up four";

fn all(scope: &Scope) -> anyhow::Result<Vec<[f64; 3]>> {
    scope.map(&[0, 1, 2, 3], |&at| MODELS[at].combining())
}

fn figure_12(scope: &Scope) -> Made {
    let mut figure = Figure::of_one_run();
    for (model, combining) in MODELS.iter().zip(all(scope)?) {
        let local = model.local(&combining);
        for (way, (name, _)) in WAYS.iter().enumerate() {
            let row = Row::of(model.name, *name, &[local + combining[way]], "ms");
            figure.rows.push(row.paper(model.printed(way)).because(if way < 2 { STEPS } else { "" }));
            figure.rows.push(Row::of(model.name, format!("{name}, combining"), &[combining[way]], "ms"));
        }
        for (way, (name, _)) in WAYS.iter().enumerate().take(2) {
            let short = model.printed(way) - local - combining[way];
            let needs = short / steps(way, 4);
            figure.rows.push(Row::of(
                format!("knob: {}", model.name),
                format!("{name} needs"),
                &[needs],
                "ms a step",
            ));
            for takes in [1.0, 2.0, 4.0] {
                let time = local + combining[way] + takes * steps(way, 4);
                let row = Row::of(format!("knob: {}, {takes} ms a step", model.name), *name, &[time], "ms");
                figure.rows.push(row);
            }
        }
    }
    Ok(figure)
}

fn table_3(scope: &Scope) -> Made {
    let mut figure = Figure::of_one_run();
    let made = all(scope)?;
    for takes in [0.0, 1.5, 4.0, 12.0] {
        for (model, combining) in MODELS.iter().zip(&made) {
            let time = |way: usize| model.local(combining) + combining[way] + takes * steps(way, 4);
            for (way, printed) in [1, 2].into_iter().zip(model.speedups) {
                let paper = takes == 0.0;
                let point = if paper {
                    model.name.to_owned()
                } else {
                    format!("knob: {}, {takes} ms a step", model.name)
                };
                let row = Row::of(point, format!("{} over PS", WAYS[way].0), &[time(0) / time(way)], "times");
                figure.rows.push(row.printed(paper.then_some(printed), STEPS));
            }
        }
    }
    Ok(figure)
}

/// Figure 15: work done per time, of that of four workers: iterations shrink as workers grow.
fn figure_15(scope: &Scope) -> Made {
    let mut figure = Figure::of_one_run();
    let counts = [4, 6, 9, 12];
    let models = [&MODELS[2], &MODELS[3]];
    let all: Vec<(usize, usize, usize)> = (0..models.len())
        .flat_map(|model| (0..WAYS.len()).flat_map(move |way| counts.map(|count| (model, way, count))))
        .collect();
    let made = scope.map(&all, |&(model, way, count)| combining(models[model].bytes, way, count))?;
    let mut lines = Vec::new();
    for (cases, times) in all.chunks(counts.len()).zip(made.chunks(counts.len())) {
        let (at, way, _) = cases[0];
        let (model, name) = (models[at], WAYS[way].0);
        let local = model.local(&model.combining()?);
        for takes in [0.0, 1.5] {
            let time = |number: usize| local + times[number] + takes * steps(way, counts[number]);
            let mut line = Vec::new();
            for (number, &count) in counts.iter().enumerate() {
                let speedup = count as f64 / 4.0 * time(0) / time(number);
                let point = format!(
                    "{}{}, {count} workers",
                    if takes > 0.0 { "knob: 1.5 ms a step, " } else { "" },
                    model.name
                );
                figure.rows.push(Row::of(point, name, &[speedup], "times four's"));
                line.push((count as f64, speedup));
            }
            if takes > 0.0 {
                lines.push((format!("{}, {name}", model.name), line));
            }
        }
    }
    figure.curves = Some(Curves { x: "workers", y: "speedup over four workers, 1.5 ms a step", lines });
    Ok(figure)
}
