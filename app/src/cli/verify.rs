//! `pascaline verify`: objectives on the age of models, proven or refuted before anything runs.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use clap::Args;
use pascaline_verifier::{Scenario, Verdict, picture, verify};

/// Verify objectives on the age of the models of clusters that share a queue
///
/// The file says which clusters there are, how often they send, what the queue is like, and what has to hold
/// of the ages of their models: docs/verification.md has the format, examples/verify/ has examples. It is
/// evaluated event by event with the shipping queue, without rounding. Exit code 0: every query holds; 1: one
/// fails; 2: the file cannot be used.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pascaline verify examples/verify/fairness.toml
  pascaline verify examples/verify/starved.toml --json --picture starved.svg")]
pub(super) struct VerifyArgs {
    /// The file
    file: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Draw the (counter)example: ages and updates over time, as SVG
    #[arg(long, value_name = "FILE.svg")]
    picture: Option<PathBuf>,
}

/// Carries it out.
pub(super) fn run(args: &VerifyArgs) -> anyhow::Result<ExitCode> {
    let verified = Scenario::load(&args.file).and_then(|scenario| verify(&scenario));
    let report = match verified {
        Ok(report) => report,
        Err(error) => {
            eprintln!("pascaline: {error}");
            return Ok(ExitCode::from(error.exit_code()));
        }
    };
    if let Some(path) = &args.picture {
        let svg = picture(&report).context("no query has an example that could be drawn")?;
        std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("{report}");
    }
    Ok(ExitCode::from(u8::from(report.verdict != Verdict::Holds)))
}
