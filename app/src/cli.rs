//! The command line: what each subcommand takes, and who carries it out.

pub(crate) mod doctor;
mod init;
mod worker;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use pascaline_shared::{eprintln, manual, output, print, println};
use tracing_subscriber::EnvFilter;

use crate::admin::{client as explain, command};
use crate::config::{Config, ConfigError};
use crate::observe::top;
use crate::{appliance, left_out, parameter_server};
pub use worker::parse::{controls, duration, size};

/// An in-network aggregator: sums the gradients of N workers while they cross the network
#[derive(Debug, Parser)]
#[command(
    version,
    after_help = "Examples:
  pascaline check conf/appliance.toml
  pascaline run -c conf/appliance.toml
  pascaline ps -c conf/appliance.toml
  pascaline top
  pascaline worker allreduce --appliance 10.77.0.254:16420 --job 1 --rank 0 --ranks 4 --bytes 16MiB

Many appliances: pascaline-fleet has controller, plan and verify.
Benches, plots, experiments, impair and fuzz-protocol are commands of pascaline-lab.

Environment:
  RUST_LOG   what is logged, e.g. RUST_LOG=debug (default: info)"
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run an appliance until SIGTERM or SIGINT
    ///
    /// SIGTERM lets aggregates in progress finish (`drain` in the configuration), then exits with 0. SIGHUP
    /// puts the file's jobs and limits in force as they are now, without touching the traffic of other jobs.
    /// Exit code 2: the configuration cannot be put to use; 1: something failed later, or is not there yet:
    /// an interface, a card, hugepages, an address to listen on.
    #[command(after_help = "Example:\n  pascaline run -c conf/appliance.toml")]
    Run {
        /// The configuration file
        #[arg(short, long, value_name = "FILE")]
        config: PathBuf,
    },
    Ps(parameter_server::PsArgs),
    /// Check a configuration file without touching any device
    ///
    /// Refuses what `run` would refuse on this machine: keys and values, cores, memory, the files of the
    /// admin API; whether devices are there, `pascaline doctor` says. Prints what the configuration amounts
    /// to: ports, memory, how each job uses the pool, the parameter server. Exit code 0: it is fine; 1: it
    /// can be run, but `verify` refuses jobs; 2: it cannot, and the error names line, column and remedy.
    #[command(after_help = "Examples:
  pascaline check conf/appliance.toml
  pascaline check --elsewhere appliance.toml    # a file for another machine
  pascaline check --convert old.toml >new.toml  # a file from before jobs had kinds")]
    Check {
        /// The configuration file
        file: PathBuf,
        /// Print the file with its jobs in today's words, and check nothing
        #[arg(long, conflicts_with = "elsewhere")]
        convert: bool,
        /// The file is for another machine: do not look at this one's cores, memory and files, that of
        /// `verify` included
        #[arg(long)]
        elsewhere: bool,
    },
    /// Be a worker
    #[command(
        subcommand,
        after_help = "Examples:
  pascaline worker allreduce --appliance 10.77.0.254:16420 --job 1 --rank 0 --ranks 4 --bytes 16MiB
  pascaline worker bench --appliance 10.77.0.254 --job 1 --rank 0 --ranks 1
  pascaline worker command halt wait=2s reset --appliance 10.77.0.254 --job 1 --rank 3 --ranks 4
  pascaline worker olaf --appliance 10.77.0.254:16420 --job 2 --rank 0 --ranks 3 --interval 100ms
  pascaline worker iswitch --appliance 10.77.0.254:16420 --job 3 --rank 0 --ranks 4 --staleness 3
  pascaline worker switchml --controller 192.0.2.1:50099 --rank 0 --ranks 4 --bind 10.77.0.1"
    )]
    Worker(Box<WorkerCommand>),
    Explain(explain::ExplainArgs),
    Job(command::JobArgs),
    Doctor(doctor::DoctorArgs),
    Init(init::InitArgs),
    Top(top::TopArgs),
    Completions(manual::CompletionsArgs),
    Man(manual::ManArgs),
    #[command(hide = true)]
    Controller(left_out::Ignored),
    #[command(hide = true)]
    Plan(left_out::Ignored),
    #[command(hide = true)]
    Verify(left_out::Ignored),
}

#[derive(Debug, Subcommand)]
enum WorkerCommand {
    Allreduce(worker::AllreduceArgs),
    Bench(worker::BenchArgs),
    Command(worker::CommandArgs),
    Iswitch(worker::IswitchArgs),
    Olaf(worker::OlafArgs),
    #[cfg(feature = "switchml")]
    Switchml(worker::SwitchmlArgs),
    /// Not in this build: allreduce by SwitchML's UDP protocol
    #[cfg(not(feature = "switchml"))]
    Switchml(left_out::Ignored),
}

/// Parses the command line and carries it out.
pub fn main() -> ExitCode {
    output::run("pascaline", carry_out)
}

fn carry_out() -> ExitCode {
    let cli: Cli = output::parsed();
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let logging = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    logging.with_target(false).log_internal_errors(false).init();
    let outcome = match &cli.command {
        Command::Run { config } => appliance::run(config),
        Command::Ps(args) => parameter_server::run(args),
        Command::Check { file, convert: true, .. } => convert(file),
        Command::Check { file, elsewhere, .. } => check(file, *elsewhere),
        Command::Worker(command) => match &**command {
            WorkerCommand::Allreduce(args) => worker::allreduce(args),
            WorkerCommand::Bench(args) => worker::bench(args),
            WorkerCommand::Command(args) => worker::command(args),
            WorkerCommand::Iswitch(args) => worker::iswitch(args),
            WorkerCommand::Olaf(args) => worker::olaf(args),
            #[cfg(feature = "switchml")]
            WorkerCommand::Switchml(args) => worker::switchml(args),
            #[cfg(not(feature = "switchml"))]
            WorkerCommand::Switchml(_) => Err(left_out::LeftOut(left_out::SWITCHML).into()),
        },
        Command::Explain(args) => explain::explain(args),
        Command::Job(args) => command::job(args),
        Command::Doctor(args) => doctor::run(args),
        Command::Init(args) => init::run(args),
        Command::Top(args) => top::run(args),
        Command::Completions(args) => manual::completions(args, Cli::command()),
        Command::Man(args) => manual::man(args, Cli::command()),
        Command::Controller(given) => return left_out::moved("controller", given),
        Command::Plan(given) => return left_out::moved("plan", given),
        Command::Verify(given) => return left_out::moved("verify", given),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("pascaline: {error:#}");
        let wrong_file = error.downcast_ref::<ConfigError>().is_some_and(|error| {
            // A later start may succeed.
            !(error.is_not_yet() && matches!(cli.command, Command::Run { .. }))
        });
        ExitCode::from(if wrong_file || error.is::<left_out::LeftOut>() { 2 } else { 1 })
    })
}

fn convert(file: &std::path::Path) -> anyhow::Result<ExitCode> {
    print!("{}", Config::converted(file)?);
    Ok(ExitCode::SUCCESS)
}

fn check(file: &std::path::Path, elsewhere: bool) -> anyhow::Result<ExitCode> {
    let (config, warnings) = if elsewhere {
        let config = Config::load_elsewhere(file)?;
        let unread = |file: &PathBuf| format!("verify: {} was not read", file.display());
        let warnings = config.verified.iter().map(unread).chain(config.warnings()).collect();
        (config, warnings)
    } else {
        let config = Config::load(file)?;
        let warnings = appliance::fits(&config)?;
        (config, warnings)
    };
    let refused = config.jobs.iter().any(|job| job.spec.refused.is_some());
    let verdict = if refused { "can be run, but jobs are refused" } else { "ok" };
    print!("{}: {verdict}: {config}", file.display());
    warnings.iter().for_each(|warning| println!("  warning: {warning}"));
    Ok(if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}
