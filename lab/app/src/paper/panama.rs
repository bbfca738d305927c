//! PANAMA, Figures 7 to 10. Switches add with the product's pool, workers keep its windows.

mod bump;
mod fairness;
mod shared;

use pascaline_sim::fabric::Clos;
use pascaline_wire::CongestionControl::Panama;

use super::figure::{Curves, Entry, Figure, Row, Scope};
use crate::experiments::cluster::{Job, Outcome, PACKET, Plain, Scheme, Setting, Transport, run};

type Made = anyhow::Result<Figure>;

/// The figures of this paper.
pub(super) const FIGURES: [Entry; 4] = [
    Entry::one_run("panama-fig-7", "PANAMA: throughput of flows through an appliance in line", bump::figure),
    Entry::seeded("panama-fig-8", "PANAMA: other flows and jobs that share a Clos network", shared::figure),
    Entry::one_run(
        "panama-fig-9",
        "PANAMA: four trees, one tree and a ring, by the number of competing long flows",
        figure_9,
    ),
    Entry::one_run("panama-fig-10", "PANAMA: a flow and a job on one link", fairness::figure),
];

/// PANAMA: four trees, and the window of its Figure 5.
const PANAMA: Scheme = Scheme::Trees(4, Panama, 256);

fn checked(setting: &Setting) -> anyhow::Result<Outcome> {
    let outcome = run(setting)?;
    anyhow::ensure!(outcome.wrong == 0, "{} sums lacked a worker or counted one twice", outcome.wrong);
    Ok(outcome)
}

/// The rate in Gbit/s at which full packets have passed.
fn gbps(packets: f64, nanos: u64) -> f64 {
    packets * PACKET as f64 * 8.0 / nanos as f64
}

/// Figure 9: eight workers below four leaves, and others that send long flows through the same spines.
fn figure_9(scope: &Scope) -> Made {
    let mut figure = Figure::of_one_run();
    let clos = Clos::square(4);
    let one = Scheme::Trees(1, Panama, 256);
    let schemes = [("PANAMA", PANAMA, 0), ("Agg1", one, 0), ("Agg2", one, 1), ("Agg3", one, 2)];
    let schemes = schemes.into_iter().chain([("Agg4", one, 3), ("ring", Scheme::Ring, 0)]);
    let schemes: Vec<_> = schemes.collect();
    let counts: &[usize] = if scope.quick { &[0, 8] } else { &[0, 2, 4, 6, 8] };
    let mut all = Vec::new();
    for &(_, scheme, spine) in &schemes {
        for &count in counts {
            // Two workers below each leaf; the others send to the next leaf, for as long as the run.
            let workers = (0..4).flat_map(|leaf| [4 * leaf, 4 * leaf + 1]).collect();
            let job = Job { workers, packets: 2000, computes: 50_000, begins: 500_000, spine };
            let flow = |number: usize| {
                let (leaf, place) = (number % 4, 2 + number / 4);
                let to = 4 * ((leaf + 1) % 4) + place;
                Plain { from: 4 * leaf + place, to, packets: u32::MAX, begins: 1 }
            };
            let flows = (0..count).map(flow).collect();
            all.push(Setting { jobs: vec![job], flows, ..Setting::idle(clos, scheme, 60_000_000) });
        }
    }
    let made = scope.map(&all, checked)?;
    let mut lines = Vec::new();
    for ((name, ..), runs) in schemes.iter().zip(made.chunks(counts.len())) {
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
