//! `pascaline-fleet`: commands for many appliances. None is on a packet path.
#![forbid(unsafe_code)]

mod controller;
mod plan;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use pascaline_controller::ConfigError;
use pascaline_shared::{eprintln, manual, output};
use tracing_subscriber::EnvFilter;

/// Many appliances of Pascaline, an in-network aggregator: trees for jobs, routes, proofs
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:
  pascaline-fleet plan clients/examples/plans/appliances.json
  pascaline-fleet verify clients/examples/verify/fairness.toml
  pascaline-fleet controller --check -c conf/controller.toml

Environment:
  RUST_LOG       what is logged, e.g. RUST_LOG=debug (default: info)
  PASCALINE_Z3   the solver that `verify` asks (default: z3)"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Controller(controller::ControllerArgs),
    Plan(plan::PlanArgs),
    Verify(verify::VerifyArgs),
    #[command(after_help = "Example:\n  source <(pascaline-fleet completions zsh)")]
    Completions(manual::CompletionsArgs),
    #[command(after_help = "Example:\n  pascaline-fleet man | man -l -")]
    Man(manual::ManArgs),
}

fn main() -> ExitCode {
    output::run("pascaline-fleet", carry_out)
}

fn carry_out() -> ExitCode {
    let cli: Cli = output::parsed();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logging = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    logging.with_target(false).log_internal_errors(false).init();
    let outcome = match &cli.command {
        Command::Controller(args) => controller::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Verify(args) => verify::run(args),
        Command::Completions(args) => manual::completions(args, Cli::command()),
        Command::Man(args) => manual::man(args, Cli::command()),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("pascaline-fleet: {error:#}");
        ExitCode::from(if error.is::<ConfigError>() { 2 } else { 1 })
    })
}
