//! A rank's key file, which may be replaced while it is in use.

use core::time::Duration;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;

use crate::keys::{Holder, Protection};
use crate::secret::KeyError;

/// How often a file is looked at.
const LOOKS: Duration = Duration::from_secs(1);

/// The file of a rank's key.
#[derive(Debug)]
pub struct KeyFile {
    file: Arc<Path>,
    job: u16,
    rank: u16,
    protection: Protection,
    /// The file that was read last: its inode, length, and time of change.
    seen: Option<(u64, u64, i64, i64)>,
    due: Duration,
}

impl KeyFile {
    /// The job's file, or this rank's own.
    #[must_use]
    pub const fn new(file: Arc<Path>, job: u16, rank: u16, protection: Protection) -> Self {
        Self { file, job, rank, protection, seen: None, due: Duration::ZERO }
    }

    /// The key in it, if it is not the file that was read last and it is time to look: once a second.
    pub fn poll(&mut self, now: Duration) -> Option<Result<Holder, KeyError>> {
        if now < self.due {
            return None;
        }
        self.due = now.saturating_add(LOOKS);
        // One that is away for the moment is about to be replaced.
        let found = std::fs::metadata(&self.file).ok()?;
        let seen = (found.ino(), found.len(), found.ctime(), found.ctime_nsec());
        (self.seen.replace(seen) != Some(seen))
            .then(|| Holder::read(&self.file, self.job, self.rank, self.protection))
    }
}
