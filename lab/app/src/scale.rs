//! `scale`: the load that a tree of very many workers puts on each appliance, in virtual time.

use core::time::Duration;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use pascaline_app::cli::{duration, size};
use pascaline_shared::{print, println};
use pascaline_sim::hierarchy::{Level, MOST_RANKS, Outcome, Setting, run};
use serde_json::json;

use crate::predict::{check_sizes, check_time};

/// Simulate the load of each appliance in a tree with very many workers, in virtual time
///
/// Real workers and real appliances under a virtual clock: all workers join, then sum. Packets, control
/// messages and slots are counted at the busiest appliance of each level. 65,536 workers take about a minute
/// and 7 GB.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pascaline-lab scale
  pascaline-lab scale --levels 32,32,64 --bytes 4KiB --json
  pascaline-lab scale --levels 16,16 --loss 0.1")]
pub(crate) struct ScaleArgs {
    /// Ranks of each appliance, level by level from the root, each at most 64; the last ones are workers
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', default_value = "8,8,16")]
    levels: Vec<u16>,
    /// Size of the tensor, a multiple of 4
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "4KiB")]
    bytes: usize,
    /// Payload bytes of a packet, a multiple of 8
    #[arg(long, value_name = "N", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u16).range(8..=8960))]
    payload: u16,
    /// Allreduces of each worker
    #[arg(long, value_name = "N", default_value_t = 3)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    iterations: u16,
    /// How far a worker may run ahead
    #[arg(long, value_name = "N", default_value_t = 64)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=4096))]
    window: u16,
    /// Gbit/s of each worker's link
    #[arg(long, value_name = "R", default_value_t = 10)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=800))]
    gbps: u64,
    /// Gbit/s of each appliance's port
    #[arg(long, value_name = "R", default_value_t = 100)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=800))]
    port_gbps: u64,
    /// All workers begin to join within this time
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "100ms")]
    starts: Duration,
    /// Packets lost at each appliance's port, in percent, each way
    #[arg(long, value_name = "PERCENT", default_value_t = 0.0)]
    loss: f64,
    /// Seed of the joining times and of losses
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl ScaleArgs {
    fn setting(&self) -> anyhow::Result<Setting> {
        ensure!(
            (0.0..=10.0).contains(&self.loss),
            "--loss {}: not a percentage from 0 to 10\n  remedy: e.g. --loss 0.1",
            self.loss
        );
        check_sizes(self.bytes, self.payload)?;
        check_time("--starts", self.starts)?;
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "0 to 100,000")]
        let loss_per_million = (self.loss * 10_000.0).round() as u32;
        let setting = Setting {
            seed: self.seed,
            levels: self.levels.clone(),
            gbps: self.gbps,
            port_gbps: self.port_gbps,
            propagation: Duration::from_micros(5),
            loss_per_million,
            payload: self.payload,
            bytes: self.bytes,
            operations: self.iterations.into(),
            window: self.window,
            starts: self.starts,
            ends: self.starts + Duration::from_secs(60),
        };
        setting.workers().with_context(|| {
            let levels = self.levels.iter().map(u16::to_string).collect::<Vec<_>>().join(",");
            format!(
                "--levels {levels}: no tree of at most 16,384 appliances with 1 to {MOST_RANKS} ranks each\n\
                 \x20 remedy: fewer ranks and more levels, e.g. --levels 32,32,64"
            )
        })?;
        Ok(setting)
    }
}

/// Runs the command.
pub(crate) fn scale(args: &ScaleArgs) -> anyhow::Result<ExitCode> {
    let setting = args.setting()?;
    let workers = setting.workers().unwrap_or(0);
    let bar = ProgressBar::new(2 * workers as u64);
    bar.set_style(ProgressStyle::with_template("{bar:30} {msg} {elapsed}")?);
    let outcome = run(&setting, &mut |joined, done| {
        bar.set_position((joined + done) as u64);
        bar.set_message(format!("{joined} of {workers} joined, {done} done"));
    })
    .context("no appliances can serve this tree")?;
    bar.finish_and_clear();
    if args.json {
        println!("{}", in_json(&outcome));
    } else {
        print!("{}", in_words(&setting, &outcome));
    }
    ensure!(outcome.wrong == 0, "{} elements of the sums were wrong", outcome.wrong);
    ensure!(
        outcome.operations.len() == setting.operations,
        "all workers completed only {} of {} allreduces within {:?} of virtual time",
        outcome.operations.len(),
        setting.operations,
        outcome.ended
    );
    Ok(ExitCode::SUCCESS)
}

fn in_json(outcome: &Outcome) -> serde_json::Value {
    let level = |level: &Level| {
        json!({ "appliances": level.appliances, "ranks": level.ranks,
                "joining_received": level.joining.0, "joining_sent": level.joining.1,
                "joining_peak_per_ms": level.joining_peak, "received": level.summing.0,
                "sent": level.summing.1, "control": level.control, "packets_held": level.held })
    };
    json!({ "workers": outcome.workers, "joined_seconds": outcome.joined.map(|joined| joined.as_secs_f64()),
            "seconds": outcome.operations.iter().map(Duration::as_secs_f64).collect::<Vec<_>>(),
            "wrong": outcome.wrong, "resent": outcome.resent, "events": outcome.events,
            "levels": outcome.levels.iter().map(level).collect::<Vec<_>>() })
}

fn in_words(setting: &Setting, outcome: &Outcome) -> String {
    let mut text = format!("{} workers; ", outcome.workers);
    text += &outcome.joined.map_or("not all of them joined".to_owned(), |joined| {
        format!("all had joined after {:.0} ms", 1e3 * joined.as_secs_f64())
    });
    let times: Vec<String> =
        outcome.operations.iter().map(|time| format!("{:.2}", 1e3 * time.as_secs_f64())).collect();
    text += &format!(
        "\n{} bytes each, the slowest worker: {} ms; {} contributions sent again\n\n",
        setting.bytes,
        times.join(", "),
        outcome.resent
    );
    text += "the busiest appliance of a level    joining: received    sent  most in 1 ms    \
             summing: received    sent  control  packets held\n";
    for level in &outcome.levels {
        let Level { appliances, ranks, joining, joining_peak, summing, control, held } = level;
        text += &format!(
            "{appliances:>6} with {ranks:>4} ranks {:>30} {:>7} {joining_peak:>13} {:>20} {:>7} {control:>8} \
             {held:>13}\n",
            joining.0, joining.1, summing.0, summing.1
        );
    }
    text
}

#[cfg(test)]
mod tests;
