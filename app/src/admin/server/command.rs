//! What an operator orders of a job.

use pascaline_pipelines::membership::Command;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answers::JobSummary;
use super::orders::{JobKey, Order, Reply};

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
    /// Reads the key again that the job's packets are sealed with. The one before is taken beside the new one
    /// until all ranks use this, or `now` no more.
    Rekey {
        #[serde(default)]
        now: bool,
    },
}

impl JobCommand {
    /// As the control plane takes it.
    pub(super) fn order(self, job: JobKey, reply: Reply<Commanded>) -> Order {
        let command = match self {
            Self::Reset {} => Command::Reset,
            Self::Halt {} => Command::Halt,
            Self::Help { psn } => Command::Help(psn),
            Self::FBcast { psn } => Command::FBcast(psn),
            Self::SetH { h } => Command::SetH(h),
            Self::Leave { rank } => Command::Leave(rank),
            Self::Rekey { now } => return Order::Rekey(job, now, reply),
        };
        Order::Command(job, command, reply)
    }
}

/// A job's key. It never shows.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct GivenKey {
    /// As in its file: base64 of at least 32 bytes.
    pub(super) key: String,
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
