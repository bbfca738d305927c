//! `pascaline-lab paper`: the papers' tables and figures, made by the code that ships, beside their numbers.

mod aro;

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use serde_json::json;

/// Make a table or figure of a paper, and compare it with what the paper prints
///
/// Each row has the figure's own measure, the mean over the seeds and its standard error, the paper's number
/// where its text prints one, the deviation, and the reason of one above 10 %.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pascaline-lab paper aro-fig-7a
  pascaline-lab paper aro-fig-8 --seeds 5 --json
  pascaline-lab paper aro-fig-11 --quick")]
pub(crate) struct PaperArgs {
    /// Which one
    what: What,
    /// How many seeds
    #[arg(long, value_name = "N", default_value_t = 30)]
    seeds: u64,
    /// Few seeds and points
    #[arg(long)]
    quick: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum What {
    /// ARO, one job, one task: throughput of each method
    #[value(name = "aro-fig-7a")]
    AroFig7a,
    /// The same by the part of switches that add
    #[value(name = "aro-fig-7b")]
    AroFig7b,
    /// The same by the number of workers
    #[value(name = "aro-fig-7c")]
    AroFig7c,
    /// The same by the number of pipelines
    #[value(name = "aro-fig-8")]
    AroFig8,
    /// One job with one to four tasks: smallest rate and total
    #[value(name = "aro-fig-9")]
    AroFig9,
    /// One to four jobs with two tasks each: smallest job and total
    #[value(name = "aro-fig-10")]
    AroFig10,
    /// Large networks: throughput and the time to plan
    #[value(name = "aro-fig-11")]
    AroFig11,
}

/// One line of a table.
pub(crate) struct Row {
    /// What varies, and its value.
    pub(crate) point: String,
    /// Method or measure.
    pub(crate) name: String,
    pub(crate) mean: f64,
    pub(crate) error: f64,
    /// What the paper's text prints.
    pub(crate) paper: Option<f64>,
    pub(crate) unit: &'static str,
    /// Why they differ.
    pub(crate) reason: &'static str,
}

impl Row {
    /// The mean of values and its standard error.
    pub(crate) fn of(point: String, name: String, values: &[f64], unit: &'static str) -> Self {
        let count = values.len().max(1) as f64;
        let mean = values.iter().sum::<f64>() / count;
        let variance =
            values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
        Self { point, name, mean, error: (variance / count).sqrt(), paper: None, unit, reason: "" }
    }
}

pub(crate) fn run(args: &PaperArgs) -> anyhow::Result<ExitCode> {
    let seeds = if args.quick { args.seeds.min(3) } else { args.seeds.max(1) };
    let rows = match args.what {
        What::AroFig7a => aro::default_setting(seeds)?,
        What::AroFig7b => aro::by_adding(seeds, args.quick)?,
        What::AroFig7c => aro::by_workers(seeds, args.quick)?,
        What::AroFig8 => aro::by_pipelines(seeds)?,
        What::AroFig9 => aro::tasks(seeds)?,
        What::AroFig10 => aro::jobs(seeds)?,
        What::AroFig11 => aro::large(seeds, args.quick)?,
    };
    let name = args.what.to_possible_value().map_or(String::new(), |value| value.get_name().to_owned());
    if args.json {
        let rows = rows.iter().map(|row| {
            let deviation = row.paper.map(|paper| row.mean / paper - 1.0);
            json!({ "point": row.point, "name": row.name, "mean": row.mean, "error": row.error,
                    "unit": row.unit,
                    "paper": row.paper, "deviation": deviation, "reason": row.reason })
        });
        println!("{}", json!({ "figure": name, "seeds": seeds, "rows": rows.collect::<Vec<_>>() }));
        return Ok(ExitCode::SUCCESS);
    }
    println!(
        "{name}, {seeds} seeds: mean ± standard error, beside the paper's number where its text has one"
    );
    for row in &rows {
        let paper = row.paper.map_or(String::new(), |paper| {
            format!("  paper {paper}, {:+.1} %", (row.mean / paper - 1.0) * 100.0)
        });
        let (point, name, unit) = (&row.point, &row.name, row.unit);
        println!("  {point:<28} {name:<14} {:>9.3} ± {:<7.3} {unit}{paper}", row.mean, row.error);
        if !row.reason.is_empty() {
            println!("  {:<28} {}", "", row.reason);
        }
    }
    Ok(ExitCode::SUCCESS)
}
