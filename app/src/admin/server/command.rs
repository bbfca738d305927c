//! What an operator orders of a job.

use pascaline_pipelines::membership::Command;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answers::JobSummary;

/// An order, by its name, with the number that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, ToSchema)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
pub(crate) enum JobCommand {
    /// Ends the generation for good, and a Halt with it; frees every rank. All workers join anew.
    Reset {},
    /// Suspends the job until a Reset.
    Halt {},
    /// Gives the result of a PSN out again, or asks the ranks that it lacks.
    Help { psn: u32 },
    /// Sends out the partial sum of a PSN.
    FBcast { psn: u32 },
    /// Sets how many contributions complete a PSN.
    SetH { h: u16 },
    /// Takes a rank for gone.
    Leave { rank: u16 },
}

impl From<JobCommand> for Command {
    fn from(command: JobCommand) -> Self {
        match command {
            JobCommand::Reset {} => Self::Reset,
            JobCommand::Halt {} => Self::Halt,
            JobCommand::Help { psn } => Self::Help(psn),
            JobCommand::FBcast { psn } => Self::FBcast(psn),
            JobCommand::SetH { h } => Self::SetH(h),
            JobCommand::Leave { rank } => Self::Leave(rank),
        }
    }
}

/// What has come of an order.
#[derive(Debug, Clone, Serialize, ToSchema)]
pub(crate) struct Commanded {
    /// In plain words.
    #[schema(example = "job 1 was reset: its workers join generation 8")]
    pub(crate) done: String,
    /// How the job is now.
    pub(crate) job: JobSummary,
}
