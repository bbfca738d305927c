//! `pascaline job key`: the file of a job's key, or of one rank's own; and giving a key to an appliance.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, ensure};
use clap::Args;
use pascaline_shared::println;
use pascaline_worker::Secret;
use serde_json::json;

use crate::admin::client::{Where, segment};

#[derive(Debug, Args)]
#[group(skip)]
pub(super) struct KeyArgs {
    /// With --give: the job's number or name
    #[arg(value_name = "JOB", requires = "give")]
    target: Option<String>,
    /// The file to make, which must not exist yet; only its owner may read it
    #[arg(long, value_name = "FILE", required_unless_present = "give", conflicts_with = "give")]
    new: Option<PathBuf>,
    /// Give the key in this file to a running appliance, which puts it into the job's key_file and in force
    #[arg(long, value_name = "FILE", requires = "target")]
    give: Option<PathBuf>,
    /// Make the file of one rank, from the job's key in this file; needs --job and --rank
    #[arg(long, value_name = "JOBKEY", requires_all = ["new", "job", "rank"])]
    of: Option<PathBuf>,
    /// With --of: the job's number
    #[arg(long, value_name = "N", requires_all = ["of", "rank"])]
    job: Option<u16>,
    /// With --of: the rank
    #[arg(long, value_name = "R", requires_all = ["of", "job"])]
    rank: Option<u16>,
}

/// What the admin API is asked, if it is: the path, and the body.
pub(super) fn given(args: &KeyArgs, at: &Where) -> anyhow::Result<Option<(String, String)>> {
    let (Some(job), Some(file)) = (&args.target, &args.give) else { return Ok(None) };
    ensure!(
        at.is_private(),
        "a key is not sent over plain TCP to another host\n  remedy: --admin https://HOST:PORT"
    );
    let secret = Secret::read(file)?;
    Ok(Some((format!("/api/v1/jobs/{}/key", segment(job)), json!({"key": *secret.text()}).to_string())))
}

/// Makes the file.
pub(super) fn key(args: &KeyArgs, json: bool) -> anyhow::Result<ExitCode> {
    let file = args.new.as_deref().context("--new FILE, or --give FILE JOB")?;
    let (answer, text) = match (&args.of, args.job, args.rank) {
        (Some(of), Some(job), Some(rank)) => {
            Secret::read(of)?.create_of_rank(file, job, rank)?;
            let text = format!(
                "the key of rank {rank} of job {job}, for security mac and encrypt; copy it to the host of \
                 that rank only"
            );
            (json!({"key": file, "job": job, "rank": rank}), text)
        }
        // Clap takes all three or none.
        _ => {
            Secret::create(file)?;
            let text = "a new key; with security masked copy it to the hosts of all ranks and to no \
                        appliance, with mac or encrypt to the appliance and the hosts of all ranks";
            (json!({"key": file}), text.to_owned())
        }
    };
    if json {
        println!("{answer}");
    } else {
        println!("{}: {text}", file.display());
    }
    Ok(ExitCode::SUCCESS)
}
