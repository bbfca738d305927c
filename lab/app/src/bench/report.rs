//! `bench pipeline`: measurements in turns, their medians, and the ratio to the limit.

use std::process::ExitCode;

use anyhow::Context as _;
use pascaline_shared::println;
use pascaline_wire::Mac;
use serde::Serialize;

use super::distance::{Apart, Distance};
use super::fixture::{self, Arrival, EPOCH, Frames, L2, Load, median};
use super::pool::{BareAdd, prepare};
use super::ring::Between;
use super::testpmd::{Mode, Testpmd};
use super::{PipelineArgs, hot, memif, ring};

/// Millions of packets per second over one kind of port.
#[derive(Debug, Serialize)]
struct Figures {
    mpps: f64,
    testpmd_mpps: f64,
    testpmd_io_mpps: f64,
    /// A loop that exchanges addresses, fed by the pipeline's source, where dpdk-testpmd cannot use it.
    #[serde(skip_serializing_if = "Option::is_none")]
    macswap_mpps: Option<f64>,
    /// The receive hook's nanoseconds per packet, already subtracted, where there is a hook.
    #[serde(skip_serializing_if = "Option::is_none")]
    hook_ns: Option<f64>,
    /// To the limit. The median of each turn's own ratio: a change of the machine between turns then cancels.
    ratio: f64,
}

/// The same, turn by turn.
#[derive(Debug, Default)]
struct Measured {
    mpps: Vec<f64>,
    testpmd: Vec<f64>,
    testpmd_io: Vec<f64>,
    macswap: Vec<f64>,
    hook_ns: Vec<f64>,
}

impl Measured {
    fn testpmd(&mut self, [macswap, io]: [f64; 2]) {
        self.testpmd.push(macswap);
        self.testpmd_io.push(io);
    }

    /// Medians; `add` has the bare add's nanoseconds, turn by turn.
    fn figures(self, bare_add_ns: &[f64]) -> Figures {
        let any = |values: Vec<f64>| (!values.is_empty()).then(|| median(values));
        let forwarded = if self.macswap.is_empty() { &self.testpmd } else { &self.macswap };
        let ratios = self.mpps.iter().zip(forwarded).zip(bare_add_ns);
        Figures {
            ratio: median(ratios.map(|((&mpps, &forwarded), &add)| ratio(mpps, forwarded, add)).collect()),
            mpps: median(self.mpps),
            testpmd_mpps: median(self.testpmd),
            testpmd_io_mpps: median(self.testpmd_io),
            macswap_mpps: any(self.macswap),
            hook_ns: any(self.hook_ns),
        }
    }
}

/// The time that no implementation can save, divided by the time taken. Rates in millions of packets per
/// second, the bare add in nanoseconds.
fn ratio(mpps: f64, forwarded: f64, bare_add_ns: f64) -> f64 {
    (1000.0 / forwarded + bare_add_ns) / (1000.0 / mpps)
}

#[derive(Debug, Serialize)]
struct Report {
    bare_add_ns: f64,
    /// Between the core of the lcore and that of the source.
    cores_apart_ns: Apart,
    hot: Figures,
    ring: Figures,
    memif: Figures,
    fan_in: u16,
    payload: u16,
    repeat: u32,
    seconds: u64,
    hugepages: bool,
}

impl Report {
    fn print(&self) {
        println!("bare add {:.1} ns; fan-in {}, {} B payload", self.bare_add_ns, self.fan_in, self.payload);
        println!("ring, memif: {}", self.cores_apart_ns);
        for (name, figures) in [("hot", &self.hot), ("ring", &self.ring), ("memif", &self.memif)] {
            let macswap = figures.macswap_mpps.map(|mpps| format!("   macswap, same source {mpps:.2} Mpps"));
            let hook = figures.hook_ns.map(|ns| format!("   without {ns:.1} ns for writing a packet"));
            println!(
                "{name:6} {:6.2} Mpps   ratio to the limit {:.2}   \
                 testpmd macswap {:6.2}, io {:6.2} Mpps{}{}",
                figures.mpps,
                figures.ratio,
                figures.testpmd_mpps,
                figures.testpmd_io_mpps,
                macswap.unwrap_or_default(),
                hook.unwrap_or_default()
            );
        }
    }
}

/// Steps of a round, for the progress bar.
const STEPS: u64 = 8;

pub(super) fn pipeline(args: &PipelineArgs) -> anyhow::Result<ExitCode> {
    let eal = fixture::eal("bench-pipeline", args.main_core, vec![args.core])?;
    let hugepages = matches!(eal.memory(), pascaline_dpdk::Memory::Huge);
    let lcores = eal.lcores();
    let lcore = lcores.first().context("no lcore")?;
    let pools = fixture::pools(&eal, &args.shape)?;
    let ring_pools = fixture::pools_of(&eal, "-ring", ring::BUFFERS, fixture::room(&args.shape)?)?;
    let bar = indicatif::ProgressBar::new(u64::from(args.repeat) * STEPS);
    bar.set_style(indicatif::ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?);
    let step = |what: &'static str| {
        bar.set_message(what);
        bar.inc(1);
    };
    let (mut add, [mut hot, mut ring, mut memif]) = (Vec::new(), <[Measured; 3]>::default());
    let (mut distance, clock) = (Distance::default(), fixture::clock(&eal));
    // In turns, so that a slow minute of the machine affects all alike.
    for _ in 0..args.repeat {
        step("the bare add");
        add.push(bare_add(&eal, std::slice::from_ref(lcore), args, &pools.0)?);
        step("hot: dpdk-testpmd on net_null");
        hot.testpmd(testpmd(args, &hot::device(0, &args.shape), hugepages, false)?);
        step("hot: pipeline on net_null");
        let seen = hot::measure(&eal, lcore, args.shape, pools.clone(), args.seconds)?;
        hot.mpps.push(seen.mpps);
        hot.hook_ns.push(seen.hook_ns);
        distance.look(lcore, &clock)?;
        step("ring: dpdk-testpmd on net_ring");
        ring.testpmd(testpmd(args, ring::DEVICE, hugepages, true)?);
        step("ring: addresses exchanged");
        ring.macswap.push(ring::measure(&eal, lcore, args, &ring_pools, Between::MacSwap)?);
        step("ring: pipeline on net_ring");
        ring.mpps.push(ring::measure(&eal, lcore, args, &ring_pools, Between::Pipeline)?);
        distance.look(lcore, &clock)?;
        step("memif: dpdk-testpmd");
        let [macswap, io] = Mode::BOTH.map(|mode| testpmd_memif(args, mode, hugepages));
        memif.testpmd([macswap?, io?]);
        step("memif: pipeline");
        memif.mpps.push(memif::measure(&eal, lcore, args, pools.clone())?);
        distance.look(lcore, &clock)?;
    }
    bar.finish_and_clear();
    let report = Report {
        cores_apart_ns: distance.apart(),
        hot: hot.figures(&add),
        ring: ring.figures(&add),
        memif: memif.figures(&add),
        bare_add_ns: median(add),
        fan_in: args.shape.fan_in,
        payload: args.shape.payload,
        repeat: args.repeat,
        seconds: args.seconds,
        hugepages,
    };
    super::print_report(&report, args.json, Report::print)
}

/// The bare add on all these lcores at once: the mean of their times.
pub(super) fn bare_add(
    eal: &pascaline_dpdk::Eal,
    lcores: &[pascaline_dpdk::Lcore],
    args: &PipelineArgs,
    frames: &pascaline_dpdk::Mempool,
) -> anyhow::Result<f64> {
    const ROUNDS: u32 = 2000;
    let mut handles = Vec::new();
    for lcore in lcores {
        let (shape, frames, clock) = (args.shape, frames.clone(), fixture::clock(eal));
        handles.push(lcore.launch(move || -> anyhow::Result<f64> {
            let load = Load::plain(shape, L2);
            let writer = Frames::new(&load, Mac::default(), EPOCH);
            let mut add = BareAdd::new(&load, &frames)?;
            let packets = f64::from(L2.packets);
            let mut times = Vec::new();
            let (mut ready, mut psns) = (Vec::new(), Vec::new());
            let mut arrival = Arrival::new(&load);
            for _ in 0..ROUNDS {
                prepare(&writer, L2.packets, &frames, &mut arrival, &mut ready, &mut psns)?;
                times.push(add.round(&clock, &mut ready, &psns) / packets);
                ready.clear();
                psns.clear();
            }
            Ok(median(times))
        })?);
    }
    let mut sum = 0.0;
    for handle in handles {
        sum += handle.join().map_err(|panic| anyhow::anyhow!("{panic}"))??;
    }
    Ok(sum / f64::from(u32::try_from(lcores.len())?))
}

/// dpdk-testpmd in both modes, on a device without a peer.
fn testpmd(args: &PipelineArgs, device: &str, hugepages: bool, own: bool) -> anyhow::Result<[f64; 2]> {
    let mut testpmd = Testpmd::start(args, device, hugepages)?;
    let mpps = testpmd.both(args.seconds, own)?;
    testpmd.end()?;
    Ok(mpps)
}

/// dpdk-testpmd in the appliance's place, with the same source.
fn testpmd_memif(args: &PipelineArgs, mode: Mode, hugepages: bool) -> anyhow::Result<f64> {
    let socket = memif::Socket::new("testpmd");
    let mut testpmd = Testpmd::start(args, &memif::device(0, socket.path(), &args.shape), hugepages)?;
    testpmd.forward(mode)?;
    let mut source = memif::start_source(args, socket.path(), Mac::default(), false)?;
    let report = source.report()?;
    testpmd.end()?;
    drop(source);
    Ok(report.mpps)
}

#[cfg(test)]
mod tests;
