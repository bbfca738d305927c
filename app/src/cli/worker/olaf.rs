//! `pascaline worker olaf`: an asynchronous worker with a trainer that only pretends.

use std::net::SocketAddr;
use std::num::{NonZeroU16, NonZeroU32, NonZeroUsize};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, ValueEnum};
use pascaline_shared::println;
use pascaline_worker::asynchronous::Policy;
use pascaline_worker::{AsyncConfig, AsyncCounters, AsyncWorker, Initial, Left, Slope};
use serde_json::json;

use super::failed::Failed;
use super::member::RankArgs;
use super::security::SecurityArgs;
use super::{WARNING, parse};

mod trainer;

use self::trainer::{Reward, Trainer};

/// How long the answers to the last updates are waited for.
const LAST_ANSWER: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  Worker 0 of the three of cluster 1, an update every 100 ms:
    pascaline worker olaf --appliance 10.77.0.254 --job 1 --rank 0 --ranks 3

  The same with the paper's transmission control, its fairness slope and a threshold of 400 ms:
    pascaline worker olaf --appliance 10.77.0.254 --job 1 --rank 0 --ranks 3 --control fairness \\
      --threshold 400ms

  As much load as possible: no control, up to 64 updates under way, Poisson arrivals 2 ms apart on average:
    pascaline worker olaf --appliance 10.77.0.254 --job 1 --rank 0 --ranks 3 --interval 2ms --poisson \\
      --outstanding 64 --updates 5000 --json

Start one process for each rank of the cluster: a job with kind = \"updates\", whose parameter server is
`pascaline ps`.

Exit status: 0 if all updates were offered and at least one of the job's was applied, 1 if not, or if
something failed, 2 if the arguments are wrong or the appliance refused them.";

/// Train asynchronously (Olaf): send updates at one's own pace, and take in weights as they come.
///
/// The trainer is a stand-in: its gradients are random numbers, its rewards follow a curve. Everything else
/// is real: updates are never waited for, transmission control skips some of them while the queue is
/// congested, and what the appliance's queue has combined is acknowledged to the whole cluster.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct OlafArgs {
    #[command(flatten)]
    who: RankArgs,
    /// The model's 32-bit floats. All of them must fit into one packet: 356 with the usual MTU of 1500 bytes,
    /// 2230 with 9000.
    #[arg(long, value_parser = parse::count, default_value = "256")]
    floats: NonZeroUsize,
    /// Updates that the trainer makes.
    #[arg(long, default_value = "100")]
    updates: NonZeroU32,
    /// From one update to the next, on average (300us, 100ms, 1s).
    #[arg(long, default_value = "100ms", value_parser = parse::duration)]
    interval: Duration,
    /// How far an update may be from its time, as a share of the interval: 0 to 0.5.
    #[arg(long, default_value_t = 0.0, value_parser = share)]
    jitter: f64,
    /// Exponentially distributed intervals instead of equal ones.
    #[arg(long, conflicts_with = "jitter")]
    poisson: bool,
    /// Begin at once. Without it, the first update comes at a random time of the first interval.
    #[arg(long)]
    in_phase: bool,
    /// How rewards develop.
    #[arg(long, value_enum, default_value_t = Reward::Rising)]
    reward: Reward,
    /// What to do about congestion.
    #[arg(long, value_enum, default_value_t = Control::Off)]
    control: Control,
    /// After how long without an acknowledgement what is known of the queue is obsolete (the paper's Δ_T).
    #[arg(long, default_value = "400ms", value_parser = parse::some_time)]
    threshold: Duration,
    /// Updates that may be under way, at most 64.
    #[arg(long, default_value = "1")]
    outstanding: NonZeroU16,
    /// Leave the weights to begin with to the server, which takes zeros, instead of offering some.
    #[arg(long)]
    no_initial: bool,
    /// Seed of gradients, rewards, times and transmission control; ranks and jobs differ all the same.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long to wait until all ranks have joined.
    #[arg(long, default_value = "30s", value_parser = parse::duration)]
    join_deadline: Duration,
    /// An error ends the run if no update is applied for this long.
    #[arg(long, default_value = "10s", value_parser = parse::duration)]
    patience: Duration,
    /// Local address to send from.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse::bind)]
    bind: Option<SocketAddr>,
    #[command(flatten)]
    security: SecurityArgs,
    /// Print the outcome as one JSON line on standard output.
    #[arg(long)]
    json: bool,
}

/// What to do about congestion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Control {
    /// Nothing.
    Off,
    /// The paper's control with the slope 1/Δ_T.
    Urgency,
    /// The paper's control with the slope Δ_T.
    Fairness,
    /// Pauses that the server tells, so that all clusters' models are equally old.
    Paced,
}

fn share(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| (0.0..=0.5).contains(value));
    value.ok_or_else(|| "expected a number between 0 and 0.5".to_owned())
}

impl OlafArgs {
    fn policy(&self) -> Policy {
        let slope = match self.control {
            Control::Off => return Policy::AtWill,
            Control::Paced => return Policy::Paced,
            Control::Urgency => Slope::Urgency,
            Control::Fairness => Slope::Fairness,
        };
        Policy::Olaf { slope, threshold: self.threshold }
    }

    fn config(&self) -> anyhow::Result<AsyncConfig> {
        let name = parse::only_appliance(&self.who.appliance, "an asynchronous worker")?;
        Ok(AsyncConfig {
            seals: self.security.only_seals(&self.who, 1)?,
            outstanding: self.outstanding,
            policy: self.policy(),
            seed: self.own_seed(),
            bind: self.bind,
            notice: Some(WARNING),
            join_deadline: self.join_deadline,
            patience: self.patience,
            dscp: self.who.dscp,
            others: name.others,
            ..AsyncConfig::new(name.first, self.who.job, self.who.rank, self.who.ranks, self.floats.get())
        })
    }

    /// Another one for each rank of each job.
    fn own_seed(&self) -> u64 {
        self.seed.wrapping_mul(1 << 32).wrapping_add(u64::from(self.who.job) << 16 | u64::from(self.who.rank))
    }
}

/// Runs the command. Errors go to standard error and the exit status.
///
/// # Errors
/// If the outcome cannot be written to standard output.
pub(crate) fn olaf(args: &OlafArgs) -> anyhow::Result<ExitCode> {
    let (ref args, config) = match prepared(args) {
        Ok(prepared) => prepared,
        Err(failed) => return Ok(failed.tell(args.who.rank, args.json)),
    };
    let mut trainer = Trainer::new(args, args.own_seed());
    let weights = trainer.weights();
    let initial = if args.no_initial { Initial::Nothing } else { Initial::Weights(&weights) };
    let mut worker = match AsyncWorker::join(&config, initial) {
        Ok(worker) => worker,
        Err(error) => return Ok(Failed::from(&error).tell(args.who.rank, args.json)),
    };
    let started = Instant::now();
    let failure = train(&mut trainer, &mut worker).and_then(|()| settle(&mut worker)).err();
    let failure = failure.map(|error| Failed::from(&error));
    let elapsed = started.elapsed();
    let (epoch, round_trip) = (worker.membership().epoch, worker.round_trip());
    let weights = checksum(worker.poll().0);
    let (left, counters) = worker.leave();
    failure.iter().for_each(Failed::say);
    let outcome = Outcome { epoch, round_trip, elapsed, left, counters, weights };
    if args.json {
        let mut line = outcome.json(args);
        failure.iter().for_each(|failed| failed.add_to(&mut line));
        println!("{line}");
    } else {
        println!("{}", outcome.text(args));
    }
    Ok(failure.map_or(ExitCode::SUCCESS, |failed| ExitCode::from(failed.status)))
}

fn prepared(args: &OlafArgs) -> Result<(OlafArgs, AsyncConfig), Failed> {
    let placed = args.who.placed().map_err(|error| Failed::from(&error))?;
    let args = OlafArgs { who: placed.at_one().who, ..args.clone() };
    let config = args.config().map_err(|error| Failed::by_arguments(&format_args!("{error:#}")))?;
    Ok((args, config))
}

fn train(trainer: &mut Trainer, worker: &mut AsyncWorker) -> anyhow::Result<()> {
    let started = Instant::now();
    while let Some(due) = trainer.next() {
        loop {
            let left = due.saturating_sub(started.elapsed());
            if left.is_zero() {
                break;
            }
            worker.wait(left)?;
        }
        let (gradient, reward) = trainer.train();
        worker.push(gradient, reward)?;
    }
    Ok(())
}

/// Waits for the answers to what is under way, and fails if nothing was applied.
fn settle(worker: &mut AsyncWorker) -> anyhow::Result<()> {
    let begun = Instant::now();
    loop {
        let AsyncCounters { sent, acknowledged, given_up, .. } = *worker.counters();
        if sent == acknowledged + given_up || begun.elapsed() > LAST_ANSWER {
            break;
        }
        worker.wait(LAST_ANSWER / 10)?;
    }
    let counters = worker.counters();
    if counters.applied == 0 {
        anyhow::bail!("no update of the job was applied: {}", why_none(counters));
    }
    Ok(())
}

/// What is known of updates of which none was applied.
fn why_none(counters: &AsyncCounters) -> String {
    let AsyncCounters { pushed, sent, given_up, .. } = *counters;
    let refused: Vec<String> =
        counters.refusals().map(|(why, count)| format!("{count} refused ({why})")).collect();
    match (sent, refused.is_empty()) {
        (_, false) => format!("of {sent} that were sent, {}", refused.join(", ")),
        (0, _) => format!("none of {pushed} was sent, since the parameter server has not answered"),
        (_, true) => format!("{given_up} of {sent} were never answered"),
    }
}

struct Outcome {
    epoch: u16,
    round_trip: Option<Duration>,
    elapsed: Duration,
    left: Left,
    counters: AsyncCounters,
    weights: f64,
}

impl Outcome {
    fn json(&self, args: &OlafArgs) -> serde_json::Value {
        let AsyncCounters {
            pushed,
            sent,
            skipped,
            busy,
            acknowledged,
            applied,
            given_up,
            initial_sent,
            received,
            acks_own,
            acks_cluster,
            weights,
            not_sent,
            unreachable,
            ..
        } = self.counters;
        let refused = self.counters.refusals().map(|(why, count)| (why.name().to_owned(), count.into()));
        json!({
            "job": args.who.job, "rank": args.who.rank, "ranks": args.who.ranks, "epoch": self.epoch,
            "pushed": pushed, "sent": sent, "skipped": skipped, "busy": busy,
            "applied": applied, "refused": refused.collect::<serde_json::Map<_, _>>(), "error": null,
            "acknowledged": acknowledged, "given_up": given_up, "initial_sent": initial_sent,
            "received": received, "acks_own": acks_own, "acks_cluster": acks_cluster,
            "weights_received": weights,
            "not_sent": not_sent, "unreachable": unreachable,
            "round_trip_ms": self.round_trip.map(|time| 1e3 * time.as_secs_f64()),
            "seconds": self.elapsed.as_secs_f64(),
            "weights_sum": self.weights,
            "all_left": self.left == Left::Everyone,
        })
    }

    fn text(&self, args: &OlafArgs) -> String {
        let AsyncCounters { pushed, sent, skipped, busy, acknowledged, given_up, weights, .. } =
            self.counters;
        let round_trip = match self.round_trip {
            Some(time) => format!(", acknowledged in {:.1} ms", 1e3 * time.as_secs_f64()),
            None => String::new(),
        };
        format!(
            "rank {} of {} in job {}: {pushed} updates in {:.1} s: {sent} sent, {skipped} held \
             back, {busy} while others were under way; {acknowledged} acknowledged, {given_up} given \
             up{round_trip}; weights came {weights} times",
            args.who.rank,
            args.who.ranks,
            args.who.job,
            self.elapsed.as_secs_f64(),
        )
    }
}

/// The weights in one number, to compare workers by.
fn checksum(weights: &[f32]) -> f64 {
    weights.iter().copied().map(f64::from).sum()
}
