//! `pascaline top`: the page, in a terminal.

mod fetch;
#[cfg(feature = "top")]
mod screen;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use pascaline_shared::http::client::Address;
use pascaline_shared::println;

use self::fetch::Source;
#[cfg(not(feature = "top"))]
use crate::left_out::LeftOut;

/// Between two looks, unless told otherwise; the appliance samples as often.
const INTERVAL: &str = "500ms";

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
    #[cfg(not(feature = "top"))]
    return Err(LeftOut(
        "this program was built without its screen, for which --json is (Cargo feature `top`)",
    )
    .into());
    #[cfg(feature = "top")]
    screen::show(&source, args)
}

fn print_json(args: &TopArgs, source: &Source) -> anyhow::Result<ExitCode> {
    loop {
        let line = source.text()?;
        println!("{}", line.trim_end());
        if args.once {
            return Ok(ExitCode::SUCCESS);
        }
        std::thread::sleep(args.interval);
    }
}
