//! Asks `pascaline-fleet verify`, a program of its own, what becomes of a file.

use std::path::Path;

use serde::Deserialize;

/// What the program says of a file; `Outcome` in `fleet/verifier/src/report.rs` is its other end.
#[derive(Debug, Deserialize)]
pub(super) struct Outcome {
    /// Why there is no verdict.
    pub(super) error: Option<String>,
    /// Of an error: the file cannot be put to use. Otherwise only time, room or a solver was missing.
    #[serde(default)]
    pub(super) file_is_wrong: bool,
    pub(super) queue: Option<Queue>,
    pub(super) clusters: Vec<Cluster>,
    #[serde(default)]
    pub(super) queries: Vec<Query>,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
pub(super) struct Queue {
    pub(super) discipline: String,
    pub(super) length: u16,
}

#[derive(Debug, Deserialize)]
pub(super) struct Cluster {
    pub(super) name: String,
    pub(super) workers: u16,
}

#[derive(Debug, Deserialize)]
pub(super) struct Query {
    pub(super) name: String,
    pub(super) verdict: String,
    pub(super) because: String,
    pub(super) clusters: Vec<String>,
}

/// Why there is no answer, and what to do about it.
#[derive(Debug)]
pub(super) struct Unasked {
    pub(super) message: String,
    pub(super) remedy: &'static str,
}

/// Asks about a file.
pub(super) fn ask(file: &Path) -> Result<Outcome, Unasked> {
    let said = answer(file)?;
    serde_json::from_slice(&said).map_err(|error| Unasked {
        message: format!("what pascaline-fleet says of {} makes no sense here: {error}", file.display()),
        remedy: "install pascaline-fleet of the same version",
    })
}

#[cfg(test)]
use self::tests::answer;
#[cfg(not(test))]
use process::answer;

#[cfg(not(test))]
mod process;
#[cfg(test)]
mod tests;
