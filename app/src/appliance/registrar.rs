//! Clients of SwitchML's that register, between two turns of the control loop.

use std::mem::{Discriminant, discriminant};
use std::net::TcpListener;
use std::time::Duration;

use anyhow::Context as _;
use pascaline_pipelines::membership::{JobStatus, NotRegistered, Registration};
use pascaline_pipelines::switchml::Terms;
use pascaline_shared::guarded::Problem;
use tracing::warn;

use super::operator::Site;
use crate::admin::server::{Bound, Orders, Reply, Respond as _, tcp};
use crate::config::Config;
use crate::switchml::{Controllers, Notices, serve};

/// Where operators and clients are listened for.
#[derive(Debug, Default)]
pub(crate) struct Listening {
    /// The admin API, if there is one.
    pub(crate) admin: Option<Bound>,
    /// The controllers of SwitchML's clients, each with its job.
    pub(crate) controllers: Vec<(u16, TcpListener)>,
}

/// Listens where the controllers of this configuration are to be.
pub(super) fn controllers(config: &Config) -> anyhow::Result<Vec<(u16, TcpListener)>> {
    let with = config.jobs.iter().filter_map(|job| Some((job.spec.id, job.switchml()?)));
    with.map(|(id, (controller, _))| Ok((id, tcp(config, controller)?))).collect()
}

const fn remedy(why: &NotRegistered) -> &'static str {
    match why {
        NotRegistered::FanIn { .. } | NotRegistered::Rank { .. } => {
            "start as many workers as the job has fan_in, with ranks from 0"
        }
        NotRegistered::NotBegun => "start all workers again, rank 0 among them",
        NotRegistered::NoSuchJob { .. } => "restart the appliance with the job",
        NotRegistered::Halted => "`pascaline job reset`, then start all workers",
        NotRegistered::Size { .. }
        | NotRegistered::SizeDiffers
        | NotRegistered::NoHost { .. }
        | NotRegistered::Twice { .. } => {
            "give all workers the same packet size, and each its own MAC and address"
        }
    }
}

/// The controllers, and who waits for lcores to know of him.
pub(super) struct Registrar {
    /// Who has registered, with the table that it waits for.
    waiting: Vec<(u64, Reply<Terms>, Terms)>,
    /// Refused registrations that have been logged, by job and kind.
    notices: Notices<(u16, Discriminant<NotRegistered>)>,
    /// Held, for they end when it is dropped.
    _controllers: Option<Controllers>,
}

impl Registrar {
    pub(super) fn new(listeners: Vec<(u16, TcpListener)>, orders: &Orders) -> anyhow::Result<Self> {
        let any = !listeners.is_empty();
        let controllers = any.then(|| serve(listeners, orders)).transpose();
        let controllers = controllers.context("starting the controllers of SwitchML's clients")?;
        Ok(Self { waiting: Vec::new(), notices: Notices::default(), _controllers: controllers })
    }

    /// The workers that a job waits for. While no worker may register none is to wait for the others either.
    pub(super) fn workers(
        &mut self,
        now: Duration,
        job: u16,
        found: Result<JobStatus, Problem>,
    ) -> Result<u16, Problem> {
        let why = match found {
            Ok(JobStatus { halted: false, fan_in, .. }) => return Ok(fan_in),
            Ok(_) => NotRegistered::Halted,
            Err(_) => NotRegistered::NoSuchJob { job },
        };
        if let Some(times) = self.notices.count(now, (job, discriminant(&why))) {
            warn!(job, error = %why, times, "a worker is refused at the controller");
        }
        Err(Problem::unprocessable(why.to_string(), remedy(&why)))
    }

    pub(super) fn register(
        &mut self,
        site: &mut Site<'_>,
        job: u16,
        who: &Registration,
        reply: Reply<Terms>,
    ) {
        match site.plane.register(site.now, job, who) {
            Ok(told) => self.waiting.push((site.plane.next_table(), reply, told)),
            Err(why) => {
                let kind = (job, discriminant(&why));
                if let Some(times) = self.notices.count(site.now, kind) {
                    warn!(job, rank = who.rank, error = %why, times, "a worker cannot register");
                }
                reply.respond(Err(Problem::unprocessable(why.to_string(), remedy(&why))));
            }
        }
    }

    /// All lcores use this table or a later one: those who have registered before are told.
    pub(super) fn settled(&mut self, in_use: u64) {
        let known = self.waiting.extract_if(.., |(table, ..)| *table <= in_use);
        known.for_each(|(_, reply, told)| reply.respond(Ok(told)));
    }
}
