//! Two jobs on one link, over time (as PANAMA, section 7.3 and Figure 10, shows a job and competing flows).

use core::time::Duration;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use pascaline_shared::println;
use pascaline_sim::bottleneck::{Outcome, Setting, Sharer, run};
use pascaline_wire::CongestionControl;
use serde::Serialize;

use super::shares::{Line, Panel, picture_of};

/// Draw the shares of two jobs on one link, under each congestion control, in virtual time
///
/// Links of 10 Gbit/s that mark from 85 packets on. The second job begins after 5 ms. One panel per control;
/// the first one has fixed windows of 512 and 64 packets.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  pascaline-lab plot fairness --out fairness.svg --json")]
pub(crate) struct FairnessArgs {
    /// The SVG to write
    #[arg(long, value_name = "FILE", default_value = "fairness.svg")]
    out: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

const BEGINS: Duration = Duration::from_millis(5);
const SETTLED: Duration = Duration::from_millis(45);
const ENDS: Duration = Duration::from_millis(70);
/// The interval that a point of a line stands for.
const STEP: Duration = Duration::from_millis(1);
const ROWS: [(CongestionControl, [u16; 2]); 4] = [
    (CongestionControl::Fixed, [512, 64]),
    (CongestionControl::Panama, [0, 0]),
    (CongestionControl::Dsa, [0, 0]),
    (CongestionControl::Delay, [0, 0]),
];

/// The outcome of one control.
#[derive(Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) control: &'static str,
    /// Of the link, in the steady state.
    pub(crate) shares: [f64; 2],
    /// The smaller share over the larger one.
    pub(crate) fairness: f64,
    /// The mean wait of packets in the queue, in the steady state.
    pub(crate) wait_us: f64,
    #[serde(skip)]
    lines: [Vec<(f64, f64)>; 2],
}

impl Row {
    pub(crate) fn of(control: CongestionControl, in_flight: [u16; 2]) -> anyhow::Result<Self> {
        let sharer = |job: usize, begins| Sharer { control, in_flight: in_flight[job], begins };
        let setting = Setting {
            jobs: vec![sharer(0, Duration::ZERO), sharer(1, BEGINS)],
            bytes: 2 << 20,
            ends: ENDS,
            ..Setting::rack(2)
        };
        let outcome = run(&setting).context("this setting allows no appliance")?;
        anyhow::ensure!(
            outcome.shares.iter().all(|share| share.wrong == 0),
            "{}: wrong sums",
            control.name()
        );
        let shares = of_the_link(&setting, &outcome, SETTLED, ENDS);
        let (less, more) = (shares[0].min(shares[1]), shares[0].max(shares[1]));
        let steps = (0..).map(|step| STEP * step).take_while(|from| *from < ENDS);
        let mut lines = [const { Vec::new() }; 2];
        for from in steps {
            for (line, share) in lines.iter_mut().zip(of_the_link(&setting, &outcome, from, from + STEP)) {
                line.push((1e3 * from.as_secs_f64(), share));
            }
        }
        let wait_us = 1e6 * outcome.mean_wait(SETTLED, ENDS).as_secs_f64();
        Ok(Self { control: control.name(), shares, fairness: less / more.max(1e-9), wait_us, lines })
    }

    fn panel(&self) -> Panel {
        let line =
            |(job, points): (usize, &Vec<_>)| Line { of: format!("job {}", job + 1), points: points.clone() };
        Panel { title: self.control.to_owned(), lines: self.lines.iter().enumerate().map(line).collect() }
    }
}

/// The share of each job's results in the packets that the link could carry.
fn of_the_link(setting: &Setting, outcome: &Outcome, from: Duration, to: Duration) -> [f64; 2] {
    let most = (to - from).as_secs_f64() / setting.packet_time().as_secs_f64();
    let results = outcome.results(from, to);
    #[expect(clippy::cast_precision_loss, reason = "some ten thousand")]
    let share = |job: usize| results.get(job).map_or(0.0, |&results| results as f64 / most);
    [share(0), share(1)]
}

/// Runs the command.
pub(crate) fn draw(args: &FairnessArgs) -> anyhow::Result<ExitCode> {
    let rows = ROWS
        .iter()
        .map(|&(control, windows)| Row::of(control, windows))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let panels: Vec<Panel> = rows.iter().map(Row::panel).collect();
    std::fs::write(&args.out, picture_of(&panels, "time, ms")?)
        .with_context(|| format!("writing {}", args.out.display()))?;
    if args.json {
        println!("{}", serde_json::json!({ "rows": rows, "picture": args.out }));
        return Ok(ExitCode::SUCCESS);
    }
    for Row { control, shares: [one, other], wait_us, .. } in &rows {
        println!("{control:8} {one:.2} and {other:.2} of the link; packets wait {wait_us:.0} µs");
    }
    println!("{}", args.out.display());
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
