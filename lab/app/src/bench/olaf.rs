//! `bench olaf`: OlafQueue in virtual time (Olaf, section 8.1) and in nanoseconds.

mod control;
mod nanos;

use std::process::ExitCode;

use crate::experiments::olaf::{Arrivals, Fifo, Hold, Olaf, PAPER, Row, Table1};
use clap::Args;
use control::Control;
use nanos::{Nanos, PAYLOAD, SHAPES, measure};
use pascaline_buffer::combine::Kernels;
use pascaline_queue::Combine;
use pascaline_shared::println;
use serde::Serialize;

#[derive(Debug, Args)]
pub(crate) struct OlafArgs {
    /// Seed of the arrivals
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs in virtual time; their mean counts
    #[arg(long, default_value_t = 30, value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: u32,
    /// Rounds of the measurement in nanoseconds; the median of their parts counts
    #[arg(long, default_value_t = 101, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    rounds: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Arrivals of Table 1: the paper does not specify them.
const ARRIVALS: [Arrivals; 10] = [
    Arrivals::Poisson,
    Arrivals::Periodic,
    Arrivals::Locked,
    Arrivals::Bursts(1),
    Arrivals::Bursts(2),
    Arrivals::Bursts(5),
    Arrivals::Bursts(10),
    Arrivals::Bursts(20),
    Arrivals::Bursts(50),
    Arrivals::Trains(128),
];
/// A run of table 3 lasts a virtual minute; more runs change little.
const MOST_CONTROL_RUNS: u32 = 5;
/// Arrivals of Figure 6.
const FIGURE_6: [Arrivals; 2] = [Arrivals::Poisson, Arrivals::Trains(128)];

#[derive(Debug, Serialize)]
struct Report {
    /// A segment is free when its update begins to be sent, as in an appliance.
    table1: Vec<TableRow>,
    /// A segment is free when its update has been sent, as in the paper's appendix.
    table1_held: Vec<TableRow>,
    figure6: Vec<Figure6>,
    /// Transmission control, table 3.
    control: Control,
    /// Sums.
    ns: Vec<Nanos>,
    /// Means.
    ns_mean: Vec<Nanos>,
    kernels: &'static str,
    payload: u16,
    seed: u64,
    runs: u32,
}

#[derive(Debug, Serialize)]
struct TableRow {
    arrivals: &'static str,
    /// Updates per burst or train.
    burst: Option<u32>,
    out_gbps: u32,
    fifo: Fifo,
    olaf: Olaf,
    aom_reduction_pct: f64,
    /// Compared with the age of a worker's newest update under FIFO.
    worker_aom_reduction_pct: f64,
    paper_fifo_received: Option<u32>,
    paper_fifo_lost_pct: Option<f64>,
    paper_olaf_received: Option<u32>,
    paper_olaf_aggregated: Option<u32>,
    paper_olaf_lost_pct: Option<f64>,
    paper_aom_reduction_pct: Option<f64>,
}

#[derive(Debug, Serialize)]
struct Figure6 {
    arrivals: &'static str,
    burst: Option<u32>,
    out_gbps: u32,
    /// The share of outgoing updates with at most 0, 1, 2, … aggregations.
    cdf: Vec<f64>,
}

fn name(arrivals: Arrivals) -> (&'static str, Option<u32>) {
    match arrivals {
        Arrivals::Poisson => ("poisson", None),
        Arrivals::Periodic => ("periodic", None),
        Arrivals::Locked => ("locked", None),
        Arrivals::Bursts(burst) => ("bursts", Some(burst)),
        Arrivals::Trains(train) => ("trains", Some(train)),
    }
}

impl From<&Row> for TableRow {
    fn from(row: &Row) -> Self {
        let (arrivals, burst) = name(row.arrivals);
        let paper = row.paper();
        Self {
            arrivals,
            burst,
            out_gbps: row.out_gbps,
            fifo: row.fifo,
            olaf: row.olaf.clone(),
            aom_reduction_pct: row.aom_reduction_pct(),
            worker_aom_reduction_pct: row.worker_aom_reduction_pct(),
            paper_fifo_received: paper.map(|paper| paper.fifo_received),
            paper_fifo_lost_pct: paper.map(|paper| paper.fifo_lost_pct),
            paper_olaf_received: paper.map(|paper| paper.olaf_received),
            paper_olaf_aggregated: paper.map(|paper| paper.olaf_aggregated),
            paper_olaf_lost_pct: paper.map(|paper| paper.olaf_lost_pct),
            paper_aom_reduction_pct: paper.map(|paper| paper.aom_reduction_pct),
        }
    }
}

pub(super) fn run(args: &OlafArgs) -> anyhow::Result<ExitCode> {
    let experiment = Table1 { seed: args.seed, runs: args.runs };
    let (mut table1, mut table1_held, mut figure6) = (Vec::new(), Vec::new(), Vec::new());
    for arrivals in ARRIVALS {
        let rows = experiment.rows(arrivals)?;
        table1.extend(rows.iter().map(TableRow::from));
        table1_held.extend(experiment.rows_holding(arrivals, Hold::UntilSent)?.iter().map(TableRow::from));
        if FIGURE_6.contains(&arrivals) {
            let (arrivals, burst) = name(arrivals);
            figure6.extend(rows.into_iter().map(|row| Figure6 {
                arrivals,
                burst,
                out_gbps: row.out_gbps,
                cdf: row.olaf.aggregations_cdf,
            }));
        }
    }
    let nanos = |combine| -> anyhow::Result<Vec<Nanos>> {
        SHAPES.into_iter().map(|shape| measure(shape, combine, args.rounds)).collect()
    };
    let report = Report {
        table1,
        table1_held,
        figure6,
        control: Control::measure(args.seed, args.runs.min(MOST_CONTROL_RUNS))?,
        ns: nanos(Combine::Sum)?,
        ns_mean: nanos(Combine::Mean)?,
        kernels: Kernels::detect().isa,
        payload: PAYLOAD,
        seed: args.seed,
        runs: args.runs,
    };
    super::print_report(&report, args.json, print)
}

fn print(report: &Report) {
    print_table1(report);
    println!("Figure 6: outgoing updates with at most 0, 1, 2, … aggregations, %");
    for figure in &report.figure6 {
        let cdf: Vec<_> = figure.cdf.iter().take(16).map(|share| format!("{:3.0}", 100.0 * share)).collect();
        println!("{:10} {:3} Gbit/s  {}", figure.arrivals, figure.out_gbps, cdf.join(" "));
    }
    report.control.print();
    print_costs(report);
}

fn print_table1(report: &Report) {
    for (held, rows) in [("begun", &report.table1), ("done", &report.table1_held)] {
        println!("Table 1, segments given up when sending has {held}; means of {} runs", report.runs);
        println!(
            "                        FIFO             Olaf                        \
             age of a cluster's model, ms"
        );
        println!(
            "arrivals      Gbit/s    received lost %  received aggregated lost %      \
             FIFO     Olaf  reduced by (FIFO per worker)"
        );
        for row in rows {
            let burst = row.burst.map_or(String::new(), |burst| format!(" of {burst}"));
            println!(
                "{:13} {:6}    {:8.0} {:6.1}  {:8.0} {:10.0} {:6.1}  {:8.5} {:8.5}  {:4.0} %      ({:.0} %)",
                format!("{}{burst}", row.arrivals),
                row.out_gbps,
                row.fifo.received,
                row.fifo.lost_pct,
                row.olaf.received,
                row.olaf.aggregated,
                row.olaf.lost_pct,
                row.fifo.aom_ms,
                row.olaf.aom_ms,
                row.aom_reduction_pct,
                row.worker_aom_reduction_pct
            );
        }
        for paper in PAPER {
            println!(
                "the paper     {:6}    {:8} {:6.1}  {:8} {:10} {:6.1}  {:17}  {:4.0} %",
                paper.out_gbps,
                paper.fifo_received,
                paper.fifo_lost_pct,
                paper.olaf_received,
                paper.olaf_aggregated,
                paper.olaf_lost_pct,
                "",
                paper.aom_reduction_pct
            );
        }
        println!();
    }
}

fn print_costs(report: &Report) {
    println!(
        "\n{} B payload, {} kernel; two updates in, one out, one add: ns",
        report.payload, report.kernels
    );
    for (combine, all) in [("sum", &report.ns), ("mean", &report.ns_mean)] {
        for one in all {
            println!(
                "{combine:4} clusters {:6}  segments {:5}  bare add {:6.1}   queue {:6.1}   \
                 on top {:6.1}   ratio {:.2}",
                one.clusters,
                one.queue_len,
                one.bare_add_ns,
                one.enqueue_dequeue_ns,
                one.on_top_ns,
                one.ratio
            );
        }
    }
}

#[cfg(test)]
mod tests;
