//! `pascaline ps`: the server as a process of its own.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pascaline_shared::http::names::Names;
use pascaline_shared::http::server::Plan;
use pascaline_shared::{print, println};
use pascaline_telemetry::Telemetry;
use pascaline_wire::control::Control;
use pascaline_wire::{Header, Kind};
use tracing::{info, warn};

use super::asynchronous::{AsyncLoop, unix_ns};
use super::registrar::{Answer, Registrar};
use super::seals::Seals;
use super::snapshot::{Count, Published};
use super::socket::Socket;
use super::{ServerLoop, earlier};
use crate::admin::server as admin;
use crate::config::{Checkpoint, Config, PsMode};
use crate::observe::endpoints::Pages;
use crate::observe::metrics::WithBuild;

/// Between two snapshots.
const PUBLISH: Duration = Duration::from_millis(50);
/// How long the appliance may be silent before that is worth a warning.
const SILENCE: Duration = Duration::from_secs(2);

/// Run the parameter server as a process of its own until SIGTERM or SIGINT
///
/// Reads the same file as the appliance: `[ps]` must have mode = "external", an address of this host and, if
/// it is not 16421, a port. The server tells the appliance where it is, and needs no privileges. It may be
/// started before or after the appliance, and restarted at any time. What it held of synchronous jobs is
/// collected again. The model of an asynchronous job goes on from the file that was kept of it, if
/// `checkpoint` in [ps] or $STATE_DIRECTORY names a directory; else a worker is asked for the latest weights.
/// A file that is damaged is an error.
///
/// When it ends, it prints what it has done. Exit code 2: the configuration cannot be put to use; 1:
/// something failed later, or a model could not be kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  pascaline ps -c conf/appliance.toml
  pascaline ps -c conf/appliance.toml --json | jq .entries_ended.finished
  pascaline ps -c conf/appliance.toml --json --aom-log updates.jsonl | jq .asynchronous.jain")]
pub(crate) struct PsArgs {
    /// The configuration file
    #[arg(short, long, value_name = "FILE")]
    config: PathBuf,
    /// Print the counters at the end as one JSON object
    #[arg(long)]
    json: bool,
    /// Write a JSON line for each update of an asynchronous job: when it arrived, when it was generated, and
    /// how many it stands for. `pascaline-lab plot aom` draws the Age-of-Model from it
    #[arg(long, value_name = "FILE")]
    aom_log: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: &PsArgs) -> anyhow::Result<ExitCode> {
    // The file of `verify` is the appliance's business, and may be on its machine alone.
    let config = Config::load_for_server(&args.config)?;
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, Arc::clone(&stop)).context("installing a signal handler")?;
    }
    let listener = config.ps.listen.as_ref().map(|listen| admin::tcp(&config, listen)).transpose()?;
    let mut process = Process::new(&config, &args.config)?;
    if let Some(file) = &args.aom_log {
        process.asynchronous.log_to(file)?;
    }
    let pages = listener
        .map(|listener| {
            let (names, router) = (Names::new(&config.hosts), pages(&process.published, &stop).router());
            Plan::pages(listener, names, router, None).start()
        })
        .transpose()?;
    process.serve(&stop)?;
    drop(pages);
    let kept = process.asynchronous.flush();
    let report = process.snapshot().report();
    if args.json {
        println!("{report}");
    } else {
        print!("{}", lines(&report));
    }
    kept.map(|()| ExitCode::SUCCESS)
}

fn pages(published: &Published, stop: &Arc<AtomicBool>) -> Pages {
    let telemetry = Telemetry::new(Vec::new(), Vec::new(), Box::new(WithBuild(published.clone())));
    let (stop, as_well) = (Arc::clone(stop), Arc::clone(stop));
    Pages {
        scrape: Box::new(move |format| telemetry.scrape(format)),
        healthy: Box::new(move || !stop.load(Ordering::Relaxed)),
        // It is bound before there are pages.
        unready: Box::new(move || as_well.load(Ordering::Relaxed).then(|| "not ready\n".to_owned())),
    }
}

/// The counters that are not 0, one a line.
fn lines(report: &serde_json::Value) -> String {
    let mut lines = String::new();
    for (name, value) in report.as_object().into_iter().flatten() {
        match value.as_object() {
            Some(labelled) => {
                for (label, value) in labelled.iter().filter(|(_, value)| **value != 0) {
                    lines.push_str(&format!("{name} {label} {value}\n"));
                }
            }
            None if *value != 0 => lines.push_str(&format!("{name} {value}\n")),
            None => {}
        }
    }
    lines
}

/// What the process has counted beside the server.
#[derive(Debug, Default)]
struct Counts {
    sources_refused: u64,
    serves_sent: u64,
    answers: u64,
    controls_ignored: u64,
}

struct Process {
    socket: Socket,
    /// Where datagrams of the appliance come from.
    appliance: Vec<SocketAddr>,
    registrar: Registrar,
    seals: Seals,
    server: ServerLoop,
    asynchronous: AsyncLoop,
    counts: Counts,
    published: Published,
}

impl Process {
    fn new(config: &Config, file: &Path) -> anyhow::Result<Self> {
        let mode = &config.ps.mode;
        let PsMode::External { address, appliance } = mode.value else {
            let remedy = "set mode = \"external\" and address in [ps], here and where the appliance runs";
            let message = "the configuration has no parameter server that is a process of its own";
            return Err(config.error(mode, message, remedy).into());
        };
        let served = || config.jobs.iter().filter(|job| job.spec.kind.has_server());
        let asynchronous: Vec<u16> = served().filter(|job| job.updates()).map(|job| job.spec.id).collect();
        let jobs = config.ps.limits.jobs + asynchronous.len();
        let admission = config.admission.as_ref().filter(|admission| admission.like.kind.has_server());
        if jobs == 0 {
            let remedy = "give a job kind = \"dsa\", \"atp\" or \"updates\"";
            return Err(config.error(mode, "no job uses a parameter server", remedy).into());
        }
        let socket = Socket::open(address, appliance, config.dscp).map_err(|error| {
            let message = format!("cannot receive at {address}: {error}");
            config.error(mode, message, "give an address of this host and a free UDP port (`ss -lunp`)")
        })?;
        let mut session = [0; 8];
        getrandom::fill(&mut session)
            .map_err(|error| anyhow::anyhow!("the system has no random numbers: {error}"))?;
        let session = u64::from_ne_bytes(session);
        let registrar = Registrar::new(
            session,
            served().map(|job| (job.spec.id, job.spec.kind.order())),
            admission.map(|admission| admission.jobs.clone()),
            jobs,
        );
        let training = !asynchronous.is_empty();
        let mut asynchronous = AsyncLoop::new(config.ps.training, asynchronous);
        if training {
            keep_models(config, &mut asynchronous)?;
        }
        info!(file = %file.display(), %address, %appliance, jobs, "ready");
        Ok(Self {
            socket,
            appliance: config
                .addresses
                .iter()
                .map(|&ip| SocketAddr::new(ip, config.udp_ports.first()))
                .collect(),
            registrar,
            seals: Seals::new(config, session),
            server: ServerLoop::new(config.ps.limits),
            asynchronous,
            counts: Counts::default(),
            published: Published::default(),
        })
    }

    /// Serves until told to stop.
    fn serve(&mut self, stop: &AtomicBool) -> anyhow::Result<()> {
        let start = Instant::now();
        let mut publish_at = Duration::ZERO;
        let mut silence = Silence::default();
        while !stop.load(Ordering::Relaxed) {
            let now = start.elapsed();
            let received = self.turn(now).context("receiving from the network")?;
            // Who has asked nothing is owed no answer.
            if self.counts.serves_sent > 0 {
                silence.look(now, self.counts.answers);
            }
            self.asynchronous.keep(now);
            if now >= publish_at {
                self.published.publish(self.snapshot());
                publish_at = now.saturating_add(PUBLISH);
            }
            if received == 0 {
                let next = earlier(self.server.next_wake(), self.registrar.next_wake());
                let next = earlier(next, Some(publish_at)).unwrap_or_default();
                self.socket.wait(next.saturating_sub(start.elapsed())).context("waiting for the network")?;
            }
        }
        Ok(())
    }

    /// Handles a batch of datagrams, does what is due, sends what there is to send. How many datagrams there
    /// were.
    fn turn(&mut self, now: Duration) -> std::io::Result<usize> {
        let Self { socket, appliance, registrar, seals, server, asynchronous, counts, .. } = self;
        let unix = unix_ns();
        // First of all: it may have been stopped, and then all that follows would be of another time.
        registrar.lapsed(now).for_each(|job| server.remove_job(job));
        seals.poll(now);
        let received = socket.receive(|source, datagram| {
            if !source.is_some_and(|source| appliance.iter().any(|at| same(*at, source))) {
                counts.sources_refused += 1;
                return;
            }
            let Some(datagram) = seals.open(datagram) else { return };
            match Header::parse(datagram) {
                Ok((header, body)) if header.kind == Kind::Control => {
                    match Control::parse_with_trailer(&header, body) {
                        Ok((control, _)) => {
                            let answer = registrar.answer(now, &header, &control);
                            counts.note(now, answer, server, asynchronous);
                        }
                        Err(_) => counts.controls_ignored += 1,
                    }
                }
                parsed => {
                    let asynchronously = parsed.is_ok_and(|(header, _)| asynchronous.is_for(header.job));
                    let unknown = if asynchronously {
                        asynchronous.receive(unix, datagram)
                    } else {
                        server.receive(now, datagram)
                    };
                    if let Some(job) = unknown {
                        registrar.unknown(now, job);
                    }
                }
            }
        })?;
        server.advance(now);
        let mut sealed = |next: bool, place: &mut Vec<u8>| {
            if next {
                seals.seal(place);
            }
            next
        };
        while socket.queue(|place| sealed(server.next_datagram(place), place)) {}
        while socket.queue(|place| sealed(asynchronous.next_datagram(place), place)) {}
        while let Some(serve) = registrar.poll(now) {
            socket.queue(|place| {
                place.clear();
                place.extend_from_slice(&serve);
                seals.seal(place);
                true
            });
            counts.serves_sent += 1;
        }
        socket.flush();
        Ok(received)
    }

    fn snapshot(&self) -> super::Snapshot {
        let Counts { sources_refused, serves_sent, answers, controls_ignored } = self.counts;
        let count = |name, help, value| Count { name, help, value };
        let mut snapshot = self.server.snapshot(vec![
            count("ps_sources_refused", "Datagrams that did not come from the appliance.", sources_refused),
            count("ps_serves_sent", "Announcements sent to the appliance.", serves_sent),
            count("ps_serves_answered", "Answers of the appliance to them.", answers),
            count("ps_controls_ignored", "Control packets that were no such answer.", controls_ignored),
            count(
                "ps_seals_refused",
                "Datagrams that were not sealed as their job demands.",
                self.seals.refused,
            ),
            count("ps_unsent_packets", "Packets that the system would not send.", self.socket.unsent),
        ]);
        snapshot.asynchronous = self.asynchronous.snapshot(unix_ns());
        snapshot
    }
}

impl Counts {
    fn note(&mut self, now: Duration, answer: Answer, server: &mut ServerLoop, asynchronous: &mut AsyncLoop) {
        match answer {
            Answer::Serve(job) if asynchronous.is_for(job.job) => asynchronous.set_job(&job),
            Answer::NotYet(job) | Answer::Unproven(job) if asynchronous.is_for(job) => {
                asynchronous.await_job(now, job);
            }
            Answer::Nothing(job) if asynchronous.is_for(job) => asynchronous.remove_job(job),
            Answer::Serve(job) => server.set_job(&job),
            // The appliance has gone on with another.
            Answer::Nothing(job) | Answer::Unproven(job) => server.remove_job(job),
            Answer::NotYet(job) => server.await_job(job),
            Answer::Later => {}
            Answer::Stray => {
                self.controls_ignored += 1;
                return;
            }
        }
        self.answers += 1;
    }
}

/// Sees to it that models are kept where the configuration says, or the service manager.
fn keep_models(config: &Config, models: &mut AsyncLoop) -> anyhow::Result<()> {
    let default = std::env::var_os("STATE_DIRECTORY").filter(|it| !it.is_empty()).map(PathBuf::from);
    let remedy = "restore the file or delete it: then a worker is asked for the latest weights; \
        or let checkpoint in [ps] name a directory that can be written";
    match (&config.ps.checkpoint, default) {
        (Checkpoint::In(directory), _) => {
            let kept = models.keep_in(&directory.value);
            kept.map_err(|error| config.error(directory, format_args!("{error:#}"), remedy).into())
        }
        (Checkpoint::Default, Some(directory)) => models.keep_in(&directory).context(remedy),
        _ => {
            info!("no model is kept on disk: after a restart a worker is asked for the latest weights");
            Ok(())
        }
    }
}

/// Same address and port; flow labels and scopes are not looked at.
fn same(one: SocketAddr, other: SocketAddr) -> bool {
    one.ip() == other.ip() && one.port() == other.port()
}

/// Tells once when the appliance stops answering, and once when it answers again.
#[derive(Debug, Default)]
struct Silence {
    answers: u64,
    since: Duration,
    told: bool,
}

impl Silence {
    fn look(&mut self, now: Duration, answers: u64) {
        if answers != self.answers {
            if self.told {
                info!("the appliance answers again");
            }
            *self = Self { answers, since: now, told: false };
        } else if !self.told && now >= self.since.saturating_add(SILENCE) {
            warn!("the appliance has not answered for {SILENCE:?}: is it running, and is its file the same?");
            self.told = true;
        }
    }
}
