//! `pascaline verify`: objectives on the age of models, proven or refuted before anything runs.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use pascaline_verifier::{Model, Options, Scenario, Verdict, picture, verify_with};

/// Verify objectives on the age of the models of clusters that share a queue
///
/// The file says which clusters there are, how often they send, what the queue is like, and what has to hold
/// of the ages of their models: docs/verification.md has the format, examples/verify/ has examples. What is
/// determined is evaluated event by event with the shipping queue, without rounding. Where phases, periods or
/// the coins of transmission control are open, Z3 (the program `z3`, or that of PASCALINE_Z3) proves the
/// objective or finds a counterexample. Exit code 0: every query holds; 1: one fails, or the model is
/// vacuous; 2: the file or the solver cannot be used; 3: the time limit.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pascaline verify examples/verify/fairness.toml
  pascaline verify examples/verify/starved.toml --json --picture starved.svg
  pascaline verify examples/verify/fairness.toml --model paper")]
pub(super) struct VerifyArgs {
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
    /// The longest that all queries may take together
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = humantime::parse_duration)]
    time_limit: Duration,
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
pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let model = match args.model {
        Constraints::Olaf => Model::Olaf,
        Constraints::Paper => Model::Paper,
    };
    let options = Options { model, time_limit: args.time_limit };
    let mut asked = Vec::new();
    let verified =
        Scenario::load(&args.file).and_then(|scenario| verify_with(&scenario, &options, &mut asked));
    if let Some(path) = &args.smt {
        let text = asked.join("(reset)\n");
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let report = match verified {
        Ok(report) => report,
        Err(error) => {
            eprintln!("pascaline: {error}");
            return Ok(ExitCode::from(error.exit_code()));
        }
    };
    if let Some(path) = &args.picture {
        match picture(&report) {
            Some(svg) => {
                std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))?;
            }
            None => eprintln!("pascaline: no query has an example that could be drawn"),
        }
    }
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("{report}");
    }
    Ok(ExitCode::from(u8::from(report.verdict != Verdict::Holds)))
}
