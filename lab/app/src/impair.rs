//! `pascaline-lab impair`: a wire in user space that loses, duplicates and reorders frames, and that may be
//! slow, with a queue that marks packets.
//!
//! Joins two interfaces by raw packet sockets and treats the frames between them as a bad link would. It
//! replaces the kernel's netem where that is missing, and counts its effects on the frames. [`link`] decides
//! about each frame and uses no sockets; this part moves bytes.
//!
//! Bytes stay as they are: if the sender left the UDP checksum to its interface, it is unfinished here and at
//! the other end. VLAN tags that the kernel keeps outside the frame are lost.

mod link;
mod port;
mod queue;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pascaline_shared::{eprintln, println};
use serde::Serialize;

use self::link::{Counters, Impairment, Rates};
use self::port::{BATCH, Frame, Port};
use self::queue::{Line, Queue};

/// Longest wait for a frame before it is checked whether to stop.
const IDLE: Duration = Duration::from_millis(100);

/// Batches taken from one side before the other side and the clock get their turn.
const BATCHES_PER_TURN: usize = 4;

/// Join two interfaces by a wire that loses, duplicates and reorders frames, and may be slow
///
/// Works in user space, in place of the kernel's netem. Runs until SIGTERM or SIGINT, then sends the frames
/// that it still holds and prints one JSON object on stdout: the counts of each direction.
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = "Examples:
  pascaline-lab impair --left w0 --right a0 --loss 1 --duplicate 1 --reorder 1 --seed 7
  ip netns exec middle pascaline-lab impair --left eth0 --right eth1 --loss 0.1
  pascaline-lab impair --left w0 --right a0 --rate 100000000 --queue 200 --ecn-threshold 20
  pascaline-lab impair --left w0 --right a0 --rate 100000000 --ecn-threshold 40 --ecn-full 200")]
pub(crate) struct ImpairArgs {
    /// One interface
    #[arg(long, value_name = "IFACE")]
    left: String,
    /// The other interface
    #[arg(long, value_name = "IFACE")]
    right: String,
    /// Frames to lose, in percent, in each direction
    #[arg(long, value_name = "PCT", default_value_t = 0.0, value_parser = percent)]
    loss: f64,
    /// Frames to send twice, in percent, in each direction
    #[arg(long, value_name = "PCT", default_value_t = 0.0, value_parser = percent)]
    duplicate: f64,
    /// Frames to delay behind up to three of the following frames, in percent, in each direction
    #[arg(long, value_name = "PCT", default_value_t = 0.0, value_parser = percent)]
    reorder: f64,
    /// Bits per second of the wire, in each direction; 0 for no limit
    #[arg(long, value_name = "BPS", default_value_t = 0)]
    rate: u64,
    /// Frames that wait for a wire with a rate; more are dropped
    #[arg(long, value_name = "PACKETS", default_value_t = 1000, requires = "rate")]
    queue: usize,
    /// Queue length from which arriving packets of ECN-capable senders are marked
    #[arg(long, value_name = "PACKETS", requires = "rate")]
    ecn_threshold: Option<usize>,
    /// Queue length from which all of them are marked. Between the threshold and this, the share of marked
    /// packets grows with the queue. Unless given, all are marked from the threshold on
    #[arg(long, value_name = "PACKETS", requires = "ecn_threshold")]
    ecn_full: Option<usize>,
    /// The same seed makes the same decisions for the same sequence of frames
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The counts that are printed at the end.
#[derive(Debug, Serialize)]
struct Summary {
    left_to_right: Counted,
    right_to_left: Counted,
}

/// Of one direction.
#[derive(Debug, Serialize)]
struct Counted {
    #[serde(flatten)]
    link: Counters,
    /// Packets that the queue has marked, and frames that found it full.
    marked: u64,
    queue_full: u64,
}

/// One direction of the wire.
struct Direction {
    link: Impairment<Frame>,
    queue: Queue<Frame>,
    /// Frames to send; kept between turns for its memory only.
    out: Vec<Frame>,
}

impl Direction {
    fn new(rates: Rates, line: Line, seed: u64) -> Self {
        let (link, queue) = (Impairment::new(rates, seed), Queue::new(line, seed));
        Self { link, queue, out: Vec::with_capacity(2 * BATCH) }
    }

    fn next_due(&self) -> Option<Instant> {
        [self.link.next_due(), self.queue.next_due()].into_iter().flatten().min()
    }

    fn counted(&self) -> Counted {
        Counted { link: self.link.counters(), marked: self.queue.marked, queue_full: self.queue.dropped }
    }

    /// Moves a bounded number of frames from `from` to `to`, and sends held frames that are due.
    fn turn(&mut self, from: &mut Port, to: &mut Port) -> anyhow::Result<()> {
        for _ in 0..BATCHES_PER_TURN {
            let batch = from.receive()?;
            let now = Instant::now();
            self.link.release_due(now, &mut self.out);
            self.link.not_taken(batch.too_long);
            let full = batch.frames.len() == BATCH;
            for frame in batch.frames {
                self.link.offer(now, frame, &mut self.out);
            }
            self.queue.pass(now, &mut self.out);
            self.send(from, to)?;
            if !full {
                break;
            }
        }
        Ok(())
    }

    /// Sends all held frames and completes the counts.
    fn finish(&mut self, from: &mut Port, to: &mut Port) -> anyhow::Result<()> {
        self.turn(from, to)?;
        self.link.flush(&mut self.out);
        self.queue.flush(&mut self.out);
        self.send(from, to)?;
        self.link.not_taken(from.missed());
        Ok(())
    }

    /// Sends `out`; the frames' memory is returned to the port that they came from.
    fn send(&mut self, from: &mut Port, to: &mut Port) -> anyhow::Result<()> {
        let refused = to.send(&self.out)?;
        self.link.not_sent(refused);
        from.recycle(self.out.drain(..));
        Ok(())
    }
}

/// Runs until a signal says to stop.
///
/// # Errors If an interface does not exist, the process may not open raw sockets, or an interface disappears.
pub(crate) fn run(args: &ImpairArgs) -> anyhow::Result<ExitCode> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop))
            .with_context(|| format!("cannot handle signal {signal}"))?;
    }
    anyhow::ensure!(args.left != args.right, "--left and --right name the same interface, {}", args.left);
    let mut left = Port::open(&args.left)?;
    let mut right = Port::open(&args.right)?;
    let rates = Rates { loss: args.loss, duplicate: args.duplicate, reorder: args.reorder };
    let (threshold, full) = (args.ecn_threshold, args.ecn_full.unwrap_or(0));
    let line = Line { rate: args.rate, limit: args.queue, threshold, full };
    // One seed gives the two directions two sequences.
    let mut rightward = Direction::new(rates, line, args.seed);
    let mut leftward = Direction::new(rates, line, args.seed ^ 0x6c65_6674_7761_7264);

    eprintln!("impair: ready, {} <-> {}, seed {}", args.left, args.right, args.seed);
    while !stop.load(Ordering::Relaxed) {
        port::wait(&left, &right, timeout(&rightward, &leftward))?;
        rightward.turn(&mut left, &mut right)?;
        leftward.turn(&mut right, &mut left)?;
    }

    rightward.finish(&mut left, &mut right)?;
    leftward.finish(&mut right, &mut left)?;
    let summary = Summary { left_to_right: rightward.counted(), right_to_left: leftward.counted() };
    println!("{}", serde_json::to_string(&summary)?);
    Ok(ExitCode::SUCCESS)
}

/// How long to sleep unless a frame arrives.
fn timeout(a: &Direction, b: &Direction) -> Duration {
    let now = Instant::now();
    [a, b]
        .into_iter()
        .filter_map(Direction::next_due)
        .map(|due| due.saturating_duration_since(now))
        .min()
        .map_or(IDLE, |due| due.min(IDLE))
}

/// Reads a percentage.
fn percent(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=100.0).contains(&value) => Ok(value),
        Ok(value) => Err(format!("{value} is not between 0 and 100")),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests;
