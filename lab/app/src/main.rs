//! `pascaline-lab`: benches, experiments in virtual time, the fault harness, plots, and a wire that loses
//! frames.
#![forbid(unsafe_code)]

mod bench;
mod experiments;
mod fuzz_protocol;
mod impair;
mod paper;
mod plot;
mod predict;
mod scale;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use pascaline_shared::{eprintln, manual, output};
use tracing_subscriber::EnvFilter;

/// The laboratory of Pascaline, an in-network aggregator: benches, simulations, plots and fault injection
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:
  pascaline-lab bench pool
  pascaline-lab fuzz-protocol --seed 1 --runs 100000
  pascaline-lab paper aro-fig-7a
  pascaline-lab impair --left w0 --right a0 --loss 1 --seed 7

Environment:
  RUST_LOG   what is logged, e.g. RUST_LOG=debug (default: info)"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    #[command(
        subcommand,
        after_help = "Examples:\n  pascaline-lab bench pool\n  pascaline-lab bench pipeline --json"
    )]
    Bench(bench::BenchCommand),
    #[command(subcommand)]
    Plot(plot::PlotCommand),
    Impair(impair::ImpairArgs),
    Paper(paper::PaperArgs),
    Predict(predict::PredictArgs),
    Scale(scale::ScaleArgs),
    FuzzProtocol(fuzz_protocol::FuzzArgs),
    #[command(after_help = "Example:\n  source <(pascaline-lab completions zsh)")]
    Completions(manual::CompletionsArgs),
    #[command(after_help = "Example:\n  pascaline-lab man | man -l -")]
    Man(manual::ManArgs),
}

fn main() -> ExitCode {
    output::run("pascaline-lab", carry_out)
}

fn carry_out() -> ExitCode {
    let cli: Cli = output::parsed();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logging = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    logging.with_target(false).log_internal_errors(false).init();
    let outcome = match &cli.command {
        Command::Bench(command) => bench::run(command),
        Command::Plot(command) => plot::run(command),
        Command::Impair(args) => impair::run(args),
        Command::Paper(args) => paper::run(args),
        Command::Predict(args) => predict::predict(args),
        Command::Scale(args) => scale::scale(args),
        Command::FuzzProtocol(args) => fuzz_protocol::run(args),
        Command::Completions(args) => manual::completions(args, Cli::command()),
        Command::Man(args) => manual::man(args, Cli::command()),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("pascaline-lab: {error:#}");
        ExitCode::FAILURE
    })
}
