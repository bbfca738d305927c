//! Transmission control where one group of clusters sends more often than the other (Olaf, table 3).

use core::time::Duration;

use crate::experiments::olaf::{Contest, Outcome, Scheme, Senders, Table3};
use pascaline_queue::Discipline;
use pascaline_shared::println;
use pascaline_worker::Slope;
use pascaline_worker::asynchronous::Policy;
use serde::Serialize;

/// Virtual time of a run.
const LASTS: Duration = Duration::from_secs(60);
/// The paper's (section 6).
const THRESHOLD: Duration = Duration::from_millis(400);
const SENDERS: [(&str, Senders); 3] =
    [("locked", Senders::Locked), ("jittered", Senders::TENTH), ("poisson", Senders::Poisson)];
/// Rates behind SW1 and SW2, and behind SW3. The paper does not give them: the first pair reproduces its
/// losses, the second its ages.
const LINES_KBPS: [(u32, u32); 2] = [(10_000, 1000), (2000, 200)];

fn schemes() -> [(&'static str, Scheme); 5] {
    let olaf = |policy| Scheme { discipline: Discipline::Olaf, policy };
    let paper = |slope| olaf(Policy::Olaf { slope, threshold: THRESHOLD });
    [
        ("fifo", Scheme { discipline: Discipline::Fifo, policy: Policy::AtWill }),
        ("olaf", olaf(Policy::AtWill)),
        ("urgency", paper(Slope::Urgency)),
        ("fairness", paper(Slope::Fairness)),
        ("paced", olaf(Policy::Paced)),
    ]
}

#[derive(Debug, Serialize)]
pub(super) struct Control {
    rows: Vec<Row>,
    paper: Vec<Paper>,
    threshold_ms: u128,
    seconds: u64,
    runs: u32,
}

#[derive(Debug, Serialize)]
struct Row {
    edge_kbps: u32,
    line_kbps: u32,
    senders: &'static str,
    /// `urgency` and `fairness`: the paper's control with its two slopes; `paced`: the server's pauses.
    control: &'static str,
    updates: f64,
    sent: f64,
    received: f64,
    lost_pct: f64,
    aom_fast_ms: f64,
    aom_slow_ms: f64,
    jain: f64,
}

#[derive(Debug, Serialize)]
struct Paper {
    name: &'static str,
    lost_pct: f64,
    aom_fast_ms: f64,
    aom_slow_ms: f64,
    jain: f64,
    /// The fairness index of two ages, for five clusters each.
    jain_of_its_ages: f64,
}

impl Control {
    pub(super) fn measure(seed: u64, runs: u32) -> anyhow::Result<Self> {
        let mut rows = Vec::new();
        for (edge_kbps, line_kbps) in LINES_KBPS {
            let experiment = Table3 {
                seed,
                runs,
                lasts: LASTS,
                slow: Duration::from_millis(300),
                edge_kbps: [edge_kbps; 2],
                last_kbps: line_kbps,
            };
            for (senders, kind) in SENDERS {
                for (control, scheme) in schemes() {
                    let Outcome { updates, sent, lost_pct, received, aom_ms: [fast, slow], jain, .. } =
                        experiment.run(kind, scheme)?;
                    let (aom_fast_ms, aom_slow_ms) = (fast, slow);
                    rows.push(Row {
                        edge_kbps,
                        line_kbps,
                        senders,
                        control,
                        updates,
                        sent,
                        received,
                        lost_pct,
                        aom_fast_ms,
                        aom_slow_ms,
                        jain,
                    });
                }
            }
        }
        let paper = Table3::PAPER.map(|Contest { name, lost_pct, aom_ms: [fast, slow], jain }| Paper {
            name,
            lost_pct,
            aom_fast_ms: fast,
            aom_slow_ms: slow,
            jain,
            jain_of_its_ages: pascaline_ps::asynchronous::jain(&[fast, slow]),
        });
        Ok(Self {
            rows,
            paper: paper.into(),
            threshold_ms: THRESHOLD.as_millis(),
            seconds: LASTS.as_secs(),
            runs,
        })
    }

    pub(super) fn print(&self) {
        println!(
            "\nTable 3: clusters 1 to 5 send every 100 ms, 6 to 10 every 300 ms; {} runs of {} s",
            self.runs, self.seconds
        );
        println!("kbit/s       senders   control      sent   lost %   AoM, ms: 1-5      6-10    Jain");
        for row in &self.rows {
            println!(
                "{:5} {:5}  {:8}  {:8} {:8.0} {:8.1} {:14.1} {:9.1}  {:.4}",
                row.edge_kbps,
                row.line_kbps,
                row.senders,
                row.control,
                row.sent,
                row.lost_pct,
                row.aom_fast_ms,
                row.aom_slow_ms,
                row.jain
            );
        }
        for row in &self.paper {
            println!(
                "the paper              {:8} {:17.1} {:14.0} {:9.0}  {:.2} (of these ages: {:.2})",
                row.name, row.lost_pct, row.aom_fast_ms, row.aom_slow_ms, row.jain, row.jain_of_its_ages
            );
        }
    }
}

#[cfg(test)]
mod tests;
