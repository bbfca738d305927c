//! The time limit of the whole verification.

use std::time::{Duration, Instant};

use crate::error::VerifyError;

/// A week: long enough for any user, and the solver's clock counts milliseconds in 32 bits.
const LONGEST: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The time by which there has to be a verdict.
#[derive(Debug, Clone, Copy)]
pub struct Deadline {
    until: Instant,
    limit: Duration,
}

impl Deadline {
    /// This long from now on, a week at most.
    #[must_use]
    pub fn within(limit: Duration) -> Self {
        Self { until: Instant::now() + limit.min(LONGEST), limit }
    }

    /// The time left.
    pub(crate) fn left(self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// The error when no time is left.
    pub(crate) const fn late(self) -> VerifyError {
        VerifyError::TimeLimit(self.limit.as_secs())
    }

    /// Returns an error when no time is left.
    pub(crate) fn check(self) -> Result<(), VerifyError> {
        if self.left().is_zero() { Err(self.late()) } else { Ok(()) }
    }
}
