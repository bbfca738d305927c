//! How a command fails: the same words for people and, with `--json`, for programs.

use core::fmt::Display;
use std::process::ExitCode;

use pascaline_shared::{eprintln, println};
use pascaline_worker::{
    AllreduceError, AsyncJoinError, CommandError, CommandFailure, JoinError, JoinFailure, PushError,
};
use pascaline_worker_dpdk::DpdkJoinError;
use serde_json::{Value, json};

use super::{FAILED, REFUSED, report};

/// Why it fails, and with which status the command ends for it.
#[derive(Debug)]
pub(super) struct Failed {
    message: String,
    /// What the appliance knows of ranks that are missing.
    waiting_for: Value,
    pub(super) status: u8,
}

impl Failed {
    fn new(error: &dyn Display, status: u8) -> Self {
        Self { message: error.to_string(), waiting_for: json!([]), status }
    }

    /// The arguments are of no use.
    pub(super) fn by_arguments(error: &dyn Display) -> Self {
        Self::new(error, REFUSED)
    }

    /// Something else has gone wrong.
    pub(super) fn by(error: &dyn Display) -> Self {
        Self::new(error, FAILED)
    }

    fn to_join(error: &dyn Display, failure: Option<&JoinFailure>, status: u8) -> Self {
        let missing = match failure {
            Some(JoinFailure::Incomplete { missing, .. }) => missing.as_deref(),
            _ => None,
        };
        Self { waiting_for: report::missing(missing), ..Self::new(error, status) }
    }

    /// Adds to the line for programs why it has no more in it.
    pub(super) fn add_to(&self, line: &mut Value) {
        line["error"] = self.message.clone().into();
        line["waiting_for"] = self.waiting_for.clone();
    }

    /// Says so to people.
    pub(super) fn say(&self) {
        eprintln!("error: {}", self.message);
    }

    /// Says so, to programs too if that is wanted, where there is nothing else to tell; and gives the status.
    pub(super) fn tell(&self, rank: u16, json: bool) -> ExitCode {
        self.say();
        if json {
            let mut line = json!({"rank": rank});
            self.add_to(&mut line);
            println!("{line}");
        }
        ExitCode::from(self.status)
    }
}

impl From<&JoinError> for Failed {
    fn from(error: &JoinError) -> Self {
        let failure = match error {
            JoinError::Failed { failure, .. } => Some(failure),
            JoinError::Config(_) | JoinError::Io { .. } => None,
        };
        let refused = matches!(failure, Some(JoinFailure::Rejected(_)));
        let status = if refused || matches!(error, JoinError::Config(_)) { REFUSED } else { FAILED };
        Self::to_join(error, failure, status)
    }
}

impl From<&DpdkJoinError> for Failed {
    fn from(error: &DpdkJoinError) -> Self {
        let (failure, status) = match error {
            DpdkJoinError::Failed { failure: failure @ JoinFailure::Rejected(_), .. } => {
                (Some(failure), REFUSED)
            }
            DpdkJoinError::Failed { failure, .. } => (Some(failure), FAILED),
            DpdkJoinError::Config(_)
            | DpdkJoinError::Family { .. }
            | DpdkJoinError::Bind
            | DpdkJoinError::Backups
            | DpdkJoinError::Trees
            | DpdkJoinError::Mtu { .. } => (None, REFUSED),
            DpdkJoinError::Pool(_)
            | DpdkJoinError::Open(_)
            | DpdkJoinError::Start(_)
            | DpdkJoinError::Mac(_)
            | DpdkJoinError::Interrupted
            | DpdkJoinError::Unreachable { .. } => (None, FAILED),
        };
        Self::to_join(error, failure, status)
    }
}

impl From<&AsyncJoinError> for Failed {
    fn from(error: &AsyncJoinError) -> Self {
        match error {
            AsyncJoinError::ModelTooLarge { .. }
            | AsyncJoinError::Outstanding { .. }
            | AsyncJoinError::Threshold => Self::by_arguments(error),
            AsyncJoinError::Join(error) => error.into(),
        }
    }
}

impl From<&AllreduceError> for Failed {
    fn from(error: &AllreduceError) -> Self {
        Self { waiting_for: report::waiting_for(error), ..Self::new(error, report::status(error)) }
    }
}

impl From<&CommandError> for Failed {
    fn from(error: &CommandError) -> Self {
        let refused = matches!(error, CommandError::Failed(CommandFailure::Refused { .. }));
        Self::new(error, if refused { REFUSED } else { FAILED })
    }
}

/// What ends an asynchronous worker's training.
impl From<&anyhow::Error> for Failed {
    fn from(error: &anyhow::Error) -> Self {
        let rejected = matches!(error.downcast_ref(), Some(PushError::Rejected(_)));
        Self::new(&format_args!("{error:#}"), if rejected { REFUSED } else { FAILED })
    }
}
