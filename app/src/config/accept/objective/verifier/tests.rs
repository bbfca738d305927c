//! The same answers without a process.

use std::path::Path;

use pascaline_verifier::{Options, Outcome, Scenario, verify};

use super::Unasked;

/// What `pascaline-fleet verify --json` prints.
pub(super) fn answer(file: &Path) -> Result<Vec<u8>, Unasked> {
    let text = std::fs::read_to_string(file).unwrap();
    let (scenario, verified) = match Scenario::parse(&text, file) {
        Ok(scenario) => {
            let verified = verify(&scenario, &Options { updates: 100_000, ..Options::default() });
            (Some(scenario), verified)
        }
        Err(error) => (None, Err(error)),
    };
    Ok(serde_json::to_vec(&Outcome::new(scenario.as_ref(), &verified)).unwrap())
}
