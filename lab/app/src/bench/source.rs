//! The traffic source of `bench pipeline`: all workers of the job in one thread, at the other end of a memif
//! or of two rings.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use arrayvec::ArrayVec;
use clap::Args;
use pascaline_buffer::PacketBuf;
use pascaline_dpdk::port::StartedPort;
use pascaline_dpdk::{Clock, Device, Mbuf, Mempool, Port, PortConfig, RxQueue, TxQueue};
use pascaline_shared::println;
use pascaline_wire::Mac;
use pascaline_wire::frame::UDP_LEN;
use serde::{Deserialize, Serialize};

use super::fixture::{self, Arrival, EPOCH, Frames, HEADERS, L2, Load, Shape};
use super::pool::nanos;

const BURST: usize = 32;
/// One in this many results is checked.
const CHECK_EVERY: u64 = 1024;
/// How long the link may take to come up, in nanoseconds.
const LINK_NS: u64 = 10_000_000_000;
/// Before the measurement, in nanoseconds.
const WARM_UP_NS: u64 = 500_000_000;

#[derive(Debug, Args)]
pub(crate) struct SourceArgs {
    #[command(flatten)]
    shape: Shape,
    /// The memif socket of the server
    #[arg(long)]
    socket: PathBuf,
    /// MAC of the server's port
    #[arg(long, value_parser = mac)]
    mac: Mac,
    /// The core to run on
    #[arg(long)]
    core: usize,
    /// Seconds to measure
    #[arg(long)]
    seconds: u64,
    /// Keep the link up until standard input ends: DPDK's memif driver may crash a server that is polling
    /// when the link goes down
    #[arg(long)]
    hold: bool,
    /// Check the contents of returned packets
    #[arg(long)]
    verify: bool,
}

fn mac(text: &str) -> Result<Mac, String> {
    let octets: Vec<u8> = text
        .split(':')
        .map(|octet| u8::from_str_radix(octet, 16))
        .collect::<Result<_, _>>()
        .map_err(|e| e.to_string())?;
    octets.try_into().map(Mac).map_err(|_| "a MAC address has six octets".to_owned())
}

/// The source's measurements.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(crate) struct SourceReport {
    /// Millions of packets per second that came back.
    pub(super) mpps: f64,
    /// Results whose contents were checked.
    pub(super) checked: u64,
    /// Those that were wrong.
    pub(super) wrong: u64,
}

/// All workers of a job.
pub(super) struct Source {
    writer: Frames,
    pool: Mempool,
    rx: RxQueue,
    tx: TxQueue,
    arrival: Arrival,
    /// Contributions that have been made and not sent yet.
    pending: ArrayVec<Mbuf, BURST>,
    received: u64,
    /// Polls for results.
    polls: u64,
    read: Read,
    report: SourceReport,
}

/// How much of the results the source reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Read {
    /// Receives every packet. With `verify`, checks one of [`CHECK_EVERY`] results.
    All { verify: bool },
    /// Discards most packets unread: they are shared with their sender, and receiving would copy them. With
    /// `verify`, receives one burst of [`CHECK_EVERY`] and checks its first packet.
    Few { verify: bool },
}

pub(super) fn run(args: &SourceArgs) -> anyhow::Result<ExitCode> {
    let eal = fixture::eal("bench-source", args.core, Vec::new())?;
    let (pool, _) = fixture::pools(&eal, &args.shape)?;
    // Packets for sending keep their payload from one use to the next, so the device must not receive into
    // them.
    let received = fixture::receive_pool(&eal, &args.shape)?;
    let buffer = args.shape.frame_len().next_power_of_two().max(2048);
    let device = format!(
        "net_memif0,role=client,socket={},socket-abstract=no,bsize={buffer},rsize=10",
        args.socket.display()
    );
    let config = PortConfig { rx_desc: 1024, tx_desc: 1024, ..PortConfig::default() };
    let StartedPort { port, mut rx, mut tx } = Port::open(&eal, &Device::Vdev(device))?
        .start(&config, std::slice::from_ref(&received))
        .map_err(|failure| failure.error)?;
    let load = Load::plain(args.shape, L2);
    let writer = Frames::new(&load, args.mac, EPOCH);
    let queues = (rx.pop().context("a receive queue")?, tx.pop().context("a transmit queue")?);
    let mut source = Source::new(&load, writer, pool, queues, Read::All { verify: args.verify })?;
    let clock = Clock::new(&eal);
    let limit = clock.now_ns() + LINK_NS;
    while !port.link()?.is_up() {
        anyhow::ensure!(clock.now_ns() < limit, "the memif link did not come up");
        source.receive();
    }
    println!("{}", serde_json::to_string(&source.measure(&clock, args.seconds))?);
    if args.hold {
        std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink())?;
    }
    Ok(ExitCode::SUCCESS)
}

impl Source {
    /// Takes packets from `pool` and writes the payload into each of them once.
    pub(super) fn new(
        load: &Load,
        writer: Frames,
        pool: Mempool,
        (rx, tx): (RxQueue, TxQueue),
        read: Read,
    ) -> anyhow::Result<Self> {
        let mut source = Self {
            writer,
            pool,
            rx,
            tx,
            arrival: Arrival::new(load),
            pending: ArrayVec::new(),
            received: 0,
            polls: 0,
            read,
            report: SourceReport { mpps: 0.0, checked: 0, wrong: 0 },
        };
        source.write_payloads()?;
        Ok(source)
    }

    /// Warms up, then sends and receives for this long.
    pub(super) fn measure(&mut self, clock: &Clock, seconds: u64) -> SourceReport {
        self.run_for(clock, WARM_UP_NS);
        let before = self.received;
        let elapsed = self.run_for(clock, seconds * 1_000_000_000);
        self.report.mpps = nanos(self.received - before) * 1e3 / nanos(elapsed);
        self.report
    }

    /// Discards a burst that is still on its way back. True if there was one.
    pub(super) fn drain(&mut self) -> bool {
        self.rx.discard() > 0
    }

    fn write_payloads(&mut self) -> anyhow::Result<()> {
        let mut all = Vec::new();
        while let Some(mut packet) = self.pool.alloc() {
            anyhow::ensure!(
                packet.set_len(HEADERS + self.writer.payload().len()),
                "packet buffers are too small"
            );
            packet.bytes_mut()[HEADERS..].copy_from_slice(self.writer.payload());
            all.push(packet);
        }
        Ok(())
    }

    fn run_for(&mut self, clock: &Clock, nanos: u64) -> u64 {
        let start = clock.now_ns();
        loop {
            for _ in 0..64 {
                self.send();
                self.receive();
            }
            let elapsed = clock.now_ns() - start;
            if elapsed >= nanos {
                return elapsed;
            }
        }
    }

    /// Sends a burst. Packets that the ring does not take stay pending, so that no contribution is lost.
    fn send(&mut self) {
        if self.pending.is_empty() && self.pool.alloc_bulk(&mut self.pending, BURST) {
            for packet in &mut self.pending {
                let (rank, psn) = self.arrival.next();
                if packet.set_len(HEADERS + self.writer.payload().len()) {
                    self.writer.write_headers(packet.bytes_mut(), rank, psn);
                }
            }
        }
        self.tx.tx(&mut self.pending);
    }

    fn receive(&mut self) {
        match self.read {
            Read::All { verify } => {
                self.receive_all(|received| verify && received.is_multiple_of(CHECK_EVERY));
            }
            Read::Few { verify } if verify && self.polls.is_multiple_of(CHECK_EVERY) => {
                let first = self.received + 1;
                self.receive_all(|received| received == first);
            }
            Read::Few { .. } => self.received += self.rx.discard() as u64,
        }
        self.polls += 1;
    }

    /// Receives a burst, and checks the packets that `check` picks by their number.
    fn receive_all(&mut self, check: impl Fn(u64) -> bool) {
        let mut packets = ArrayVec::<Mbuf, BURST>::new();
        self.rx.rx(&mut packets);
        for packet in &packets {
            self.received += 1;
            if check(self.received) {
                self.report.checked += 1;
                let body = packet.bytes().get(14 + 20 + UDP_LEN..).unwrap_or_default();
                self.report.wrong += u64::from(!self.writer.is_right_result(body));
            }
        }
        Mbuf::free_bulk(&mut packets);
    }
}
