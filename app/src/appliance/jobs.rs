//! The jobs of the configuration, as the control plane knows them.

use std::time::{SystemTime, UNIX_EPOCH};

use pascaline_pipelines::Membership;
use pascaline_pipelines::membership::{Admission, JobSpec, Registry, Secret, ServerMode};
use pascaline_wire::Address;

use crate::config::kind::Tag;
use crate::config::{AdmissionConfig, Config, DEFAULT_DEAD_AFTER, JobConfig, PsMode, SwitchMlConfig};

/// All jobs, without members.
pub(super) fn membership(config: &Config) -> anyhow::Result<Membership> {
    let (jobs, admission) = terms(config);
    let membership = Membership::new(jobs, secret()?, first_epoch());
    Ok(match admission {
        Some(admission) => membership.with_admission(admission),
        None => membership,
    })
}

/// A key that nobody else knows.
fn secret() -> anyhow::Result<Secret> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes)
        .map_err(|error| anyhow::anyhow!("the system has no random numbers: {error}"))?;
    Ok(Secret::new(bytes))
}

/// What jobs are to be like, and which others may be formed.
pub(super) fn terms(config: &Config) -> (Vec<JobSpec>, Option<Admission>) {
    let jobs = config.jobs.iter().map(|job| spec(config, job)).collect();
    (jobs, config.admission.as_ref().map(|admitted| admission(config, admitted)))
}

fn spec(config: &Config, job: &JobConfig) -> JobSpec {
    let policy = job.policy();
    JobSpec {
        window: job.window,
        max_payload: config.max_payload_in(job.mode()),
        mode: job.mode(),
        admitted: job
            .members
            .as_ref()
            .map(|members| members.iter().map(|&address| Address::from(address)).collect()),
        max_ranks_per_host: job.max_ranks_per_host,
        policy,
        share: job.share,
        threshold: Some(job.needed()),
        partials: job.kind.tag() == Tag::Early,
        dead_after: job.dead_after,
        on_death: job.on_death,
        control: job.control,
        congestion: Some(job.congestion),
        multicast: job.multicast,
        server: server(config, policy.server),
        registry: registry(job),
        parent: job.parent,
        backups: job.backups.clone(),
        refused: job.refused,
        slots: job.region.map_or(config.shared_sets, |region| region.sets) as usize * config.pool.ways,
        ..JobSpec::new(job.id, job.fan_in)
    }
}

fn registry(job: &JobConfig) -> Option<Registry> {
    let slots = job.region?.sets;
    let SwitchMlConfig { udp_port, address, .. } = *job.switchml()?;
    Some(Registry { udp_port, address, slots })
}

fn server(config: &Config, wanted: bool) -> ServerMode {
    match config.ps.mode.value {
        _ if !wanted => ServerMode::None,
        PsMode::None => ServerMode::None,
        PsMode::Embedded => ServerMode::Embedded,
        PsMode::External { address, .. } => {
            ServerMode::External { address: address.ip().into(), udp_port: address.port() }
        }
    }
}

fn admission(config: &Config, admitted: &AdmissionConfig) -> Admission {
    Admission {
        jobs: admitted.jobs.clone(),
        from: admitted.from.clone(),
        max_jobs: usize::from(admitted.max_jobs),
        max_jobs_per_host: usize::from(admitted.max_jobs_per_host),
        max_fan_in: admitted.max_fan_in,
        like: JobSpec {
            window: admitted.window,
            max_ranks_per_host: admitted.max_ranks_per_host,
            max_payload: config.max_payload(),
            policy: admitted.policy,
            slots: config.shared_sets as usize * config.pool.ways,
            server: server(config, admitted.policy.server),
            dead_after: Some(DEFAULT_DEAD_AFTER),
            // Number and fan-in are those of the Join that forms the job.
            ..JobSpec::new(0, 0)
        },
        idle: Admission::IDLE,
    }
}

/// Where generations begin: different from one start of the appliance to the next, so that packets of workers
/// that joined an earlier one are recognised.
#[expect(clippy::cast_possible_truncation, reason = "any eight bits that change will do")]
fn first_epoch() -> u8 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| (since.as_millis() / 100) as u8)
}
