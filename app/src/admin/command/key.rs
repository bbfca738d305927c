//! `pascaline job key`: the file of a job's key, or of one rank's own.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use pascaline_shared::println;
use pascaline_worker::Secret;
use serde_json::json;

#[derive(Debug, Args)]
pub(super) struct KeyArgs {
    /// The file to make, which must not exist yet; only its owner may read it
    #[arg(long, value_name = "FILE")]
    new: PathBuf,
    /// Make the file of one rank, from the job's key in this file; needs --job and --rank
    #[arg(long, value_name = "JOBKEY", requires_all = ["job", "rank"])]
    of: Option<PathBuf>,
    /// With --of: the job's number
    #[arg(long, value_name = "N", requires_all = ["of", "rank"])]
    job: Option<u16>,
    /// With --of: the rank
    #[arg(long, value_name = "R", requires_all = ["of", "job"])]
    rank: Option<u16>,
}

/// Makes the file.
pub(super) fn key(args: &KeyArgs, json: bool) -> anyhow::Result<ExitCode> {
    let file = &args.new;
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
