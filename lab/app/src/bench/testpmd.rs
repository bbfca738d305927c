//! dpdk-testpmd on the same ports: the cost of moving packets without touching their payload.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::Context as _;
use pascaline_dpdk::mempool;

use super::{PipelineArgs, fixture};

/// How long a line that is waited for may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// Its forwarding mode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Exchanges the addresses of each.
    MacSwap,
    /// Reads none.
    Io,
}

impl Mode {
    pub(super) const BOTH: [Self; 2] = [Self::MacSwap, Self::Io];

    const fn name(self) -> &'static str {
        match self {
            Self::MacSwap => "macswap",
            Self::Io => "io",
        }
    }
}

/// Bursts that it sends at the start if there is no other source.
const FIRST: u32 = 8;

/// A running dpdk-testpmd; ended when dropped.
pub(super) struct Testpmd {
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
}

impl Testpmd {
    /// Starts it on a device.
    pub(super) fn start(args: &PipelineArgs, device: &str, hugepages: bool) -> anyhow::Result<Self> {
        let cores = format!("{},{}", args.main_core, args.core);
        // testpmd buffers its output into a pipe until it ends; stdbuf (coreutils) makes it flush each line.
        let mut command = Command::new("stdbuf");
        command.args([
            "-oL",
            &args.testpmd,
            "-l",
            &cores,
            "--no-pci",
            "--no-shconf",
            "--log-level=lib.*:error",
        ]);
        command.args(["-m", &fixture::MEMORY_MB.to_string()]);
        command.args(["--file-prefix", &format!("pascaline-testpmd-{}", std::process::id())]);
        if !hugepages {
            // The same kind of memory as the pipeline has.
            command.arg("--no-huge");
        }
        command.args(["--vdev", device]);
        command.args(["--", "-i", "--port-topology=loop", "--nb-cores=1"]);
        command.args(["--rxd=1024", "--txd=1024", "--burst=32", "--total-num-mbufs=8192"]);
        // As large as a frame needs. With the usual 2 KiB, DPDK puts one packet into each ordinary page, all
        // at the same offset, so that they compete for a few sets of the first-level cache: testpmd then
        // reaches a third of its rate, and would be no limit.
        let room = (usize::from(mempool::HEADROOM) + args.shape.frame_len()).next_multiple_of(64);
        command.arg(format!("--mbuf-size={room}"));
        command.arg(format!("--txpkts={}", args.shape.frame_len()));
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("starting {} (Debian: apt-get install dpdk)", args.testpmd))?;
        let input = child.stdin.take().context("its input")?;
        let stdout = BufReader::new(child.stdout.take().context("its output")?);
        let (lines, output) = mpsc::channel();
        std::thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| lines.send(line))
        });
        Ok(Self { child, input, output })
    }

    /// Lets it forward.
    pub(super) fn forward(&mut self, mode: Mode) -> anyhow::Result<()> {
        self.begin(mode, "start")
    }

    /// Millions of packets per second in both modes, each over this time. With `own` it starts by sending its
    /// own packets, for devices that only return packets sent to them.
    pub(super) fn both(&mut self, seconds: u64, own: bool) -> anyhow::Result<[f64; 2]> {
        let start = if own { format!("start tx_first {FIRST}") } else { "start".to_owned() };
        let mut rates = [0.0; 2];
        for (mode, rate) in Mode::BOTH.into_iter().zip(&mut rates) {
            self.begin(mode, &start)?;
            *rate = self.mpps(seconds)?;
            // This also discards packets in flight.
            self.say("stop")?;
        }
        Ok(rates)
    }

    fn begin(&mut self, mode: Mode, start: &str) -> anyhow::Result<()> {
        self.say(&format!("set fwd {}", mode.name()))?;
        self.say(start)?;
        self.read_until("packets/burst").map(drop)
    }

    fn say(&mut self, line: &str) -> anyhow::Result<()> {
        writeln!(self.input, "{line}").and_then(|()| self.input.flush()).context("talking to dpdk-testpmd")
    }

    /// Reads its output up to a line that contains `text`.
    fn read_until(&mut self, text: &str) -> anyhow::Result<String> {
        loop {
            let line = self.output.recv_timeout(PATIENCE);
            let line = line
                .with_context(|| format!("dpdk-testpmd did not print {text:?}; run it by hand to see why"))?;
            if line.contains(text) {
                return Ok(line);
            }
        }
    }

    /// Millions of packets per second that it forwards, over this time.
    fn mpps(&mut self, seconds: u64) -> anyhow::Result<f64> {
        // testpmd prints the rate since the last question: the first answer starts the measurement.
        self.rate()?;
        std::thread::sleep(Duration::from_secs(seconds));
        self.rate()
    }

    fn rate(&mut self) -> anyhow::Result<f64> {
        self.say("show port stats 0")?;
        let line = self.read_until("Tx-pps:")?;
        let pps = line.split_whitespace().nth(1).and_then(|pps| pps.parse::<f64>().ok());
        Ok(pps.with_context(|| format!("no rate in {line:?}"))? / 1e6)
    }

    /// Ends it by its own commands.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        // A second stop only prints a message.
        self.say("stop")?;
        self.say("quit")?;
        self.child.wait().context("waiting for dpdk-testpmd")?;
        Ok(())
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
