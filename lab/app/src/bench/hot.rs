//! The pipeline with packets that are hot in the cache: a net_null port whose receive hook writes every
//! packet.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Context as _;
use pascaline_app::laboratory::{DpdkIo, Queues};
use pascaline_buffer::PacketBuf;
use pascaline_dpdk::port::StartedPort;
use pascaline_dpdk::{Clock, Device, Eal, Lcore, Mbuf, Mempool, Port, PortConfig, clock};
use pascaline_telemetry::Counter;
use pascaline_wire::Mac;

use super::fixture::{self, Arrival, EPOCH, Frames, HEADERS, L2, Load, Shape};
use super::pool::nanos;

/// Turns before the measurement: enough to fill caches and branch predictors.
const WARM_UP: u32 = 20_000;
/// Turns between two looks at the clock.
const TURNS: u32 = 1024;

/// The device, for this frame length.
pub(super) fn device(number: usize, shape: &Shape) -> String {
    format!("net_null{number},size={}", shape.frame_len())
}

/// One lcore's counts.
pub(super) struct Seen {
    /// Millions of packets per second, the time of the receive hook taken out.
    pub mpps: f64,
    /// Nanoseconds of the receive hook per packet.
    pub hook_ns: f64,
}

/// Measures for this long; the hook's time included.
pub(super) fn measure(
    eal: &Eal,
    lcore: &Lcore,
    shape: Shape,
    (frames, headers): (Mempool, Mempool),
    seconds: u64,
) -> anyhow::Result<Seen> {
    let port = Port::open(eal, &Device::Vdev(device(0, &shape)))?;
    let StartedPort { port, mut rx, mut tx } =
        port.start(&PortConfig::default(), std::slice::from_ref(&frames)).map_err(|failure| failure.error)?;
    let mac = Mac(port.mac()?);
    let (mut rx, tx) = (rx.pop().context("a receive queue")?, tx.pop().context("a transmit queue")?);
    let hook_cycles = Arc::new(AtomicU64::new(0));
    let hook = write_packets(&Load::plain(shape, L2), mac, (0, 1), Arc::clone(&hook_cycles));
    anyhow::ensure!(rx.set_hook(hook), "the receive hook could not be installed");
    let clock = Clock::new(eal);
    let io = DpdkIo::new(vec![Queues::pair(rx, tx, port.active().tx_multi_segment)], frames, headers, clock);
    let (mut bench, _common) = fixture::lcore::<_, 1>(&Load::plain(shape, L2), io, mac)?;
    let run = move || {
        for _ in 0..WARM_UP {
            bench.lcore.turn();
        }
        let before = bench.counters.read();
        let (hook_before, start) = (hook_cycles.load(Ordering::Relaxed), clock.now_ns());
        let end = start + seconds * 1_000_000_000;
        while clock.now_ns() < end {
            for _ in 0..TURNS {
                bench.lcore.turn();
            }
        }
        let elapsed = clock.now_ns() - start;
        let hook = hook_cycles.load(Ordering::Relaxed) - hook_before;
        let after = bench.counters.read();
        let received = after.get(Counter::Received) - before.get(Counter::Received);
        let completed = after.get(Counter::Completed) - before.get(Counter::Completed);
        (received, completed, elapsed, hook, after.unaccounted(), after.dropped_total())
    };
    let (received, completed, elapsed, hook, unaccounted, dropped) =
        lcore.launch(run)?.join().map_err(|panic| anyhow::anyhow!("{panic}"))?;
    anyhow::ensure!(
        unaccounted == 0 && dropped == 0 && completed + 128 >= received / u64::from(shape.fan_in),
        "{received} packets gave {completed} results, {dropped} were dropped: the measurement is void"
    );
    if port.stop().is_err() {
        anyhow::bail!("queues of the net_null port are still held");
    }
    let own = without_hook(&clock, elapsed, hook)?;
    Ok(Seen { mpps: nanos(received) * 1e3 / nanos(own), hook_ns: nanos(elapsed - own) / nanos(received) })
}

/// Removes the receive hook's time, given in ticks of the processor, from a duration.
pub(super) fn without_hook(clock: &Clock, elapsed_ns: u64, hook_ticks: u64) -> anyhow::Result<u64> {
    let hook_ns = clock.span_ns(hook_ticks);
    anyhow::ensure!(
        0 < hook_ns && hook_ns < elapsed_ns,
        "the receive hook took {hook_ns} of {elapsed_ns} ns: the measurement is void"
    );
    Ok(elapsed_ns - hook_ns)
}

/// A receive hook: writes the next contributions into a burst of empty packets, to every `of`-th PSN from
/// `first` on, and adds up the time it took.
pub(super) fn write_packets(
    load: &Load,
    mac: Mac,
    (first, of): (u32, u32),
    cycles: Arc<AtomicU64>,
) -> impl FnMut(&mut [Mbuf]) + Send + 'static {
    let writer = Frames::new(load, mac, EPOCH);
    let mut arrival = Arrival::new(load);
    let len = load.shape.frame_len();
    move |packets| {
        let start = clock::cycles();
        for packet in packets {
            let (rank, psn) = arrival.next();
            if packet.set_len(len) {
                let bytes = packet.bytes_mut();
                writer.write_headers(bytes, rank, psn.wrapping_mul(of).wrapping_add(first));
                bytes[HEADERS..].copy_from_slice(writer.payload());
            }
        }
        cycles.fetch_add(clock::cycles() - start, Ordering::Relaxed);
    }
}
