//! `bench pipeline --lcores 1,2`: two lcores compared with one, on net_null ports whose receive hook writes
//! every packet.
//!
//! Two loads: PSNs spread over all slots, each steered to one lcore (as by its UDP port); and a pool of one
//! set, for which one lcore must hand off every packet to the other. For comparison, the bare add on both
//! cores at once. All of them in turns.
//!
//! Workers keep within a window, and so does the source of an lcore that hands off: without a window, packets
//! made faster than a core can take them would only be dropped.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use pascaline_app::laboratory::{DpdkIo, Queues};
use pascaline_dpdk::port::StartedPort;
use pascaline_dpdk::{Clock, Device, Eal, Lcore, Mempool, Port, PortConfig};
use pascaline_shared::println;
use pascaline_telemetry::{Counter, LcoreCounters};
use pascaline_wire::Mac;
use serde::Serialize;

use super::distance::{Apart, Distance};
use super::fixture::{self, Bench, L2, Load, Residence, Shape, median};
use super::pool::nanos;
use super::{PipelineArgs, hot, report};

/// Turns before the measurement.
const WARM_UP: u32 = 20_000;
/// Packets in flight between the lcores. Counts come late, so this is less than the rings hold.
const WINDOW: u64 = 512;
/// Distance between the queues of two lcores. net_null keeps its queues in an array, each smaller than a
/// cache line, with counters that every burst adds to: neighbours would share lines, which queues of real
/// devices do not.
const APART: u16 = 4;
/// Turns between two looks at the clock.
const TURNS: u32 = 1024;

/// How packets hit the pool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spread {
    /// All over it.
    Wide,
    /// All in one set; each PSN uses one slot at a time.
    OneSlot,
}

impl Spread {
    fn load(self, shape: Shape) -> Load {
        match self {
            // With two lcores, twice the PSNs are open; each still needs a free slot.
            Self::Wide => Load::plain(shape, Residence { slots: 8 * L2.slots, ..L2 }),
            Self::OneSlot => Load::plain(shape, Residence { psns: 1, slots: 4, ..L2 }),
        }
    }
}

/// One lcore and two, in the same run.
#[derive(Debug, Serialize)]
struct Scaling {
    one_mpps: f64,
    two_mpps: f64,
    /// The median of the ratios of neighbouring turns.
    ratio: f64,
    /// Share of packets that one lcore handed off to the other.
    handed_off: f64,
}

#[derive(Debug, Serialize)]
struct Report {
    spread: Scaling,
    one_slot: Scaling,
    /// Nanoseconds of the bare add on one core.
    bare_add_ns: f64,
    /// The same on two cores at once.
    bare_add_both_ns: f64,
    /// The speed of two cores that add at once, as a multiple of one core: the limit of the ratio.
    bare_add_ratio: f64,
    cores_apart_ns: Apart,
    fan_in: u16,
    payload: u16,
    repeat: u32,
    seconds: u64,
}

pub(super) fn run(args: &PipelineArgs) -> anyhow::Result<ExitCode> {
    let eal = fixture::eal("bench-lcores", args.main_core, vec![args.core, args.main_core])?;
    let lcores = eal.lcores();
    anyhow::ensure!(lcores.len() == 2, "two lcores");
    let pools = fixture::pools(&eal, &args.shape)?;
    let measure = |count: usize, spread: Spread| {
        measure(&eal, &lcores[..count], spread.load(args.shape), &pools, args.seconds)
    };
    let bare_add = |count: usize| report::bare_add(&eal, &lcores[..count], args, &pools.0);
    let (mut wide, mut narrow, mut bare) = (Vec::new(), Vec::new(), Vec::new());
    let (mut distance, clock) = (Distance::default(), fixture::clock(&eal));
    for _ in 0..args.repeat {
        bare.push((bare_add(1)?, bare_add(2)?));
        distance.look(&lcores[0], &clock)?;
        wide.push((measure(1, Spread::Wide)?, measure(2, Spread::Wide)?));
        distance.look(&lcores[0], &clock)?;
        narrow.push((measure(1, Spread::OneSlot)?, measure(2, Spread::OneSlot)?));
        distance.look(&lcores[0], &clock)?;
    }
    let of = |values: &[(f64, f64)], pick: fn(&(f64, f64)) -> f64| median(values.iter().map(pick).collect());
    let report = Report {
        spread: scaling(&wide),
        one_slot: scaling(&narrow),
        bare_add_ns: of(&bare, |pair| pair.0),
        bare_add_both_ns: of(&bare, |pair| pair.1),
        bare_add_ratio: of(&bare, |pair| 2.0 * pair.0 / pair.1),
        cores_apart_ns: distance.apart(),
        fan_in: args.shape.fan_in,
        payload: args.shape.payload,
        repeat: args.repeat,
        seconds: args.seconds,
    };
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
        return Ok(ExitCode::SUCCESS);
    }
    println!("fan-in {}, {} B payload; two lcores compared with one", report.fan_in, report.payload);
    for (name, scaling) in [("spread", &report.spread), ("one slot", &report.one_slot)] {
        println!(
            "{name:9} one {:6.2} Mpps   two {:6.2} Mpps   ratio {:.2}   {:.0} % handed off",
            scaling.one_mpps,
            scaling.two_mpps,
            scaling.ratio,
            100.0 * scaling.handed_off
        );
    }
    println!(
        "bare add  one {:6.1} ns     both {:6.1} ns     ratio {:.2}, which is what two of these cores can do",
        report.bare_add_ns, report.bare_add_both_ns, report.bare_add_ratio
    );
    println!("between measurements {}", report.cores_apart_ns);
    Ok(ExitCode::SUCCESS)
}

/// Millions of packets per second, and the share that was handed off.
type Rate = (f64, f64);

fn scaling(turns: &[(Rate, Rate)]) -> Scaling {
    let of = |pick: fn(&(Rate, Rate)) -> f64| median(turns.iter().map(pick).collect());
    Scaling {
        one_mpps: of(|(one, _)| one.0),
        two_mpps: of(|(_, two)| two.0),
        ratio: of(|(one, two)| two.0 / one.0),
        handed_off: of(|(_, two)| two.1),
    }
}

/// Each of these lcores has a queue of the port.
fn measure(
    eal: &Eal,
    lcores: &[Lcore],
    load: Load,
    (frames, headers): &(Mempool, Mempool),
    seconds: u64,
) -> anyhow::Result<Rate> {
    let count = lcores.len();
    let lanes = u16::try_from(count)?;
    let queues = 1 + (lanes - 1) * APART;
    let config = PortConfig { rx_queues: queues, tx_queues: queues, rss: false, ..PortConfig::default() };
    let StartedPort { port, rx, tx } = Port::open(eal, &Device::Vdev(hot::device(0, &load.shape)))?
        .start(&config, std::slice::from_ref(frames))
        .map_err(|failure| failure.error)?;
    let mac = Mac(port.mac()?);
    let (mut ios, mut hooks) = (Vec::new(), Vec::new());
    for (number, (mut rx, tx)) in (0..).zip(rx.into_iter().zip(tx).step_by(APART.into())) {
        let cycles = Arc::new(AtomicU64::new(0));
        let hook = hot::write_packets(&load, mac, (number, u32::from(lanes)), Arc::clone(&cycles));
        anyhow::ensure!(rx.set_hook(hook), "the receive hook could not be installed");
        hooks.push(cycles);
        let queues = Queues::pair(rx, tx, port.active().tx_multi_segment);
        ios.push(DpdkIo::new(vec![queues], frames.clone(), headers.clone(), Clock::new(eal)));
    }
    let (benches, _common) = fixture::lcores::<_, 1>(&load, ios, mac, count)?;
    let all: Arc<[_]> = benches.iter().map(|bench| Arc::clone(&bench.counters)).collect();
    let gate = Arc::new(Gate::default());
    let (clock, mut handles) = (Clock::new(eal), Vec::new());
    for ((lcore, bench), cycles) in lcores.iter().zip(benches).zip(hooks) {
        let (gate, all) = (Arc::clone(&gate), Arc::clone(&all));
        handles.push(lcore.launch(move || drive(bench, &cycles, clock, &gate, &all, seconds))?);
    }
    let (mut mpps, mut received, mut completed, mut dropped, mut handed_off) = (0.0, 0, 0, 0, 0);
    for handle in handles {
        let seen = handle.join().map_err(|panic| anyhow::anyhow!("{panic}"))?;
        mpps += nanos(seen.received) * 1e3 / nanos(hot::without_hook(&clock, seen.nanos, seen.hook_ticks)?);
        received += seen.received;
        completed += seen.completed;
        dropped += seen.dropped;
        handed_off += seen.handed_off;
    }
    // The slack covers packets in flight at the end, and those before the first reading of the clock.
    let expected = received / u64::from(load.shape.fan_in);
    anyhow::ensure!(
        dropped == 0 && completed + expected / 50 + 1024 >= expected,
        "{received} packets gave {completed} results, {dropped} were dropped: the measurement is void"
    );
    if port.stop().is_err() {
        anyhow::bail!("queues of the net_null port are still held");
    }
    Ok((mpps, nanos(handed_off) / nanos(received)))
}

/// Lets lcores begin together, and keeps each busy until all have measured.
#[derive(Debug, Default)]
struct Gate {
    ready: AtomicUsize,
    done: AtomicUsize,
}

/// An lcore's counts during the measurement.
struct Seen {
    received: u64,
    completed: u64,
    dropped: u64,
    handed_off: u64,
    /// With the receive hook.
    nanos: u64,
    /// The receive hook's share, in ticks of the processor.
    hook_ticks: u64,
}

/// A turn, unless the workers' window is full.
fn turn(bench: &mut Bench<DpdkIo>, all: &[Arc<LcoreCounters>]) {
    let sum = |counter| all.iter().map(|counters| counters.get(counter)).sum::<u64>();
    let hands_over = bench.counters.get(Counter::HandedOff) > 0;
    if hands_over && sum(Counter::Received).saturating_sub(sum(Counter::Absorbed)) > WINDOW {
        return core::hint::spin_loop();
    }
    bench.lcore.turn();
}

fn drive(
    mut bench: Bench<DpdkIo>,
    hook_cycles: &AtomicU64,
    clock: Clock,
    gate: &Gate,
    all: &[Arc<LcoreCounters>],
    seconds: u64,
) -> Seen {
    let count = all.len();
    let own = Arc::clone(&bench.counters);
    let mut turn = || turn(&mut bench, all);
    for _ in 0..WARM_UP {
        turn();
    }
    gate.ready.fetch_add(1, Ordering::AcqRel);
    // Stay busy; otherwise the other lcore would have the pool alone.
    while gate.ready.load(Ordering::Acquire) < count {
        turn();
    }
    let before = own.read();
    let (hook_before, start) = (hook_cycles.load(Ordering::Relaxed), clock.now_ns());
    let end = start + seconds * 1_000_000_000;
    while clock.now_ns() < end {
        for _ in 0..TURNS {
            turn();
        }
    }
    let elapsed = clock.now_ns() - start;
    let hook_ticks = hook_cycles.load(Ordering::Relaxed) - hook_before;
    let after = own.read();
    gate.done.fetch_add(1, Ordering::AcqRel);
    while gate.done.load(Ordering::Acquire) < count {
        turn();
    }
    let since = |counter| after.get(counter) - before.get(counter);
    Seen {
        received: since(Counter::Received),
        completed: since(Counter::Completed),
        dropped: after.dropped_total(),
        handed_off: since(Counter::HandedOff),
        nanos: elapsed,
        hook_ticks,
    }
}
