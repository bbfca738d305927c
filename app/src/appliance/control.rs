//! The control plane's loop, on the main core: memberships, signals, metrics.

use std::net::TcpListener;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use pascaline_dpdk::lcore::LcoreHandle;
use pascaline_dpdk::port::Started;
use pascaline_dpdk::{Clock, Port};
use pascaline_pipelines::control_plane::Decided;
use pascaline_pipelines::membership::{Event, OnDeath, SILENCE};
use pascaline_pipelines::{ControlPlane, IdlePolicy, Membership, OwnTime};
use pascaline_shared::http::names::Names;
use pascaline_shared::http::server::{Plan, Server};
use pascaline_telemetry::{Counter, Gauges, Reading, Telemetry};
use pascaline_wire::control::Action;
use sd_notify::NotifyState;
use tracing::{error, info, warn};

use super::accounting;
use super::attached::Attached;
use super::bring_up::{Appliance, Machine};
use super::lines::Lines;
use super::links::Links;
use super::operator::{Facts, Operator, Site};
use super::registrar::Listening;
use super::watch::{Noticed, Watch};
use crate::config::Config;
use crate::observe::endpoints;
use crate::observe::explain::{Stalled, next_hop, unreachable};
use crate::observe::metrics::{ApplianceGauges, WithBuild};
use crate::observe::state::Shared;
use crate::parameter_server::embedded::EmbeddedServer;

/// How often requests of workers are looked for. They are few and at the start of a session.
const TURN: Duration = Duration::from_millis(1);
/// How often histograms are collected from the lcores.
const COLLECT: Duration = Duration::from_millis(50);
/// How often those who show the appliance are told who is waited for.
const TELL: Duration = Duration::from_millis(500);

/// Launches the lcores and serves until a signal ends it.
pub(crate) fn run(
    config: &Config,
    appliance: Appliance,
    listener: Option<TcpListener>,
    listening: Listening,
) -> anyhow::Result<ExitCode> {
    let Appliance {
        lcores,
        mut plane,
        counters,
        readers,
        ports,
        pools,
        pool_slots,
        pool_bytes,
        server: embedded,
        queues,
        clock,
    } = appliance;
    tell_time(&plane, clock);
    let shared = Arc::new(Shared::new(plane.membership(), config));
    let published = embedded.as_ref().map(|server| Box::new(server.published()) as Box<dyn Gauges>);
    let gauges = ApplianceGauges::new(&ports, pools, pool_slots, pool_bytes, Arc::clone(&shared), published);
    let gauges = Arc::new(gauges.with_queues(queues));
    let telemetry = Telemetry::new(counters, readers, Box::new(WithBuild(Arc::clone(&gauges))));
    let handles = launch(lcores, config.idle)?;
    let server = listener
        .map(|listener| {
            let (page, task) = endpoints::live(config, &telemetry, gauges, clock).start();
            let router = endpoints::plain(&telemetry, &shared).router().merge(page);
            Plan::pages(listener, Names::new(&config.hosts), router, Some(Box::pin(task))).start()
        })
        .transpose()?;
    let operator = Operator::new(config, Facts { lcores: handles.len(), clock }, listening)?;
    let links = Links::new(config, &ports);
    shared.set_ports(links.healths().to_vec());
    tell_ready(config, handles.len());
    shared.set_polling();
    tell_systemd(NotifyState::Ready);
    let began = Instant::now();
    let attached = Attached::begin(ports.len(), &mut plane, Duration::ZERO);
    let mut control = Control {
        watch: Watch::new(Duration::ZERO, handles.len()),
        plane,
        clock,
        shared,
        telemetry,
        operator,
        handles,
        embedded,
        began,
        time: OwnTime::default(),
        told: Duration::ZERO,
        links,
        attached,
        lines: Lines::default(),
        collected: began,
        draining: None,
    };
    control.serve();
    Ok(control.end(server, ports))
}

/// What the loop turns.
struct Control {
    plane: ControlPlane,
    clock: Clock,
    shared: Arc<Shared>,
    telemetry: Arc<Telemetry>,
    operator: Operator,
    handles: Vec<LcoreHandle<()>>,
    embedded: Option<EmbeddedServer>,
    began: Instant,
    time: OwnTime,
    watch: Watch,
    /// When it was last told who is waited for, in the process's time.
    told: Duration,
    links: Links,
    attached: Attached,
    lines: Lines,
    /// When histograms were last collected.
    collected: Instant,
    /// Since when, if the appliance is to end.
    draining: Option<Instant>,
}

impl Control {
    /// Turns until the last turn.
    fn serve(&mut self) {
        while self.turn() {
            // Waiting requests are decided at once: otherwise a frequent sender keeps all others out.
            if !self.plane.is_behind() {
                std::thread::park_timeout(TURN);
            }
        }
    }

    /// One turn; false if it was the last.
    fn turn(&mut self) -> bool {
        let held_up = self.watch.held_up(self.time.process());
        if let Some(pause) = self.time.turn(self.began.elapsed(), held_up) {
            warn!(
                "this process was stopped for {:.1} s: no rank counts as silent for that time",
                pause.as_secs_f64()
            );
        }
        let (now, process) = (self.time.hearing(), self.time.process());
        let Self { plane, operator, telemetry, shared, watch, lines, links, .. } = self;
        let stalled = watch.stalled(process);
        let ports = links.healths();
        if operator.turn(&mut Site { now, plane, telemetry, stalled: &stalled, ports }) {
            shared.set_config(&operator.running.config);
        }
        let turn = plane.turn(now);
        turn.events.iter().for_each(|event| tell_event(event, plane.membership(), now));
        turn.decided.iter().for_each(|decided| tell_change(decided, lines, process));
        if turn.published || !turn.events.is_empty() || process.saturating_sub(self.told) >= TELL {
            shared.set_jobs(plane.membership(), now);
            self.told = process;
        }
        if !turn.decided.is_empty() {
            shared.set_answers(plane.membership());
        }
        operator.settled(turn.in_use);
        if links.look() {
            shared.set_ports(links.healths().to_vec());
        }
        self.attached.look(plane, now, links.healths());
        if self.collected.elapsed() >= COLLECT {
            // Seen by this loop only, which notices below if an lcore has ended.
            tell_systemd(NotifyState::Watchdog);
            telemetry.collect();
            watch.look(process, telemetry.readings().iter().map(turns)).iter().for_each(tell_stall);
            shared.set_stalled(watch.stalled(process));
            tell_time(plane, self.clock);
            self.collected = Instant::now();
        }
        !self.has_failed() && !self.has_drained()
    }

    /// True if a thread has ended that should not.
    fn has_failed(&self) -> bool {
        let what = if self.handles.iter().any(LcoreHandle::is_finished) {
            "an lcore"
        } else if self.embedded.as_ref().is_some_and(EmbeddedServer::is_finished) {
            "the parameter server"
        } else {
            return self.has_lost_a_card();
        };
        self.shared.set_healthy(false);
        error!("{what} ended by itself");
        true
    }

    /// True if a card is being taken out: only the end of the program gives it back.
    fn has_lost_a_card(&self) -> bool {
        let Some(port) = self.links.removed() else { return false };
        self.shared.set_healthy(false);
        error!(port = port.name, remedy = port.remedy(), "{port}: the program ends, so that it can go");
        true
    }

    /// True if the appliance is to end and no partial is open, or has been open for too long.
    fn has_drained(&mut self) -> bool {
        if !self.operator.stopping() {
            return false;
        }
        let limit = self.operator.running.config.drain;
        let since = *self.draining.get_or_insert_with(|| {
            info!(?limit, "draining");
            tell_systemd(NotifyState::Stopping);
            self.shared.set_healthy(false);
            Instant::now()
        });
        self.telemetry.total().open_slots() == 0 || since.elapsed() >= limit
    }

    /// Ends what runs, in order, and reports.
    fn end(self, server: Option<Server>, ports: Vec<(String, Port<Started>)>) -> ExitCode {
        self.plane.stop();
        let mut whole = self.draining.is_some();
        for handle in self.handles {
            let lcore = handle.lcore();
            if let Err(panic) = handle.join() {
                error!(lcore, %panic, "an lcore panicked");
                whole = false;
            }
        }
        drop((server, self.operator));
        if let Some(Err(panic)) = self.embedded.map(EmbeddedServer::stop) {
            error!(%panic);
            whole = false;
        }
        self.telemetry.collect();
        let balanced = accounting::report(&self.telemetry.total());
        for (name, port) in ports {
            if port.stop().is_err() {
                error!(
                    port = name,
                    "queues of the port are still held; it is left to the end of the process"
                );
            }
        }
        if whole && balanced { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// How often an lcore has turned, as far as it has said so: at least every eighth time.
fn turns(reading: &Reading) -> u64 {
    reading.get(Counter::BusyTurns) + reading.get(Counter::IdleTurns)
}

/// Tells the operator of an lcore that stalls, and when it does no more.
fn tell_stall(noticed: &Noticed) {
    match noticed {
        Noticed::Stalls(stalled) => error!(lcore = stalled.lcore, "{stalled}; {}", Stalled::REMEDY),
        Noticed::Turns(Stalled { lcore, time }) => {
            warn!(lcore, "lcore {lcore} turns again, after {time:.1?}: no rank counted as silent meanwhile");
        }
    }
}

fn tell_ready(config: &Config, lcores: usize) {
    info!(
        lcores,
        ports = config.ports.len(),
        jobs = config.jobs.len(),
        addresses = ?config.addresses,
        udp_port = config.udp_ports.first(),
        udp_ports = config.udp_ports.count(),
        metrics = ?config.listen.as_ref().map(|listen| listen.value),
        admin = config.admin.as_ref().map(|admin| admin.listen.value.to_string()),
        "ready"
    );
}

/// Tells lcores what time it is, for updates say when they were generated. The system's time may be set
/// meanwhile.
fn tell_time(plane: &ControlPlane, clock: Clock) {
    let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    plane.set_time(clock.now_ns(), u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX));
}

/// Tells the service manager, if one has started the appliance and wants to know. Nothing depends on it.
fn tell_systemd(state: NotifyState<'_>) {
    let _ = sd_notify::notify(&[state]);
}

/// Tells the operator of a request that changed the membership, unless there are too many of them.
fn tell_change(Decided { request, answer }: &Decided, lines: &mut Lines, now: Duration) {
    let Some(answer) = answer.as_ref().filter(|answer| answer.changed) else { return };
    let Some(untold) = lines.take(now) else { return };
    if untold > 0 {
        warn!(untold, "more membership changes than are logged");
    }
    if request.control.action == Action::Serve {
        let (job, address) = (request.header.job, request.from.address);
        return info!(job, %address, "the parameter server is here");
    }
    info!(
        job = request.header.job, rank = request.header.rank, epoch = answer.header.epoch,
        joined = answer.control.joined, of = answer.header.fan_in, address = %request.from.address,
        "{:?}", request.control.action
    );
}

/// Tells the operator what time brought about.
pub(super) fn tell_event(event: &Event, membership: &Membership, now: Duration) {
    let known = |job: u16| membership.missing(job, now);
    match event {
        Event::Lost { job, epoch, ranks, on_death: OnDeath::Fail } => {
            error!(job, epoch, ?ranks, "{}: the others' operations fail", known(*job));
        }
        Event::Lost { job, epoch, ranks, on_death: OnDeath::Continue } => {
            warn!(job, epoch, ?ranks, "{}: the others go on without them", known(*job));
        }
        Event::GaveUp { job, rank } => info!(job, rank, "no longer waits for the others to join"),
        Event::ServerGone { job, came: true } => {
            warn!(
                job,
                "nothing is heard of the parameter server for {SILENCE:?}: the job goes on without it"
            );
        }
        Event::ServerGone { job, came: false } => {
            warn!(job, "the parameter server has not come: is `pascaline ps` running, with the same [ps]?");
        }
        Event::Forgotten { job } => info!(job, "forgotten: its ranks are gone"),
        Event::HopSilent { job, parent, address } => {
            warn!(job, "{}: nothing can go to the parent", unreachable(*parent, *address));
        }
        Event::HopFound { job, parent, address, mac } => {
            info!(job, "{} is at {mac}", next_hop(*parent, *address));
        }
    }
}

type Launched = (pascaline_dpdk::Lcore, Machine);

fn launch(lcores: Vec<Launched>, idle: IdlePolicy) -> anyhow::Result<Vec<LcoreHandle<()>>> {
    lcores
        .into_iter()
        .map(|(lcore, mut machine)| {
            let run = move || {
                // Naps are of microseconds; the default slack of 50 µs would double them. A kernel that
                // refuses only naps longer.
                let _ = nix::sys::prctl::set_timerslack(1);
                machine.run(idle);
            };
            lcore.launch(run).with_context(|| format!("launching lcore {}", lcore.id()))
        })
        .collect()
}
