//! Table 5: asynchronous training over a parameter server, and over a switch that adds.

use super::{MODELS, Made, Model, combining};
use crate::experiments::cluster::asynchronous::{Trained, Training, served, switched};
use crate::paper::figure::{Figure, Row, Scope};

/// Iterations in millions, milliseconds of each, by the server's and iSwitch's column; Table 3's speedup.
struct Printed {
    iterations: [f64; 2],
    interval: [f64; 2],
    speedup: f64,
}

#[expect(clippy::approx_constant, reason = "a speedup of 3.14")]
const PRINTED: [Printed; 4] = [
    Printed { iterations: [6.3, 3.5], interval: [24.88, 12.07], speedup: 3.71 },
    Printed { iterations: [1.2, 0.4], interval: [13.13, 12.53], speedup: 3.14 },
    Printed { iterations: [0.54, 0.12], interval: [3.4, 7.99], speedup: 1.92 },
    Printed { iterations: [3.0, 1.5], interval: [11.58, 14.89], speedup: 1.56 },
];

const WAYS: [&str; 2] = ["Async PS", "Async iSwitch"];

/// A model's setting, and its outcome both ways.
fn both(training: &Training) -> anyhow::Result<[Trained; 2]> {
    let server = served(training);
    let server = server.map_err(|why| anyhow::anyhow!("the server answered {}", why.name()))?;
    Ok([server, switched(training)?])
}

/// The setting of Table 5: four workers, H of four, S of three. A gradient takes the time of a synchronous
/// iteration without combining.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "milliseconds in nanoseconds")]
fn setting(model: &Model) -> anyhow::Result<(Training, Training)> {
    let nanos = |milliseconds: f64| (milliseconds * 1e6) as u64;
    let ways = model.combining()?;
    // One worker and the server: there and back take the same.
    let half = nanos(combining(model.bytes, 0, 1)?) / 2;
    let (computes, there) = (nanos(model.local(&ways)), nanos(ways[2]));
    let (workers, bound, serves, iterations, seed) = (4, 3, 0, 0, 0);
    let switch = Training { workers, needed: 4, bound, computes, there, back: 0, serves, iterations, seed };
    Ok((Training { there: half, back: half, ..switch }, switch))
}

const INTERVAL: [&str; 2] = [
    "four workers and a link give no more than this. Knob: what the server takes for an update; \"needs\" \
     gives the printed number",
    "with the text's default, H of all four, an iteration takes as long as a computation, of which no split \
     is stated. Knob: H; with 3 of 4 all four models are within a tenth of the printed number",
];
const SPEEDUP: &str = "from the printed iterations and the intervals here; a server that takes no time \
                       changes weights as fast as four workers send. Knobs: \"needs\" of both intervals give \
                       the printed number";

/// The outcomes of each seed, both ways.
fn made(
    scope: &Scope,
    seeds: u64,
    server: &Training,
    switch: &Training,
) -> anyhow::Result<[Vec<Trained>; 2]> {
    let iterations = if scope.quick { 500 } else { 5000 };
    let each = scope.each(seeds, |seed| {
        let [served, _] = both(&Training { seed, iterations, ..*server })?;
        let [_, switched] = both(&Training { seed, iterations, ..*switch })?;
        Ok([served, switched])
    })?;
    Ok([0, 1].map(|way| each.iter().map(|both| both[way]).collect()))
}

fn intervals(trained: &[Trained]) -> Vec<f64> {
    trained.iter().map(|trained| trained.interval / 1e6).collect()
}

pub(super) fn table_5(scope: &Scope) -> Made {
    let mut figure = Figure { seeds: scope.seeds(5, 2), ..Figure::default() };
    let settings = scope.map(&[0, 1, 2, 3], |&at| setting(&MODELS[at]))?;
    for ((model, printed), (server, switch)) in MODELS.iter().zip(&PRINTED).zip(&settings) {
        let made = made(scope, figure.seeds, server, switch)?;
        let times = [0, 1].map(|way| intervals(&made[way]));
        for way in [0, 1] {
            let row = Row::of(model.name, WAYS[way], &times[way], "ms");
            figure.rows.push(row.paper(printed.interval[way]).because(INTERVAL[way]));
            let staleness: Vec<f64> = made[way].iter().map(|trained| trained.staleness).collect();
            figure.rows.push(Row::of(model.name, format!("{}, staleness", WAYS[way]), &staleness, "changes"));
        }
        let [more, fewer] = printed.iterations;
        let speedups: Vec<f64> = times[0]
            .iter()
            .zip(&times[1])
            .map(|(served, switched)| more / fewer * served / switched)
            .collect();
        let row = Row::of(model.name, "speedup", &speedups, "times");
        figure.rows.push(row.paper(printed.speedup).because(SPEEDUP));
        knobs(scope, &mut figure, (model, printed), server, switch)?;
    }
    Ok(figure)
}

/// Turns what the text does not state.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "parts of a second in nanoseconds"
)]
fn knobs(
    scope: &Scope,
    figure: &mut Figure,
    (model, printed): (&Model, &Printed),
    server: &Training,
    switch: &Training,
) -> anyhow::Result<()> {
    let point = format!("knob: {}", model.name);
    let needs = printed.interval.map(|milliseconds| milliseconds * 1e6);
    let part = needs[1] / switch.computes as f64;
    figure.rows.push(Row::of(point.as_str(), "Async PS needs", &[printed.interval[0]], "ms an update"));
    figure.rows.push(Row::of(point.as_str(), "Async iSwitch needs", &[part], "of the computation"));
    let needed = [
        Training { serves: needs[0] as u64, ..*server },
        Training { computes: (needs[1] / SLOWEST) as u64, ..*switch },
    ];
    let mut turn = |point: String, server: &Training, switch: &Training, ways: &[usize]| {
        let made = made(scope, figure.seeds, server, switch)?;
        for &way in ways {
            figure.rows.push(Row::of(point.as_str(), WAYS[way], &intervals(&made[way]), "ms"));
        }
        let [more, fewer] = printed.iterations;
        let [served, switched] = [0, 1].map(|way| intervals(&made[way]));
        let each: Vec<f64> =
            served.iter().zip(&switched).map(|(served, switched)| more / fewer * served / switched).collect();
        figure.rows.push(Row::of(point, "speedup", &each, "times"));
        anyhow::Ok(())
    };
    turn(format!("{point}, as needed"), &needed[0], &needed[1], &[0, 1])?;
    for heads in [3, 2, 1] {
        turn(format!("{point}, H = {heads}"), server, &Training { needed: heads, ..*switch }, &[1])?;
    }
    Ok(())
}

/// An iteration of four, over a computation: with an eighth more or less the slowest hardly hold up the
/// others, whose next gradient is computed meanwhile.
const SLOWEST: f64 = 1.005;
