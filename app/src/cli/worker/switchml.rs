//! `pascaline worker switchml`: an allreduce by SwitchML's UDP protocol, verified.

use core::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::num::NonZeroU32;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};
use clap::{Args, ValueEnum};
use pascaline_shared::{eprintln, println};
use pascaline_wire::switchml::{Size, UDP_PORT};
use pascaline_worker::switchml::{Client, Counters, Terms};
use serde_json::json;

use self::link::Link;
use super::{FAILED, REFUSED, gigabits, parse, report, sample};
use crate::switchml::{Controller, Error};

mod link;

const EXAMPLES: &str = "\
Examples:
  Rank 0 of 4 in a job with kind = \"switchml\", whose controller listens at 192.0.2.1:50099:
    pascaline worker switchml --controller 192.0.2.1:50099 --rank 0 --ranks 4 --bind 10.77.0.1

  Floats in packets of 1,024 bytes, a hundred times, results as JSON:
    pascaline worker switchml --controller 192.0.2.1:50099 --rank 0 --ranks 4 --bind 10.77.0.1 \\
      --dtype f32 --packet 1024 --iterations 100 --json

Start one process for each rank, all with the same --ranks, --elements, --iterations, --dtype, --packet,
--window and --seed.

Exit status: 0 if every sum is right, 1 if one is wrong or something failed, as where the controller does not
answer or workers are missing, 2 if the arguments are wrong or the controller refused them.";

/// Allreduce by SwitchML's UDP protocol, and check what comes of it.
///
/// For jobs with `kind = "switchml"`, which SwitchML's own clients use in the same way: the controller is
/// asked first (gRPC), then packets of 64 or 256 integers go to the appliance. Floats travel as integers,
/// scaled by the largest exponent of all workers. Every rank knows every rank's numbers, so each checks all
/// sums: integers bit by bit (they wrap), floats within what the scaling rounds.
#[derive(Debug, Clone, Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct SwitchmlArgs {
    /// Where the job's controller listens.
    #[arg(long, value_name = "HOST:PORT")]
    controller: String,
    /// This rank, from 0.
    #[arg(long)]
    rank: u16,
    /// Workers of the job; 1 to 32.
    #[arg(long)]
    ranks: u16,
    /// Own address, and the UDP port that all workers use; of an interface that reaches the appliance.
    #[arg(long, value_name = "ADDR[:PORT]", value_parser = parse::bind)]
    bind: SocketAddr,
    /// The job's UDP port at the appliance.
    #[arg(long, default_value_t = UDP_PORT)]
    udp_port: u16,
    /// Elements per allreduce; suffixes Ki, Mi, Gi, k, M, G.
    #[arg(long, value_parser = parse::size, default_value = "64Ki")]
    elements: usize,
    /// How many allreduces.
    #[arg(long, default_value = "10")]
    iterations: NonZeroU32,
    /// Type of the elements.
    #[arg(long, value_enum, default_value_t = Type::I32)]
    dtype: Type,
    /// Bytes of elements in a packet.
    #[arg(long, value_enum, default_value_t = Packet::Short)]
    packet: Packet,
    /// Packets under way; at most as many as the job has slots.
    #[arg(long, default_value_t = 128)]
    window: u16,
    /// After how long without its result a packet is sent again.
    #[arg(long, default_value = "100ms", value_parser = parse::duration)]
    timeout: Duration,
    /// How long one allreduce may take.
    #[arg(long, default_value = "30s", value_parser = parse::duration)]
    deadline: Duration,
    /// How long to wait until all workers have registered.
    #[arg(long, default_value = "30s", value_parser = parse::duration)]
    join_deadline: Duration,
    /// Seed of the numbers.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print the outcome as one JSON line on standard output.
    #[arg(long)]
    json: bool,
}

/// What is summed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Type {
    /// 32-bit integers; sums wrap.
    I32,
    /// Floats, as scaled integers.
    F32,
}

/// How long a packet is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Packet {
    /// 64 elements.
    #[value(name = "256")]
    Short,
    /// 256 elements.
    #[value(name = "1024")]
    Long,
}

/// The port that SwitchML's example configuration has.
const USUAL_PORT: u16 = 4000;

/// What has happened.
#[derive(Debug, Default)]
struct Outcome {
    seconds: Vec<f64>,
    verified: u32,
    mismatches: u32,
}

/// Runs the command. Errors go to standard error and the exit status.
///
/// # Errors
/// If there is no runtime for gRPC.
pub(crate) fn switchml(args: &SwitchmlArgs) -> anyhow::Result<ExitCode> {
    let (mut link, mut client) = match begin(args) {
        Ok(begun) => begun,
        Err(error) => {
            eprintln!("error: {error:#}");
            if args.json {
                println!("{}", json!({"rank": args.rank, "error": format!("{error:#}")}));
            }
            return Ok(ExitCode::from(status(&error)));
        }
    };
    let mut outcome = Outcome::default();
    let failure = iterate(args, &mut link, &mut client, &mut outcome).err();
    if let Some(error) = &failure {
        eprintln!("error: {error:#}");
    }
    tell(args, &outcome, client.counters(), failure.map(|error| format!("{error:#}")).as_deref());
    let right = outcome.mismatches == 0 && outcome.verified == args.iterations.get();
    Ok(if right { ExitCode::SUCCESS } else { ExitCode::from(FAILED) })
}

/// The exit status of what prevented the beginning.
fn status(error: &anyhow::Error) -> u8 {
    match error.downcast_ref() {
        Some(Error::Unreachable { .. } | Error::Late { .. }) => FAILED,
        Some(Error::Refused(_)) | None => REFUSED,
    }
}

/// Asks the controller, and waits for the others.
fn begin(args: &SwitchmlArgs) -> anyhow::Result<(Link, Client)> {
    let SwitchmlArgs { rank, ranks, window, timeout, .. } = *args;
    ensure!(rank < ranks, "--rank {rank}: {ranks} ranks are 0 to {}", ranks.saturating_sub(1));
    let size = match args.packet {
        Packet::Short => Size::Bytes256,
        Packet::Long => Size::Bytes1024,
    };
    let client = Client::new(Terms { workers: ranks, window, size, timeout })?;
    let SocketAddr::V4(own) = args.bind else { bail!("--bind {}: SwitchML speaks IPv4 only", args.bind) };
    let port = if own.port() == 0 { USUAL_PORT } else { own.port() };
    let own = SocketAddrV4::new(*own.ip(), port);
    let mac = link::mac_of(*own.ip())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let told = runtime.block_on(async {
        let (rank, ranks) = (u32::from(rank), u32::from(ranks));
        let mut controller = Controller::connect(&args.controller, rank, ranks, args.join_deadline).await?;
        let number = fastrand::u64(..);
        controller.begin(number, mac, u32::from(*own.ip()), i32::from(size.code())).await
    });
    let told = told.context("asking the controller")?;
    let appliance = SocketAddrV4::new(Ipv4Addr::from(told.ipv4), args.udp_port);
    Ok((Link::new(own, appliance)?, client))
}

fn iterate(
    args: &SwitchmlArgs,
    link: &mut Link,
    client: &mut Client,
    outcome: &mut Outcome,
) -> anyhow::Result<()> {
    for iteration in 0..args.iterations.get() {
        let streams: Vec<u64> =
            (0..args.ranks).map(|rank| sample::stream(args.seed, rank, iteration)).collect();
        let own = streams.get(usize::from(args.rank)).copied().unwrap_or_default();
        match args.dtype {
            Type::I32 => client.start_integers((0..args.elements).map(|at| integer(own, at)).collect()),
            Type::F32 => client.start_floats((0..args.elements).map(|at| float(own, at)).collect()),
        }
        let seconds = link.run(client, args.deadline).with_context(|| format!("iteration {iteration}"))?;
        let wrong = match args.dtype {
            Type::I32 => client.take_integers().map(|sums| wrong_integer(&sums, &streams)),
            Type::F32 => client.take_floats().map(|sums| wrong_float(&sums, &streams, args.packet)),
        };
        match wrong.context("the operation has not ended")? {
            None => outcome.verified += 1,
            Some((at, got, expected)) => {
                outcome.mismatches += 1;
                eprintln!("iteration {iteration}: element {at} is {got}, expected {expected}");
            }
        }
        outcome.seconds.push(seconds);
    }
    Ok(())
}

/// A worker's number: all 32 bits, so that sums wrap.
#[expect(clippy::cast_possible_truncation, reason = "the lower half")]
fn integer(stream: u64, at: usize) -> i32 {
    fastrand::Rng::with_seed(stream.wrapping_add(at as u64)).u64(..) as i32
}

/// A worker's number, of a magnitude that differs from block to block.
fn float(stream: u64, at: usize) -> f32 {
    let scale = f32::from(u8::try_from(at / 64 % 7).unwrap_or(0));
    (fastrand::Rng::with_seed(stream.wrapping_add(at as u64)).f32() - 0.5) * scale.exp2()
}

fn wrong_integer(sums: &[i32], streams: &[u64]) -> Option<(usize, String, String)> {
    sums.iter().enumerate().find_map(|(at, &got)| {
        let expected = streams.iter().fold(0, |sum: i32, &stream| sum.wrapping_add(integer(stream, at)));
        (got != expected).then(|| (at, got.to_string(), expected.to_string()))
    })
}

/// Each number is rounded to a multiple of 1/scale, which is at most 2 · N · the block's largest / 2³¹.
#[expect(clippy::cast_precision_loss, reason = "at most 32 workers")]
fn wrong_float(sums: &[f32], streams: &[u64], packet: Packet) -> Option<(usize, String, String)> {
    let block = if packet == Packet::Short { 64 } else { 256 };
    let workers = streams.len() as f64;
    sums.chunks(block).enumerate().find_map(|(number, sums)| {
        let range = || (number * block..).take(sums.len());
        let all = streams.iter().flat_map(|&stream| range().map(move |at| float(stream, at)));
        let largest = all.fold(0.0, |most: f64, value| most.max(f64::from(value).abs()));
        sums.iter().zip(range()).find_map(|(&got, at)| {
            let exact: f64 = streams.iter().map(|&stream| f64::from(float(stream, at))).sum();
            let bound = workers * workers * largest / f64::powi(2.0, 30) + exact.abs() * f64::powi(2.0, -23);
            let right = (f64::from(got) - exact).abs() <= bound;
            (!right).then(|| (at, got.to_string(), format!("{exact} within {bound:e}")))
        })
    })
}

fn tell(args: &SwitchmlArgs, outcome: &Outcome, counters: &Counters, error: Option<&str>) {
    let Outcome { seconds, verified, mismatches } = outcome;
    let bytes = args.elements * 4;
    let median = report::median(seconds);
    let goodput = median.map(|seconds| gigabits(bytes, seconds));
    let Counters { sent, again, results, ignored } = counters;
    if args.json {
        let mut line = json!({
            "rank": args.rank, "ranks": args.ranks, "iterations": seconds.len(), "bytes": bytes,
            "verified": verified, "mismatches": mismatches, "seconds": seconds,
            "goodput_gbps": goodput, "packets_sent": sent, "retransmissions": again,
            "results": results, "ignored": ignored,
        });
        if let Some(error) = error {
            line["error"] = error.into();
        }
        println!("{line}");
    } else {
        println!(
            "rank {} of {}: {} allreduces of {bytes} bytes, median {:.3} Gbit/s, {verified} right, \
                {mismatches} wrong; {sent} packets sent, {again} of them again; {ignored} ignored",
            args.rank,
            args.ranks,
            seconds.len(),
            goodput.unwrap_or_default(),
        );
    }
}

#[cfg(test)]
mod tests;
