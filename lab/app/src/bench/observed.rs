//! `bench observed`: the cost of observing an appliance, for its packets.
//!
//! A whole appliance with its control loop, metrics, page and admin API, at full load on one lcore. Its
//! viewers come and go in turns; they use TCP and a real HTTP client, from the main core.

mod viewers;

use std::net::{Ipv4Addr, TcpListener};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use anyhow::Context as _;
use clap::Args;
use pascaline_app::laboratory::{DpdkIo, Queues, SmallAppliance};
use pascaline_dpdk::port::StartedPort;
use pascaline_dpdk::{Clock, Device, Mempool, Port, PortConfig};
use pascaline_shared::println;
use pascaline_wire::Mac;
use serde::Serialize;

use self::viewers::{Addresses, Rates, Seen, Source};
use super::fixture::{self, L2, Load, Shape, median};
use super::hot;

#[derive(Debug, Args)]
pub(crate) struct ObservedArgs {
    #[command(flatten)]
    shape: Shape,
    /// Pairs of windows, one left alone and one observed
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    pairs: u16,
    /// Seconds per window
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,
    /// API calls per second
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    calls: u32,
    /// Scrapes per second
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    scrapes: u32,
    /// Jobs; one of them sends packets
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
    /// Lcores with counters of jobs; one of them has packets
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=128))]
    lcores: u16,
    /// The core of everything but packets
    #[arg(long, default_value_t = 0)]
    main_core: usize,
    /// The core of the lcore
    #[arg(long, default_value_t = 1)]
    core: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Medians over the windows of one kind.
#[derive(Debug, Clone, Copy, Serialize)]
struct Figures {
    service_p50_us: f64,
    service_p99_us: f64,
    /// By the lcore's own time, without the receive hook.
    mpps: f64,
}

impl Figures {
    fn of(windows: &[Seen]) -> Self {
        let pick = |value: fn(&Seen) -> f64| median(windows.iter().map(value).collect());
        Self {
            service_p50_us: 1e6 * pick(|seen| seen.p50),
            service_p99_us: 1e6 * pick(|seen| seen.p99),
            mpps: pick(|seen| seen.packets_per_second) / 1e6,
        }
    }
}

#[derive(Debug, Serialize)]
struct Report {
    alone: Figures,
    observed: Figures,
    /// Medians of the pairs' changes, in percent.
    service_p99_change_pct: f64,
    mpps_change_pct: f64,
    /// Each pair's change: their scatter limits how small a change the medians can show.
    service_p99_changes_pct: Vec<f64>,
    mpps_changes_pct: Vec<f64>,
    pairs: usize,
    /// Requests in all, and the median time of an answer.
    calls: usize,
    call_ms: f64,
    scrapes: usize,
    scrape_ms: f64,
    snapshots_streamed: usize,
    jobs: u16,
    lcores: u16,
}

/// Measures.
pub(super) fn run(args: &ObservedArgs) -> anyhow::Result<ExitCode> {
    let eal = fixture::eal("bench-observed", args.main_core, vec![args.core])?;
    let lcore = eal.lcores().into_iter().next().context("no lcore")?;
    let pools = fixture::pools(&eal, &args.shape)?;
    let page = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("binding a port of 127.0.0.1")?;
    page.set_nonblocking(true)?;
    // The configuration names this address, so find a free port first.
    let api = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let addresses = Addresses { page: page.local_addr()?, api };
    let configuration = configuration(args, &addresses);
    let source = Source { clock: Clock::new(&eal), ticks: Arc::new(AtomicU64::new(0)) };
    let appliance = appliance(args, &eal, lcore, pools, &source)?;
    let rates = Rates { calls: args.calls, scrapes: args.scrapes };
    let (pairs, seconds) = (args.pairs, args.seconds);
    let viewers = std::thread::Builder::new()
        .name("viewers".to_owned())
        .spawn(move || viewers::watch(addresses, &source, rates, pairs, seconds))?;
    let code = appliance.serve(&configuration, page)?;
    let watched = viewers.join().map_err(|_| anyhow::anyhow!("the viewers' thread has panicked"))??;
    anyhow::ensure!(code == ExitCode::SUCCESS, "the appliance did not end cleanly: the measurement is void");
    let changes = |value: fn(&Seen) -> f64| -> Vec<f64> {
        let change = |(alone, observed): &(Seen, Seen)| 100.0 * (value(observed) / value(alone) - 1.0);
        watched.pairs.iter().map(change).collect()
    };
    let (p99_changes, mpps_changes) = (changes(|seen| seen.p99), changes(|seen| seen.packets_per_second));
    let (alone, observed): (Vec<Seen>, Vec<Seen>) = watched.pairs.iter().copied().unzip();
    let report = Report {
        alone: Figures::of(&alone),
        observed: Figures::of(&observed),
        service_p99_change_pct: median(p99_changes.clone()),
        mpps_change_pct: median(mpps_changes.clone()),
        service_p99_changes_pct: p99_changes,
        mpps_changes_pct: mpps_changes,
        pairs: watched.pairs.len(),
        calls: watched.calls.len(),
        call_ms: median(watched.calls),
        scrapes: watched.scrapes.len(),
        scrape_ms: median(watched.scrapes),
        snapshots_streamed: watched.streamed,
        jobs: args.jobs,
        lcores: args.lcores,
    };
    super::print_report(&report, args.json, print)
}

fn print(report: &Report) {
    println!("packet service time, microseconds    median    99 %    Mpps");
    for (name, of) in [("left alone", &report.alone), ("looked at", &report.observed)] {
        println!("  {name:32} {:7.2} {:7.2} {:7.3}", of.service_p50_us, of.service_p99_us, of.mpps);
    }
    println!(
        "  {:32}         {:+6.1} % {:+6.2} %   medians of {} pairs",
        "change", report.service_p99_change_pct, report.mpps_change_pct, report.pairs
    );
    println!(
        "{} API calls ({:.1} ms), {} scrapes ({:.1} ms), {} snapshots streamed; {} jobs, counts of {} lcores",
        report.calls,
        report.call_ms,
        report.scrapes,
        report.scrape_ms,
        report.snapshots_streamed,
        report.jobs,
        report.lcores
    );
}

/// The configuration of the measured appliance, as far as its control loop reads it.
fn configuration(args: &ObservedArgs, addresses: &Addresses) -> String {
    let Addresses { page, api } = addresses;
    let fan_in = args.shape.fan_in;
    let jobs: String = (1..=args.jobs)
        .map(|id| format!("[[jobs]]\nid = {id}\nname = \"job{id}\"\nfan_in = {fan_in}\nwindow = 32\n"))
        .collect();
    format!(
        "[appliance]\nname = \"bench\"\naddresses = [\"10.77.0.254\"]\n\
         [dataplane]\nmain_core = {}\ncores = [{}]\nidle = \"spin\"\ndrain = \"100ms\"\nmemory_mb = 8192\n\
         [[ports]]\nname = \"p0\"\ndevice = \"{}\"\n\
         [pool]\nslots = 65536\nways = 4\n{jobs}\
         [telemetry]\nlisten = \"{page}\"\n[admin]\nlisten = \"{api}\"\n",
        args.main_core,
        args.core,
        hot::device(0, &args.shape),
    )
}

/// One lcore whose port always has packets.
fn appliance(
    args: &ObservedArgs,
    eal: &pascaline_dpdk::Eal,
    lcore: pascaline_dpdk::Lcore,
    (frames, headers): (Mempool, Mempool),
    source: &Source,
) -> anyhow::Result<SmallAppliance> {
    let port = Port::open(eal, &Device::Vdev(hot::device(0, &args.shape)))?;
    let StartedPort { port, mut rx, mut tx } =
        port.start(&PortConfig::default(), std::slice::from_ref(&frames)).map_err(|failure| failure.error)?;
    let mac = Mac(port.mac()?);
    let (mut rx, tx) = (rx.pop().context("a receive queue")?, tx.pop().context("a transmit queue")?);
    let hook = hot::write_packets(&Load::plain(args.shape, L2), mac, (0, 1), Arc::clone(&source.ticks));
    anyhow::ensure!(rx.set_hook(hook), "the receive hook could not be installed");
    let clock = source.clock;
    let queues = vec![Queues::pair(rx, tx, port.active().tx_multi_segment)];
    let io = DpdkIo::new(queues, frames.clone(), headers.clone(), clock);
    let load = Load { jobs: args.jobs, ..Load::plain(args.shape, L2) };
    let (bench, common) = fixture::lcore_counted_by::<_, 1>(&load, io, mac, usize::from(args.lcores))?;
    Ok(SmallAppliance {
        lcore: (lcore, bench.lcore),
        plane: common.plane,
        counters: bench.counters,
        readers: bench.readers,
        port,
        pools: vec![frames, headers],
        pool_slots: L2.slots,
        clock,
    })
}
