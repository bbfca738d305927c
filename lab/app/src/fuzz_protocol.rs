//! `pascaline-lab fuzz-protocol`: random schedules of faults against real workers and the real appliance.

use std::io::Write as _;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use pascaline_shared::eprintln;
use pascaline_shared::output::Stdout;
use pascaline_sim::{Campaign, Cell, Fault, Reach, Report, Sabotage, Shape, shaped_schedule};
use serde_json::{Map, Value, json};

/// Schedules of each cell, if nothing else is asked for.
const EACH: u64 = 500;

/// Inject faults into workers and appliance, and check every sum
///
/// Runs the real worker and the real packet path, without ports and in virtual time, through random
/// schedules: one to three jobs, a tiny pool, and an adversary that loses, duplicates, delays, reorders,
/// corrupts and cuts off frames, takes links down, exhausts buffers, restarts the appliance, kills and
/// restarts workers, stops any part for a while, skews clocks and restarts a parameter server. A
/// finished allreduce must have the exact sum; an unfinished one must have a typed error by its deadline and
/// a reason for it; every packet and buffer must be accounted for. Everything follows from the seed.
#[derive(Debug, Clone, clap::Args)]
#[command(after_help = "Examples:
  A hundred thousand schedules on all cores:
    pascaline-lab fuzz-protocol --seed 1 --runs 100000

  An appliance with a backup:
    pascaline-lab fuzz-protocol --backup --runs 20000

  Sealed packets, and an attacker who replays, changes, cuts and splices them:
    pascaline-lab fuzz-protocol --sealed --runs 100000

  One job over three trees:
    pascaline-lab fuzz-protocol --trees 3 --runs 20000

  Every kind of job that a configuration can express, each in 500 schedules:
    pascaline-lab fuzz-protocol --cells --json

  The events of one schedule, by the seed that a report names:
    pascaline-lab fuzz-protocol --seed 4711 --runs 1 --verbose

  Machine-readable output:
    pascaline-lab fuzz-protocol --runs 10000 --json

Exit status: 0 if all schedules hold; 1 if one violates an invariant: its seed and its last events are on
standard error.")]
pub(crate) struct FuzzArgs {
    /// Seed of the first schedule; the following ones have the next numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of schedules [default: 10000, or 500 for each cell]
    #[arg(long)]
    runs: Option<u64>,
    /// Levels of appliances; 2 and 3 run one job below a tree of appliances
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    levels: u8,
    /// Run one job at an appliance with a backup; either is killed, stopped or cut off
    #[arg(long, conflicts_with = "levels")]
    backup: bool,
    /// Seal the packets of all jobs for which that is possible, with an attacker on their path
    #[arg(long, conflicts_with_all = ["levels", "backup"])]
    sealed: bool,
    /// Run one job over this many trees, of an appliance each
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    #[arg(conflicts_with_all = ["levels", "backup", "sealed", "cells"])]
    trees: u8,
    /// Run every combination that a configuration can express: kinds of jobs with their choices, lcores,
    /// levels; fails if one got no schedule
    #[arg(long, conflicts_with_all = ["levels", "backup", "sealed"])]
    cells: bool,
    /// Run one of these combinations, by its name in `--cells --list`
    #[arg(long, value_name = "NAME", value_parser = cell)]
    #[arg(conflicts_with_all = ["levels", "backup", "sealed", "trees", "cells"])]
    cell: Option<usize>,
    /// Print the cells, and run nothing
    #[arg(long, requires = "cells")]
    list: bool,
    /// Threads [default: one for each core]
    #[arg(long, value_name = "T")]
    jobs: Option<usize>,
    /// Print the outcome as one JSON object on standard output
    #[arg(long)]
    json: bool,
    /// Print every event on standard error; for single schedules
    #[arg(long)]
    verbose: bool,
}

impl FuzzArgs {
    fn shape(&self) -> Shape {
        match (self.cell, self.cells, self.backup) {
            (Some(number), ..) => Shape::Cell(number),
            (_, true, _) => Shape::Cells,
            (_, _, true) => Shape::Backup,
            _ if self.sealed => Shape::Sealed,
            _ if self.trees > 1 => Shape::Trees(self.trees.into()),
            _ => Shape::Levels(self.levels.into()),
        }
    }

    /// The words that choose a seed's shape, whatever cells are added.
    fn shape_again(&self, seed: u64) -> String {
        let shape = self.shape();
        match (shape.cell_of(seed), shape) {
            (Some(number), _) => format!("--cell '{}' ", Cell::all()[number]),
            (None, Shape::Backup) => "--backup ".to_owned(),
            (None, Shape::Sealed) => "--sealed ".to_owned(),
            (None, Shape::Trees(trees)) => format!("--trees {trees} "),
            (None, Shape::Levels(levels)) if levels > 1 => format!("--levels {levels} "),
            (None, _) => String::new(),
        }
    }

    /// The cells of the schedules that were asked for, and how many each got.
    fn counts<'a>(&self, report: &'a Report) -> impl Iterator<Item = (Cell, u64)> + use<'a> {
        let only = self.cell;
        let all = Cell::all().into_iter().zip(report.cells.iter().copied()).enumerate();
        all.filter(move |(number, _)| only.is_none_or(|only| only == *number)).map(|(_, counted)| counted)
    }

    fn runs(&self) -> u64 {
        self.runs.unwrap_or_else(|| match self.shape() {
            Shape::Cells => EACH * Cell::all().len() as u64,
            Shape::Cell(_) => EACH,
            Shape::Levels(_) | Shape::Backup | Shape::Sealed | Shape::Trees(_) => 10_000,
        })
    }
}

/// The number of the cell with a name.
fn cell(name: &str) -> Result<usize, String> {
    let number = Cell::all().iter().position(|cell| cell.to_string() == name);
    number.ok_or_else(|| "no such cell; `--cells --list` names all".to_owned())
}

/// Runs the command.
///
/// # Errors
/// If the outcome cannot be written to standard output.
pub(crate) fn run(args: &FuzzArgs) -> anyhow::Result<ExitCode> {
    if args.list {
        let mut out = Stdout;
        for cell in Cell::all() {
            writeln!(out, "{cell}")?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let report = if args.verbose { run_verbosely(args) } else { run_campaign(args)? };
    for finding in &report.findings {
        eprintln!("seed {}: {}", finding.seed, finding.violation);
        finding.trace.iter().for_each(|line| eprintln!("    {line}"));
        let shape = args.shape_again(finding.seed);
        eprintln!("    again: pascaline-lab fuzz-protocol {shape}--seed {} --runs 1 --verbose", finding.seed);
    }
    let mut out = Stdout;
    if args.json {
        writeln!(out, "{}", object(args, &report))?;
    } else {
        writeln!(out, "{report}")?;
        if let Some(least) = args.counts(&report).map(|(_, n)| n).min() {
            writeln!(out, "{} cells, {least} schedules or more of each", args.counts(&report).count())?;
        }
    }
    // Fewer schedules than cells are there to look at a few.
    let whole = !args.verbose && report.schedules >= args.counts(&report).count() as u64;
    let missed = args.counts(&report).find(|(_, n)| whole && *n == 0);
    if let Some((cell, _)) = missed {
        eprintln!("no schedule was of this cell: {cell}");
    }
    Ok(if report.violations == 0 && missed.is_none() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn run_campaign(args: &FuzzArgs) -> anyhow::Result<Report> {
    let threads = args.jobs.or_else(|| Some(available_parallelism().ok()?.get())).unwrap_or(1);
    let (shape, runs, seed) = (args.shape(), args.runs(), args.seed);
    let campaign = Campaign { shape, seed, runs, threads, sabotage: Sabotage::None };
    // Not shown unless standard error is a terminal.
    let bar = ProgressBar::new(runs).with_style(ProgressStyle::with_template(
        "{elapsed_precise} {wide_bar} {pos}/{len} schedules, {per_sec}, eta {eta} {msg}",
    )?);
    bar.enable_steady_tick(Duration::from_secs(1));
    let report = campaign.run(&|schedules, violations| {
        bar.inc(schedules);
        if violations > 0 {
            bar.set_message("VIOLATIONS FOUND");
        }
    });
    bar.finish_and_clear();
    Ok(report)
}

/// Runs one schedule after the other and prints each in full.
fn run_verbosely(args: &FuzzArgs) -> Report {
    let began = std::time::Instant::now();
    let mut total = Report::default();
    for number in 0..args.runs() {
        let seed = args.seed.wrapping_add(number);
        eprintln!("seed {seed}");
        total.merge(shaped_schedule(
            args.shape(),
            seed,
            Sabotage::None,
            Some(&mut |line| eprintln!("    {line}")),
        ));
    }
    total.elapsed = began.elapsed();
    total
}

fn object(args: &FuzzArgs, report: &Report) -> Value {
    let faults: Map<String, Value> =
        Fault::ALL.iter().map(|&fault| (fault.key().to_owned(), report.faults.get(fault).into())).collect();
    let reached: Map<String, Value> =
        Reach::ALL.iter().map(|&reach| (reach.key().to_owned(), report.reached.get(reach).into())).collect();
    let mut told = json!({
        "schedules": report.schedules,
        "faults": faults,
        "faults_injected": report.faults.total(),
        "reached": reached,
        "finished": report.finished,
        "failed": report.failed,
        "violations": report.violations,
        "seconds": report.elapsed.as_secs_f64(),
        "events": report.events,
        "digest": format!("{:016x}", report.digest),
    });
    if let Some(least) = args.counts(report).map(|(_, n)| n).min() {
        told["cells"] = args.counts(report).count().into();
        told["least"] = least.into();
        told["schedules_of"] =
            args.counts(report).map(|(cell, n)| (cell.to_string(), n.into())).collect::<Map<_, _>>().into();
    }
    told
}
