//! `bench policies`: the pool's policies in virtual time, beside DSA's Figures 8 to 11.

mod json;
mod table;

use std::process::ExitCode;

use crate::experiments::policies::{Experiment, Setting};
use anyhow::Context as _;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};

#[derive(Debug, Args)]
pub(crate) struct PoliciesArgs {
    /// What starts, stragglers and hosts follow from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs of each cell, with this seed and those after it; medians are reported [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Divide tensors and times of computation by this, not what the network takes [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    scale: Option<u32>,
    /// To see that it works: as if with --runs 1 --scale 32
    #[arg(long)]
    quick: bool,
    /// Microseconds between two looks of a host at what it has received, on average; 0: hosts in lock-step
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=1000))]
    host_jitter: u32,
    /// Packets lost on each line, in a million
    #[arg(long, value_name = "PPM", default_value_t = 0, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    loss: u32,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl PoliciesArgs {
    fn experiment(&self) -> Experiment {
        let (runs, scale) = if self.quick { (1, 32) } else { (3, 1) };
        Experiment {
            seed: self.seed,
            runs: self.runs.unwrap_or(runs),
            scale: self.scale.unwrap_or(scale),
            poll_us: self.host_jitter,
            loss: self.loss,
        }
    }
}

pub(super) fn run(args: &PoliciesArgs) -> anyhow::Result<ExitCode> {
    let experiment = args.experiment();
    // Not shown unless standard error is a terminal.
    let bar = ProgressBar::no_length().with_style(ProgressStyle::with_template(
        "{elapsed_precise} {wide_bar} {pos}/{len} runs, eta {eta}",
    )?);
    let outcome = experiment.compare(&|done, all| {
        bar.set_length(all as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    let comparison = outcome.context("a run has broken a promise")?;
    if args.json {
        println!("{}", serde_json::to_string(&json::report(&experiment, &comparison))?);
    } else {
        table::print(&experiment, &comparison);
    }
    Ok(ExitCode::SUCCESS)
}

/// Where all cells begin.
fn paper(experiment: &Experiment) -> Setting {
    let Experiment { seed, scale, poll_us, loss, .. } = *experiment;
    Setting { scale, poll_us, loss, ..Setting::paper(seed) }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]
mod tests {
    use crate::experiments::policies::Part;
    use clap::Parser;

    use super::*;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        args: PoliciesArgs,
    }

    fn experiment(line: &str) -> Experiment {
        let words = core::iter::once("policies").chain(line.split_whitespace());
        Command::try_parse_from(words).unwrap().args.experiment()
    }

    #[test]
    fn quick_gives_way_to_what_is_said() {
        let of = |line| {
            let Experiment { seed, runs, scale, poll_us, loss } = experiment(line);
            (seed, runs, scale, poll_us, loss)
        };
        assert_eq!(of(""), (1, 3, 1, 1, 0));
        assert_eq!(of("--quick"), (1, 1, 32, 1, 0));
        assert_eq!(of("--quick --runs 5 --seed 9"), (9, 5, 32, 1, 0));
        assert_eq!(of("--scale 4 --host-jitter 10 --loss 100"), (1, 3, 4, 10, 100));
    }

    /// Everything that is needed to repeat a cell, and what it showed.
    #[test]
    fn the_report_has_every_cell_with_its_setting() {
        let experiment = experiment("--scale 1000 --runs 1");
        let comparison = experiment.compare(&|_, _| {}).unwrap();
        let report = serde_json::to_value(json::report(&experiment, &comparison)).unwrap();
        let cells = report["cells"].as_array().unwrap();
        assert_eq!(cells.len(), comparison.rows.len());
        let main = cells.iter().filter(|cell| cell["part"] == Part::Main.name());
        assert_eq!(main.count(), 2 * 3 * 20);
        for cell in cells {
            assert_eq!(cell["verified"], cell["expected"], "{cell}");
            assert!(cell["completion_ms"].as_f64() > Some(0.0), "{cell}");
        }
        assert_eq!(report["verified"], report["expected"]);
        assert_eq!((&report["violations"], &report["scale"]), (&0.into(), &1000.into()));
        assert_eq!(report["paper"].as_array().unwrap().len(), 14);
        assert_eq!(report["ranking"][0]["times_best"].as_f64().map(|times| times < 1.5), Some(true));
    }
}
