//! Verifies objectives on the age of models of the clusters that share one OlafQueue (Olaf, sections 6, 12.2
//! and 12.3).
//!
//! Determined cases are evaluated event by event, by the shipping
//! [`UpdateQueue`](pascaline_queue::UpdateQueue) and without rounding. Where phases, periods or the coins of
//! transmission control are open, Z3 proves the objective or finds a counterexample, which the evaluation
//! then repeats. `docs/verification.md` has the model and the format of the files.
//!
//! ```
//! use pascaline_verifier::{Options, Scenario, Verdict, verify};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let text = r#"
//! horizon = "1s"
//! [queue]
//! length = 8
//! service = "2ms"
//! [[clusters]]
//! name = "a"
//! workers = 3
//! period = "100ms"
//! [[query]]
//! measure = "highest"
//! bound = "40ms"
//! "#;
//! let report = verify(&Scenario::parse(text, "example".as_ref())?, &Options::default())?;
//! assert_eq!(report.verdict, Verdict::Holds);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod age;
mod deadline;
mod error;
mod exact;
mod file;
mod judge;
mod picture;
mod report;
mod scenario;
mod smt;
mod verify;

pub use deadline::Deadline;
pub use error::VerifyError;
pub use exact::{Choice, Event, Happening, Limits, Run, Totals, evaluate};
pub use picture::picture;
pub use report::{Answer, ClusterTerms, Example, Method, Moment, Outcome, Part, QueueTerms, Report, Verdict};
pub use scenario::{
    Cluster, Coins, Control, Discipline, Exact, Measure, Objective, Quantifier, Query, Queue, Scenario, Span,
    Spread,
};
pub use verify::{Model, Options, verify, verify_with};
