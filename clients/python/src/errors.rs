//! Errors, as the exceptions of `pascaline.errors`.

use std::fmt::Display;
use std::io::ErrorKind;

use pascaline_wire::trailer::{RankReports, RankState};
use pascaline_worker::masked::Fault as Masked;
use pascaline_worker::{
    AllreduceError, AsyncJoinError, Failure, JoinError, JoinFailure, PushError, Reason, StartError,
};
use pyo3::exceptions::{PyException, PyRuntimeError};
use pyo3::prelude::*;

/// An exception made without Python's lock: its class, its text, and the ranks that it concerns.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    class: &'static str,
    text: String,
    ranks: Vec<u16>,
}

impl Fault {
    fn new(class: &'static str, text: impl Display, ranks: Vec<u16>) -> Self {
        Self { class, text: text.to_string(), ranks }
    }

    /// The worker has left, or its thread has ended.
    pub(crate) fn closed() -> Self {
        Self::new("ClosedError", "the worker has left its job: make another Worker", Vec::new())
    }

    /// The worker's threads and sockets are those of the process that this one was forked from.
    pub(crate) fn forked() -> Self {
        let text = "the worker was made before a fork: make another one in this process";
        Self::new("ClosedError", text, Vec::new())
    }

    /// Floats at a misaligned address.
    pub(crate) fn misaligned() -> Self {
        Self::new(
            "ArgumentError",
            "the array does not lie on a boundary of its elements: pass a copy",
            Vec::new(),
        )
    }

    /// A number of floats other than the model's.
    pub(crate) fn length(got: usize, expected: usize) -> Self {
        let text = format_args!("{got} floats for a model of {expected}");
        Self::new("ArgumentError", text, Vec::new())
    }

    /// Without this rank, which asks.
    pub(crate) fn but(mut self, rank: u16) -> Self {
        self.ranks.retain(|&other| other != rank);
        self
    }

    /// As an exception.
    pub(crate) fn raise(&self, py: Python<'_>) -> PyErr {
        let made = py
            .import("pascaline.errors")
            .and_then(|module| module.getattr(self.class))
            .and_then(|class| class.call1((self.text.as_str(), self.ranks.clone())));
        match made {
            Ok(error) => PyErr::from_value(error),
            Err(other) if other.is_instance_of::<PyException>(py) => {
                PyRuntimeError::new_err(self.text.clone())
            }
            // Ctrl-C.
            Err(interrupt) => interrupt,
        }
    }
}

impl From<JoinError> for Fault {
    fn from(error: JoinError) -> Self {
        let (class, ranks) = match &error {
            JoinError::Config(_) => ("ConfigurationError", Vec::new()),
            JoinError::Io { .. } => ("SystemFault", Vec::new()),
            JoinError::Failed { failure, .. } => match failure {
                JoinFailure::Rejected(rejection) => of_reason(&rejection.reason),
                JoinFailure::NoAnswer { .. } => ("UnreachableError", Vec::new()),
                JoinFailure::Incomplete { missing, .. } => {
                    let missing = missing.as_ref().map(|missing| absent(&missing.ranks));
                    ("IncompleteError", missing.unwrap_or_default())
                }
                JoinFailure::NoWindow => ("RefusedError", Vec::new()),
            },
        };
        Self::new(class, error, ranks)
    }
}

impl From<AllreduceError> for Fault {
    fn from(error: AllreduceError) -> Self {
        let (class, ranks) = match &error {
            AllreduceError::Failed(failure) => {
                let missing = failure.progress().missing.as_ref();
                let missing = missing.map(|missing| absent(&missing.ranks)).unwrap_or_default();
                match failure {
                    Failure::Deadline(_) => ("DeadlineError", missing),
                    Failure::Unreachable(_) => ("UnreachableError", missing),
                    Failure::TooLong { .. } => ("TooLongError", missing),
                    Failure::Rejected { rejection, .. } => of_reason(&rejection.reason),
                }
            }
            AllreduceError::Start(StartError::Ended { .. }) => ("GenerationError", Vec::new()),
            AllreduceError::Start(StartError::Broken) => ("ClosedError", Vec::new()),
            AllreduceError::Start(_) => ("ArgumentError", Vec::new()),
            AllreduceError::Masked(fault) => {
                let class = match fault {
                    Masked::Unmaskable { .. } | Masked::NotFinite { .. } | Masked::Range { .. } => {
                        "ArgumentError"
                    }
                    Masked::Absent { .. } | Masked::Foreign { .. } | Masked::Calls { .. } => "MismatchError",
                    Masked::Lacking { .. } => "RanksLostError",
                    Masked::NotTheSum { .. } => "IntegrityError",
                    Masked::Random(_) => "SystemFault",
                };
                (class, fault.ranks())
            }
            // Another thread has aborted it.
            AllreduceError::Io { source, .. } if source.kind() == ErrorKind::Interrupted => {
                return Self::new("ClosedError", "the operation was aborted", Vec::new());
            }
            AllreduceError::Io { .. } => ("SystemFault", Vec::new()),
        };
        Self::new(class, error, ranks)
    }
}

impl From<std::io::Error> for Fault {
    fn from(error: std::io::Error) -> Self {
        Self::new("SystemFault", format_args!("cannot use the UDP socket: {error}"), Vec::new())
    }
}

impl From<AsyncJoinError> for Fault {
    fn from(error: AsyncJoinError) -> Self {
        match error {
            AsyncJoinError::Join(error) => error.into(),
            AsyncJoinError::ModelTooLarge { .. }
            | AsyncJoinError::Outstanding { .. }
            | AsyncJoinError::Threshold => Self::new("ConfigurationError", error, Vec::new()),
        }
    }
}

impl From<PushError> for Fault {
    fn from(error: PushError) -> Self {
        let (class, ranks) = match &error {
            PushError::Length { .. } | PushError::Reward(_) => ("ArgumentError", Vec::new()),
            PushError::Rejected(rejection) => of_reason(&rejection.reason),
            PushError::Futile { .. } => ("FutileError", Vec::new()),
        };
        Self::new(class, error, ranks)
    }
}

/// The ranks that are missing.
fn absent(reports: &RankReports) -> Vec<u16> {
    let reports = reports.as_slice().iter();
    reports.filter(|report| report.state != RankState::Here).map(|report| report.rank).collect()
}

fn of_reason(reason: &Reason) -> (&'static str, Vec<u16>) {
    match reason {
        Reason::RankCount | Reason::Workers | Reason::Payload | Reason::Element | Reason::Operations(_) => {
            ("MismatchError", Vec::new())
        }
        Reason::Generation => ("GenerationError", Vec::new()),
        Reason::RanksLost(ranks) => ("RanksLostError", ranks.iter().collect()),
        Reason::RanksLeft(left) => ("RanksLostError", absent(left)),
        _ => ("RefusedError", Vec::new()),
    }
}

/// An invalid argument.
pub(crate) fn wrong(text: impl Display) -> PyErr {
    Python::attach(|py| Fault::new("ArgumentError", text, Vec::new()).raise(py))
}
