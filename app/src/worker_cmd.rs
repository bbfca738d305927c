//! `pascaline worker allreduce`: an allreduce of known numbers, timed and verified.

use std::io::Write as _;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::ensure;
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use pascaline_worker::{
    AllreduceError, Config, Counters, Failure, Ignored, JoinError, JoinFailure, StartError, Worker,
};
use serde_json::json;

mod parse;
mod sample;
#[cfg(test)]
mod tests;

use self::sample::Sample;

const EXAMPLES: &str = "\
Examples:
  Rank 0 of 4, 16 MiB of f32, ten times:
    pascaline worker allreduce --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4

  A million i32, a hundred times, results as JSON:
    pascaline worker allreduce --appliance 10.77.0.254:16420 --job 1 --rank 0 --ranks 4 \\
      --dtype i32 --elements 1Mi --iterations 100 --json

Start one process for each rank. All of them need the same --job, --ranks, --elements or --bytes, --iterations,
--dtype, --payload and --seed.

Exit status: 0 if every sum is right, 1 if one is wrong or an allreduce failed, 2 if the arguments are wrong or the
appliance refused them.";

/// Sum numbers over all ranks of a job, and check the sums.
///
/// Every rank knows every rank's numbers (a function of seed, rank, iteration and index), so each checks all sums: i32
/// bit by bit, f32 within the rounding that any order of additions can cause. Before each iteration the ranks meet in
/// an allreduce of one element; neither this nor the check is part of the times.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AllreduceArgs {
    /// Address of the appliance; the port is 16420 unless given.
    #[arg(long, value_name = "HOST[:PORT]")]
    pub(crate) appliance: String,
    /// The job, as configured at the appliance.
    #[arg(long)]
    pub(crate) job: u16,
    /// This worker's rank, counted from 0.
    #[arg(long)]
    pub(crate) rank: u16,
    /// How many ranks the job has.
    #[arg(long)]
    pub(crate) ranks: u16,
    /// Elements per allreduce; suffixes Ki, Mi, Gi, k, M, G.
    #[arg(long, value_parser = parse::size, conflicts_with = "bytes")]
    pub(crate) elements: Option<usize>,
    /// Bytes per allreduce, a multiple of the element size [default: 16MiB].
    #[arg(long, value_parser = parse::size)]
    pub(crate) bytes: Option<usize>,
    /// How many allreduces.
    #[arg(long, default_value = "10")]
    pub(crate) iterations: NonZeroU32,
    /// Type of the elements.
    #[arg(long, value_enum, default_value_t = DType::F32)]
    pub(crate) dtype: DType,
    /// Payload bytes of a full packet, a multiple of 8.
    #[arg(long, default_value_t = 1024)]
    pub(crate) payload: u16,
    /// Packets in flight.
    #[arg(long, default_value_t = 128)]
    pub(crate) in_flight: u16,
    /// How long one allreduce may take (300ms, 30s, 2m).
    #[arg(long, default_value = "30s", value_parser = parse::duration)]
    pub(crate) deadline: Duration,
    /// How long to wait until all ranks have joined.
    #[arg(long, default_value = "30s", value_parser = parse::duration)]
    pub(crate) join_deadline: Duration,
    /// Seed of the numbers.
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Local address to send from.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse::bind)]
    pub(crate) bind: Option<SocketAddr>,
    /// Do not check the sums.
    #[arg(long)]
    pub(crate) no_verify: bool,
    /// What to show on standard error while it runs; `lines` is one JSON line per allreduce.
    #[arg(long, value_enum, default_value_t = Progress::None)]
    pub(crate) progress: Progress,
    /// Print the outcome as one JSON line on standard output.
    #[arg(long)]
    pub(crate) json: bool,
}

/// Type of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum DType {
    /// IEEE 754 binary32.
    F32,
    /// 32-bit integers.
    I32,
}

/// What to show while it runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Progress {
    /// Nothing.
    None,
    /// A bar.
    Bar,
    /// One JSON line per allreduce.
    Lines,
}

const FAILED: u8 = 1;
const REFUSED: u8 = 2;

/// Runs the command. What goes wrong is told on standard error and by the exit status.
///
/// # Errors
/// If the outcome cannot be written to standard output.
pub(crate) fn allreduce(args: &AllreduceArgs) -> anyhow::Result<ExitCode> {
    let (elements, appliance) = match elements(args).and_then(|n| Ok((n, parse::appliance(&args.appliance)?)))
    {
        Ok(usable) => usable,
        Err(error) => {
            eprintln!("error: {error:#}");
            return Ok(ExitCode::from(REFUSED));
        }
    };
    match args.dtype {
        DType::F32 => run::<f32>(args, elements, appliance),
        DType::I32 => run::<i32>(args, elements, appliance),
    }
}

/// What has happened so far.
#[derive(Default)]
struct Outcome {
    seconds: Vec<f64>,
    checksums: Vec<u64>,
    verified: u32,
    mismatches: u32,
}

fn run<T: Sample>(args: &AllreduceArgs, elements: usize, appliance: SocketAddr) -> anyhow::Result<ExitCode> {
    let config = Config {
        payload: args.payload,
        in_flight: args.in_flight,
        bind: args.bind,
        join_deadline: args.join_deadline,
        deadline: args.deadline,
        ..Config::new(appliance, args.job, args.rank, args.ranks)
    };
    let mut worker = match Worker::join(config) {
        Ok(worker) => worker,
        Err(error) => {
            eprintln!("error: {error}");
            return Ok(ExitCode::from(join_status(&error)));
        }
    };
    let bar = match args.progress {
        Progress::Bar => ProgressBar::new(u64::from(args.iterations.get()))
            .with_style(ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len} {msg}")?),
        Progress::None | Progress::Lines => ProgressBar::hidden(),
    };
    let mut outcome = Outcome::default();
    let failure = iterate::<T>(args, elements, &mut worker, &bar, &mut outcome).err();
    bar.finish_and_clear();
    // After a failure there is nothing that this worker could do for the others.
    let counters = match &failure {
        None => worker.leave().counters,
        Some(_) => *worker.counters(),
    };
    report(args, elements, &outcome, &counters, failure.as_ref())?;
    Ok(match failure {
        None if outcome.mismatches == 0 => ExitCode::SUCCESS,
        None => ExitCode::from(FAILED),
        Some(error) => ExitCode::from(allreduce_status(&error)),
    })
}

fn elements(args: &AllreduceArgs) -> anyhow::Result<usize> {
    const SIZE: usize = 4;
    let bytes = args.bytes.unwrap_or(16 << 20);
    match args.elements {
        Some(elements) => Ok(elements),
        None => {
            ensure!(
                bytes.is_multiple_of(SIZE),
                "--bytes {bytes} is not a multiple of the element size, {SIZE}"
            );
            Ok(bytes / SIZE)
        }
    }
}

fn iterate<T: Sample>(
    args: &AllreduceArgs,
    elements: usize,
    worker: &mut Worker,
    bar: &ProgressBar,
    outcome: &mut Outcome,
) -> Result<(), AllreduceError> {
    let mut tensor = vec![T::default(); elements];
    for iteration in 0..args.iterations.get() {
        let mine = sample::stream(args.seed, args.rank, iteration);
        for (index, place) in (0_u64..).zip(&mut tensor) {
            *place = T::sample(mine, index);
        }
        // Ranks that are still busy with their check must not count as time of this iteration.
        worker.allreduce(&mut [T::default()])?;
        let seconds = worker.allreduce(&mut tensor)?.elapsed.as_secs_f64();
        outcome.seconds.push(seconds);
        outcome.checksums.push(checksum(&tensor));
        if !args.no_verify {
            match first_mismatch(args, iteration, &tensor, worker) {
                None => outcome.verified += 1,
                Some((index, got, expected)) => {
                    outcome.mismatches += 1;
                    bar.suspend(|| {
                        eprintln!("iteration {iteration}: element {index} is {got:?}, expected {expected}");
                    });
                }
            }
        }
        if args.progress == Progress::Lines {
            eprintln!("{}", json!({"rank": args.rank, "iteration": iteration, "seconds": seconds}));
        }
        bar.set_message(format!("{:.3} Gbit/s", gigabits(size_of_val(tensor.as_slice()), seconds)));
        bar.inc(1);
    }
    Ok(())
}

/// The first element that is not the sum of all ranks' samples, what it is and what it should be.
fn first_mismatch<T: Sample>(
    args: &AllreduceArgs,
    iteration: u32,
    tensor: &[T],
    worker: &mut Worker,
) -> Option<(u64, T, f64)> {
    const CHUNK: usize = 1 << 16;
    let streams: Vec<u64> = (0..args.ranks).map(|rank| sample::stream(args.seed, rank, iteration)).collect();
    let mut index = 0;
    for chunk in tensor.chunks(CHUNK) {
        // Another rank may still need a result that only this one has. Errors show in the next allreduce.
        let _ = worker.tend();
        for &got in chunk {
            if let Some(expected) = got.differs(streams.iter().map(|&stream| T::sample(stream, index))) {
                return Some((index, got, expected));
            }
            index += 1;
        }
    }
    None
}

/// A hash of the bits, so that ranks and runs can be compared.
fn checksum<T: Sample>(tensor: &[T]) -> u64 {
    tensor.iter().fold(0, |hash, element| sample::mix(hash ^ u64::from(element.to_raw_bits())))
}

fn report(
    args: &AllreduceArgs,
    elements: usize,
    outcome: &Outcome,
    counters: &Counters,
    failure: Option<&AllreduceError>,
) -> anyhow::Result<()> {
    if let Some(error) = failure {
        eprintln!("error: {error}");
    }
    let bytes = elements * size_of::<u32>();
    let goodput = median(&outcome.seconds).map(|seconds| gigabits(bytes, seconds));
    let mut out = std::io::stdout().lock();
    if args.json {
        let ignored: serde_json::Map<_, _> = Ignored::ALL
            .into_iter()
            .filter(|&reason| counters.ignored(reason) > 0)
            .map(|reason| (reason.name().to_owned(), counters.ignored(reason).into()))
            .collect();
        let mut line = json!({
            "rank": args.rank,
            "ranks": args.ranks,
            "iterations": outcome.seconds.len(),
            "verified": outcome.verified,
            "mismatches": outcome.mismatches,
            "bytes": bytes,
            "seconds": outcome.seconds,
            "goodput_gbps": goodput,
            "packets_sent": counters.packets_sent,
            "retransmissions": counters.retransmissions,
            "duplicate_results": counters.duplicate_results,
            "reminders_sent": counters.reminders_sent,
            "reminders_answered": counters.reminders_answered,
            "overflows": counters.overflows,
            "ignored": ignored,
            "unreachable": counters.unreachable,
            "checksums": outcome.checksums.iter().map(|sum| format!("{sum:016x}")).collect::<Vec<_>>(),
        });
        if let Some(error) = failure {
            line["error"] = error.to_string().into();
        }
        writeln!(out, "{line}")?;
    } else {
        write!(
            out,
            "rank {} of {}: {} allreduces of {bytes} bytes",
            args.rank,
            args.ranks,
            outcome.seconds.len()
        )?;
        if let Some(goodput) = goodput {
            write!(out, ", median {goodput:.3} Gbit/s")?;
        }
        if !args.no_verify {
            write!(out, ", {} right, {} wrong", outcome.verified, outcome.mismatches)?;
        }
        writeln!(
            out,
            "; {} packets sent, {} of them again; {} reminders sent, {} answered",
            counters.packets_sent,
            counters.retransmissions,
            counters.reminders_sent,
            counters.reminders_answered
        )?;
    }
    Ok(())
}

fn median(seconds: &[f64]) -> Option<f64> {
    let mut sorted = seconds.to_vec();
    sorted.sort_by(f64::total_cmp);
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = *sorted.get((sorted.len() - 1) / 2)?;
    Some(f64::midpoint(lower, upper))
}

#[expect(clippy::cast_precision_loss, reason = "a rate for humans")]
fn gigabits(bytes: usize, seconds: f64) -> f64 {
    if seconds > 0.0 { 8.0 * bytes as f64 / seconds / 1e9 } else { 0.0 }
}

const fn join_status(error: &JoinError) -> u8 {
    match error {
        JoinError::Config(_) | JoinError::Failed { failure: JoinFailure::Refused(_), .. } => REFUSED,
        JoinError::Failed { .. } | JoinError::Io { .. } => FAILED,
    }
}

const fn allreduce_status(error: &AllreduceError) -> u8 {
    match error {
        AllreduceError::Failed(Failure::Refused { .. })
        | AllreduceError::Start(StartError::TooLong { .. }) => REFUSED,
        _ => FAILED,
    }
}
