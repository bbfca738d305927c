//! The pipeline over net_ring: packets pass between two cores by address, without a copy. The source is a
//! thread of the same process, since DPDK's rings lie in its memory.
//!
//! A net_ring port receives what is sent to it. So there are two: each side sends to the port that the other
//! receives from.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use anyhow::Context as _;
use arrayvec::ArrayVec;
use pascaline_app::laboratory::{DpdkIo, Queues};
use pascaline_buffer::PacketBuf;
use pascaline_dpdk::port::StartedPort;
use pascaline_dpdk::{
    Clock, Device, Eal, Lcore, LcoreHandle, Mbuf, Mempool, Port, PortConfig, RxQueue, TxQueue,
};
use pascaline_wire::Mac;

use super::PipelineArgs;
use super::fixture::{self, EPOCH, Frames, L2, Load};
use super::source::{Read, Source};

/// The program between the rings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Between {
    /// The pipeline.
    Pipeline,
    /// A loop that sends each packet back with its addresses exchanged, like dpdk-testpmd in macswap mode,
    /// which cannot use rings of another process.
    MacSwap,
}

/// The port for dpdk-testpmd: it receives what it sends.
pub(super) const DEVICE: &str = "net_ring0";
/// Packet buffers of the source: enough for the rings and the pools' caches. A small number, so that buffers
/// come back while they are warm.
pub(super) const BUFFERS: u32 = 4095;
const BURST: usize = 32;
/// After this many polls without a packet, none is in flight.
const IDLE_POLLS: u32 = 1 << 20;

/// Millions of packets per second that came back to the source.
pub(super) fn measure(
    eal: &Eal,
    lcore: &Lcore,
    args: &PipelineArgs,
    pools: &(Mempool, Mempool),
    between: Between,
) -> anyhow::Result<f64> {
    // Rings outlive their port, so each needs a unique name.
    static OPENED: AtomicU32 = AtomicU32::new(0);
    let frames = &pools.0;
    let open = || {
        let number = OPENED.fetch_add(1, Ordering::Relaxed);
        let port = Port::open(eal, &Device::Vdev(format!("net_ring{number}")))?;
        let started = port.start(&PortConfig::default(), std::slice::from_ref(frames));
        anyhow::Ok(started.map_err(|failure| failure.error)?)
    };
    let StartedPort { port: there, rx: mut there_rx, tx: mut there_tx } = open()?;
    let StartedPort { port: back, rx: mut back_rx, tx: mut back_tx } = open()?;
    let mac = Mac(there.mac()?);
    let ours = (there_rx.pop().context("a receive queue")?, back_tx.pop().context("a transmit queue")?);
    let theirs = (back_rx.pop().context("a receive queue")?, there_tx.pop().context("a transmit queue")?);
    let load = Load::plain(args.shape, L2);
    // Payloads are added in place.
    let writer = Frames::new(&load, mac, EPOCH).of_zeros();
    let read = Read::Few { verify: between == Between::Pipeline };
    let mut source = Source::new(&load, writer, frames.clone(), theirs, read)?;
    let stop = Arc::new(AtomicBool::new(false));
    let handle = match between {
        Between::Pipeline => {
            let (rx, tx) = ours;
            let queues = Queues::pair(rx, tx, back.active().tx_multi_segment);
            let io = DpdkIo::new(vec![queues], frames.clone(), pools.1.clone(), Clock::new(eal));
            aggregate(lcore, &load, io, mac, Arc::clone(&stop))?
        }
        Between::MacSwap => swap(lcore, ours, Arc::clone(&stop))?,
    };
    let report = source.measure(&Clock::new(eal), args.seconds);
    // DPDK does not give back what a ring holds when it is closed.
    let mut idle = 0;
    while idle < IDLE_POLLS {
        idle = if source.drain() { 0 } else { idle + 1 };
    }
    stop.store(true, Ordering::Relaxed);
    let Lost { unaccounted, dropped } = handle.join().map_err(|panic| anyhow::anyhow!("{panic}"))?;
    drop(source);
    anyhow::ensure!(
        unaccounted == 0
            && dropped == 0
            && report.wrong == 0
            && (report.checked > 0 || between == Between::MacSwap),
        "{dropped} packets dropped, {} of {} results wrong: the measurement is void",
        report.wrong,
        report.checked
    );
    for port in [there, back] {
        anyhow::ensure!(port.stop().is_ok(), "queues of a net_ring port are still held");
    }
    Ok(report.mpps)
}

/// Counters that must be zero.
#[derive(Debug, Default)]
struct Lost {
    unaccounted: i128,
    dropped: u64,
}

/// Runs the pipeline until `stop`.
fn aggregate(
    lcore: &Lcore,
    load: &Load,
    io: DpdkIo,
    mac: Mac,
    stop: Arc<AtomicBool>,
) -> anyhow::Result<LcoreHandle<Lost>> {
    let (mut bench, common) = fixture::lcore::<_, 1>(load, io, mac)?;
    Ok(lcore.launch(move || {
        let _common = common;
        while !stop.load(Ordering::Relaxed) {
            bench.lcore.turn();
        }
        let account = bench.counters.read();
        Lost { unaccounted: account.unaccounted(), dropped: account.dropped_total() }
    })?)
}

/// Sends everything back until `stop`.
fn swap(
    lcore: &Lcore,
    (mut rx, mut tx): (RxQueue, TxQueue),
    stop: Arc<AtomicBool>,
) -> anyhow::Result<LcoreHandle<Lost>> {
    Ok(lcore.launch(move || {
        let mut packets = ArrayVec::<Mbuf, BURST>::new();
        while !stop.load(Ordering::Relaxed) {
            let waiting = packets.len();
            rx.rx(&mut packets);
            for packet in &mut packets[waiting..] {
                if let Some(macs) = packet.bytes_mut().first_chunk_mut::<12>() {
                    macs.rotate_left(6);
                }
            }
            tx.tx(&mut packets);
        }
        Lost::default()
    })?)
}
