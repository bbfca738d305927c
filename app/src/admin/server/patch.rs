//! Keys of a job as a request has them: set, left out, or changed within a table (RFC 7396).

use std::collections::BTreeMap;

use axum::http::StatusCode;
use pascaline_shared::guarded::Problem;
use serde_json::{Map, Value};

/// What becomes of keys.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Patch(BTreeMap<String, Change>);

/// What becomes of a key.
#[derive(Debug, Clone, PartialEq)]
enum Change {
    Set(toml::Value),
    LeaveOut,
    /// It is a table: these of its keys.
    Within(Patch),
}

impl Patch {
    /// Reads an object; null stands for a key that is left out.
    ///
    /// # Errors
    /// Something in it cannot stand in a configuration.
    pub(super) fn read(keys: Map<String, Value>) -> Result<Self, Problem> {
        Self::read_within(keys, "")
    }

    /// `above` is the way there, with a dot at its end.
    fn read_within(keys: Map<String, Value>, above: &str) -> Result<Self, Problem> {
        let change = |(key, value): (String, Value)| {
            let at = format!("{above}{key}");
            let change = match value {
                Value::Null => Change::LeaveOut,
                Value::Object(keys) => Change::Within(Self::read_within(keys, &format!("{at}."))?),
                Value::Array(_) if has_null(&value) => {
                    let remedy = "leave it out there: a list is replaced as a whole";
                    return Err(Problem::new(
                        StatusCode::BAD_REQUEST,
                        format!("{at}: null in a list"),
                        remedy,
                    ));
                }
                Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                    Change::Set(toml::Value::try_from(value).map_err(|error| {
                        let remedy = "give a number, text, true or false, or a list of texts";
                        Problem::new(StatusCode::BAD_REQUEST, format!("{at}: {error}"), remedy)
                    })?)
                }
            };
            Ok((key, change))
        };
        keys.into_iter().map(change).collect::<Result<_, _>>().map(Self)
    }

    /// The first key that is left out, with the way there.
    pub(super) fn left_out(&self) -> Option<String> {
        self.0.iter().find_map(|(key, change)| match change {
            Change::Set(_) => None,
            Change::LeaveOut => Some(key.clone()),
            Change::Within(keys) => keys.left_out().map(|within| format!("{key}.{within}")),
        })
    }

    /// Changes a table. Where a table is to be merged into another value, it replaces that value.
    pub(crate) fn apply(self, to: &mut toml::Table) {
        for (key, change) in self.0 {
            match change {
                Change::Set(value) => drop(to.insert(key, value)),
                Change::LeaveOut => drop(to.remove(&key)),
                Change::Within(keys) => {
                    let mut table = match to.remove(&key) {
                        Some(toml::Value::Table(table)) => table,
                        _ => toml::Table::new(),
                    };
                    keys.apply(&mut table);
                    to.insert(key, toml::Value::Table(table));
                }
            }
        }
    }
}

fn has_null(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Array(list) => list.iter().any(has_null),
        Value::Object(keys) => keys.values().any(has_null),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

#[cfg(test)]
mod tests;
