//! `pascaline worker bench`: what a path to an appliance is good for, and what limits it.

use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Instant;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use pascaline_shared::println;
use pascaline_worker::{
    AllreduceError, Collective, Config, CongestionControl, Counters, Op, Report, TreeReport,
};
use serde_json::{Value, json};

use super::failed::Failed;
use super::member::{DriverArgs, Member, RankArgs};
use super::security::SecurityArgs;
use super::{WARNING, cpu_seconds, fits, gigabits, parse, report};

const EXAMPLES: &str = "\
Examples:
  Alone, with a job of one rank:
    pascaline worker bench --appliance 10.77.0.254 --job 1 --rank 0 --ranks 1

  Rank 0 of 4, the result as JSON; start one process for each rank, with the same options:
    pascaline worker bench --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4 --json

  Over two trees, whose jobs are 1 and 2:
    pascaline worker bench --appliance '10.77.0.254;10.77.1.254' --job 1 --rank 0 --ranks 4

  Past the kernel, over shared memory:
    pascaline worker bench --appliance 10.77.0.254 --job 1 --rank 0 --ranks 1 --driver dpdk \\
      --port net_memif0,role=client,socket=/run/w0.sock,socket-abstract=no --address 10.77.0.1 --core 1

Exit status: 0 if it was measured, 1 if something failed, 2 if the arguments are wrong or the appliance
refused them.";

/// Measure a path to an appliance: round trip, goodput, processor time, loss, and what limits.
///
/// Small allreduces, one after the other, tell the round trip; large ones what moves, each way at the same
/// time. With several ranks a round trip contains the wait for the slowest of them. Over several trees small
/// ones take turns, and large ones are spread: goodput is that of all trees, and each is printed as well.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct BenchArgs {
    #[command(flatten)]
    who: RankArgs,
    /// How many UDP ports the appliance listens on.
    #[arg(long, value_name = "N", default_value_t = 1)]
    udp_ports: u16,
    /// Bytes of a large allreduce, a multiple of 4.
    #[arg(long, value_parser = parse::size, default_value = "16MiB")]
    bytes: usize,
    /// How many large allreduces.
    #[arg(long, default_value = "10")]
    iterations: NonZeroU32,
    /// How many small ones.
    #[arg(long, default_value = "200")]
    pings: NonZeroU32,
    /// Payload bytes of a full packet, a multiple of 8; 0: as many as the way takes of the rank with the
    /// smallest MTU, and the appliance's ports.
    #[arg(long, default_value_t = 0)]
    payload: u16,
    /// Packets in flight at most; 0: as far as the appliance lets a worker run ahead.
    #[arg(long, default_value_t = 0)]
    in_flight: u16,
    /// Which congestion control decides how many are in flight, instead of the one that the appliance names.
    #[arg(long, value_name = "CONTROL", value_parser = parse::controls())]
    congestion: Option<CongestionControl>,
    #[command(flatten)]
    driver: DriverArgs,
    #[command(flatten)]
    security: SecurityArgs,
    /// Show no bar on standard error.
    #[arg(long)]
    no_progress: bool,
    /// Print the outcome as one JSON line on standard output.
    #[arg(long)]
    json: bool,
}

/// From so much of a processor on, it is what limits.
const BUSY: f64 = 0.85;
/// From how many times the round trip of an idle path on packets count as waiting in queues.
const QUEUED: f64 = 3.0;

/// What was measured.
struct Found {
    /// Of small allreduces, ascending.
    trips: Vec<f64>,
    /// What went over each tree meanwhile, and the median of the small ones there.
    trees: Vec<(TreeReport, Option<f64>)>,
    seconds: Vec<f64>,
    cpu_seconds: f64,
    elapsed: f64,
    /// Of the last large one: smoothed.
    loaded_trip: f64,
    counters: Counters,
    control: CongestionControl,
    payload: u16,
}

/// Runs the command. Errors go to standard error and the exit status.
///
/// # Errors
/// If the outcome cannot be written to standard output.
pub(crate) fn bench(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    match prepared(args) {
        Ok((args, config)) => run(&args, config),
        Err(failed) => Ok(failed.tell(args.who.rank, args.json)),
    }
}

fn prepared(args: &BenchArgs) -> Result<(BenchArgs, Config), Failed> {
    let wrong = |error: anyhow::Error| Failed::by_arguments(&format_args!("{error:#}"));
    args.driver.check().map_err(wrong)?;
    if args.bytes == 0 || !args.bytes.is_multiple_of(4) {
        return Err(Failed::by_arguments(&"--bytes: a multiple of 4, and not 0"));
    }
    fits(args.bytes).map_err(wrong)?;
    let who = args.driver.place(args.who.placed().map_err(|error| Failed::from(&error))?).who;
    let appliances = parse::appliances(&who.appliance).map_err(wrong)?;
    let seals = args.security.only_seals(&who, 1 + appliances.trees.len()).map_err(wrong)?;
    let config = Config {
        udp_ports: args.udp_ports,
        payload: args.payload,
        in_flight: args.in_flight,
        congestion: args.congestion,
        seals,
        notice: Some(WARNING),
        ..who.config(appliances)
    };
    Ok((BenchArgs { who, ..args.clone() }, config))
}

fn run(args: &BenchArgs, config: Config) -> anyhow::Result<ExitCode> {
    let mut worker = match Member::join(config, &args.driver) {
        Ok(worker) => worker,
        Err(failed) => return Ok(failed.tell(args.who.rank, args.json)),
    };
    let steps = u64::from(args.pings.get()) + u64::from(args.iterations.get());
    let bar = if args.no_progress { ProgressBar::hidden() } else { ProgressBar::new(steps) };
    let bar = bar.with_style(ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len}")?);
    let found = measure(args, &mut worker, &bar);
    bar.finish_and_clear();
    match found {
        Ok(found) => {
            worker.leave();
            show(args, &found);
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => Ok(Failed::from(&error).tell(args.who.rank, args.json)),
    }
}

fn sum(worker: &mut Member, tensor: &mut [f32]) -> Result<Report, AllreduceError> {
    worker.collective(&Collective::Allreduce(Op::Sum), tensor)
}

fn measure(args: &BenchArgs, worker: &mut Member, bar: &ProgressBar) -> Result<Found, AllreduceError> {
    let mut trips = Vec::new();
    for _ in 0..args.pings.get() {
        trips.push(sum(worker, &mut [1.0])?.elapsed.as_secs_f64());
        bar.inc(1);
    }
    let by_tree = by_turns(&trips, worker.trees().len());
    trips.sort_by(f64::total_cmp);
    // Its pages are there before the clock runs.
    let mut tensor = vec![1.0_f32; args.bytes / 4];
    sum(worker, &mut tensor)?;
    let (before, idle) = (*worker.counters(), worker.trees());
    let (cpu, begin) = (cpu_seconds(), Instant::now());
    let (mut seconds, mut loaded_trip) = (Vec::new(), 0.0);
    for _ in 0..args.iterations.get() {
        let report = sum(worker, &mut tensor)?;
        seconds.push(report.elapsed.as_secs_f64());
        loaded_trip = report.round_trip.map_or(0.0, |trip| trip.as_secs_f64());
        bar.inc(1);
    }
    let (cpu_seconds, elapsed) = (cpu_seconds() - cpu, begin.elapsed().as_secs_f64());
    let counters = *worker.counters() - before;
    let (control, payload) = (worker.control(), worker.payload());
    let loaded = worker.trees().into_iter().zip(&idle);
    let moved = loaded.map(|(now, then)| TreeReport { counters: now.counters - then.counters, ..now });
    let trees = moved.zip(by_tree).collect();
    Ok(Found { trips, trees, seconds, cpu_seconds, elapsed, loaded_trip, counters, control, payload })
}

/// The median of each tree's small allreduces: they take turns, and the first tree has the first one.
fn by_turns(trips: &[f64], trees: usize) -> Vec<Option<f64>> {
    let of = |tree| {
        let its: Vec<_> = trips.iter().copied().skip(tree).step_by(trees).collect();
        report::median(&its)
    };
    (0..trees).map(of).collect()
}

impl Found {
    fn trip(&self) -> f64 {
        report::median(&self.trips).unwrap_or(0.0)
    }

    /// What keeps more from moving, as far as this end can see.
    fn limit(&self, driver: &DriverArgs) -> &'static str {
        // A DPDK worker polls: how busy it is says nothing.
        let busy = driver.is_kernel() && self.cpu_seconds > BUSY * self.elapsed;
        match self.trip() {
            _ if busy => "cpu",
            trip if trip > 0.0 && self.loaded_trip > QUEUED * trip => "link",
            _ => "window",
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a share for humans")]
    fn loss(&self) -> f64 {
        self.counters.retransmissions as f64 / (self.counters.packets_sent as f64).max(1.0)
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates for humans")]
fn show(args: &BenchArgs, found: &Found) {
    let goodput = report::median(&found.seconds).map_or(0.0, |seconds| gigabits(args.bytes, seconds));
    let moved = 2.0 * 8.0 * args.bytes as f64 * found.seconds.len() as f64 / 1e9;
    let per_gbit = 1e3 * found.cpu_seconds / moved;
    let busy = found.cpu_seconds / found.elapsed;
    let (trip, least, loaded) =
        (found.trip(), found.trips.first().copied().unwrap_or(0.0), found.loaded_trip);
    let limit = found.limit(&args.driver);
    if args.json {
        let line = json!({
            "rank": args.who.rank,
            "ranks": args.who.ranks,
            "security": args.security.security.name(),
            "payload": found.payload,
            "round_trip_us": 1e6 * trip,
            "round_trip_min_us": 1e6 * least,
            "round_trip_loaded_us": 1e6 * loaded,
            "goodput_gbps": goodput,
            "cpu_ms_per_gbit": per_gbit,
            "cpu_busy": busy,
            "congestion": found.control.name(),
            "marked": found.counters.marked,
            "loss": found.loss(),
            "retransmissions": found.counters.retransmissions,
            "limit": limit,
            "trees": found.trees.iter().map(tree).collect::<Vec<_>>(),
        });
        return println!("{line}");
    }
    let why = match limit {
        "cpu" => "CPU: this worker's thread has no time left",
        "link" => "link: packets wait in queues on the way, at the appliance or for another rank",
        _ => "window: what congestion control allows; --congestion and --in-flight choose",
    };
    println!("payload       {} bytes", found.payload);
    println!(
        "round trip    {:.0} µs median, {:.0} µs least, {:.0} µs under load",
        1e6 * trip,
        1e6 * least,
        1e6 * loaded
    );
    println!("goodput       {goodput:.3} Gbit/s each way");
    println!("CPU           {per_gbit:.1} ms per Gbit moved, {:.0} % of a processor", 100.0 * busy);
    println!("loss          {:.3} % sent again", 100.0 * found.loss());
    println!("congestion    {}, {} results marked", found.control.name(), found.counters.marked);
    println!("limited by    {why}");
    // One tree is printed already, unless another appliance stands in.
    let worth = |tree: &TreeReport| found.trees.len() > 1 || tree.counters.turned > 0;
    for (tree, trip) in found.trees.iter().filter(|(tree, _)| worth(tree)) {
        let place = tree.appliance.map_or_else(|| "nowhere".to_owned(), |appliance| appliance.to_string());
        let (trip, counters) = (1e6 * trip.unwrap_or(f64::NAN), &tree.counters);
        println!(
            "job {:<10}{place}: {trip:.0} µs median, {} results, {} packets sent again",
            tree.job, counters.results, counters.retransmissions
        );
    }
}

/// What `worker allreduce` says of a tree, and its round trip.
fn tree((tree, trip): &(TreeReport, Option<f64>)) -> Value {
    let mut line = report::tree(tree);
    line["round_trip_us"] = json!(trip.map(|trip| 1e6 * trip));
    line
}

#[cfg(test)]
mod tests;
