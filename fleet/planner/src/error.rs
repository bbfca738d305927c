//! Errors between a file and a plan.

use std::time::Duration;

/// Why there is no plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The input cannot be planned, with place, problem and remedy.
    #[error("{place}: {problem}; {remedy}")]
    Input {
        /// Key or position in the file.
        place: String,
        /// The problem there.
        problem: String,
        /// The remedy.
        remedy: String,
    },
    /// The time limit came before the first plan.
    #[error(
        "no plan within {limit:?}: the best possible is {bound:.3} Gbit/s, the best found 0, a gap of 100 %; \
         give it more time (--time-limit)"
    )]
    Time {
        /// The limit that passed.
        limit: Duration,
        /// The best objective that the search has not excluded, Gbit/s.
        bound: f64,
    },
    /// The replay refused a solver's plan: a defect of this crate.
    #[error(
        "the plan was refused by its replay: {0}; this is a defect of the planner, please report the file"
    )]
    Refused(String),
    /// HiGHS failed.
    #[error("the solver HiGHS failed: {0}; try --solver fast, and please report the file")]
    Solver(String),
}

impl PlanError {
    pub(crate) fn input(
        place: impl Into<String>,
        problem: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self::Input { place: place.into(), problem: problem.into(), remedy: remedy.into() }
    }
}
