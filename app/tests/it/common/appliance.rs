//! A running appliance: its configuration, its process, its metrics.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sched::sched_getaffinity;
use nix::sys::signal::Signal;
use nix::unistd::Pid;

use super::net::{Network, address};
use super::{Ended, Files, Process, until};

/// The UDP port of gradients.
pub(crate) const UDP_PORT: u16 = 16420;
/// How long an aggregate in progress may hold up the end.
pub(crate) const DRAIN: Duration = Duration::from_secs(2);
/// Beyond that: closing ports and releasing memory on a busy machine.
pub(crate) const MARGIN: Duration = Duration::from_secs(5);
/// For anything that is a matter of milliseconds on an idle machine.
pub(crate) const SOON: Duration = Duration::from_secs(8);

const TELEMETRY: &str = "127.0.0.1:9464";

/// The cores that this process may use.
pub(crate) fn cores() -> Vec<usize> {
    let allowed = sched_getaffinity(Pid::from_raw(0)).unwrap();
    (0..nix::sched::CpuSet::count()).filter(|&core| allowed.is_set(core).unwrap_or(false)).collect()
}

/// What a test wants of its appliance; all else is as in a small installation.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// Ports 0 and 1 pass on to each other what is not for the appliance.
    pub(crate) inline: bool,
    /// Two lcores instead of one.
    pub(crate) two_lcores: bool,
    /// All ports are in one bridge.
    pub(crate) bridge: bool,
    /// Ports of this driver, with a transmit queue of its own for what passes through.
    pub(crate) own_queue: Option<&'static str>,
    /// A single queue, however many lcores there are.
    pub(crate) one_queue: bool,
    /// Job [`OLAF_JOB`], whose workers send updates: a rank on each host but the last, where its server is;
    /// behind a queue of eight at a million bits per second. And [`SERVED_JOB`], of the same ranks.
    pub(crate) olaf: bool,
    /// Job [`EARLY_JOB`], whose PSNs are complete without the last of its ranks.
    pub(crate) early: bool,
}

/// The job beside [`OLAF_JOB`] that sums with the help of the same server.
pub(crate) const SERVED_JOB: u16 = 6;

/// See [`Wanted::early`].
pub(crate) const EARLY_JOB: u16 = 5;

/// See [`Wanted::olaf`].
pub(crate) const OLAF_JOB: u16 = 4;
/// The UDP port of the server of [`OLAF_JOB`].
pub(crate) const SERVER_PORT: u16 = 16421;

/// The configuration for a network: a port for each worker, and jobs 1 to 3 of that many ranks.
fn configuration(network: &Network, wanted: Wanted, admin: &Path) -> String {
    let cores = cores();
    let (main, last) = (cores[0], cores[cores.len() - 1]);
    let lcores = if wanted.two_lcores { format!("[{main}, {last}]") } else { format!("[{last}]") };
    let float = wanted.two_lcores || main == last;
    let text = format!(
        r#"
[appliance]
name = "{name}"
addresses = ["10.77.0.254", "fd77::254"]
udp_port = {UDP_PORT}

[dataplane]
main_core = {main}
cores = {lcores}
float = {float}
hugepages = "no"
memory_mb = 96
drain = "{drain}s"
{passing}

[pool]
slots = 1024
ways = 4

[telemetry]
listen = "{TELEMETRY}"

[admin]
listen = "unix:{admin}"
"#,
        admin = admin.display(),
        name = network.appliance.name,
        drain = DRAIN.as_secs(),
        passing = wanted.own_queue.map_or("", |_| "passing_queue = \"require\""),
    );
    text + &ports(network, wanted) + &jobs(network, wanted)
}

fn ports(network: &Network, wanted: Wanted) -> String {
    let mut text = String::new();
    for port in 0..network.workers.len() {
        let queues = if wanted.two_lcores && !wanted.one_queue { ",qpairs=2" } else { "" };
        let peer = match () {
            () if wanted.bridge => "bridge = \"all\"\n".to_owned(),
            () if wanted.inline && port < 2 => format!("peer = \"p{}\"\n", 1 - port),
            () => String::new(),
        };
        let device = match wanted.own_queue {
            Some("net_af_packet") if !wanted.one_queue => {
                format!("net_af_packet{port},iface=pas{port},qpairs=2")
            }
            Some(driver) => format!("{driver}{port},iface=pas{port}"),
            None => format!("net_af_packet{port},iface=pas{port}{queues}"),
        };
        write!(text, "\n[[ports]]\nname = \"p{port}\"\ndevice = \"{device}\"\n{peer}").unwrap();
        if wanted.olaf && port + 1 == network.workers.len() {
            text.push_str("[ports.queue]\nrate = \"1M\"\n");
        }
    }
    text
}

fn jobs(network: &Network, wanted: Wanted) -> String {
    let ranks = network.workers.len();
    let mut text = String::new();
    if wanted.olaf {
        let (ranks, server) = (ranks - 1, address(u8::try_from(ranks - 1).unwrap()));
        write!(text, "\n[[jobs]]\nid = {OLAF_JOB}\nfan_in = {ranks}\nkind = \"updates\"\n").unwrap();
        write!(
            text,
            "\n[ps]\nmode = \"external\"\naddress = \"{server}\"\nport = {SERVER_PORT}\n\
             \n[[jobs]]\nid = {SERVED_JOB}\nfan_in = {ranks}\nkind = \"dsa\"\n[jobs.shared]\nquota = 8\n"
        )
        .unwrap();
    }
    if wanted.early {
        write!(text, "\n[[jobs]]\nid = {EARLY_JOB}\nfan_in = {ranks}\nkind = \"iswitch\"\nwindow = 128\n")
            .unwrap();
        write!(text, "[jobs.early]\nthreshold = {}\n", ranks - 1).unwrap();
    }
    for job in 1..=3 {
        write!(text, "\n[[jobs]]\nid = {job}\nfan_in = {ranks}\nwindow = 128\n").unwrap();
    }
    text
}

/// One `pascaline run`.
#[derive(Debug)]
pub(crate) struct Appliance<'a> {
    network: &'a Network,
    process: Process,
    files: Files,
}

impl<'a> Appliance<'a> {
    /// Starts one and waits until it is ready.
    pub(crate) fn start(network: &'a Network, wanted: Wanted) -> Self {
        Self::try_start(network, wanted).unwrap_or_else(|ended| panic!("not ready: {}", ended.err))
    }

    /// Starts one and waits until it is ready, or has ended.
    pub(crate) fn try_start(network: &'a Network, wanted: Wanted) -> Result<Self, Ended> {
        let files = Files::new();
        let config =
            files.write("appliance.toml", &configuration(network, wanted, &files.path("admin.sock")));
        let process = Process::start(Some(&network.appliance), &["run", "-c", config.to_str().unwrap()]);
        let mut this = Self { network, process, files };
        let ready = until("an appliance that is ready", SOON, || {
            if !this.process.is_running() {
                return Some(false);
            }
            let healthy = this.get("/healthz").is_some_and(|(status, _)| status == 200);
            (healthy && this.log().contains("ready")).then_some(true)
        });
        if ready { Ok(this) } else { Err(this.process.wait(SOON)) }
    }

    /// Its configuration.
    pub(crate) fn config(&self) -> PathBuf {
        self.files.path("appliance.toml")
    }

    /// The socket of its admin API.
    pub(crate) fn admin(&self) -> PathBuf {
        self.files.path("admin.sock")
    }

    /// What it has logged.
    pub(crate) fn log(&self) -> String {
        self.process.err()
    }

    /// Status and body of a page; none if nobody listens.
    pub(crate) fn get(&self, path: &str) -> Option<(u16, String)> {
        let server: SocketAddr = TELEMETRY.parse().unwrap();
        let mut stream = self.network.appliance.within(|| TcpStream::connect(server)).ok()?;
        stream.set_read_timeout(Some(SOON)).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {TELEMETRY}\r\nConnection: close\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        let (head, body) = answer.split_once("\r\n\r\n")?;
        Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
    }

    /// The metrics as they are now.
    pub(crate) fn metrics(&self) -> Metrics {
        let (status, body) = self.get("/metrics").expect("the metrics server answers");
        assert_eq!(status, 200, "{body}");
        Metrics::parse(body)
    }

    /// The metrics once they are as told and every packet is accounted for.
    pub(crate) fn metrics_when(&self, what: &str, holds: impl Fn(&Metrics) -> bool) -> Metrics {
        let mut last = None;
        let settled = || {
            let metrics = self.metrics();
            let good = metrics.unaccounted() == 0 && holds(&metrics);
            last = Some(metrics);
            if good { last.take() } else { None }
        };
        let seen = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| until(what, SOON, settled)));
        seen.unwrap_or_else(|_| {
            panic!("{what}: the last metrics were\n{}", last.map_or(String::new(), |m| m.text))
        })
    }

    /// Asks it to end.
    pub(crate) fn terminate(&mut self) {
        self.process.signal(Signal::SIGTERM);
    }

    /// Waits for its end, and fails unless it ends in order.
    pub(crate) fn ends_well(&mut self) -> Ended {
        let ended = self.process.wait(DRAIN + MARGIN);
        assert_eq!(ended.code, Some(0), "{}", ended.err);
        assert!(ended.err.contains("every packet accounted for"), "{}", ended.err);
        assert!(!ended.err.contains("ERROR"), "{}", ended.err);
        ended
    }

    /// Starts a worker of a job.
    pub(crate) fn worker(&self, job: u16, rank: u8, more: &[&str]) -> Process {
        let ranks = self.network.workers.len().to_string();
        self.worker_that_believes(&ranks, job, rank, more)
    }

    /// Starts a worker that believes in a number of ranks.
    pub(crate) fn worker_that_believes(&self, ranks: &str, job: u16, rank: u8, more: &[&str]) -> Process {
        let (job, number) = (job.to_string(), rank.to_string());
        let who = ["--job", &job, "--rank", &number, "--ranks", ranks];
        let how = ["--appliance", "10.77.0.254", "--deadline", "8s", "--join-deadline", "8s", "--json"];
        let args = [&["worker", "allreduce"], &who[..], &how, more].concat();
        Process::start(Some(&self.network.workers[usize::from(rank)]), &args)
    }

    /// Has all ranks of a job do the same allreduces, and fails unless every sum is right, and the same
    /// everywhere.
    pub(crate) fn allreduce(&self, job: u16, iterations: u32, more: &[&str]) {
        let times = iterations.to_string();
        let args = [&["--iterations", &times], more].concat();
        let ranks = 0..u8::try_from(self.network.workers.len()).unwrap();
        let mut workers: Vec<_> = ranks.map(|rank| self.worker(job, rank, &args)).collect();
        let ended: Vec<_> = workers.iter_mut().map(|worker| worker.wait(Duration::from_secs(12))).collect();
        for one in &ended {
            assert_eq!(one.code, Some(0), "{one:?}");
            let (json, first) = (one.json(), ended[0].json());
            assert_eq!(json["verified"], iterations, "{json}");
            assert_eq!(json["mismatches"], 0, "{json}");
            assert_eq!(json["checksums"], first["checksums"]);
            assert_eq!(json["checksums"].as_array().map(Vec::len), usize::try_from(iterations).ok());
        }
    }
}

/// The address that a worker sends from.
pub(crate) fn source(rank: u8, port: u16) -> SocketAddr {
    format!("{}:{port}", address(rank)).parse().unwrap()
}

/// One scrape.
#[derive(Debug)]
pub(crate) struct Metrics {
    pub(crate) text: String,
    samples: BTreeMap<String, f64>,
}

impl Metrics {
    fn parse(text: String) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.filter_map(|line| line.rsplit_once(' '));
        let samples = samples.map(|(name, value)| (name.to_owned(), value.parse().unwrap())).collect();
        Self { text, samples }
    }

    /// The sum of all samples with this name that carry this label; the empty label is on all of them.
    pub(crate) fn sum(&self, name: &str, label: &str) -> u64 {
        let name = format!("pascaline_{name}");
        let matches = |sample: &str| {
            sample
                .strip_prefix(&name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('{') && rest.contains(label))
        };
        let sum: f64 =
            self.samples.iter().filter(|(sample, _)| matches(sample)).map(|(_, value)| value).sum();
        format!("{sum:.0}").parse().unwrap()
    }

    /// A counter of packets over all lcores.
    pub(crate) fn packets(&self, what: &str) -> u64 {
        self.sum(&format!("{what}_packets_total"), "")
    }

    /// Packets dropped for a reason.
    pub(crate) fn dropped(&self, reason: &str) -> u64 {
        self.sum("dropped_packets_total", &format!("reason=\"{reason}\""))
    }

    /// The generation of a job.
    pub(crate) fn epoch(&self, job: u16) -> u16 {
        self.sum("job_epoch", &format!("job_id=\"{job}\"")).try_into().unwrap()
    }

    /// The lines that have changed.
    pub(crate) fn changes_since(&self, before: &Self) -> String {
        let lines = before.text.lines().zip(self.text.lines()).filter(|(old, new)| old != new);
        lines.map(|(old, new)| format!("{old} -> {new}\n")).collect()
    }

    /// Received packets that are not accounted for.
    pub(crate) fn unaccounted(&self) -> i64 {
        let signed = |what: &str| i64::try_from(self.packets(what)).unwrap();
        signed("received") - ["forwarded", "absorbed", "answered", "dropped"].map(signed).iter().sum::<i64>()
    }
}
