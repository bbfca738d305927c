//! `bench pipeline`: measurements in turns, medians, and the ratio to what nobody can save.

use std::process::ExitCode;

use anyhow::Context as _;
use pascaline_wire::Mac;
use serde::Serialize;

use super::fixture::{self, Arrival, EPOCH, Frames, L2, Load, median};
use super::pool::{BareAdd, prepare};
use super::testpmd::Testpmd;
use super::{PipelineArgs, hot, memif};

#[derive(Debug, Serialize)]
struct Figures {
    mpps: f64,
    testpmd_mpps: f64,
    ratio: f64,
}

impl Figures {
    fn new(mpps: Vec<f64>, testpmd: Vec<f64>, bare_add_ns: f64) -> Self {
        let (mpps, testpmd_mpps) = (median(mpps), median(testpmd));
        Self { mpps, testpmd_mpps, ratio: (1000.0 / testpmd_mpps + bare_add_ns) / (1000.0 / mpps) }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    bare_add_ns: f64,
    hot: Figures,
    memif: Figures,
    fan_in: u16,
    payload: u16,
    repeat: u32,
    seconds: u64,
    hugepages: bool,
}

pub(super) fn pipeline(args: &PipelineArgs) -> anyhow::Result<ExitCode> {
    let eal = fixture::eal("bench-pipeline", args.main_core, vec![args.core])?;
    let hugepages = matches!(eal.memory(), pascaline_dpdk::Memory::Huge);
    let lcores = eal.lcores();
    let lcore = lcores.first().context("no lcore")?;
    let pools = fixture::pools(&eal, &args.shape)?;
    let bar = indicatif::ProgressBar::new(u64::from(args.repeat) * 5);
    bar.set_style(indicatif::ProgressStyle::with_template("{bar:40} {pos}/{len} {msg}")?);
    let step = |what: &'static str| {
        bar.set_message(what);
        bar.tick();
    };
    let (mut add, mut hot_ours, mut hot_theirs, mut memif_ours, mut memif_theirs) =
        (Vec::new(), Vec::new(), Vec::new(), Vec::new(), Vec::new());
    // In turns, so that a slow minute of the machine hits all of them alike.
    for _ in 0..args.repeat {
        step("the bare add");
        add.push(bare_add(&eal, std::slice::from_ref(lcore), args, &pools.0)?);
        bar.inc(1);
        step("hot: dpdk-testpmd macswap on net_null");
        let mut testpmd = Testpmd::start(args, &hot::device(0, &args.shape), hugepages)?;
        hot_theirs.push(testpmd.mpps(args.seconds)?);
        testpmd.end()?;
        bar.inc(1);
        step("hot: pipeline on net_null");
        hot_ours.push(hot::measure(&eal, lcore, args.shape, pools.clone(), args.seconds)?);
        bar.inc(1);
        step("memif: dpdk-testpmd macswap");
        memif_theirs.push(testpmd_memif(args, hugepages)?);
        bar.inc(1);
        step("memif: pipeline");
        memif_ours.push(memif::measure(&eal, lcore, args, pools.clone())?);
        bar.inc(1);
    }
    bar.finish_and_clear();
    let bare_add_ns = median(add);
    let report = Report {
        bare_add_ns,
        hot: Figures::new(hot_ours, hot_theirs, bare_add_ns),
        memif: Figures::new(memif_ours, memif_theirs, bare_add_ns),
        fan_in: args.shape.fan_in,
        payload: args.shape.payload,
        repeat: args.repeat,
        seconds: args.seconds,
        hugepages,
    };
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        println!("bare add {bare_add_ns:.1} ns; fan-in {}, {} B payload", report.fan_in, report.payload);
        for (name, figures) in [("hot", &report.hot), ("memif", &report.memif)] {
            println!(
                "{name:6} {:6.2} Mpps   testpmd macswap {:6.2} Mpps   ratio to the limit {:.2}",
                figures.mpps, figures.testpmd_mpps, figures.ratio
            );
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The bare add on these lcores at once: the mean of what each takes.
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

/// dpdk-testpmd in the appliance's place, with the same source.
fn testpmd_memif(args: &PipelineArgs, hugepages: bool) -> anyhow::Result<f64> {
    let socket = memif::Socket::new("testpmd");
    let testpmd = Testpmd::start(args, &memif::device(0, socket.path(), &args.shape), hugepages)?;
    let mut source = memif::start_source(args, socket.path(), Mac::default(), false)?;
    let report = source.report()?;
    testpmd.end()?;
    drop(source);
    Ok(report.mpps)
}
