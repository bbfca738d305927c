//! What operators ask for, by signal or through the admin API, between two turns of the control loop.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use axum::http::StatusCode;
use pascaline_dpdk::Clock;
use pascaline_pipelines::ControlPlane;
use pascaline_pipelines::membership::{JobStatus, Role};
use pascaline_shared::guarded::{InForce, Problem, Rejected};
use pascaline_shared::http::server::Server;
use pascaline_telemetry::{Counter, Telemetry};
use tokio::sync::mpsc;
use tracing::{info, warn};

use super::capture::Capture;
use super::commands;
use super::registrar::{Listening, Registrar};
use super::running::Running;
use crate::admin::server::{
    self as admin, AdminStatus, Bound, Commanded, Draining, EffectiveConfig, JobDetail, JobKey, JobSummary,
    Jobs, Member, Order, Orders, Packets, PoolStatus, PortStatus, ReloadReport, Reloads, Reply, Respond,
    Status, serve,
};
use crate::config::{Config, ConfigError};
use crate::observe::explain::{PortHealth, Stalled};

mod explained;

/// Orders that one turn carries out.
const ORDERS: usize = 8;

/// What the orders are carried out on.
pub(super) struct Site<'a> {
    pub(super) now: Duration,
    pub(super) plane: &'a mut ControlPlane,
    pub(super) telemetry: &'a Telemetry,
    /// Lcores that do not turn.
    pub(super) stalled: &'a [Stalled],
    pub(super) ports: &'a [PortHealth],
}

/// What does not change about the appliance.
pub(super) struct Facts {
    pub(super) lcores: usize,
    /// The lcores' clock.
    pub(super) clock: Clock,
}

/// Whoever operates the appliance.
pub(super) struct Operator {
    pub(super) running: Running,
    facts: Facts,
    began: Instant,
    /// Set by SIGTERM, SIGINT, and the order to drain.
    stop: Arc<AtomicBool>,
    /// Set by SIGHUP.
    hangup: Arc<AtomicBool>,
    orders: mpsc::Receiver<Order>,
    rejected: Arc<Rejected>,
    reloads: Reloads,
    /// Reports of changes that some lcore does not know of yet, each with the table that it waits for.
    unsettled: Vec<(u64, Reply<ReloadReport>, ReloadReport)>,
    registrar: Registrar,
    capture: Option<Capture>,
    /// The admin API, and what it asks of those who come.
    admin: Option<(Server, Arc<InForce>)>,
}

impl Operator {
    /// Listens for signals, and on the admin API if there is one.
    pub(super) fn new(config: &Config, facts: Facts, bound: Listening) -> anyhow::Result<Self> {
        let (stop, hangup) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        for (signal, flag) in [
            (signal_hook::consts::SIGTERM, &stop),
            (signal_hook::consts::SIGINT, &stop),
            (signal_hook::consts::SIGHUP, &hangup),
        ] {
            signal_hook::flag::register(signal, Arc::clone(flag)).context("installing a signal handler")?;
        }
        let (sender, orders) = Orders::channel();
        let rejected = Arc::new(Rejected::default());
        let registrar = Registrar::new(bound.controllers, &sender)?;
        let server = bound
            .admin
            .map(|Bound { listener, credentials }| {
                let in_force = Arc::new(InForce::new(credentials));
                let server = serve(listener, Arc::clone(&in_force), sender, Arc::clone(&rejected));
                server.map(|server| (server, in_force))
            })
            .transpose()
            .context("starting the admin API")?;
        Ok(Self {
            running: Running::new(config),
            facts,
            began: Instant::now(),
            stop,
            hangup,
            orders,
            rejected,
            reloads: Reloads::default(),
            unsettled: Vec::new(),
            registrar,
            capture: None,
            admin: server,
        })
    }

    /// True once the appliance is to end.
    pub(super) fn stopping(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Carries out what has been asked for. True if another configuration is in force.
    pub(super) fn turn(&mut self, site: &mut Site<'_>) -> bool {
        let mut changed = false;
        if self.hangup.swap(false, Ordering::Relaxed) {
            changed |= self.reload_by_signal(site);
        }
        if self.capture.as_mut().is_some_and(|capture| capture.turn(site.plane.capture())) {
            self.capture = None;
        }
        for _ in 0..ORDERS {
            let Ok(order) = self.orders.try_recv() else { break };
            changed |= self.carry_out(order, site);
        }
        changed
    }

    /// All lcores use this table or a later one: what was changed before is told.
    pub(super) fn settled(&mut self, in_use: u64) {
        for (_, reply, report) in self.unsettled.extract_if(.., |(table, ..)| *table <= in_use) {
            reply.respond(Ok(report));
        }
        self.registrar.settled(in_use);
    }

    fn reload_by_signal(&mut self, site: &mut Site<'_>) -> bool {
        let done = self.reload(site);
        self.note("SIGHUP", &done);
        done.is_ok()
    }

    /// Reads the configuration file again, and the files of the admin API that run.
    fn reload(&mut self, site: &mut Site<'_>) -> Result<ReloadReport, Problem> {
        let (config, in_force) = (&self.running.config, self.admin.as_ref().map(|(_, in_force)| in_force));
        let fresh = config.admin.as_ref().zip(in_force).map(|(admin, in_force)| {
            let refused = |error: ConfigError| Problem::unprocessable(error.message(), error.remedy());
            admin::credentials(config, admin).map(|fresh| (fresh, in_force)).map_err(refused)
        });
        let fresh = fresh.transpose()?;
        let mut report = self.running.reload(site.now, site.plane)?;
        if let Some((fresh, in_force)) = fresh {
            fresh.warnings.iter().for_each(|warning| warn!("{warning}"));
            report.settings.extend(in_force.replace(fresh).into_iter().map(str::to_owned));
        }
        Ok(report)
    }

    fn carry_out(&mut self, order: Order, site: &mut Site<'_>) -> bool {
        if let Order::Reload(reply) = order {
            let done = self.reload(site);
            return self.conclude("reload", done, (site.plane.next_table(), reply));
        }
        if let Order::Command(key, command, reply) = order {
            return self.command((&key, reply), site, |_, site, job| commands::command(site, job, command));
        }
        if let Order::Rekey(key, at_once, reply) = order {
            return self.command((&key, reply), site, |running, site, job| {
                commands::rekey(site, running, job.id, at_once)
            });
        }
        if let Order::GiveKey(key, secret, reply) = order {
            return self.command((&key, reply), site, |running, site, job| {
                commands::give_key(site, running, job.id, &secret)
            });
        }
        if let Order::Register(job, who, reply) = order {
            self.registrar.register(site, job, &who, reply);
            return false;
        }
        let (now, plane) = (site.now, &mut *site.plane);
        let (what, done, reply) = match order {
            Order::Create(keys, reply) => ("create", self.running.create(now, keys, plane), reply),
            Order::Change(job, patch, reply) => {
                ("change", self.running.change(now, &job, patch, plane), reply)
            }
            Order::Delete(job, reply) => ("delete", self.running.delete(now, &job, plane), reply),
            other => {
                self.answer(other, site);
                return false;
            }
        };
        self.conclude(what, done, (site.plane.next_table(), reply))
    }

    /// Carries out what is ordered of a job. True if something has changed.
    fn command(
        &mut self,
        (key, reply): (&JobKey, Reply<Commanded>),
        site: &mut Site<'_>,
        act: impl FnOnce(&mut Running, &mut Site<'_>, &JobStatus) -> Result<String, Problem>,
    ) -> bool {
        let done = self.find(key, site).and_then(|job| {
            let done = act(&mut self.running, site, &job)?;
            let over = JobStatus { joined: 0, complete: false, broken: false, ..job };
            let after = self.find(&JobKey::Number(job.id), site).unwrap_or(over);
            Ok(Commanded { done, job: self.summary(&after, site.plane) })
        });
        let changed = done.is_ok();
        reply.respond(done);
        changed
    }

    /// Tells what has come of a change. True if it is in force.
    fn conclude(
        &mut self,
        what: &str,
        done: Result<ReloadReport, Problem>,
        (table, reply): (u64, Reply<ReloadReport>),
    ) -> bool {
        self.note(what, &done);
        match done {
            Ok(report) => {
                self.unsettled.push((table, reply, report));
                true
            }
            Err(problem) => {
                reply.respond(Err(problem));
                false
            }
        }
    }

    /// Counts and logs a change, or why there is none.
    fn note(&mut self, asked: &str, done: &Result<ReloadReport, Problem>) {
        match done {
            Ok(report) => {
                self.reloads.done += 1;
                for job in &report.jobs {
                    info!(asked, job = job.id, name = job.name, "job {}", job.what);
                }
                for kept in &report.kept {
                    warn!(
                        asked,
                        key = kept.key,
                        running = kept.running,
                        file = kept.file,
                        "stays as it is until a restart"
                    );
                }
                let (jobs, settings) = (report.jobs.len(), report.settings.join(" "));
                info!(asked, jobs, settings, kept = report.kept.len(), "the configuration is in force");
            }
            Err(problem) => {
                self.reloads.refused += 1;
                let place = problem.place.map(|place| format!("{}:{}", place.line, place.column));
                warn!(
                    asked,
                    error = problem.error,
                    place,
                    remedy = problem.remedy,
                    "the configuration stays as it is"
                );
            }
        }
    }

    /// Answers a question.
    fn answer(&mut self, order: Order, site: &Site<'_>) {
        match order {
            Order::Status(reply) => reply.respond(Ok(self.status(site))),
            Order::Jobs(reply) => {
                let all = site.plane.membership().status();
                let jobs = all.iter().map(|status| self.summary(status, site.plane)).collect();
                reply.respond(Ok(Jobs { jobs }));
            }
            Order::Job(key, reply) => {
                reply.respond(self.find(&key, site).map(|status| self.detail(&status, site)));
            }
            Order::Config(reply) => reply.respond(Ok(self.effective())),
            Order::Drain(reply) => {
                info!("asked to drain");
                self.stop.store(true, Ordering::Relaxed);
                let (open, limit) = (site.telemetry.total().open_slots(), self.running.config.drain);
                reply.respond(Ok(Draining { open, limit_seconds: limit.as_secs_f64() }));
            }
            Order::Workers(job, reply) => {
                let found = self.find(&JobKey::Number(job), site);
                reply.respond(self.registrar.workers(site.now, job, found));
            }
            // They change something, and have been carried out.
            Order::Command(..)
            | Order::Rekey(..)
            | Order::GiveKey(..)
            | Order::Reload(_)
            | Order::Register(..)
            | Order::Create(..)
            | Order::Change(..)
            | Order::Delete(..) => {}
            Order::Explain(key, reply) => {
                reply.respond(self.find(&key, site).map(|status| self.explain(&status, site)));
            }
            Order::Capture(key, request, reply) => match self.find(&key, site) {
                Err(problem) => reply.respond(Err(problem)),
                Ok(_) if self.capture.is_some() => Capture::refuse(reply),
                Ok(status) => {
                    info!(job = status.id, packets = request.packets, seconds = request.seconds, "capturing");
                    let now = self.facts.clock.now_ns();
                    self.capture = Some(Capture::begin(site.plane.capture(), status.id, request, now, reply));
                }
            },
        }
    }

    fn status(&self, site: &Site<'_>) -> Status {
        let total = site.telemetry.total();
        let port = |port: &PortHealth| PortStatus { name: port.name.clone(), up: port.is_up() };
        Status {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            name: self.running.config.name.clone(),
            state: if self.stopping() { "draining" } else { "running" }.to_owned(),
            uptime_seconds: self.began.elapsed().as_secs_f64(),
            lcores: self.facts.lcores,
            ports: site.ports.iter().map(port).collect(),
            jobs: site.plane.membership().status().len(),
            packets: Packets {
                received: total.get(Counter::Received),
                forwarded: total.get(Counter::Forwarded),
                absorbed: total.get(Counter::Absorbed),
                answered: total.get(Counter::Answered),
                dropped: total.dropped_total(),
                unaccounted: i64::try_from(total.unaccounted()).unwrap_or(i64::MAX),
            },
            pool: PoolStatus {
                slots: self.running.config.pool.slots,
                open: total.open_slots(),
                done: total.done_slots(),
            },
            reloads: self.reloads,
            admin: AdminStatus {
                connections_refused: self.rejected.connections(),
                tokens_refused: self.rejected.tokens(),
            },
            capturing: self.capture.is_some(),
        }
    }

    /// A job by number or name.
    fn find(&self, key: &JobKey, site: &Site<'_>) -> Result<JobStatus, Problem> {
        let id = match key {
            JobKey::Number(id) => Some(*id),
            JobKey::Name(name) => {
                self.running.config.jobs.iter().find(|job| job.name == *name).map(|job| job.spec.id)
            }
        };
        let found = site.plane.membership().status().into_iter().find(|status| Some(status.id) == id);
        found.ok_or_else(|| {
            let remedy = "GET /api/v1/jobs lists the jobs";
            Problem::new(StatusCode::NOT_FOUND, format!("no job {key}"), remedy)
        })
    }

    fn summary(&self, status: &JobStatus, plane: &ControlPlane) -> JobSummary {
        let config = self.running.config.jobs.iter().find(|job| job.spec.id == status.id);
        JobSummary::new(status, config, plane.membership().with_former_keys(status.id))
    }

    fn detail(&self, status: &JobStatus, site: &Site<'_>) -> JobDetail {
        let config = &self.running.config;
        let ways = config.pool.ways;
        let job = config.jobs.iter().find(|job| job.spec.id == status.id && !status.formed);
        let entries = site.plane.membership().entries(status.id).unwrap_or_default();
        let members = entries.iter().filter(|entry| entry.role != Role::Appliance).map(|entry| Member {
            rank: (entry.role == Role::Worker).then_some(entry.id),
            address: std::net::IpAddr::from(entry.address).to_string(),
            udp_port: entry.udp_port,
        });
        JobDetail {
            summary: self.summary(status, site.plane),
            terms: job.map(|job| job.terms(ways)),
            members: members.collect(),
        }
    }

    fn effective(&self) -> EffectiveConfig {
        let config = &self.running.config;
        EffectiveConfig {
            file: config.file.display().to_string(),
            settings: config.settings(),
            jobs: config.jobs.iter().map(|job| job.terms(config.pool.ways)).collect(),
        }
    }
}
