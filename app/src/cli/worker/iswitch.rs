//! `pascaline worker iswitch`: asynchronous training without a server, on a problem whose solution is known.

use std::net::SocketAddr;
use std::num::{NonZeroU64, NonZeroUsize};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Args;
use pascaline_shared::{eprintln, println};
use pascaline_worker::pipeline::{PipelineConfig, PipelineReport, train};
use pascaline_worker::{AllreduceError, Config, Worker};
use serde_json::json;
use twox_hash::XxHash64;

use super::failed::Failed;
use super::member::RankArgs;
use super::{FAILED, WARNING, parse};

const EXAMPLES: &str = "\
Examples:
  Rank 0 of 4, in a job with kind = \"iswitch\" and a threshold of 3:
    pascaline worker iswitch --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4

  A rank that takes ten times as long for a gradient, with the paper's bound:
    pascaline worker iswitch --appliance 10.77.0.254 --job 1 --rank 3 --ranks 4 --compute 50ms --staleness 3

Start one process for each rank. All of them need the same --job, --ranks, --floats, --iterations and --seed.

Exit status: 0 if the model has come to the known solution, 1 if not, or if something failed, 2 if the
arguments are wrong or the appliance refused them.";

/// How near the weights must come to the solution.
const NEAR: f32 = 0.05;

/// Train asynchronously without a server (iswitch): each iteration takes the gradients of H of N ranks.
///
/// H is the job's `threshold`. Every rank keeps the weights, and applies the same results in the same order.
/// A gradient is offered in an iteration only if its weights are at most S iterations older (--staleness): a
/// slow rank's gradient misses iterations, is offered again, and given up when it is too stale. The problem
/// is the stand-in of a trainer: gradients lead to numbers that all ranks know, so each checks its model.
/// That all have the same one shows in `checksum`.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct IswitchArgs {
    #[command(flatten)]
    who: RankArgs,
    /// The model's 32-bit floats.
    #[arg(long, value_parser = parse::count, default_value = "256")]
    floats: NonZeroUsize,
    /// Iterations, the same for all ranks.
    #[arg(long, default_value = "300")]
    iterations: NonZeroU64,
    /// S: by how many iterations a gradient may be older than the one that it is offered in.
    #[arg(long, default_value_t = 3)]
    staleness: u64,
    /// How long this rank computes a gradient.
    #[arg(long, default_value = "5ms", value_parser = parse::duration)]
    compute: Duration,
    /// The learning rate.
    #[arg(long, default_value_t = 0.1, value_parser = rate)]
    rate: f32,
    /// Which problem: the same for all ranks.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long one iteration may take.
    #[arg(long, default_value = "30s", value_parser = parse::duration)]
    deadline: Duration,
    /// How long to wait until all ranks have joined.
    #[arg(long, default_value = "30s", value_parser = parse::duration)]
    join_deadline: Duration,
    /// Local address to send from.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse::bind)]
    bind: Option<SocketAddr>,
    /// Print the outcome as one JSON line on standard output.
    #[arg(long)]
    json: bool,
}

fn rate(text: &str) -> Result<f32, String> {
    let value = text.parse::<f32>().ok().filter(|value| *value > 0.0 && *value < 1.0);
    value.ok_or_else(|| "expected a number between 0 and 1".to_owned())
}

/// Where gradients lead: numbers between −1 and 1.
fn solution(args: &IswitchArgs) -> Vec<f32> {
    let mut rng = fastrand::Rng::with_seed(args.seed);
    (0..args.floats.get()).map(|_| 2.0 * rng.f32() - 1.0).collect()
}

/// Runs the command. Errors go to standard error and the exit status.
///
/// # Errors
/// None.
pub(crate) fn iswitch(args: &IswitchArgs) -> anyhow::Result<ExitCode> {
    let (who, appliances) = match args.who.found() {
        Ok(found) => found,
        Err(failed) => return Ok(failed.tell(args.who.rank, args.json)),
    };
    let args = &IswitchArgs { who, ..args.clone() };
    let config = Config {
        deadline: args.deadline,
        join_deadline: args.join_deadline,
        bind: args.bind,
        notice: Some(WARNING),
        ..args.who.config(appliances)
    };
    let mut worker = match Worker::join(config) {
        Ok(worker) => worker,
        Err(error) => return Ok(Failed::from(&error).tell(args.who.rank, args.json)),
    };
    let started = Instant::now();
    let outcome = run(args, &mut worker);
    let elapsed = started.elapsed();
    let counters = worker.leave().counters;
    let report = match outcome {
        Ok(report) => report,
        Err(error) => return Ok(Failed::from(&error).tell(args.who.rank, args.json)),
    };
    let error = solution(args).iter().zip(&report.weights).fold(0.0, |most: f32, (to, weight)| {
        // A NaN is as far away as can be.
        if weight.is_finite() { most.max((to - weight).abs()) } else { f32::INFINITY }
    });
    let verified = error <= NEAR;
    tell(args, &report, (error, verified), elapsed, counters.retransmissions);
    Ok(if verified { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

fn run(args: &IswitchArgs, worker: &mut Worker) -> Result<PipelineReport, AllreduceError> {
    let config = PipelineConfig { iterations: args.iterations.get(), bound: args.staleness, rate: args.rate };
    let to = solution(args);
    train(worker, &config, vec![0.0; to.len()], |_, weights, gradient| {
        std::thread::sleep(args.compute);
        for ((gradient, weight), to) in gradient.iter_mut().zip(weights).zip(&to) {
            *gradient = weight - to;
        }
    })
}

fn tell(
    args: &IswitchArgs,
    report: &PipelineReport,
    (error, verified): (f32, bool),
    elapsed: Duration,
    retransmissions: u64,
) {
    let PipelineReport { weights, contributed, missed, stale, most_stale } = report;
    let bytes: Vec<u8> = weights.iter().flat_map(|weight| weight.to_le_bytes()).collect();
    let checksum = format!("{:016x}", XxHash64::oneshot(0, &bytes));
    let IswitchArgs { who: RankArgs { job, rank, ranks, .. }, iterations, staleness, .. } = args;
    if args.json {
        let line = json!({
            "job": job, "rank": rank, "ranks": ranks, "iterations": iterations, "contributed": contributed,
            "missed": missed, "stale": stale, "staleness": staleness, "most_stale": most_stale,
            "checksum": checksum, "error_max": error, "verified": verified,
            "retransmissions": retransmissions, "seconds": elapsed.as_secs_f64(),
        });
        println!("{line}");
    } else {
        println!(
            "rank {rank} of {ranks} in job {job}: {iterations} iterations in {:.1} s: part of {contributed}, \
                {missed} without it; {stale} gradients too stale (at most {most_stale} old when offered, \
                allowed are {staleness}); the model {checksum} is {error:.4} from the solution",
            elapsed.as_secs_f64(),
        );
    }
    if !verified {
        eprintln!("error: the model is {error} from the solution, more than {NEAR}");
    }
}
