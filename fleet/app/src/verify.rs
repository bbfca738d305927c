//! `pascaline-fleet verify`: objectives on the age of models, proven or refuted before anything runs.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, ValueEnum};
use pascaline_shared::{eprintln, println};
use pascaline_verifier::{
    Model, Options, Outcome, Report, Scenario, Verdict, VerifyError, picture, verify, verify_with,
};

/// Verify objectives on the age of the models of clusters that share a queue
///
/// The file says which clusters there are, how often they send, what the queue is like, and what has to hold
/// of the ages of their models: docs/verification.md has the format, clients/examples/verify/ has examples. A
/// model without open choices is evaluated event by event with the shipping queue, without rounding. Where
/// phases, periods or the coins of transmission control are open, Z3 (the program `z3`, or that of
/// PASCALINE_Z3) proves the objective or finds a counterexample. Exit code 0: every query holds; 1: one
/// fails, or the model is vacuous; 2: the file or the solver cannot be used, or what was asked for cannot be
/// written; 3: no verdict within the time limit.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pascaline-fleet verify clients/examples/verify/fairness.toml
  pascaline-fleet verify clients/examples/verify/starved.toml --json --picture starved.svg
  pascaline-fleet verify clients/examples/verify/fairness.toml --model paper")]
pub(crate) struct VerifyArgs {
    /// The file
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Draw the (counter)example: ages and updates over time, as SVG
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
    /// The queue that is shipped, or the constraints that Olaf's sections 12.2 and 12.3 print
    #[arg(long, value_enum, default_value_t = Constraints::Olaf)]
    model: Constraints,
    /// The longest that all queries may take together, a week at most
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    time_limit: Duration,
    /// The most updates up to the horizon, which take the memory
    #[arg(long, value_name = "N", default_value_t = Options::default().updates)]
    updates: u64,
    /// Write what the solver is asked, in SMT-LIB 2
    #[arg(long, value_name = "FILE.smt2")]
    smt: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Constraints {
    Olaf,
    Paper,
}

/// Carries it out.
pub(crate) fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let model = match args.model {
        Constraints::Olaf => Model::Olaf,
        Constraints::Paper => Model::Paper,
    };
    let options = Options { model, time_limit: args.time_limit, updates: args.updates };
    let mut asked = Vec::new();
    let (scenario, verified) = match Scenario::load(&args.file) {
        Ok(scenario) => {
            let verified = match &args.smt {
                Some(_) => verify_with(&scenario, &options, &mut asked),
                None => verify(&scenario, &options),
            };
            (Some(scenario), verified)
        }
        Err(error) => (None, Err(error)),
    };
    // The verdict first: it is printed even if a file cannot be written.
    if args.json {
        println!("{}", serde_json::to_string(&Outcome::new(scenario.as_ref(), &verified))?);
    }
    let code = match &verified {
        Ok(report) => {
            if !args.json {
                println!("{report}");
            }
            u8::from(report.verdict != Verdict::Holds)
        }
        Err(error) => {
            eprintln!("pascaline-fleet: {error}");
            error.exit_code()
        }
    };
    let smt = args.smt.as_ref().is_none_or(|path| written(path, &asked.join("(reset)\n")));
    let drawn = args.picture.as_ref().is_none_or(|path| drawn(path, &verified));
    Ok(ExitCode::from(if smt && drawn { code } else { 2 }))
}

/// Draws the example, if any; false if the file cannot be written.
fn drawn(path: &Path, verified: &Result<Report, VerifyError>) -> bool {
    let Ok(report) = verified else { return true };
    if let Some(svg) = picture(report) {
        return written(path, &svg);
    }
    eprintln!("pascaline-fleet: no query has an example that could be drawn");
    true
}

/// Writes a file, or prints the error.
fn written(path: &Path, text: &str) -> bool {
    let result = std::fs::write(path, text);
    if let Err(error) = &result {
        eprintln!("pascaline-fleet: cannot write {}: {error}", path.display());
    }
    result.is_ok()
}
