//! Instances from files: `aro-sjst-v1` and the general format.

mod general;
mod sjst;
#[cfg(test)]
mod tests;

use serde::Deserialize;

use crate::{Instance, PlanError};

/// The JSON schema of the general format.
pub const SCHEMA: &str = include_str!("../../../docs/plan.schema.json");

#[derive(Deserialize)]
struct Header {
    format: String,
}

/// Reads an instance in either format; the file's key `format` says which.
///
/// # Errors
///
/// [`PlanError::Input`] if it is no JSON, of an unknown format, or refused by [`Instance::check`].
pub fn read(text: &str) -> Result<Instance, PlanError> {
    let header: Header = parse(text)?;
    let instance = match header.format.as_str() {
        sjst::FORMAT => sjst::read(parse(text)?)?,
        general::FORMAT => general::read(parse(text)?)?,
        other => {
            return Err(PlanError::input(
                "format",
                format!("{other:?} is unknown"),
                format!("it is {:?} or {:?}", sjst::FORMAT, general::FORMAT),
            ));
        }
    };
    instance.check()?;
    Ok(instance)
}

fn parse<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, PlanError> {
    serde_json::from_str(text).map_err(|error| {
        let text = error.to_string();
        let problem = text.rsplit_once(" at line").map_or(text.as_str(), |(problem, _)| problem);
        PlanError::input(
            format!("line {}, column {}", error.line(), error.column()),
            problem,
            "docs/planning.md describes both formats",
        )
    })
}
