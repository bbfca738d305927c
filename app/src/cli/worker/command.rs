//! `pascaline worker command`: a member commands its job, over the wire.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, Instant};

use clap::Args;
use pascaline_shared::println;
use pascaline_worker::{Command, CommandError, Config, Worker};
use serde_json::json;

use super::failed::Failed;
use super::member::RankArgs;
use super::security::SecurityArgs;
use super::{WARNING, parse};

const EXAMPLES: &str = "\
Examples:
  Suspend job 1 as its rank 3, while the others wait for that rank; heal it two seconds later:
    pascaline worker command halt wait=2s reset --appliance 10.77.0.254 --job 1 --rank 3 --ranks 4

  Three contributions complete a PSN from now on (kind = \"iswitch\" or \"panama\"):
    pascaline worker command seth=3 --appliance 10.77.0.254 --job 1 --rank 3 --ranks 4

  Send out the partial sum of the generation's sixth PSN, then ask for its result:
    pascaline worker command fbcast=+5 help=+5 --appliance 10.77.0.254 --job 1 --rank 3 --ranks 4

Exit status: 0 if all was obeyed, 1 if something was not answered or failed, 2 if the arguments are wrong or
the appliance refused them.";

/// Command a job as one of its ranks, over the wire: iSwitch's control messages.
///
/// It joins as that rank, waits until all ranks are there, sends one command after the other, each until it
/// is answered, and leaves. What is refused or not answered ends it. The job's `control` says which ranks may
/// command; `pascaline job` does the same as an operator.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct CommandArgs {
    /// halt, reset, seth=H, fbcast=PSN, help=PSN or wait=TIME (2s), one after the other. A PSN with a + is
    /// counted from the generation's first, over several trees from that of each.
    #[arg(required = true, value_name = "COMMAND")]
    commands: Vec<Step>,
    #[command(flatten)]
    who: RankArgs,
    /// Payload bytes of a full packet; 0: what the other ranks and the way take.
    #[arg(long, default_value_t = 0)]
    payload: u16,
    /// How long to wait for an answer.
    #[arg(long, default_value = "5s", value_parser = parse::duration)]
    deadline: Duration,
    /// How long to wait until all ranks have joined.
    #[arg(long, default_value = "30s", value_parser = parse::duration)]
    join_deadline: Duration,
    /// Local address to send from.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse::bind)]
    bind: Option<SocketAddr>,
    #[command(flatten)]
    security: SecurityArgs,
    /// Print the outcome as one JSON line on standard output.
    #[arg(long)]
    json: bool,
}

/// What to do next.
#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Send(Command),
    /// The PSN is counted from the generation's first one.
    FromFirst(Command),
    Wait(Duration),
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(time) = text.strip_prefix("wait=") {
            return parse::duration(time).map(Self::Wait);
        }
        let command = text.replacen("=+", "=", 1).parse::<Command>().map_err(|error| {
            format!("{error}; wait=TIME waits, and a PSN with a + is counted from the generation's first")
        })?;
        Ok(if text.contains("=+") { Self::FromFirst(command) } else { Self::Send(command) })
    }
}

/// How often a worker that waits shows that it is alive, and answers.
const TEND: Duration = Duration::from_millis(20);

/// Runs the command. Errors go to standard error and the exit status.
///
/// # Errors
/// None.
pub(crate) fn command(args: &CommandArgs) -> anyhow::Result<ExitCode> {
    let (who, appliances) = match args.who.found() {
        Ok(found) => found,
        Err(failed) => return Ok(failed.tell(args.who.rank, args.json)),
    };
    let args = &CommandArgs { who, ..args.clone() };
    let seals = match args.security.only_seals(&args.who, 1 + appliances.trees.len()) {
        Ok(seals) => seals,
        Err(error) => {
            let failed = Failed::by_arguments(&format_args!("{error:#}"));
            return Ok(failed.tell(args.who.rank, args.json));
        }
    };
    let RankArgs { job, rank, .. } = &args.who;
    let config = Config {
        payload: args.payload,
        deadline: args.deadline,
        join_deadline: args.join_deadline,
        bind: args.bind,
        seals,
        notice: Some(WARNING),
        ..args.who.config(appliances)
    };
    let mut obeyed = Vec::new();
    let ended = match Worker::join(config) {
        Ok(mut worker) => {
            let failed = args.commands.iter().find_map(|step| match carry_out(&mut worker, *step) {
                Ok(None) => None,
                Ok(Some(command)) => {
                    obeyed.push(command.to_string());
                    None
                }
                Err(error) => Some(Failed::from(&error)),
            });
            worker.leave();
            failed
        }
        Err(error) => Some(Failed::from(&error)),
    };
    if args.json {
        let mut line = json!({"job": job, "rank": rank, "obeyed": obeyed, "error": null});
        ended.iter().for_each(|failed| failed.add_to(&mut line));
        println!("{line}");
    } else {
        obeyed.iter().for_each(|command| println!("job {job}: {command}: done"));
    }
    ended.iter().for_each(Failed::say);
    Ok(ended.map_or(ExitCode::SUCCESS, |failed| ExitCode::from(failed.status)))
}

/// The command that was obeyed, if the step is one.
fn carry_out(worker: &mut Worker, step: Step) -> Result<Option<Command>, CommandError> {
    match step {
        Step::Send(command) => worker.command(command).map(|()| Some(command)),
        Step::FromFirst(command) => {
            worker.command_from_first(command)?;
            Ok(Some(command.counted_from(worker.membership().base)))
        }
        Step::Wait(time) => {
            let until = Instant::now() + time;
            while let Some(left) = until.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
            {
                std::thread::sleep(left.min(TEND));
                worker.tend().map_err(|source| CommandError::Io { what: "cannot wait", source })?;
            }
            Ok(None)
        }
    }
}
