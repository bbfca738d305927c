//! Figure 7: two servers, with only a switch between them, with an appliance that forwards, and with one that
//! adds up, from one input.

use pascaline_sim::fabric::Clos;
use pascaline_sim::random::Random;
use pascaline_wire::CongestionControl::Fixed;

use super::{Curves, Figure, Job, Made, Plain, Row, Scheme, Scope, Setting, checked, gbps};
use crate::experiments::olaf::exponential;

/// Samples of a run. Each is a hundred of the simulation's.
const SAMPLES: usize = 40;
const FINE: usize = 100;

const WHY: &str = "the sender's clock is exact here, and the receiver counts bytes on the wire: a value \
                   above the link's 10 Gbit/s comes from a receiver that reads late. Knob: pauses between \
                   its reads, in parts of a sample";

/// Gbit/s of each sample, measured by a receiver that pauses between its reads: exponentially distributed
/// times with a mean of `pause` fine samples.
fn read(fine: &[f64], pause: f64) -> Vec<f64> {
    let mut random = Random::new(7);
    let (mut kept, mut next) = (0.0, 0.0);
    let mut rates = vec![0.0; fine.len() / FINE];
    for (at, packets) in fine.iter().enumerate() {
        kept += packets;
        if at as f64 >= next {
            rates.get_mut(at / FINE).into_iter().for_each(|rate| *rate += kept / FINE as f64);
            kept = 0.0;
            next = at as f64 + pause * exponential(&mut random);
        }
    }
    // The first has the first packets' way, the last lacks unread packets.
    rates[1..rates.len() - 1].to_vec()
}

pub(super) fn figure(scope: &Scope) -> Made {
    let mut figure = Figure::of_one_run();
    let nanos = if scope.quick { 10_000 } else { 100_000 };
    let lasts = nanos * (SAMPLES * FINE) as u64;
    let empty =
        Setting { samples: nanos, ..Setting::idle(Clos::square(2), Scheme::Trees(1, Fixed, 256), lasts) };
    let flow = Plain { from: 0, to: 1, packets: u32::MAX, begins: 0 };
    let job = Job { workers: vec![0], packets: u32::MAX / 8, computes: 1, begins: 0, spine: 0 };
    let cases = [
        ("NoFPGA", 0, Setting { flows: vec![flow], ..empty.clone() }),
        // Table 1: 957.5 ns for 1,500 bytes.
        ("FPGA-noagg", 0, Setting { flows: vec![flow], delay: empty.delay + 479, ..empty.clone() }),
        ("FPGA-agg", 1, Setting { jobs: vec![job], delay: empty.delay + 494, ..empty }),
    ];
    let made = scope.map(&cases, |(_, which, setting)| {
        let outcome = checked(setting)?;
        Ok(outcome.samples.iter().map(|sample| gbps(sample[*which] as f64, nanos)).collect::<Vec<f64>>())
    })?;
    let mut lines = Vec::new();
    for ((name, ..), fine) in cases.iter().zip(&made) {
        let pauses: &[f64] = if *name == "FPGA-agg" { &[0.0, 3.0, 10.0] } else { &[0.0] };
        for &pause in pauses {
            let rates = read(fine, pause);
            let least = rates.iter().copied().fold(f64::INFINITY, f64::min);
            let most = rates.iter().copied().fold(0.0, f64::max);
            let exact = pause == 0.0;
            let point = if exact { (*name).to_owned() } else { format!("knob: pauses of {pause} %, {name}") };
            // The text has numbers only for packets that are added up.
            let printed = |number: f64| (exact && *name == "FPGA-agg").then_some(number);
            for (what, rate, number) in [("least", least, 8.86), ("most", most, 10.48)] {
                let row = Row::of(point.as_str(), what, &[rate], "Gbit/s");
                figure.rows.push(row.printed(printed(number), WHY));
            }
            figure.rows.push(Row::of(point, "mean", &rates, "Gbit/s"));
            let times = (1u32..).map(|at| f64::from(at) * nanos as f64 * FINE as f64 / 1e6);
            let what = if exact { String::new() } else { format!(", pauses of {pause} %") };
            lines.push((format!("{name}{what}"), times.zip(rates).collect()));
        }
    }
    figure.curves = Some(Curves { x: "time, ms", y: "Gbit/s", lines });
    Ok(figure)
}
