//! `bench policies`: the pool's policies in virtual time, next to DSA's Figures 8 to 11.

mod json;
mod table;

use std::process::ExitCode;

use crate::experiments::policies::{Experiment, Setting};
use anyhow::Context as _;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use pascaline_shared::println;

#[derive(Debug, Args)]
pub(crate) struct PoliciesArgs {
    /// Seed of starts, stragglers and hosts
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Runs of each cell, with this seed and the following ones; medians count [default: 3]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    runs: Option<u32>,
    /// Divide tensors and computation times by this, but no network times [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    scale: Option<u32>,
    /// A quick trial: --runs 1 --scale 32
    #[arg(long)]
    quick: bool,
    /// Mean microseconds between a host's polls for received packets; 0: hosts in lock-step
    #[arg(long, value_name = "MICROSECONDS", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=1000))]
    host_jitter: u32,
    /// Packets lost on each line, per million
    #[arg(long, value_name = "PPM", default_value_t = 0)]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=100_000))]
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
    let comparison = outcome.context("a run has violated an invariant")?;
    if args.json {
        println!("{}", json::report(&experiment, &comparison));
    } else {
        table::print(&experiment, &comparison);
    }
    Ok(ExitCode::SUCCESS)
}

/// The settings that all cells share.
fn paper(experiment: &Experiment) -> Setting {
    let Experiment { seed, scale, poll_us, loss, .. } = *experiment;
    Setting { scale, poll_us, loss, ..Setting::paper(seed) }
}

#[cfg(test)]
mod tests;
