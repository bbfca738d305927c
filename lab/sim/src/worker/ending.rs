//! How a worker's life, and its story, ends.

use pascaline_worker::{JoinFailure, Reason, Rejection};

use super::Milestone;

/// How a worker's story ended.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Ending {
    Left,
    JoinFailed,
    Failed,
    Killed,
}

impl Ending {
    /// It came without warning.
    pub(crate) const fn is_sudden(self) -> bool {
        matches!(self, Self::Killed)
    }
}

impl Milestone {
    /// True if another worker holds the rank.
    pub(crate) const fn is_taken(&self) -> bool {
        matches!(self, Self::JoinFailed(JoinFailure::Rejected(Rejection { reason: Reason::Taken, .. })))
    }
}
