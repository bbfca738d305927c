//! What an operator orders of a job.

use axum::http::StatusCode;
use pascaline_pipelines::membership::{Command, Event, JobStatus, Refused};
use pascaline_shared::guarded::Problem;
use tracing::info;

use super::control::tell_event;
use super::operator::Site;
use crate::admin::server::JobCommand;

/// Carries out an order, and says what it has done.
pub(super) fn command(site: &mut Site<'_>, job: &JobStatus, order: JobCommand) -> Result<String, Problem> {
    let (id, command) = (job.id, Command::from(order));
    let events = site.plane.command(site.now, id, command).map_err(|why| refused(id, why))?;
    events.iter().for_each(|event| tell_event(event, site.plane.membership(), site.now));
    let over = events.contains(&Event::Forgotten { job: id });
    let next = job.epoch.wrapping_add(1);
    let done = match command {
        Command::Reset => format!("job {id} was reset: its workers join generation {next}, from nothing"),
        Command::Halt if job.halted => format!("job {id} was suspended already"),
        Command::Halt => format!("job {id} is suspended until `pascaline job reset {id}`"),
        Command::SetH(h) => format!("{h} of {} contributions complete a PSN of job {id}", job.fan_in),
        Command::Leave(rank) if over => {
            format!("rank {rank} of job {id} is removed; it was the last: the job, which Joins formed, ends")
        }
        Command::Leave(rank) => format!("rank {rank} of job {id} is removed"),
        Command::Help(psn) => {
            format!("PSN {psn} of job {id}: its result is given again, or the ranks it lacks are asked")
        }
        Command::FBcast(psn) => format!("PSN {psn} of job {id}: its partial sum is sent out"),
    };
    info!(job = id, "{done}");
    Ok(done)
}

fn refused(job: u16, why: Refused) -> Problem {
    let remedy = match why {
        Refused::UnknownJob => "GET /api/v1/jobs lists the jobs".to_owned(),
        Refused::Whole => "set kind = \"iswitch\" or \"panama\" for this job".to_owned(),
        Refused::Levels => "reset, halt and help hold for all levels: give one of these".to_owned(),
        Refused::Asynchronous => "reset and halt are for such jobs, too".to_owned(),
        Refused::SwitchMl => {
            "order reset or halt; to start anew, start all workers, rank 0 among them".to_owned()
        }
        Refused::Threshold { ranks, .. } => format!("choose H from 1 to {ranks}"),
        Refused::NoSuchRank { .. } | Refused::NotMember { .. } => {
            format!("GET /api/v1/jobs/{job} lists who has joined")
        }
        Refused::Deserted => "start its workers".to_owned(),
        Refused::Halted => format!("`pascaline job reset {job}`"),
        Refused::OutsideWindow { .. } => {
            "a worker's warning names the oldest PSN that it lacks, and the page each rank's latest"
                .to_owned()
        }
        Refused::Busy => "order again in a moment".to_owned(),
    };
    let status = if why == Refused::Busy { StatusCode::SERVICE_UNAVAILABLE } else { StatusCode::CONFLICT };
    Problem::new(status, format!("job {job}: {why}"), remedy)
}
