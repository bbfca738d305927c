//! `pascaline job`: controlling a job by hand.

use std::process::ExitCode;

use clap::{Args, Subcommand};
use pascaline_shared::println;
use serde_json::{Value, json};

use super::client::{Where, answered, segment};

mod key;

const EXAMPLES: &str = "\
Examples:
  pascaline job halt 1           # until:
  pascaline job reset 1          # also frees a rank that a wrong process holds
  pascaline job leave 1 3        # do not wait until rank 3 is found dead
  pascaline job seth resnet 6    # 6 contributions complete a PSN
  pascaline job help 1 4711
  pascaline job fbcast 1 4711 --json
  pascaline job key --new job.key   # for security masked, mac and encrypt
  pascaline job key --new rank3.key --of job.key --job 1 --rank 3
  pascaline job key 1 --give next.key   # over the admin API, into its key_file, and in force
  pascaline job rekey 1          # once its key_file has another key
  pascaline job reset 1 --admin https://appliance:9466 --ca ca.pem --token-file token

Members can send the same as packets, as `control` of the job allows.

Exit status: 0: done; 1: refused, or no answer.";

/// Control a job by hand: reset it, suspend it, and the other control messages of iSwitch
///
/// Asks a running appliance over its admin API. JOB is a job's number or name.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, disable_help_subcommand = true)]
pub(crate) struct JobArgs {
    #[command(subcommand)]
    order: Order,
    /// Print the answer as one JSON object
    #[arg(long, global = true)]
    json: bool,
    #[command(flatten)]
    at: Where,
}

#[derive(Debug, Subcommand)]
enum Order {
    /// End the generation and a Halt with it; free every rank: all workers join anew
    #[command(after_help = "Example:\n  pascaline job reset 1")]
    Reset {
        /// The job's number or name
        job: String,
    },
    /// Suspend the job until a reset
    #[command(after_help = "Example:\n  pascaline job halt 1")]
    Halt {
        /// The job's number or name
        job: String,
    },
    /// Give the result of a PSN out again, or ask the ranks that it lacks
    #[command(after_help = "Example:\n  pascaline job help 1 4711")]
    Help {
        /// The job's number or name
        job: String,
        /// The packet sequence number
        psn: u32,
    },
    /// Set how many contributions complete a PSN, until the next reset
    #[command(after_help = "Example:\n  pascaline job seth 1 6")]
    Seth {
        /// The job's number or name
        job: String,
        /// The threshold, from 1 to the number of ranks
        h: u16,
    },
    /// Send out the partial sum of a PSN, without the missing ranks
    #[command(after_help = "Example:\n  pascaline job fbcast 1 4711")]
    Fbcast {
        /// The job's number or name
        job: String,
        /// The packet sequence number
        psn: u32,
    },
    /// Make the file of a job's key, or of one rank's own; or give a key to an appliance
    ///
    /// A job's key serves security masked, where no appliance may have it, and security mac or encrypt, where
    /// the appliance and the ranks need it. A rank's own key is for mac and encrypt: it proves that rank
    /// and no other. No appliance is asked, but with --give: it replaces the file that the job's key_file
    /// names, in a directory that the appliance may write to, and goes on as by `rekey`.
    #[command(after_help = "Examples:
  pascaline job key --new job.key
  pascaline job key --new rank3.key --of job.key --job 1 --rank 3
  pascaline job key 1 --give next.key --admin https://appliance:9466 --ca ca.pem --token-file token")]
    Key(key::KeyArgs),
    /// Put another key in force, which seals the job's packets, while the job goes on
    ///
    /// The appliance reads the job's key_file again, and takes packets with the key before, too, until all
    /// ranks use the new one: put it into the file that each of them has, by `mv` or any other way. A worker
    /// looks at its file once a second. Ordered again, it says which ranks still use the key before.
    #[command(after_help = "Example:
  pascaline job key --new next.key
  mv next.key /etc/pascaline/job-1.key   # the job's key_file; then, at the appliance:
  pascaline job rekey 1                  # and now the same mv at the ranks")]
    Rekey {
        /// The job's number or name
        job: String,
        /// Refuse the key before at once, also of ranks that have no other yet
        #[arg(long)]
        now: bool,
    },
    /// Take a rank for gone, without waiting until it is found dead
    #[command(after_help = "Example:\n  pascaline job leave 1 3")]
    Leave {
        /// The job's number or name
        job: String,
        /// The rank
        rank: u16,
    },
}

impl Order {
    /// The job, and the order as the admin API takes it; or what concerns a key.
    fn asked(&self) -> Result<(&str, Value), &key::KeyArgs> {
        Ok(match self {
            Self::Key(args) => return Err(args),
            Self::Reset { job } => (job, json!({"command": "reset"})),
            Self::Halt { job } => (job, json!({"command": "halt"})),
            Self::Help { job, psn } => (job, json!({"command": "help", "psn": psn})),
            Self::Seth { job, h } => (job, json!({"command": "seth", "h": h})),
            Self::Fbcast { job, psn } => (job, json!({"command": "fbcast", "psn": psn})),
            Self::Rekey { job, now } => (job, json!({"command": "rekey", "now": now})),
            Self::Leave { job, rank } => (job, json!({"command": "leave", "rank": rank})),
        })
    }
}

/// Gives the order, and prints what has come of it.
pub(crate) fn job(args: &JobArgs) -> anyhow::Result<ExitCode> {
    let (path, body) = match args.order.asked() {
        Ok((job, order)) => (format!("/api/v1/jobs/{}/command", segment(job)), order.to_string()),
        Err(key) => match key::given(key, &args.at)? {
            Some(asked) => asked,
            None => return key::key(key, args.json),
        },
    };
    let answer = answered(args.at.client()?.post(&path, &body)?)?;
    if args.json {
        println!("{answer}");
    } else {
        println!("{}", answer["done"].as_str().unwrap_or_default());
    }
    Ok(ExitCode::SUCCESS)
}
