//! `predict`: how long an allreduce takes over shaped links, in virtual time.

use core::time::Duration;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Args;
use pascaline_app::cli::{controls, duration, size};
use pascaline_shared::println;
use pascaline_sim::bottleneck::{FRAMING, Setting, Sharer, run};
use pascaline_wire::CongestionControl;
use serde_json::json;

/// Predict how long an allreduce takes over links of a given rate, in virtual time
///
/// Simulates real workers and the real appliance under a virtual clock. Each rank has its own link to the
/// appliance. Counts the time of links and of the protocol, but no processor time.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  pascaline-lab predict --ranks 4 --mbit 100 --bytes 16MiB
  pascaline-lab predict --ranks 8 --mbit 50 --bytes 40KiB --bucket 6KiB --round-trip 300us --json

--bucket is for links that Linux shapes (tc-tbf): its burst passes at once after a pause, and Ethernet's
preamble, checksum and gap take no time. Without it, links are wires.")]
pub(crate) struct PredictArgs {
    /// Ranks of the job
    #[arg(long, value_name = "N")]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=64))]
    ranks: u16,
    /// Rate of each rank's link, each way, in Mbit/s
    #[arg(long, value_name = "R")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=400_000))]
    mbit: u64,
    /// Size of the tensor, a multiple of 4
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bytes: usize,
    /// Payload bytes of a packet, a multiple of 8
    #[arg(long, value_name = "N", default_value_t = 1408)]
    #[arg(value_parser = clap::value_parser!(u16).range(8..=8960))]
    payload: u16,
    /// Bytes that pass a shaped link at once after a pause
    #[arg(long, value_name = "SIZE", value_parser = size)]
    bucket: Option<usize>,
    /// Round trip of a short packet to the appliance on idle links
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "50us")]
    round_trip: Duration,
    /// Bytes that wait for a link at most; more are lost
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1MiB")]
    queue: usize,
    /// Congestion control of the workers
    #[arg(long, value_name = "CONTROL", value_parser = controls(), default_value = "delay")]
    congestion: CongestionControl,
    /// Packets in flight at most; 0 for as many as the appliance's window allows
    #[arg(long, value_name = "N", default_value_t = 0)]
    in_flight: u16,
    /// How far a worker may run ahead, as the job's `window` in the appliance's configuration
    #[arg(long, value_name = "N", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=16384))]
    window: u16,
    /// Number of consecutive allreduces; the first of several is not counted
    #[arg(long, value_name = "N", default_value_t = 5)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    iterations: u16,
    /// Pause between two allreduces, an hour at most
    #[arg(long, value_name = "TIME", value_parser = duration, default_value = "20ms")]
    pause: Duration,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl PredictArgs {
    /// The simulated setting. It ends late enough to finish at a tenth of the rate.
    fn setting(&self) -> anyhow::Result<Setting> {
        check_sizes(self.bytes, self.payload)?;
        check_time("--round-trip", self.round_trip)?;
        check_time("--pause", self.pause)?;
        let sharer = Sharer { control: self.congestion, in_flight: self.in_flight, begins: Duration::ZERO };
        let mut setting = Setting {
            jobs: vec![sharer],
            rate: self.mbit * 1_000_000,
            framing: if self.bucket.is_some() { 0 } else { FRAMING },
            bucket: u64::try_from(self.bucket.unwrap_or(0))?,
            propagation: self.round_trip / 2,
            marks_from: None,
            payload: self.payload,
            bytes: self.bytes,
            pause: self.pause,
            window: self.window,
            ..Setting::rack(self.ranks)
        };
        let packet = u64::from(self.payload) + 64;
        setting.queue = (u64::try_from(self.queue)? / packet).max(1);
        let packets = u32::try_from(self.bytes.div_ceil(usize::from(self.payload))).context(
            "--bytes: the tensor needs more packets than there are PSNs\n  remedy: a smaller tensor",
        )?;
        let each = setting.packet_time() * packets + self.round_trip;
        setting.operations = usize::from(self.iterations);
        setting.ends = (each * 10 + self.pause) * u32::from(self.iterations) + Duration::from_secs(2);
        Ok(setting)
    }
}

/// Refuses a time that is too long to simulate.
pub(crate) fn check_time(option: &str, time: Duration) -> anyhow::Result<()> {
    ensure!(time <= Duration::from_secs(3600), "{option}: more than an hour\n  remedy: a shorter time");
    Ok(())
}

/// Refuses sizes that a tensor or packets cannot have.
pub(crate) fn check_sizes(bytes: usize, payload: u16) -> anyhow::Result<()> {
    ensure!(
        bytes > 0 && bytes.is_multiple_of(4),
        "--bytes {bytes}: a tensor of i32 is a multiple of 4 bytes, at least 4\n  remedy: e.g. --bytes 16MiB"
    );
    ensure!(
        payload.is_multiple_of(8),
        "--payload {payload}: not a multiple of 8\n  remedy: e.g. --payload {}",
        payload / 8 * 8
    );
    Ok(())
}

/// Runs the command.
pub(crate) fn predict(args: &PredictArgs) -> anyhow::Result<ExitCode> {
    let setting = args.setting()?;
    let wanted = usize::from(args.iterations);
    let outcome = run(&setting).with_context(|| {
        format!("no appliance can serve {} ranks with a window of {}", args.ranks, args.window)
    })?;
    let [share] = outcome.shares.as_slice() else { anyhow::bail!("the simulation has lost its job") };
    ensure!(share.wrong == 0, "{} elements of the sums were wrong", share.wrong);
    ensure!(
        share.operations.len() >= wanted,
        "only {} of {wanted} allreduces completed within {:?} of virtual time: the links lose too much\n  \
         remedy: a larger --queue, or a smaller --in-flight",
        share.operations.len(),
        setting.ends
    );
    let counted = &share.operations[usize::from(wanted > 1)..wanted];
    let mut sorted = counted.to_vec();
    sorted.sort_unstable();
    let median = sorted[sorted.len() / 2];
    let packets = u32::try_from(args.bytes.div_ceil(usize::from(args.payload)))?;
    let least = setting.packet_time() * packets;
    if args.json {
        let seconds: Vec<f64> = counted.iter().map(Duration::as_secs_f64).collect();
        println!(
            "{}",
            json!({ "ranks": args.ranks, "bytes": args.bytes, "mbit": args.mbit, "seconds": seconds,
                    "median_seconds": median.as_secs_f64(), "least_seconds": least.as_secs_f64(),
                    "resent": share.resent, "dropped": outcome.dropped })
        );
    } else {
        println!(
            "{:.3} ms, of which full packets occupy the link for {:.3} ms; {} packets sent again, {} lost",
            1e3 * median.as_secs_f64(),
            1e3 * least.as_secs_f64(),
            share.resent,
            outcome.dropped
        );
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests;
