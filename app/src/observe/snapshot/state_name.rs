//! A job's state as its name in JSON.

use pascaline_pipelines::membership::JobState;
use serde::de::{Deserialize as _, Deserializer, Error as _};
use serde::ser::Serializer;

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
pub(super) fn serialize<S: Serializer>(state: &JobState, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(state.name())
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<JobState, D::Error> {
    let name = String::deserialize(deserializer)?;
    let known = JobState::ALL.into_iter().find(|state| state.name() == name);
    known.ok_or_else(|| D::Error::custom(format_args!("{name:?} is no state of a job")))
}
