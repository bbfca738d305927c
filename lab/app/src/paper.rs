//! `pascaline-lab paper`: the papers' tables and figures, made by the code that ships, next to their numbers.

mod aro;
mod draw;
mod dsa;
mod figure;
mod iswitch;
mod olaf;
mod panama;
mod report;
#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser};
use indicatif::{ProgressBar, ProgressStyle};
use pascaline_shared::{eprintln, println};
use rayon::prelude::*;

use figure::{Entry, Scope};
use report::Made;

/// Reproduce a table or figure of a paper, or all of them, and compare it with the printed numbers
///
/// Each row has the figure's own measure, the mean over the seeds and its standard error, the paper's number
/// where its text prints one, the deviation, and the reason for a deviation above 10 % (10 points of a
/// percentage). Rows that begin with "knob" vary a parameter that the paper does not state.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pascaline-lab paper olaf-table-1
  pascaline-lab paper dsa-fig-8 --quick --picture dsa-fig-8.svg
  pascaline-lab paper aro-fig-8 --seeds 5 --json
  pascaline-lab paper all --quick --out papers     # papers/report.md, report.html, report.json, *.svg")]
pub(crate) struct PaperArgs {
    /// Name of the figure
    #[arg(value_name = "NAME", value_parser = PossibleValuesParser::new(names()))]
    what: String,
    /// Number of seeds [default: the paper's, or as many as fit in 20 minutes for all figures]; rows that
    /// begin with "knob" may have fewer. Not for figures that are a single run
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: Option<u64>,
    /// Few seeds and points, small models
    #[arg(long)]
    quick: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    /// Draw the figure as SVG; with `all`, the report contains the pictures
    #[arg(long, value_name = "FILE")]
    picture: Option<PathBuf>,
    /// Directory for the report of `all`
    #[arg(long, value_name = "DIR", default_value = "papers")]
    out: PathBuf,
}

/// All figures and tables.
fn entries() -> impl Iterator<Item = &'static Entry> {
    let ours = olaf::FIGURES.iter().chain(&dsa::FIGURES);
    ours.chain(&iswitch::FIGURES).chain(&panama::FIGURES).chain(&aro::FIGURES)
}

fn names() -> Vec<PossibleValue> {
    let all = PossibleValue::new("all").help("All of the following, in one report");
    let each = entries().map(|entry| PossibleValue::new(entry.name).help(entry.about));
    core::iter::once(all).chain(each).collect()
}

pub(crate) fn run(args: &PaperArgs) -> anyhow::Result<ExitCode> {
    let bar = ProgressBar::new(0)
        .with_style(ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len} runs {msg}")?);
    let scope = Scope { seeds: args.seeds, quick: args.quick, bar };
    if args.what == "all" {
        return all(args, &scope);
    }
    let entry = entries().find(|entry| entry.name == args.what).context("no such figure")?;
    ensure!(
        entry.seeded || args.seeds.is_none(),
        "--seeds: {} is a single run that no seed changes\n  remedy: leave --seeds out",
        entry.name
    );
    let figure = (entry.make)(&scope)?;
    scope.bar.finish_and_clear();
    // The rows first: a failure to write the picture must not lose them.
    if args.json {
        println!("{}", figure.json(entry.name));
    } else {
        report::print(entry, &figure);
    }
    if let Some(path) = &args.picture {
        std::fs::write(path, draw::svg(&figure)?).with_context(|| format!("writing {}", path.display()))?;
    }
    ensure!(!figure.broken(), "{}: a number is missing", entry.name);
    Ok(ExitCode::SUCCESS)
}

fn all(args: &PaperArgs, scope: &Scope) -> anyhow::Result<ExitCode> {
    ensure!(args.picture.is_none(), "--picture is for a single figure: `all` draws every figure, into --out");
    // An error shows before the minutes that the figures take.
    report::make(&args.out)?;
    let began = Instant::now();
    let entries: Vec<&Entry> = entries().collect();
    let each = entries.par_iter().map(|&entry| {
        let began = Instant::now();
        let figure = (entry.make)(scope).with_context(|| entry.name)?;
        Ok(Made { entry, figure, took: began.elapsed() })
    });
    let (made, failed) = report_failures(each.collect());
    scope.bar.finish_and_clear();
    let json = report::json(&made, failed, args.quick, began.elapsed());
    if args.json {
        println!("{json}");
    } else {
        made.iter().for_each(|made| report::print(made.entry, &made.figure));
    }
    report::write(&args.out, &made, args.quick, &json)?;
    if !args.json {
        println!("{} in {:.0} s", args.out.join("report.html").display(), began.elapsed().as_secs_f64());
    }
    Ok(if json["broken"] == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The figures that were made and the number of those that failed; prints each failure and missing number.
fn report_failures(each: Vec<anyhow::Result<Made>>) -> (Vec<Made>, usize) {
    let all = each.len();
    let made: Vec<Made> = each
        .into_iter()
        .filter_map(|one| one.inspect_err(|error| eprintln!("pascaline-lab: {error:#}")).ok())
        .collect();
    for broken in made.iter().filter(|made| made.figure.broken()) {
        eprintln!("pascaline-lab: {}: a number is missing", broken.entry.name);
    }
    let failed = all - made.len();
    (made, failed)
}
