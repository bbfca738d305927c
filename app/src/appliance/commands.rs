//! What an operator orders of a job.

use axum::http::StatusCode;
use pascaline_pipelines::membership::{Command, Event, JobStatus, Refused};
use pascaline_seal::Secret;
use pascaline_shared::guarded::Problem;
use pascaline_wire::control::SERVER_RANK;
use tracing::info;

use super::control::tell_event;
use super::operator::Site;
use super::running::Running;

/// Carries out an order, and says what it has done.
pub(super) fn command(site: &mut Site<'_>, job: &JobStatus, command: Command) -> Result<String, Problem> {
    let id = job.id;
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

/// Has a job take another key, and says what follows.
pub(super) fn rekey(
    site: &mut Site<'_>,
    running: &mut Running,
    id: u16,
    at_once: bool,
) -> Result<String, Problem> {
    let former = site.plane.membership().with_former_keys(id);
    let read = running.read_keys(id)?;
    let conflict = |error: String, remedy: String| Err(Problem::new(StatusCode::CONFLICT, error, remedy));
    let (files, new, above) = (read.files.clone(), read.keys.is_some(), read.above.is_some());
    if new && !at_once {
        all_have_changed(id, &former)?;
    }
    if !(new || above || at_once) && former.is_empty() {
        let error = format!("job {id}: {files} has the key that is in force");
        return conflict(error, "replace it by the file of another key first".to_owned());
    }
    running.use_keys(site.now, id, read, site.plane);
    let done = if at_once {
        site.plane.end_former_keys(id);
        format!("job {id} takes packets with the key in {files} only")
    } else if new {
        format!(
            "job {id} has the key in {files}, and takes the one before until all ranks use this: now put it \
             where they have theirs"
        )
    } else if above {
        format!("job {id} uses the key in {files} as soon as its parent does")
    } else {
        format!("job {id} has the key in {files}; {} the one before", behind(&former))
    };
    info!(job = id, "{done}");
    Ok(done)
}

/// Puts a key into the file of a job's, and has the job take it.
pub(super) fn give_key(
    site: &mut Site<'_>,
    running: &mut Running,
    id: u16,
    secret: &Secret,
) -> Result<String, Problem> {
    // Before the file is another one.
    all_have_changed(id, &site.plane.membership().with_former_keys(id))?;
    secret.replace(running.key_file(id)?).map_err(|error| {
        let (error, remedy) = error.parts();
        Problem::new(StatusCode::CONFLICT, format!("job {id}: {error}"), remedy)
    })?;
    rekey(site, running, id, false)
}

/// No third key is taken while some still use the one before.
fn all_have_changed(id: u16, former: &[u16]) -> Result<(), Problem> {
    if former.is_empty() {
        return Ok(());
    }
    let error = format!("job {id}: {} the key before the one in force", behind(former));
    let remedy =
        format!("give them the file of that one first, or refuse them with `pascaline job rekey {id} --now`");
    Err(Problem::new(StatusCode::CONFLICT, error, remedy))
}

/// That ranks are behind, and perhaps the server, for people.
fn behind(all: &[u16]) -> String {
    let (servers, ranks): (Vec<u16>, Vec<u16>) = all.iter().partition(|&&rank| rank == SERVER_RANK);
    let few: Vec<String> = ranks.iter().take(8).map(u16::to_string).collect();
    let more = ranks.len() - few.len();
    let whose = match (few.as_slice(), more) {
        ([], _) => return "the parameter server still uses".to_owned(),
        ([one], _) if servers.is_empty() => return format!("rank {one} still uses"),
        ([one], _) => format!("rank {one}"),
        (few, 0) => format!("ranks {}", few.join(", ")),
        (few, more) => format!("ranks {} and {more} more", few.join(", ")),
    };
    let server = if servers.is_empty() { "" } else { " and the parameter server" };
    format!("{whose}{server} still use")
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
