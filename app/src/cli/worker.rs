//! `pascaline worker allreduce`: a collective operation on known numbers, timed and verified.

use std::hash::Hasher as _;
use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use clap::{Args, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use nix::time::{ClockId, clock_gettime};
use pascaline_shared::eprintln;
use pascaline_wire::DType;
use pascaline_worker::{
    Appliances, Config, CongestionControl, Narrow, Notice, Partial, RankSet, with_element,
};
use twox_hash::XxHash64;

mod below;
mod bench;
mod check;
mod collective;
mod command;
mod failed;
mod iswitch;
mod iterate;
mod member;
mod olaf;
pub(super) mod parse;
mod placed;
mod report;
mod sample;
mod security;
#[cfg(feature = "switchml")]
mod switchml;
#[cfg(test)]
mod tests;

pub(crate) use self::bench::{BenchArgs, bench};
use self::collective::{CollectiveArgs, Kind};
pub(crate) use self::command::{CommandArgs, command};
use self::failed::Failed;
pub(crate) use self::iswitch::{IswitchArgs, iswitch};
use self::member::Member;
pub(crate) use self::olaf::{OlafArgs, olaf};
use self::report::gigabits;
use self::sample::{Op, Order, Sample};
use self::security::Keys;
#[cfg(feature = "switchml")]
pub(crate) use self::switchml::{SwitchmlArgs, switchml};

const EXAMPLES: &str = "\
Examples:
  Rank 0 of 4, 16 MiB of f32, ten times:
    pascaline worker allreduce --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4

  A million i32, a hundred times, results as JSON:
    pascaline worker allreduce --appliance 10.77.0.254:16420 --job 1 --rank 0 --ranks 4 \\
      --dtype i32 --elements 1Mi --iterations 100 --json

  Marked for an appliance that knows its packets by their DSCP:
    pascaline worker allreduce --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4 --dscp 46

  Past the kernel, over shared memory to an appliance with port
  net_memif0,role=server,socket=/run/w0.sock,...:
    pascaline worker allreduce --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4 --driver dpdk \\
      --port net_memif0,role=client,socket=/run/w0.sock,socket-abstract=no \\
      --address 10.77.0.1 --core 1

  The mean of 16-bit floats, added by an appliance that adds in the order of ranks:
    pascaline worker allreduce --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4 \\
      --dtype bf16 --op mean --order rank

  Rank 2's tensor to all ranks; other collectives: reduce, barrier, reduce_scatter, allgather:
    pascaline worker allreduce --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4 \\
      --collective broadcast --root 2

  f32 that travels as bf16, half the bytes, or as MXINT8, a quarter:
    pascaline worker allreduce --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4 --wire bf16
    pascaline worker allreduce --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4 \\
      --wire mxint8 --feedback

  Sums that the appliance cannot read; every rank has the key, which is made once:
    pascaline job key --new job.key
    pascaline worker allreduce --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4 \\
      --security masked --key job.key

  Packets that prove their sender, or that no host on the path can read, in a job with that `security`:
    pascaline worker allreduce --appliance 10.77.0.254 --job 1 --rank 0 --ranks 4 \\
      --security encrypt --key job.key

  An appliance, and another with the same job that stands in for it:
    pascaline worker allreduce --appliance 10.77.0.254,10.77.1.254 --job 1 --rank 0 --ranks 4

  An appliance behind a router, by name and over IPv6:
    pascaline worker allreduce --appliance aggregator.example --job 1 --rank 0 --ranks 4
    pascaline worker allreduce --appliance [fd77::254]:16420 --job 1 --rank 0 --ranks 4

  Where a controller says, as rank 5 of all workers (docs/controller.md):
    pascaline worker allreduce --controller unix:/run/pascaline/controller.sock --job 1 --rank 5

Start one process for each rank. All of them need the same --job, --ranks, --elements or --bytes,
--iterations, --collective, --root, --dtype, --op, --payload and --seed.

Exit status: 0 if every sum is right, 1 if one is wrong or an allreduce failed, 2 if the arguments are wrong
or the appliance refused them.";

/// Combine or hand on numbers among all ranks of a job, and check what comes of it.
///
/// Every rank knows every rank's numbers (a function of seed, rank, iteration and index), so each checks all
/// elements: integers, minima and maxima bit by bit; sums and means of floats within the rounding that any
/// order of additions can cause (f16 and bf16: one rounding for each part of the sum that made way in the
/// appliance), or bit by bit with --order rank and of mxfp8 and mxint8. Before each iteration and before the
/// check the ranks meet in an allreduce of one element; neither this nor the check is part of the times.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct AllreduceArgs {
    #[command(flatten)]
    pub(crate) who: member::RankArgs,
    #[command(flatten)]
    pub(crate) below: below::BelowArgs,
    /// How many UDP ports the appliance listens on, as configured there: packets are spread over them by
    /// their number.
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) udp_ports: u16,
    /// Elements per allreduce; suffixes Ki, Mi, Gi, k, M, G.
    #[arg(long, value_parser = parse::size, conflicts_with = "bytes")]
    pub(crate) elements: Option<usize>,
    /// Bytes per allreduce, a multiple of the element size [default: 16MiB].
    #[arg(long, value_parser = parse::size)]
    pub(crate) bytes: Option<usize>,
    /// How many allreduces.
    #[arg(long, default_value = "10")]
    pub(crate) iterations: NonZeroU32,
    /// Type of the elements; those of mxfp8 and mxint8 are blocks of 32 numbers, 33 bytes.
    #[arg(long, default_value_t = DType::F32, value_parser = parse::dtypes())]
    pub(crate) dtype: DType,
    #[command(flatten)]
    pub(crate) collective: CollectiveArgs,
    #[command(flatten)]
    pub(crate) security: security::SecurityArgs,
    /// What the elements are replaced by.
    #[arg(long, value_enum, default_value_t = Op::Sum)]
    pub(crate) op: Op,
    /// The order in which the appliance is configured to add. With `rank`, every bit of a sum is known
    /// beforehand.
    #[arg(long, value_enum, default_value_t = Order::Arrival)]
    pub(crate) order: Order,
    /// Refuse results that lack ranks, which jobs have that complete early or go on without dead ranks.
    /// Otherwise they are reported as `partial` and not checked.
    #[arg(long)]
    pub(crate) refuse_partial: bool,
    /// Payload bytes of a full packet, a multiple of 8; 0: as many as the way takes of the rank with the
    /// smallest MTU, and the appliance's ports.
    #[arg(long, default_value_t = 0)]
    pub(crate) payload: u16,
    /// Packets in flight at most; 0: as far as the appliance lets a worker run ahead.
    #[arg(long, default_value_t = 0)]
    pub(crate) in_flight: u16,
    /// Which congestion control it follows, instead of the one that the appliance names.
    #[arg(long, value_name = "CONTROL", value_parser = parse::controls())]
    pub(crate) congestion: Option<CongestionControl>,
    /// For how long an appliance may say nothing until the next one behind --appliance has its turn.
    #[arg(long, default_value = "500ms", value_parser = parse::duration)]
    pub(crate) silence: Duration,
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
    #[command(flatten)]
    pub(crate) driver: member::DriverArgs,
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

/// Tells what a worker has to say while it waits.
const WARNING: Notice = Notice(|text| eprintln!("warning: {text}"));
const FAILED: u8 = 1;
const REFUSED: u8 = 2;

/// Runs the command. Errors go to standard error and the exit status.
///
/// # Errors
/// If the outcome cannot be written to standard output.
pub(crate) fn allreduce(args: &AllreduceArgs) -> anyhow::Result<ExitCode> {
    let (ref args, elements, appliances, keys) = match prepared(args) {
        Ok(prepared) => prepared,
        Err(failed) => return Ok(failed.tell(args.who.rank, args.json)),
    };
    let checked = args.collective.wire.map_or(args.dtype, |wire| Narrow::from(wire).dtype());
    with_element!(checked, T => run::<T>(args, elements, appliances, &keys))
}

/// Its arguments where it goes, how many elements, the appliances, and the keys if there are any.
fn prepared(args: &AllreduceArgs) -> Result<(AllreduceArgs, usize, Appliances, Keys), Failed> {
    let wrong = |error: anyhow::Error| Failed::by_arguments(&format_args!("{error:#}"));
    args.driver.check().map_err(wrong)?;
    let elements = elements(args).map_err(wrong)?;
    let placed = args.driver.place(args.who.placed().map_err(|error| Failed::from(&error))?);
    let below = args.below.as_placed(placed.workers, placed.first);
    below.check(placed.who.rank, placed.who.ranks).map_err(wrong)?;
    let appliances = parse::appliances(&placed.who.appliance).map_err(wrong)?;
    let args = AllreduceArgs { who: placed.who, below, ..args.clone() };
    let keys = args.security.keys(&args, &appliances).map_err(wrong)?;
    Ok((args, elements, appliances, keys))
}

/// What has happened so far.
struct Outcome {
    seconds: Vec<f64>,
    /// What the allreduces alone have taken of a processor.
    cpu_seconds: f64,
    checksums: Vec<u64>,
    /// Over the bits of all results.
    checksum: XxHash64,
    verified: u32,
    mismatches: u32,
    /// Allreduces with results that lack ranks; the fewest ranks inside one, and all that were missing.
    partial: u32,
    least_count: u16,
    missing: RankSet,
}

impl Outcome {
    fn new(ranks: u16) -> Self {
        Self {
            seconds: Vec::new(),
            cpu_seconds: 0.0,
            checksums: Vec::new(),
            checksum: XxHash64::with_seed(0),
            verified: 0,
            mismatches: 0,
            partial: 0,
            least_count: ranks,
            missing: RankSet::EMPTY,
        }
    }

    fn note(&mut self, seconds: f64, bits: &[u8], partial: Option<&Partial>) {
        self.seconds.push(seconds);
        self.checksums.push(XxHash64::oneshot(0, bits));
        self.checksum.write(bits);
        if let Some(partial) = partial {
            self.partial += 1;
            self.least_count = self.least_count.min(partial.least_count);
            self.missing = self.missing | partial.missing;
        }
    }
}

fn run<T: Sample>(
    args: &AllreduceArgs,
    elements: usize,
    appliances: Appliances,
    keys: &Keys,
) -> anyhow::Result<ExitCode> {
    let config = Config {
        silence: args.silence,
        udp_ports: args.udp_ports,
        payload: args.payload,
        in_flight: args.in_flight,
        congestion: args.congestion,
        bind: args.bind,
        join_deadline: args.join_deadline,
        deadline: args.deadline,
        accept_partial: !args.refuse_partial,
        seals: keys.seals(),
        notice: Some(WARNING),
        ..args.who.config(appliances)
    };
    let mut worker = match Member::join(config, &args.driver) {
        Ok(worker) => worker,
        Err(failed) => return Ok(failed.tell(args.who.rank, args.json)),
    };
    let bar = match args.progress {
        Progress::Bar => ProgressBar::new(u64::from(args.iterations.get()))
            .with_style(ProgressStyle::with_template("{elapsed_precise} {wide_bar} {pos}/{len} {msg}")?),
        Progress::None | Progress::Lines => ProgressBar::hidden(),
    };
    let mut outcome = Outcome::new(args.who.ranks);
    let failure = iterate::iterate::<T>(args, (elements, keys.mask()), &mut worker, &bar, &mut outcome).err();
    let failure = failure.map(|error| Failed::from(&error));
    bar.finish_and_clear();
    let told = report::Told { payload: worker.payload(), control: worker.control(), trees: worker.trees() };
    // After a failure there is nothing that this worker could do for the others.
    let counters = match &failure {
        None => worker.leave(),
        Some(_) => *worker.counters(),
    };
    report::print(args, elements, &outcome, (&told, &counters), failure.as_ref())?;
    Ok(match failure {
        None if outcome.mismatches == 0 => ExitCode::SUCCESS,
        None => ExitCode::from(FAILED),
        Some(failed) => ExitCode::from(failed.status),
    })
}

fn elements(args: &AllreduceArgs) -> anyhow::Result<usize> {
    if args.collective.collective == Kind::Barrier {
        return Ok(0);
    }
    let (size, wire) = (args.dtype.size(), args.collective.wire.map(|wire| Narrow::from(wire).dtype()));
    ensure!(wire.is_none() || args.dtype == DType::F32, "--wire goes with --dtype f32");
    let bytes = args.bytes.unwrap_or(args.dtype.whole(16 << 20));
    ensure!(
        args.elements.is_some() || bytes.is_multiple_of(size),
        "--bytes {bytes} is not a multiple of the element size, {size}"
    );
    let elements = args.elements.unwrap_or(bytes / size);
    let bytes = elements.checked_mul(size).with_context(|| format!("--elements {elements}: {TOO_MANY}"))?;
    fits(bytes)?;
    if let Some(wire) = wire.filter(|wire| wire.is_block()) {
        ensure!(
            elements.is_multiple_of(32),
            "--wire {wire}: {elements} elements are not a multiple of its blocks of 32"
        );
    }
    Ok(elements)
}

const TOO_MANY: &str = "too many for one operation";

/// Whether a tensor may be so long, and there is memory for it: found out before others wait for this rank.
fn fits(bytes: usize) -> anyhow::Result<()> {
    ensure!(bytes as u64 >> 47 == 0, "{bytes} bytes are {TOO_MANY}");
    let mut room = Vec::<u8>::new();
    room.try_reserve_exact(bytes).with_context(|| format!("no memory for {bytes} bytes"))?;
    core::hint::black_box(&room);
    Ok(())
}

/// What this process has taken of the processors so far, in user mode and in the kernel; 0 where the system
/// does not say.
fn cpu_seconds() -> f64 {
    clock_gettime(ClockId::CLOCK_PROCESS_CPUTIME_ID).map_or(0.0, |time| Duration::from(time).as_secs_f64())
}
