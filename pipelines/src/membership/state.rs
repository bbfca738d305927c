//! Where a job is, as operators see it.

use super::JobStatus;

/// Where a job is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum JobState {
    /// Nobody has joined.
    #[default]
    Empty,
    /// Ranks are missing.
    Forming,
    /// All ranks are here, and contributions come.
    Running,
    /// All ranks are here, and no contribution comes.
    Quiet,
    /// A worker has suspended it.
    Halted,
    /// All have left, after results.
    Finished,
    /// It has lost ranks, and goes on without them or fails: traffic does not tell which.
    Lost,
    /// It has lost ranks and has failed.
    Broken,
}

impl JobState {
    /// All states.
    pub const ALL: [Self; 8] = [
        Self::Empty,
        Self::Forming,
        Self::Running,
        Self::Quiet,
        Self::Halted,
        Self::Finished,
        Self::Lost,
        Self::Broken,
    ];

    /// The state's name, as in the snapshot.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Forming => "forming",
            Self::Running => "running",
            Self::Quiet => "quiet",
            Self::Halted => "halted",
            Self::Finished => "finished",
            Self::Lost => "lost",
            Self::Broken => "broken",
        }
    }

    /// The admin API's name of it: that API looks at the membership alone, not at traffic.
    #[must_use]
    pub const fn admin_name(self) -> &'static str {
        match self {
            Self::Empty | Self::Finished => "idle",
            Self::Forming => "forming",
            Self::Running | Self::Quiet | Self::Lost => "running",
            Self::Halted => "halted",
            Self::Broken => "broken",
        }
    }
}

impl JobStatus {
    /// Where the job is by its membership alone.
    #[must_use]
    pub const fn state(&self) -> JobState {
        if self.broken {
            JobState::Broken
        } else if self.halted {
            JobState::Halted
        } else if self.joined == 0 {
            JobState::Empty
        } else if self.complete {
            JobState::Running
        } else {
            JobState::Forming
        }
    }

    /// Where the job is by its membership and its traffic: whether results were made, and contributions come.
    #[must_use]
    pub const fn state_with_traffic(&self, results: bool, contributions: bool) -> JobState {
        if self.joined == 0 {
            if results { JobState::Finished } else { JobState::Empty }
        } else if self.lost > 0 {
            JobState::Lost
        } else if self.halted {
            JobState::Halted
        } else if contributions {
            JobState::Running
        } else if self.complete {
            JobState::Quiet
        } else {
            JobState::Forming
        }
    }
}

#[cfg(test)]
mod tests;
