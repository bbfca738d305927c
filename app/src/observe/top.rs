//! `pascaline top`: the page, in a terminal.

mod fetch;
mod format;
mod interactive;
mod panels;
mod view;

use std::io::{IsTerminal as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::bail;
use clap::Args;

use self::fetch::Source;
use self::view::View;
use crate::http::client::Address;

/// Between two looks, unless told otherwise; the appliance samples as often.
const INTERVAL: &str = "500ms";
/// What `--once` draws, without a terminal to ask.
const ONCE: (u16, u16) = (120, 32);

/// Show in the terminal what an appliance is doing
///
/// The same as the appliance's page: traffic, jobs and their ranks, the pool, lcores, drops. Up and down
/// choose a job, space pauses, q quits. Exit code 1: the appliance cannot be reached.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pascaline top
  pascaline top --url http://10.0.0.7:9464
  pascaline top --once --json | jq '.jobs[] | {id, state, behind}'")]
pub(crate) struct TopArgs {
    /// Where the appliance serves its page: `listen` in the table telemetry of its configuration
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:9464")]
    url: Address,
    /// The certificates (PEM) that one for https:// must be signed by
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Show it once and end
    #[arg(long)]
    once: bool,
    /// Print snapshots as JSON, one a line
    #[arg(long)]
    json: bool,
    /// Time between two looks
    #[arg(long, value_name = "TIME", default_value = INTERVAL, value_parser = interval)]
    interval: Duration,
}

fn interval(text: &str) -> Result<Duration, String> {
    let time: Duration = humantime::parse_duration(text).map_err(|error| error.to_string())?;
    if time < Duration::from_millis(100) {
        return Err("at least 100ms: the appliance has a new snapshot every 500ms".to_owned());
    }
    Ok(time)
}

/// Runs the command.
pub(crate) fn run(args: &TopArgs) -> anyhow::Result<ExitCode> {
    let source = Source::new(&args.url, args.ca.as_deref())?;
    if args.json {
        return print_json(args, &source);
    }
    if args.once {
        let mut view = View::default();
        view.show(source.snapshot()?);
        let text = view.to_text(ONCE.0, ONCE.1)?;
        return Ok(said(std::io::stdout().write_all(text.as_bytes())));
    }
    if !std::io::stdout().is_terminal() {
        bail!("standard output is no terminal: use --once, or --json");
    }
    interactive::run(&source, args.interval)?;
    Ok(ExitCode::SUCCESS)
}

fn print_json(args: &TopArgs, source: &Source) -> anyhow::Result<ExitCode> {
    loop {
        let line = source.text()?;
        let mut out = std::io::stdout().lock();
        let written = writeln!(out, "{}", line.trim_end()).and_then(|()| out.flush());
        if args.once || written.is_err() {
            return Ok(said(written));
        }
        std::thread::sleep(args.interval);
    }
}

/// A reader that has seen enough is no error.
fn said(written: std::io::Result<()>) -> ExitCode {
    match written {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    }
}

#[cfg(test)]
mod tests;
