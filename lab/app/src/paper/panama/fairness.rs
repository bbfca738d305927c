//! Figure 10: a flow begins, and when a quarter of the time is over a job does, whose first worker sends over
//! the flow's link.

use pascaline_sim::fabric::{Clos, Cuts};
use pascaline_wire::CongestionControl::{Fixed, Panama};

use super::{Curves, Figure, Job, Made, Plain, Row, Scheme, Scope, Setting, Transport, checked, gbps};

const WHY: &str = "two things that the text does not state decide the shares. First, hosts in lock-step meet \
                   the queue at the same place again and again, so that even a flow under the job's own \
                   control gets nine tenths; jitter reduces that. Second, DCTCP's count: Figure 5 judges \
                   each window's worth of results by itself, so marks for packets sent before a cut cut \
                   again, while RFC 8257 cuts once. A flow that counts as Figure 5 does, and jitter, give \
                   halves";

const PANAMA: Scheme = Scheme::Trees(1, Panama, 256);
const RFC: Transport = Transport::Dctcp(Cuts::Once);
const EACH: Transport = Transport::Dctcp(Cuts::EachWindow);

/// The job's scheme, the flow's transport, microseconds of jitter, and the queue length from which the link
/// marks.
type Case = (&'static str, Scheme, Transport, u64, u64);
const CASES: [Case; 17] = [
    ("PANAMA", PANAMA, RFC, 10, 85),
    ("without control", Scheme::Trees(1, Fixed, 256), RFC, 10, 85),
    ("knob: lock-step", PANAMA, RFC, 0, 85),
    ("knob: jitter 1 µs", PANAMA, RFC, 1, 85),
    ("knob: jitter 3 µs", PANAMA, RFC, 3, 85),
    ("knob: jitter 30 µs", PANAMA, RFC, 30, 85),
    ("knob: DCTCP cuts in each window", PANAMA, EACH, 10, 85),
    ("knob: DCTCP counts as Figure 5", PANAMA, Transport::Panama, 10, 85),
    ("knob: the same, jitter 30 µs", PANAMA, Transport::Panama, 30, 85),
    ("knob: the same in lock-step", PANAMA, Transport::Panama, 0, 85),
    ("knob: marks from 40 packets", PANAMA, RFC, 10, 40),
    ("knob: marks from 170 packets", PANAMA, RFC, 10, 170),
    ("knob: four trees", Scheme::Trees(4, Panama, 256), RFC, 10, 85),
    ("knob: four trees, window of 64", Scheme::Trees(4, Fixed, 64), RFC, 10, 85),
    ("knob: window of 32", Scheme::Trees(1, Fixed, 32), RFC, 10, 85),
    ("knob: window of 64", Scheme::Trees(1, Fixed, 64), RFC, 10, 85),
    ("knob: window of 128", Scheme::Trees(1, Fixed, 128), RFC, 10, 85),
];

pub(super) fn figure(scope: &Scope) -> Made {
    let mut figure = Figure::of_one_run();
    let lasts = if scope.quick { 80_000_000 } else { 400_000_000 };
    let samples = lasts / 40;
    let all = CASES.map(|(_, scheme, transport, jitter, marks_from)| {
        let job =
            Job { workers: vec![0, 1, 4], packets: u32::MAX / 8, computes: 1, begins: lasts / 4, spine: 0 };
        let flows = vec![Plain { from: 0, to: 8, packets: u32::MAX, begins: 1 }];
        let empty = Setting::idle(Clos::square(4), scheme, lasts);
        Setting { jobs: vec![job], flows, samples, transport, marks_from, jitter: jitter * 1000, ..empty }
    });
    let made = scope.map(&all, checked)?;
    let mut lines = Vec::new();
    for ((name, ..), run) in CASES.iter().zip(&made) {
        for (which, what) in ["flow", "job"].into_iter().enumerate() {
            let rates = run.samples.iter().map(|sample| gbps(sample[which] as f64, samples));
            let times = (0u32..).map(|at| f64::from(at) * samples as f64 / 1e6);
            let points: Vec<(f64, f64)> = times.zip(rates).take(40).collect();
            let late: Vec<f64> = points.iter().skip(20).map(|point| point.1).collect();
            let row = Row::of(*name, format!("{what}, both there"), &late, "Gbit/s");
            // Figure 10a: equal shares of 10 Gbit/s.
            figure.rows.push(if *name == "PANAMA" { row.paper(5.0).because(WHY) } else { row });
            if !name.starts_with("knob") || *name == "knob: lock-step" {
                lines.push((format!("{name}: {what}"), points));
            }
        }
    }
    figure.curves = Some(Curves { x: "time, ms", y: "Gbit/s", lines });
    Ok(figure)
}
