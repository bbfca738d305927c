//! The pipeline over net_memif: packets come from another process on another core, and results go back to it.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context as _;
use pascaline_app::laboratory::{DpdkIo, Queues};
use pascaline_dpdk::port::StartedPort;
use pascaline_dpdk::{Clock, Device, Eal, Lcore, Mempool, Port, PortConfig};
use pascaline_wire::Mac;

use super::PipelineArgs;
use super::fixture::{self, L2, Load, Shape};
use super::source::SourceReport;

/// The server's device. Both ends must agree on ring and buffer sizes.
pub(super) fn device(number: usize, socket: &Path, shape: &Shape) -> String {
    let buffer = shape.frame_len().next_power_of_two().max(2048);
    format!(
        "net_memif{number},role=server,socket={},socket-abstract=no,bsize={buffer},rsize=10",
        socket.display()
    )
}

/// A unique socket path in the temporary directory. Dropping it removes the file: a stale one keeps a
/// server from starting.
pub(super) struct Socket(PathBuf);

impl Socket {
    pub(super) fn new(name: &str) -> Self {
        Self(std::env::temp_dir().join(format!("pascaline-{name}-{}.sock", std::process::id())))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // The file may not exist.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Starts the source as another process.
pub(super) fn start_source(
    args: &PipelineArgs,
    socket: &Path,
    mac: Mac,
    verify: bool,
) -> anyhow::Result<Source> {
    let mut command = Command::new(std::env::current_exe().context("finding this program's executable")?);
    command.args(["bench", "source", "--socket"]).arg(socket);
    command.args(["--core", &args.main_core.to_string(), "--seconds", &args.seconds.to_string()]);
    command.args(["--fan-in", &args.shape.fan_in.to_string(), "--payload", &args.shape.payload.to_string()]);
    command.args(["--mac", &mac.to_string()]);
    if verify {
        command.arg("--verify");
    }
    command.arg("--hold").stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(Source(command.spawn().context("starting the traffic source")?))
}

/// The source's process. It keeps the link up until it is dropped. Drop it only when no lcore polls the other
/// end any more: DPDK's memif driver unmaps the rings under a poller.
pub(super) struct Source(Child);

impl Source {
    /// Waits for its report.
    pub(super) fn report(&mut self) -> anyhow::Result<SourceReport> {
        let output = self.0.stdout.take().context("the source has already reported")?;
        for line in BufReader::new(output).lines() {
            let line = line.context("waiting for the traffic source")?;
            if line.starts_with('{') {
                return serde_json::from_str(&line).context("reading the traffic source's report");
            }
        }
        anyhow::bail!("the traffic source failed: {}", self.0.wait()?)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Millions of packets per second that came back to the source.
pub(super) fn measure(
    eal: &Eal,
    lcore: &Lcore,
    args: &PipelineArgs,
    (frames, headers): (Mempool, Mempool),
) -> anyhow::Result<f64> {
    let shape = args.shape;
    let socket = Socket::new("bench");
    let port = Port::open(eal, &Device::Vdev(device(0, socket.path(), &shape)))?;
    let config = PortConfig { rx_desc: 1024, tx_desc: 1024, ..PortConfig::default() };
    let StartedPort { port, mut rx, mut tx } =
        port.start(&config, std::slice::from_ref(&frames)).map_err(|failure| failure.error)?;
    let mac = Mac(port.mac()?);
    let queues = Queues::pair(
        rx.pop().context("a receive queue")?,
        tx.pop().context("a transmit queue")?,
        port.active().tx_multi_segment,
    );
    let (mut bench, _common) = fixture::lcore::<_, 1>(
        &Load::plain(shape, L2),
        DpdkIo::new(vec![queues], frames, headers, Clock::new(eal)),
        mac,
    )?;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let handle = lcore.launch(move || {
        while !stopped.load(Ordering::Relaxed) {
            bench.lcore.turn();
        }
        let account = bench.counters.read();
        (account.unaccounted(), account.dropped_total())
    })?;
    let (report, source) = match start_source(args, socket.path(), mac, true) {
        Ok(mut source) => (source.report(), Some(source)),
        Err(error) => (Err(error), None),
    };
    stop.store(true, Ordering::Relaxed);
    let (unaccounted, dropped) = handle.join().map_err(|panic| anyhow::anyhow!("{panic}"))?;
    drop(source);
    let report = report?;
    anyhow::ensure!(
        unaccounted == 0 && dropped == 0 && report.wrong == 0 && report.checked > 0,
        "{dropped} packets dropped, {} of {} results wrong: the measurement is void",
        report.wrong,
        report.checked
    );
    if port.stop().is_err() {
        anyhow::bail!("queues of the memif port are still held");
    }
    Ok(report.mpps)
}
