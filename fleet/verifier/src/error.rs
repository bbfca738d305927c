//! Errors, with place and remedy.

use std::path::PathBuf;

use thiserror::Error;

/// Why there is no verdict.
#[derive(Debug, Error)]
pub enum VerifyError {
    /// The file cannot be used.
    #[error("{}{}: {message}\n  {remedy}", file.display(), colons(*place))]
    File {
        /// The file.
        file: PathBuf,
        /// Line and column, from 1.
        place: Option<(usize, usize)>,
        /// The error.
        message: String,
        /// The remedy.
        remedy: String,
    },
    /// There are too many updates.
    #[error("{updates} updates come up to the horizon, at most {most} can be evaluated\n  shorten `horizon`")]
    TooMany {
        /// Their number.
        updates: u64,
        /// The limit.
        most: u64,
    },
    /// No tick divides all times.
    #[error(
        "the times have no common grain: periods divided by `workers`, phases, service and horizon\n  choose \
         rounder times, or numbers of workers with fewer different divisors"
    )]
    TooFine,
    /// The queue refuses an update.
    #[error(
        "the queue does not take an update: {0}\n  fewer workers, a longer `period` or a shorter `horizon`"
    )]
    Queue(String),
    /// The queue's configuration.
    #[error("{0}")]
    Config(#[from] pascaline_queue::ConfigError),
    /// A query without meaning.
    #[error("{0}\n  ask for the peak, or leave out --model paper")]
    Meaningless(String),
    /// There is no solver.
    #[error(
        "the solver {program:?} cannot be started: {cause}\n  apt-get install z3, or name it in PASCALINE_Z3"
    )]
    NoSolver {
        /// The program.
        program: String,
        /// The reason.
        cause: String,
    },
    /// The solver's output is not understood.
    #[error("the solver failed: {0}\n  report it with the text that --smt writes")]
    Solver(String),
    /// Too much time has passed.
    #[error("no verdict within {0} s\n  raise --time-limit, or shorten `horizon`, narrow ranges, drop coins")]
    TimeLimit(u64),
    /// A question is too long for the solver.
    #[error(
        "no verdict: a question to the solver is longer than {0} MiB\n  shorten `horizon`, narrow ranges, or \
         use longer periods"
    )]
    TooLong(usize),
}

fn colons(place: Option<(usize, usize)>) -> String {
    place.map_or(String::new(), |(line, column)| format!(":{line}:{column}"))
}

impl VerifyError {
    /// The exit code: 3 if there is no verdict because time or room is too short, otherwise 2.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        if matches!(self, Self::TimeLimit(_) | Self::TooLong(_)) { 3 } else { 2 }
    }

    /// True if the file cannot be used; false if only a verdict is missing, because time, room or a working
    /// solver is.
    #[must_use]
    pub const fn is_of_the_file(&self) -> bool {
        match self {
            Self::File { .. } | Self::TooFine | Self::Queue(_) | Self::Config(_) | Self::Meaningless(_) => {
                true
            }
            Self::TooMany { .. }
            | Self::NoSolver { .. }
            | Self::Solver(_)
            | Self::TimeLimit(_)
            | Self::TooLong(_) => false,
        }
    }
}
