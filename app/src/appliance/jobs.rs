//! The jobs of the configuration, as the control plane knows them.

use std::time::{SystemTime, UNIX_EPOCH};

use pascaline_pipelines::Membership;
use pascaline_pipelines::membership::{Admission, JobSpec, Secret};

use crate::config::Config;

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
    let jobs = config.jobs.iter().map(|job| spec(config, &job.spec)).collect();
    let admission = config.admission.as_ref();
    let admission =
        admission.map(|admission| Admission { like: spec(config, &admission.like), ..admission.clone() });
    (jobs, admission)
}

/// The same job with what the ports and the pool leave it.
fn spec(config: &Config, job: &JobSpec) -> JobSpec {
    let sets = job.kind.place().map_or(config.shared_sets, |place| place.sets);
    JobSpec {
        max_payload: config.max_payload_in(job.kind.mode()),
        slots: sets as usize * config.pool.ways,
        ..job.clone()
    }
}

/// Where generations begin: different from one start of the appliance to the next, so that packets of workers
/// that joined an earlier one are recognised.
#[expect(clippy::cast_possible_truncation, reason = "any bits that change will do")]
fn first_epoch() -> u16 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| (since.as_millis() / 100) as u16)
}
