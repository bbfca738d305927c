//! dpdk-testpmd on the same ports: what moving packets costs without touching their payload.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use anyhow::Context as _;
use pascaline_dpdk::mempool;

use super::{PipelineArgs, fixture};

/// How long it may take to print what is waited for.
const PATIENCE: Duration = Duration::from_secs(20);

/// What it does with packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// Exchanges the addresses of each.
    MacSwap,
    /// Looks into none.
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

/// Bursts that it sends at the start where nobody else sends any.
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
        // Into a pipe it would print nothing before it ends; stdbuf (coreutils) becomes the program that it
        // starts.
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
        // at the same place, where they meet in the same few places of the first-level cache: a third of what
        // it makes otherwise, which would be no limit.
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

    /// Millions of packets per second in both modes, one after the other, over this time each. With `own` it
    /// sends what it forwards itself, at the start: a device that gives back what it is given has nothing
    /// else.
    pub(super) fn both(&mut self, seconds: u64, own: bool) -> anyhow::Result<[f64; 2]> {
        let start = if own { format!("start tx_first {FIRST}") } else { "start".to_owned() };
        let mut rates = [0.0; 2];
        for (mode, rate) in Mode::BOTH.into_iter().zip(&mut rates) {
            self.begin(mode, &start)?;
            *rate = self.mpps(seconds)?;
            // It also throws away what is on its way.
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
        // It prints the rate since it was last asked, so the first answer is the start of the measurement.
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

    /// Ends it as its users do.
    pub(super) fn end(mut self) -> anyhow::Result<()> {
        // It says so if it has been stopped already.
        self.say("stop")?;
        self.say("quit")?;
        self.child.wait().context("waiting for dpdk-testpmd")?;
        Ok(())
    }
}

impl Drop for Testpmd {
    fn drop(&mut self) {
        // It may have ended as it was told.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
