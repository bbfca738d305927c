//! What the API asks of the control plane.

use axum::http::StatusCode;
use pascaline_pipelines::membership::{Command, Registration};
use pascaline_pipelines::switchml::Terms;
use pascaline_seal::Secret;
use pascaline_shared::guarded::Problem;
use tokio::sync::{mpsc, oneshot};

use super::answers::{
    CaptureRequest, Captured, Draining, EffectiveConfig, Explanation, JobDetail, Jobs, ReloadReport, Status,
};
use super::command::Commanded;
use super::patch::Patch;

/// Orders that may wait: the control plane takes some every millisecond.
const WAITING: usize = 64;

/// An answer, and where it goes.
pub(crate) type Reply<T> = oneshot::Sender<Result<T, Problem>>;

/// Answers an order.
pub(crate) trait Respond<T> {
    /// Who asked may be gone, which is no concern of the control plane.
    fn respond(self, answer: Result<T, Problem>);
}

impl<T> Respond<T> for Reply<T> {
    fn respond(self, answer: Result<T, Problem>) {
        let _ = self.send(answer);
    }
}

/// A job as a request names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobKey {
    Number(u16),
    Name(String),
}

impl JobKey {
    /// A segment of a path: a number, or a name.
    pub(crate) fn new(text: String) -> Self {
        text.parse().map_or(Self::Name(text), Self::Number)
    }
}

impl core::fmt::Display for JobKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Name(name) => write!(f, "{name:?}"),
        }
    }
}

/// What the API asks of the control plane.
#[derive(Debug)]
pub(crate) enum Order {
    Status(Reply<Status>),
    Jobs(Reply<Jobs>),
    Job(JobKey, Reply<JobDetail>),
    Explain(JobKey, Reply<Explanation>),
    /// The keys of `[[jobs]]`.
    Create(toml::Table, Reply<ReloadReport>),
    /// What becomes of the job's keys in `[[jobs]]`.
    Change(JobKey, Patch, Reply<ReloadReport>),
    Delete(JobKey, Reply<ReloadReport>),
    Reload(Reply<ReloadReport>),
    Drain(Reply<Draining>),
    Config(Reply<EffectiveConfig>),
    Command(JobKey, Command, Reply<Commanded>),
    /// Another key for the job's packets; at once for all ranks, or for one after the other.
    Rekey(JobKey, bool, Reply<Commanded>),
    /// A key to be put into the job's file, and in force.
    GiveKey(JobKey, Secret, Reply<Commanded>),
    Capture(JobKey, CaptureRequest, Reply<Captured>),
    #[cfg_attr(not(feature = "switchml"), expect(dead_code, reason = "no such client has a door"))]
    /// A client of SwitchML's wants to know of how many workers this job is.
    Workers(u16, Reply<u16>),
    #[cfg_attr(not(feature = "switchml"), expect(dead_code, reason = "no such client has a door"))]
    /// A client of SwitchML's wants to send to this job.
    Register(u16, Registration, Reply<Terms>),
}

/// The way to the control plane.
#[derive(Debug, Clone)]
pub(crate) struct Orders(mpsc::Sender<Order>);

impl Orders {
    /// The two ends.
    pub(crate) fn channel() -> (Self, mpsc::Receiver<Order>) {
        let (sender, receiver) = mpsc::channel(WAITING);
        (Self(sender), receiver)
    }

    /// Gives an order and waits for the answer.
    pub(crate) async fn ask<T>(&self, order: impl FnOnce(Reply<T>) -> Order) -> Result<T, Problem> {
        let (reply, answer) = oneshot::channel();
        let busy = |_| {
            let remedy = "ask again in a moment";
            Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too many requests are waiting", remedy)
        };
        self.0.try_send(order(reply)).map_err(busy)?;
        answer.await.unwrap_or_else(|_| {
            Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "the appliance is ending", "start it again"))
        })
    }
}

#[cfg(test)]
mod tests;
