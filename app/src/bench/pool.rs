//! `bench pool`: the packet path between reception and transmission, against the bare add.
//!
//! Measured: from packets in memory to result frames handed to a port: parse, classify, look up, deduplicate, add, give
//! spent packets back, and for every result one header buffer per member, filled in and chained to the payload, per turn
//! of a full burst. Not measured: reading the clock, and what drivers do, which is to deliver packets and to free what has
//! been sent; `bench pipeline` has that in.

use std::process::ExitCode;

use arrayvec::ArrayVec;
use clap::Args;
use pascaline_buffer::PacketBuf;
use pascaline_buffer::combine::Kernels;
use pascaline_dpdk::{Clock, Mbuf, Mempool};
use pascaline_pipelines::{BURST, Io, STAGE};
use pascaline_telemetry::Counter;
use pascaline_wire::Mac;
use serde::Serialize;

use super::fixture::{self, Arrival, EPOCH, Frames, HEADERS, L2, LAST_LEVEL, Residence, Shape, median};

#[derive(Debug, Args)]
pub(crate) struct PoolArgs {
    #[command(flatten)]
    shape: Shape,
    /// Rounds; each deals with 32 PSNs' worth of packets, and the median round counts
    #[arg(long, default_value_t = 4000, value_parser = clap::value_parser!(u32).range(10..=1_000_000))]
    rounds: u32,
    /// The core to run on
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What one measurement gave.
#[derive(Debug, Clone, Copy, Serialize)]
struct Figures {
    /// Nanoseconds to add one payload into an accumulator, nothing else.
    bare_add_ns: f64,
    /// Nanoseconds per packet, with all that this module's documentation lists.
    pool_ns: f64,
    ratio: f64,
    /// Payload per second that this would be.
    gbps_per_core: f64,
}

/// What is reported: the figures with everything in the second-level cache, and those in the last-level cache.
#[derive(Debug, Clone, Copy, Serialize)]
struct PoolReport {
    #[serde(flatten)]
    l2: Figures,
    last_level: Figures,
    fan_in: u16,
    payload: u16,
    kernels: &'static str,
}

/// Packet I/O that hands out what was prepared and swallows what is sent.
struct Prepared {
    /// Bursts, the last one first.
    ready: Vec<ArrayVec<Mbuf, BURST>>,
    frames: Mempool,
    headers: Mempool,
    clock: Clock,
    /// What was sent. A port's driver frees it when the device is done with it; here that is after each turn's measurement.
    sent: Vec<Mbuf>,
    count: u64,
}

impl Io for Prepared {
    type Buf = Mbuf;

    fn receive(&mut self, _: usize, into: &mut ArrayVec<Mbuf, BURST>) {
        if let Some(burst) = self.ready.pop() {
            *into = burst;
        }
    }

    fn transmit(&mut self, _: usize, frames: &mut ArrayVec<Mbuf, STAGE>) {
        self.count += frames.len() as u64;
        self.sent.extend(frames.drain(..));
    }

    fn header_buffers(&mut self, into: &mut ArrayVec<Mbuf, BURST>) {
        let room = into.remaining_capacity();
        // None left shows in the number of results, which is checked at the end.
        let _ = self.headers.alloc_bulk(into, room);
    }

    fn frame_buffer(&mut self) -> Option<Mbuf> {
        self.frames.alloc()
    }

    fn multi_segment(&self, _: usize) -> bool {
        true
    }

    fn recycle(&mut self, spent: &mut ArrayVec<Mbuf, BURST>) {
        Mbuf::free_bulk(spent);
    }

    fn now(&self) -> u64 {
        self.clock.now_ns()
    }
}

pub(super) fn run(args: &PoolArgs) -> anyhow::Result<ExitCode> {
    let shape = args.shape;
    let eal = fixture::eal("bench-pool", args.core, Vec::new())?;
    let pools = fixture::pools(&eal, &shape)?;
    let clock = fixture::clock(&eal);
    let rounds = (args.rounds * L2.psns / LAST_LEVEL.psns).max(10);
    let report = PoolReport {
        l2: measure(&shape, L2, args.rounds, &pools, clock)?,
        last_level: measure(&shape, LAST_LEVEL, rounds, &pools, clock)?,
        fan_in: shape.fan_in,
        payload: shape.payload,
        kernels: Kernels::detect().isa,
    };
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!(
            "{} B payload, fan-in {}, {} kernel; ns per packet",
            report.payload, report.fan_in, report.kernels
        );
        for (place, figures) in [("second-level cache", report.l2), ("last-level cache", report.last_level)] {
            println!(
                "{place:20} bare add {:6.1}   pool {:6.1}   ratio {:.2}   {:.0} Gbit/s of payload per core",
                figures.bare_add_ns, figures.pool_ns, figures.ratio, figures.gbps_per_core
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn measure(
    shape: &Shape,
    residence: Residence,
    rounds: u32,
    (frames, headers): &(Mempool, Mempool),
    clock: Clock,
) -> anyhow::Result<Figures> {
    let mac = Mac([2, 0, 0, 0, 0xff, 0xfe]);
    let writer = Frames::new(shape, mac, EPOCH);
    let io = Prepared {
        ready: Vec::new(),
        frames: frames.clone(),
        headers: headers.clone(),
        clock,
        sent: Vec::with_capacity(8192),
        count: 0,
    };
    let mut bench = fixture::lcore(shape, residence, io, mac)?;
    let mut add = BareAdd::new(shape, residence, frames)?;
    let mut arrival = Arrival::new(shape, residence);
    let packets = f64::from(residence.psns) * f64::from(shape.fan_in);
    let reading = time_of_reading(&clock);
    let (mut bare, mut pool, mut psns) = (Vec::new(), Vec::new(), Vec::new());
    let mut ready = Vec::new();
    for _ in 0..rounds {
        // Both see the same packets, freshly written, in the same order.
        psns.clear();
        prepare(&writer, residence, frames, &mut arrival, &mut ready, &mut psns)?;
        bare.push(add.round(&clock, &ready, &psns) / packets);
        prepare_again(&writer, &mut ready);
        bench.lcore.io().ready = bursts(&mut ready);
        let mut taken = 0;
        loop {
            let start = clock.now_ns();
            let received = bench.lcore.turn();
            let time = clock.now_ns() - start;
            bench.lcore.io().sent.clear();
            if received == 0 {
                break;
            }
            taken += time.saturating_sub(reading);
        }
        pool.push(nanos(taken) / packets);
    }
    let account = bench.counters.read();
    let (completed, expected) =
        (account.get(Counter::Completed), u64::from(rounds) * u64::from(residence.psns));
    // The last ones still wait for the ranks that are behind.
    anyhow::ensure!(
        completed <= expected
            && completed + 2 * u64::from(residence.psns.max(u32::from(shape.fan_in))) >= expected
            && bench.lcore.io().count == completed * u64::from(shape.fan_in)
            && account.dropped_total() == 0
            && account.unaccounted() == 0,
        "the pool completed {completed} of {expected} PSNs and dropped {} packets: the measurement is void",
        account.dropped_total()
    );
    bench.plane.stop();
    let (bare_add_ns, pool_ns) = (median(bare), median(pool));
    Ok(Figures {
        bare_add_ns,
        pool_ns,
        ratio: pool_ns / bare_add_ns,
        gbps_per_core: f64::from(shape.payload) * 8.0 / pool_ns,
    })
}

/// Nanoseconds that a measurement of nothing shows; a turn is short enough for that to matter.
fn time_of_reading(clock: &Clock) -> u64 {
    let mut nothing: Vec<u64> = (0..1001)
        .map(|_| {
            let start = clock.now_ns();
            clock.now_ns() - start
        })
        .collect();
    nothing.sort_unstable();
    nothing[nothing.len() / 2]
}

/// The limit of everything: each payload is added once into the accumulator of its PSN.
pub(super) struct BareAdd {
    accumulators: Vec<Mbuf>,
    kernel: pascaline_buffer::combine::Combine,
}

impl BareAdd {
    pub(super) fn new(shape: &Shape, residence: Residence, frames: &Mempool) -> anyhow::Result<Self> {
        let mut accumulators = Vec::new();
        for _ in 0..residence.psns {
            let mut packet = frames.alloc().ok_or_else(|| anyhow::anyhow!("no packet buffer"))?;
            anyhow::ensure!(packet.set_len(shape.frame_len()), "packet buffers are too small");
            packet.bytes_mut().fill(0);
            accumulators.push(packet);
        }
        Ok(Self { accumulators, kernel: Kernels::detect().f32_sum })
    }

    /// Adds the payloads of one round, in the order in which `ready` hands them out; returns nanoseconds.
    pub(super) fn round(&mut self, clock: &Clock, ready: &[Mbuf], psns: &[u32]) -> f64 {
        let start = clock.now_ns();
        for (packet, psn) in ready.iter().rev().zip(psns) {
            // A power of two: the bare add should not pay for a division.
            let into = *psn as usize & (self.accumulators.len() - 1);
            let into = &mut self.accumulators[into];
            (self.kernel)(&mut into.bytes_mut()[HEADERS..], &packet.bytes()[HEADERS..]);
        }
        nanos(clock.now_ns() - start)
    }
}

/// Allocates and writes the packets of one round, last first, since they are taken from the end; and notes their PSNs,
/// first first.
pub(super) fn prepare(
    writer: &Frames,
    residence: Residence,
    frames: &Mempool,
    arrival: &mut Arrival,
    ready: &mut Vec<Mbuf>,
    psns: &mut Vec<u32>,
) -> anyhow::Result<()> {
    for _ in 0..usize::from(writer.fan_in()) * residence.psns as usize {
        let (rank, psn) = arrival.next();
        let mut packet = frames.alloc().ok_or_else(|| anyhow::anyhow!("no packet buffer is left"))?;
        anyhow::ensure!(packet.set_len(HEADERS + writer.payload().len()), "packet buffers are too small");
        anyhow::ensure!(writer.write_headers(packet.bytes_mut(), rank, psn), "a header could not be written");
        ready.push(packet);
        psns.push(psn);
    }
    ready.reverse();
    prepare_again(writer, ready);
    Ok(())
}

/// Packets, taken from the end, in bursts that are to be taken from the end.
fn bursts(ready: &mut Vec<Mbuf>) -> Vec<ArrayVec<Mbuf, BURST>> {
    let mut bursts = Vec::with_capacity(ready.len().div_ceil(BURST));
    while !ready.is_empty() {
        let first = ready.len().saturating_sub(BURST);
        bursts.push(ready.drain(first..).rev().collect());
    }
    bursts.reverse();
    bursts
}

/// Writes the payloads again, so that they are as fresh for the second measurement as for the first.
fn prepare_again(writer: &Frames, ready: &mut [Mbuf]) {
    for packet in ready {
        packet.bytes_mut()[HEADERS..].copy_from_slice(writer.payload());
    }
}

#[allow(clippy::cast_precision_loss, reason = "short times")]
pub(super) fn nanos(nanos: u64) -> f64 {
    nanos as f64
}
